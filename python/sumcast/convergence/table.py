"""Cells as a table: accuracy by variant, and how much of the delay's gap each gives back."""

import math
import statistics


def summarize(cells):
    """A row per task, optimiser, rate and variant: a list of dictionaries, in order of appearance.

    accuracy, deviation: over seeds that did not diverge (`_failed`). gap_closed: share of the points
    between plain and sync, over the seeds that all three have; None unless the gap counts: at least
    five seeds, no divergence of plain, and more than twice the pooled deviation. gap_closed_so_far: the
    same with fewer seeds.
    """
    groups = {}
    for cell in cells:
        key = (cell["task"], cell["optimizer"], cell["rate"], cell["steps"])
        groups.setdefault(key, {}).setdefault(cell["variant"], {})[cell["seed"]] = cell
    rows = []
    for (task, optimizer, rate, steps), variants in groups.items():
        for variant, by_seed in variants.items():
            good = [c["accuracy"] for c in by_seed.values() if not _failed(c)]
            row = {"task": task, "optimizer": optimizer, "rate": rate, "steps": steps,
                   "variant": variant, "seeds": len(by_seed), "diverged": len(by_seed) - len(good),
                   "accuracy": _mean(good), "deviation": _deviation(good),
                   "pipelined": _mean([c["pipelined"] for c in by_seed.values()]),
                   "fell_back": sum(c["fell_back"] is not None for c in by_seed.values()),
                   "gap_closed": None, "gap_closed_so_far": None, "behind_sync": None}
            _compare(row, by_seed, variants.get("sync", {}), variants.get("plain", {}))
            rows.append(row)
    return rows


def _compare(row, mine, sync, plain):
    seeds = set(mine) & set(sync) & set(plain)
    if not seeds or row["variant"] in ("sync", "plain"):
        return
    of = [[cells[s]["accuracy"] for s in sorted(seeds)] for cells in (mine, sync, plain)]
    own, best, worst = (statistics.fmean(x) for x in of)
    gap = best - worst
    row["behind_sync"] = round(best - own, 3)
    if gap <= 0 or any(_failed(plain[s]) or _failed(mine[s]) for s in seeds):
        return
    row["gap_closed_so_far"] = round((own - worst) / gap, 3)
    pooled = math.sqrt((_deviation(of[1]) ** 2 + _deviation(of[2]) ** 2) / 2)
    if len(seeds) >= 5 and gap > 2 * pooled:
        row["gap_closed"] = row["gap_closed_so_far"]


def _failed(cell):
    """Whether the run diverged: a loss was no number, or at its end is where it began or higher."""
    losses = cell["losses"]
    return cell["diverged"] or len(losses) < 2 or losses[-1] > 0.95 * losses[0]


def _mean(values):
    return round(statistics.fmean(values), 3) if values else None


def _deviation(values):
    return round(statistics.stdev(values), 3) if len(values) > 1 else 0.0


def text_of(rows):
    """The rows for people, as Markdown."""
    lines, heading = [], None
    for row in rows:
        here = (row["task"], row["optimizer"], row["rate"])
        if here != heading:
            heading = here
            lines += ["", f"{row['task']}, {row['optimizer']}, rate {row['rate']:g}, {row['steps']} steps",
                      "", "| variant | accuracy | seeds | gap closed |", "|---|---|---|---|"]
        accuracy = ("diverged" if row["accuracy"] is None
                    else f"{row['accuracy']:.2f} +- {row['deviation']:.2f}")
        if row["diverged"] and row["accuracy"] is not None:
            accuracy += f", {row['diverged']} diverged"
        if row["fell_back"]:
            accuracy += f", {row['fell_back']} fell back"
        closed = ""
        if row["gap_closed"] is not None:
            closed = f"**{row['gap_closed']:.0%}**"
        elif row["gap_closed_so_far"] is not None:
            closed = f"({row['gap_closed_so_far']:.0%})"
        lines.append(f"| {row['variant']} | {accuracy} | {row['seeds']} | {closed} |")
    return "\n".join(lines[1:])
