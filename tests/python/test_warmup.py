"""How long the start of a run stays synchronous when nobody says: as long as the rate rises, and as
many steps again."""

import copy

import pytest
import torch

from pipelines import model, sgd, train
from ranks import error_of
from sumcast.pipeline import Optimizer
from sumcast.pipeline.averagers import LocalRanks
from sumcast.pipeline.warmup import MOST, Warmup


def synchronous(steps, rate_of, count=300):
    """Numbers of the steps that are synchronous. rate_of: step -> rate, or several rates."""
    warmup = Warmup(steps)
    found = []
    for step in range(count):
        rates = rate_of(step)
        warmup.observe(step, [{"lr": r} for r in (rates if isinstance(rates, tuple) else (rates,))])
        if warmup.lasts(step):
            found.append(step)
    return found


@pytest.mark.parametrize("rate_of, steps", [
    (lambda step: 0.1, 2),
    (lambda step: 0.1 * 0.9 ** step, 2),
    (lambda step: min(step + 1, 10) / 10, 20),
    (lambda step: max(0.0, 10 - abs(9 - step)), 20),
    (lambda step: min(step + 1, 10) / 10 + (step > 40), 20),  # Later rises are no start.
    (lambda step: 0.1 * (step % 4), 8),  # The first of several waves.
    (lambda step: step + 1.0, MOST),
    (lambda step: (0.1, 0.1 * min(step + 1, 5)), 10),
    (lambda step: 0.1 * (1 + 1e-9 * step), 2),  # Rounding is no rise.
    (lambda step: torch.tensor(min(step + 1, 10) / 10), 20),
    (lambda step: (None, min(step + 1, 5) / 10), 10),  # An optimiser that chooses one itself.
])
def test_synchronous_as_long_as_the_rate_rises_and_as_many_steps_again(rate_of, steps):
    assert synchronous("auto", rate_of) == list(range(steps))


def test_a_number_of_steps_is_that_number_whatever_the_rate_does():
    assert synchronous(0, lambda step: step + 1.0) == []
    assert synchronous(7, lambda step: step + 1.0) == list(range(7))
    assert Warmup("auto").lasts(1), "before the first step it is known that there are two"


def rising(net):
    """A pipeline whose rate rises for four steps, and its schedule."""
    optimizer = Optimizer(sgd(net.parameters()), net, averager=LocalRanks(1).averager(0))
    return optimizer, torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: min(step + 1, 4) / 4)


def steps_of(net, optimizer, schedule, steps):
    """Gradients under way after each."""
    under_way = []
    for step in steps:
        train(net, optimizer, 0, range(step, step + 1))
        schedule.step()
        under_way.append(optimizer.in_flight)
    return under_way


def test_gradients_are_late_only_after_it():
    net = model()
    optimizer, schedule = rising(net)
    assert steps_of(net, optimizer, schedule, range(12)) == [0] * 8 + [1] * 4
    assert optimizer.updates == 11


@pytest.mark.parametrize("stop", [1, 3, 6, 9])
def test_a_checkpoint_holds_how_far_it_is(stop):
    net = model()
    optimizer, schedule = rising(net)
    steps_of(net, optimizer, schedule, range(stop))
    saved = copy.deepcopy((net.state_dict(), optimizer.state_dict(), schedule.state_dict()))
    expected = steps_of(net, optimizer, schedule, range(stop, 12))
    other = model()
    other.load_state_dict(saved[0])
    resumed, again = rising(other)
    resumed.load_state_dict(saved[1])
    again.load_state_dict(saved[2])
    assert steps_of(other, resumed, again, range(stop, 12)) == expected
    assert all(torch.equal(a, b) for a, b in zip(net.parameters(), other.parameters()))


def test_a_state_from_before_goes_on_without_one():
    net = model()
    optimizer, schedule = rising(net)
    steps_of(net, optimizer, schedule, range(3))
    state = optimizer.state_dict()
    del state["warmup"]
    resumed, again = rising(other := model())
    resumed.load_state_dict(state)
    assert steps_of(other, resumed, again, range(3, 5)) == [1, 1]


@pytest.mark.parametrize("steps", [-1, "soon", 1.5, None])
def test_what_is_no_length_is_one_line(steps):
    net = model()
    text = error_of(lambda: Optimizer(sgd(net.parameters()), net, warmup_steps=steps,
                                      averager=LocalRanks(1).averager(0)))
    assert f'warmup_steps must be a number from 0 on or "auto", not {steps!r}' in text, text
