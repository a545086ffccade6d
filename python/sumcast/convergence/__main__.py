"""The grid, cell by cell, into a file of JSON lines; what is in the file is not run again.

    python -m sumcast.convergence --out cells.jsonl --plot curves.svg       about three hours
    python -m sumcast.convergence --quick                                   a minute or two
    python -m sumcast.convergence --out cells.jsonl --table                 what there is, nothing run
"""

import argparse
import json
import pathlib
import sys
import time

import torch

from sumcast.convergence import curves, table, tasks
from sumcast.convergence.cells import VARIANTS, train

OPTIMIZERS = ("sgd", "adamw", "sgd0")
_MAIN = ("sync", "plain", "default")  # Where a gap is claimed closed: five seeds.


def parse(arguments):
    parser = argparse.ArgumentParser(prog="python -m sumcast.convergence",
                                     description="Accuracy with late and lossy gradients.")

    def several(known):
        def parse_list(text):
            names = text.split(",")
            for name in names:
                if name not in known:
                    raise argparse.ArgumentTypeError(f"no {name!r}; there are {', '.join(known)}")
            return names

        return parse_list

    parser.add_argument("--task", type=several(tasks.NAMES), default=list(tasks.NAMES),
                        help="some of " + ",".join(tasks.NAMES))
    parser.add_argument("--optimizer", type=several(OPTIMIZERS), default=["sgd", "adamw"],
                        help="some of sgd (momentum 0.9), adamw, sgd0 (without)")
    parser.add_argument("--variant", type=several(VARIANTS), default=list(VARIANTS),
                        help="some of " + ",".join(VARIANTS))
    parser.add_argument("--seeds", type=int, metavar="N",
                        help="of each cell; default 5 for sync, plain and default, else 3")
    parser.add_argument("--rate", type=float, help="instead of the task's own")
    parser.add_argument("--quick", action="store_true",
                        help="one seed, an eighth of the steps, the task cnn unless told otherwise")
    parser.add_argument("--out", type=pathlib.Path, help="file of finished cells")
    parser.add_argument("--minutes", type=float, default=float("inf"),
                        help="begin no cell after so long; the next call goes on")
    parser.add_argument("--table", action="store_true", help="run nothing")
    parser.add_argument("--plot", metavar="FILE", help="training curves, as SVG or PNG")
    parser.add_argument("--json", action="store_true", help="a row per line instead of a table")
    options = parser.parse_args(arguments)
    if options.seeds is not None and options.seeds < 1:
        parser.error(f"--seeds must be at least 1, not {options.seeds}")
    if options.rate is not None and not options.rate > 0:
        parser.error(f"--rate must be positive, not {options.rate:g}")
    if options.table and options.out is None:
        parser.error("--table needs --out, the file whose cells to show")
    if options.quick and len(options.task) == len(tasks.NAMES):
        options.task = ["cnn"]
    return options


def grid(options):
    """(task, optimiser, variant, seed), what matters most first."""
    rounds = max(1, options.seeds or (1 if options.quick else 5))
    for seed in range(1, rounds + 1):
        for task in options.task:
            for optimizer in options.optimizer:
                for variant in options.variant:
                    few = options.seeds is None and variant not in _MAIN
                    if not (few and seed > 3):
                        yield task, optimizer, variant, seed


def read(path):
    if path is None or not path.exists():
        return []
    cells = []
    for number, line in enumerate(path.read_text().splitlines(), 1):
        try:
            cell = json.loads(line)
            cells.append({name: cell[name] for name in cell if name != "losses"} |
                         {"losses": list(cell["losses"])})
            _key(cell)
        except (ValueError, TypeError, KeyError):
            raise SystemExit(f"sumcast.convergence: {path}, line {number} is no cell: remove the line "
                             "or choose another file") from None
    return cells


def _key(cell):
    return tuple(cell[name] for name in ("task", "optimizer", "variant", "seed", "rate", "steps"))


class Bar:
    """Progress on a terminal; nothing elsewhere."""

    def __init__(self):
        self._shown = sys.stderr.isatty()

    def show(self, share, text):
        if self._shown:
            done = round(30 * share)
            sys.stderr.write(f"\r[{'#' * done}{'.' * (30 - done)}] {share:4.0%} {text:<50.50}")
            sys.stderr.flush()

    def end(self):
        if self._shown:
            sys.stderr.write("\r" + " " * 90 + "\r")


def run(options, cells):
    """Runs what is not in `cells` yet, and adds it there and to the file."""
    plan = list(grid(options))
    loaded, bar, until = {}, Bar(), time.monotonic() + 60 * options.minutes
    done = {_key(cell) for cell in cells}
    for number, (name, optimizer, variant, seed) in enumerate(plan):
        if name not in loaded:
            loaded[name] = tasks.load(name, options.quick)
        task = loaded[name]
        rate = options.rate or task.rates.get(optimizer, task.rates["sgd"])
        if (name, optimizer, variant, seed, rate, task.steps) in done:
            continue
        if time.monotonic() > until:
            break
        steps = 0

        def tick():
            nonlocal steps
            steps += 1
            bar.show((number + steps / task.steps) / len(plan), f"{name} {optimizer} {variant} {seed}")

        cell = train(task, optimizer, variant, seed, rate, tick)
        cells.append(cell)
        if options.out is not None:
            with options.out.open("a") as file:
                file.write(json.dumps(cell) + "\n")
    bar.end()


def wanted(cell, options):
    """Whether it is among those that the options name."""
    return (cell["task"] in options.task and cell["optimizer"] in options.optimizer
            and cell["variant"] in options.variant and options.rate in (None, cell["rate"]))


def main(arguments=None):
    options = parse(arguments)
    torch.set_num_threads(1)
    cells = read(options.out)
    if not options.table:
        run(options, cells)
    cells = [cell for cell in cells if wanted(cell, options)]
    rows = table.summarize(cells)
    if options.json:
        for row in rows:
            print(json.dumps(row))
    else:
        print(table.text_of(rows))
    if options.plot:
        curves.draw(cells, options.plot)


if __name__ == "__main__":
    main()
