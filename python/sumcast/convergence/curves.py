"""Loss over steps as a picture: a file of any kind that matplotlib writes (SVG, PNG)."""


def draw(cells, path):
    """A panel per task and optimiser, a line per variant: mean training loss over its seeds."""
    try:
        import matplotlib
    except ImportError:
        raise SystemExit("sumcast.convergence: --plot needs matplotlib: apt-get install "
                         "python3-matplotlib, or pip install matplotlib") from None
    matplotlib.use("Agg")
    from matplotlib import pyplot

    panels = {}
    for cell in cells:
        panel = panels.setdefault((cell["task"], cell["optimizer"], cell["rate"]), {})
        panel.setdefault(cell["variant"], []).append(cell)
    if not panels:
        raise SystemExit("sumcast.convergence: there is no finished cell to draw")
    names = list(dict.fromkeys(cell["variant"] for cell in cells))
    columns = min(3, len(panels))
    rows = -(-len(panels) // columns)
    figure, axes = pyplot.subplots(rows, columns, figsize=(5 * columns, 3.5 * rows), squeeze=False)
    for axis in axes.flat[len(panels):]:
        axis.remove()
    for axis, ((task, optimizer, rate), variants) in zip(axes.flat, panels.items()):
        for variant in filter(variants.get, names):  # One colour for each in all panels.
            of = variants[variant]
            points = min(len(cell["losses"]) for cell in of)
            if points == 0:
                continue
            mean = [sum(c["losses"][i] for c in of) / len(of) for i in range(points)]
            steps = [of[0]["steps"] * (i + 1) / len(of[0]["losses"]) for i in range(points)]
            axis.plot(steps, mean, label=f"{variant} ({len(of)})", linewidth=1,
                      color=f"C{names.index(variant) % 10}")
        axis.set(title=f"{task}, {optimizer}, rate {rate:g}", xlabel="step", ylabel="training loss")
        axis.legend(fontsize="x-small")
    figure.tight_layout()
    figure.savefig(path)
