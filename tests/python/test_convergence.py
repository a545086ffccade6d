"""The study of convergence: its program, its sums, and the stability limits that it rests on."""

import json
import math
import sys

import pytest
import torch
from torch import nn

import ranks  # noqa: F401  One thread per process.
from sumcast.convergence import __main__ as program
from sumcast.convergence import curves, table
from sumcast.convergence.cells import VARIANTS, train
from sumcast.convergence.tasks import Task
from sumcast.pipeline import Optimizer
from sumcast.pipeline.averagers import LocalRanks, lockstep

# Largest stable rate times curvature of a scalar quadratic: scheme, momentum, ranks, limit. The table
# of docs/convergence.md; docs and C++ trainer have the same numbers.
LIMITS = [
    ({"width": 1}, 0.0, 1, 2.00), ({"width": 1}, 0.9, 1, 3.80),
    ({"forecast": "none"}, 0.0, 1, 1.00), ({"forecast": "none"}, 0.5, 1, 0.50),
    ({"forecast": "none"}, 0.9, 1, 0.100), ({"width": 3, "forecast": "none"}, 0.0, 1, 0.618),
    ({"width": 4, "forecast": "none"}, 0.9, 1, 0.035),
    ({"forecast": "previous"}, 0.0, 1, 0.62), ({"forecast": "previous"}, 0.9, 1, 0.50),
    ({"forecast": "local"}, 0.0, 2, 2.00), ({"forecast": "local"}, 0.9, 4, 3.80),
    ({"forecast": "local-and-previous"}, 0.9, 2, 0.70),
    ({"forecast": "local-and-previous"}, 0.5, 4, 0.62),
]


def grows(options, momentum, ranks, rate, steps=1200):
    """Whether a weight that is pulled to zero leaves it."""
    meeting = LocalRanks(ranks)
    nets = [nn.ParameterList([torch.ones(1, dtype=torch.float64)]) for _ in range(ranks)]
    wrapped = [Optimizer(torch.optim.SGD(net.parameters(), lr=rate, momentum=momentum), net,
                         averager=meeting.averager(rank), hash_every=0, **options)
               for rank, net in enumerate(nets)]
    for _ in range(steps):
        for net in nets:
            net[0].grad = net[0].detach().clone()
        lockstep(one.stepping() for one in wrapped)
        if abs(nets[0][0].item()) > 1e6:
            return True
    lockstep(one.flushing() for one in wrapped)
    return abs(nets[0][0].item()) > 1.0


@pytest.mark.parametrize("options, momentum, ranks, limit", LIMITS, ids=str)
def test_delays_and_forecasts_are_stable_up_to_the_limits_that_are_documented(options, momentum, ranks,
                                                                              limit):
    step = 0.006 if limit < 1 else 0.02
    assert not grows(options, momentum, ranks, limit - max(step, 0.03 * limit))
    assert grows(options, momentum, ranks, limit + max(step, 0.03 * limit))


def small_task(steps=20):
    torch.manual_seed(0)
    inputs = torch.randn(400, 6)
    targets = (inputs[:, 0] > 0).long()
    return Task("cnn", lambda: nn.Linear(6, 2), (inputs, targets), (inputs, targets), 10, steps,
                {"sgd": 0.1, "adamw": 0.1})


@pytest.mark.parametrize("variant", VARIANTS)
def test_every_variant_trains_and_its_cell_depends_on_nothing_but_its_names(variant):
    one, other = (train(small_task(), "sgd", variant, 3, 0.1) for _ in range(2))
    assert one | {"seconds": 0} == other | {"seconds": 0}
    assert one["accuracy"] > 70 and not one["diverged"] and len(one["losses"]) == 20
    assert one["pipelined"] == (1.0 if variant not in ("sync", "async") else 0.0)
    assert one["losses"] != train(small_task(), "sgd", variant, 4, 0.1)["losses"]


def test_a_run_that_diverges_says_so():
    task = small_task()
    task.train = (task.train[0], torch.randint(0, 2, (400,)))  # Nothing to be learnt.
    far = train(task, "sgd", "plain", 1, 1e12)
    assert not far["diverged"] and far["losses"][-1] > far["losses"][0]
    lost = train(task, "sgd", "plain", 2, 1e38)
    assert lost["diverged"]
    rows = table.summarize([far, lost])
    assert all(row["diverged"] == 1 and row["accuracy"] is None for row in rows)
    assert table.text_of(rows).count("| plain | diverged | 1 |") == 2


def cells_of(variant, accuracies, **more):
    return [{"task": "t", "optimizer": "sgd", "rate": 0.1, "steps": 10, "variant": variant, "seed": seed,
             "accuracy": accuracy, "diverged": False, "pipelined": 1.0, "fell_back": None, "losses": [1.0, 0.5],
             **more} for seed, accuracy in enumerate(accuracies)]


def test_a_gap_counts_with_five_seeds_beyond_twice_the_deviation_only():
    sync, plain = [90.0, 90.2, 89.8, 90.1, 89.9], [80.0, 80.2, 79.8, 80.1, 79.9]
    better = [88.0, 88.2, 87.8, 88.1, 87.9]

    def row(count, plain_cells):
        rows = table.summarize(cells_of("sync", sync[:count]) + plain_cells[:count] +
                               cells_of("forecast", better[:count]))
        return rows[-1]

    assert row(5, cells_of("plain", plain))["gap_closed"] == pytest.approx(0.8)
    assert row(5, cells_of("plain", plain))["behind_sync"] == pytest.approx(2.0)
    four = row(4, cells_of("plain", plain))
    assert four["gap_closed"] is None and four["gap_closed_so_far"] == pytest.approx(0.8)
    noisy = row(5, cells_of("plain", [60.0, 100.0, 60.0, 100.0, 80.0]))
    assert noisy["gap_closed"] is None
    assert row(5, cells_of("plain", plain, diverged=True))["gap_closed_so_far"] is None


@pytest.fixture
def small_grid(monkeypatch, tmp_path):
    ran = []

    def counted(task, optimizer, variant, seed, rate, tick):
        ran.append((variant, seed))
        return train(task, optimizer, variant, seed, rate, tick)

    monkeypatch.setattr(program, "train", counted)
    monkeypatch.setattr(program.tasks, "load", lambda name, quick: small_task())
    return tmp_path / "cells.jsonl", ran


def test_a_grid_goes_on_where_it_stopped(small_grid, capsys):
    file, ran = small_grid
    arguments = ["--task", "cnn", "--optimizer", "sgd", "--rate", "0.1", "--out", str(file)]
    program.main([*arguments, "--variant", "sync,plain", "--seeds", "1"])
    assert ran == [("sync", 1), ("plain", 1)]
    # A cell that was cut off while it was written is told; a whole one is kept.
    program.main([*arguments, "--variant", "sync,plain,forecast", "--seeds", "2", "--json"])
    assert sorted(ran[2:]) == [("forecast", 1), ("forecast", 2), ("plain", 2), ("sync", 2)]
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()[-3:]]
    assert {row["variant"]: row["seeds"] for row in rows} == {"sync": 2, "plain": 2, "forecast": 2}
    program.main([*arguments, "--table"])
    assert "| forecast | " in capsys.readouterr().out and len(ran) == 6
    program.main([*arguments, "--table", "--variant", "sync"])
    assert "| forecast | " not in capsys.readouterr().out
    with file.open("a") as cut:
        cut.write('{"task": "cnn", "opt')
    with pytest.raises(SystemExit, match="line 7 is no cell"):
        program.main([*arguments, "--table"])


def test_no_time_means_no_new_cell(small_grid):
    file, ran = small_grid
    program.main(["--task", "cnn", "--out", str(file), "--minutes", "-1"])
    assert ran == [] and not file.exists()


@pytest.mark.parametrize("arguments, said", [
    (["--task", "mnist"], "no 'mnist'; there are cnn, resnet18"),
    (["--variant", "sync,late"], "no 'late'; there are sync, plain"),
    (["--seeds", "0"], "--seeds must be at least 1, not 0"),
    (["--rate", "-1"], "--rate must be positive, not -1"),
    (["--table"], "--table needs --out"),
])
def test_bad_input_is_one_line(arguments, said, capsys):
    with pytest.raises(SystemExit):
        program.main(arguments)
    assert said in capsys.readouterr().err


def test_curves_are_drawn_where_matplotlib_is_and_missed_in_one_line_elsewhere(tmp_path, monkeypatch):
    cells = cells_of("sync", [90.0, 91.0]) + cells_of("plain", [80.0])
    with pytest.raises(SystemExit, match="--plot needs matplotlib"):
        with monkeypatch.context() as without:
            without.setitem(sys.modules, "matplotlib", None)
            curves.draw(cells, tmp_path / "curves.svg")
    pytest.importorskip("matplotlib")
    curves.draw(cells, tmp_path / "curves.svg")
    text = (tmp_path / "curves.svg").read_text()
    assert "sync (2)" in text and "plain (1)" in text


def test_models_have_the_sizes_that_are_written_down():
    from sumcast.convergence import tasks

    sizes = {"cnn": tasks.cnn, "resnet18": tasks.resnet18, "vgg16": tasks.vgg16,
             "transformer": lambda: tasks.Transformer(100)}
    counted = {name: sum(p.numel() for p in make().parameters()) for name, make in sizes.items()}
    text = "\n".join(tasks.__doc__.replace(",", "").splitlines())
    for name in ("cnn", "resnet18", "vgg16"):
        assert str(counted[name]) in text, counted
    logits = tasks.Transformer(100)(torch.zeros(2, 48, dtype=torch.long))
    assert logits.shape == (2, 48, 100)
    assert math.isfinite(tasks.loss_of(logits, torch.zeros(2, 48, dtype=torch.long)).item())


def test_the_transformer_sees_no_character_before_its_turn():
    from sumcast.convergence import tasks

    net = tasks.Transformer(100).eval()
    text = torch.randint(0, 100, (1, 48))
    other = text.clone()
    other[0, 30] = (other[0, 30] + 1) % 100
    one, two = net(text), net(other)
    assert torch.allclose(one[0, :30], two[0, :30], atol=1e-6)
    assert not torch.allclose(one[0, 30:], two[0, 30:], atol=1e-3)
