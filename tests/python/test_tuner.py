"""Widths that choose themselves: the tuner alone, and pipelines whose ranks have clocks of their own."""

import pathlib
import random

import pytest
import torch
from torch.nn.parallel import DistributedDataParallel

from pipelines import backward, batch, check_equal_on_all_ranks, model, sgd, state_of, train, weights
from ranks import run
from sumcast import pipeline
from sumcast.pipeline import GuardOptions, Optimizer
from sumcast.pipeline.averagers import LocalRanks, lockstep
from sumcast.pipeline.retuner import steady_mean
from sumcast.pipeline.tuner import Tuner, TunerOptions, joined

COURSES = pathlib.Path(__file__).parents[2] / "src" / "pipeline" / "tuner_courses.txt"


class Network:
    """Sums begin when all ranks have begun them, and pass a link one after the other. Seconds."""

    def __init__(self, latency, link):
        self.latency, self.link = latency, link
        self.free = 0.0

    def arrival(self, begun):
        self.free = max(self.free, begun) + self.link
        return self.free + self.latency


def window(compute, network, width, steps, noise, dice):
    """(busy, step) of steps played through, one after the other, in the steady state."""
    now, busy, begin, arrivals = 0.0, 0.0, 0.0, []
    network.free = 0.0
    for step in range(4 * width + steps):
        if step == 4 * width:
            begin, busy = now, 0.0
        computing = compute * (1 + noise * (2 * dice.random() - 1))
        busy += computing
        now += computing
        arrivals.append(network.arrival(now))
        if len(arrivals) >= width:
            now = max(now, arrivals.pop(0))
    return busy / steps, (now - begin) / steps


def best_width(compute, network, width_max):
    takes = {width: window(compute, network, width, 60, 0.0, random.Random(1))[1]
             for width in range(1, width_max + 1)}
    fastest = min(takes.values())
    return takes, fastest


@pytest.mark.parametrize("latency", [0.0001, 0.004, 0.02, 0.045])
@pytest.mark.parametrize("link", [0.0001, 0.005, 0.009, 0.011, 0.02, 0.04])
def test_it_settles_within_a_few_per_cent_of_the_best_width(link, latency):
    network, dice = Network(latency, link), random.Random(2)
    tuner = Tuner(TunerOptions(width_max=6), 4)
    for _ in range(40):
        tuner.observe(*window(0.010, network, tuner.width, tuner.window_steps(), 0.03, dice))
    takes, fastest = best_width(0.010, network, 6)
    assert takes[tuner.width] <= 1.06 * fastest, tuner.state


def test_it_does_not_flap_at_a_boundary():
    for seed in range(20):
        tuner, dice, changes = Tuner(TunerOptions(), 4), random.Random(seed), 0
        network = Network(0.0, 0.0005)  # About what a change has to promise.
        for _ in range(60):
            changes += tuner.observe(*window(0.010, network, tuner.width, tuner.window_steps(), 0.04,
                                             dice)) is not None
        assert changes <= 2


def courses():
    """Four runs in worlds that change: lines of width, busy, step, in the order of windows."""
    text = []
    for name, stretches in {
        "local": [(20, 0.010, 0.0002, 0.008), (20, 0.010, 0.0002, 0.030), (20, 0.050, 0.0002, 0.030)],
        "long path": [(30, 0.010, 0.027, 0.002), (100, 0.010, 0.0005, 0.002)],
        "next to nothing": [(90, 0.010, 0.0001, 0.0001), (20, 0.001, 0.0001, 0.0005)],
        "becomes long": [(20, 0.010, 0.0002, 0.006), (40, 0.010, 0.040, 0.006)],
    }.items():
        tuner, dice = Tuner(TunerOptions(width_max=5), 4), random.Random(name)
        text.append(f"course {name}")
        for windows, compute, latency, link in stretches:
            network = Network(latency, link)
            for _ in range(windows):
                busy, step = window(compute, network, tuner.width, tuner.window_steps(), 0.02, dice)
                tuner.observe(busy, step)
                text.append(f"{busy:.9f} {step:.9f} {tuner.width}")
    return text


def test_both_languages_decide_alike():
    """src/pipeline/tuner_test.cc reads the same file."""
    changes = 0
    for line in COURSES.read_text().splitlines():
        if line.startswith("course"):
            tuner = Tuner(TunerOptions(width_max=5), 4)
            continue
        busy, step, width = line.split()
        changes += tuner.observe(float(busy), float(step)) is not None
        assert tuner.width == int(width), line
    assert changes > 8


def test_alone_or_without_times_it_stays_as_it_is():
    alone = Tuner(TunerOptions(), 1)
    assert all(alone.observe(0.01, 0.02) is None for _ in range(5)) and alone.width == 1
    tuner = Tuner(TunerOptions(), 4)
    for times in [(0.0, 0.0), (0.01, float("nan")), (float("inf"), 1.0)]:
        assert tuner.observe(*times) is None
    assert tuner.state["windows"] == 0


def test_ranks_are_seen_together():
    assert joined([0.010, 0.021, 0.0, 0.019, 0.021, 0.003, 0.012, 0.021, 0.002]) == (
        0.019, pytest.approx(0.021), 0.002)
    assert steady_mean([]) == 0.0
    assert steady_mean([1, 1, 1, 1, 1000]) == pytest.approx(7 / 5)


class Clocks:
    """Of ranks of this process, moved by their computing and by sums."""

    def __init__(self, ranks, network):
        self.meeting = LocalRanks(ranks)
        self.network = network
        self.now = [1.0] * ranks
        self.begun, self.arrivals = {}, {}

    def averager(self, rank):
        return _ClockedAverager(self, rank)


class _ClockedAverager:
    def __init__(self, clocks, rank):
        self._clocks, self.rank, self.ranks = clocks, rank, len(clocks.now)
        self._inner = clocks.meeting.averager(rank)
        self._next = 0

    def sum(self, tensor):
        handle = self._inner.sum(tensor)
        if tensor.dtype == torch.float64:
            return handle  # Facts take no time.
        self._next += 1
        self._clocks.begun.setdefault(self._next, []).append(self._clocks.now[self.rank])
        return _ClockedHandle(self._clocks, self._next, self.rank, handle)


class _ClockedHandle:
    def __init__(self, clocks, number, rank, inner):
        self._clocks, self._number, self._rank, self._inner = clocks, number, rank, inner

    def wait(self):
        clocks, number = self._clocks, self._number
        if number not in clocks.arrivals:
            clocks.arrivals[number] = clocks.network.arrival(max(clocks.begun[number]))
        clocks.now[self._rank] = max(clocks.now[self._rank], clocks.arrivals[number])
        return self._inner.wait()


def ranks_with_clocks(network, ranks=3, **options):
    clocks = Clocks(ranks, network)
    nets = [model() for _ in range(ranks)]
    wrapped = [Optimizer(sgd(net.parameters(), lr=0.01), net, averager=clocks.averager(rank),
                         **{"width": "auto", "hash_every": 5, **options})
               for rank, net in enumerate(nets)]
    for rank, one in enumerate(wrapped):
        if one.engine.retuner:
            one.engine.retuner.clock = lambda rank=rank: clocks.now[rank]
    return clocks, nets, wrapped


def advance(clocks, nets, wrapped, steps, loss=None):
    """Widths after each step, which are those of all ranks."""
    widths = []
    for step in steps:
        losses = []
        for rank, net in enumerate(nets):
            wrapped[rank].zero_grad()
            losses.append(backward(net, rank, step))
            clocks.now[rank] += 0.010 + 0.001 * rank + 0.0005 * (step % 3)
        lockstep(one.stepping(mine if loss is None else loss)
                 for one, mine in zip(wrapped, losses))
        assert len({one.width for one in wrapped}) == 1
        widths.append(wrapped[0].width)
    return widths


@pytest.mark.parametrize("options", [{}, {"forecast": "none"}, {"compressor": "bf16"}], ids=str)
def test_ranks_of_different_speeds_change_at_one_step_and_keep_the_same_bits(options):
    clocks, nets, wrapped = ranks_with_clocks(Network(0.0001, 0.009), **options)
    widths = advance(clocks, nets, wrapped, range(60))
    assert widths[0] == 1 and widths[-1] == 2
    lockstep(one.flushing() for one in wrapped)
    for net in nets[1:]:
        assert all(torch.equal(a, b) for a, b in zip(weights(nets[0]), weights(net)))


def test_it_takes_the_time_of_the_best_fixed_width_and_follows_the_network():
    def seconds(width, steps=500):
        clocks, nets, wrapped = ranks_with_clocks(Network(0.025, 0.002), width=width)
        widths = advance(clocks, nets, wrapped, range(steps))
        return clocks.now[0] - 1, widths

    fixed = [seconds(width)[0] for width in (1, 2, 3, 4)]
    taken, widths = seconds("auto")
    assert taken <= 1.08 * min(fixed) and max(widths) == 4

    clocks, nets, wrapped = ranks_with_clocks(Network(0.0001, 0.0001))
    assert advance(clocks, nets, wrapped, range(100))[-1] == 1
    clocks.network.link = 0.008
    assert advance(clocks, nets, wrapped, range(100, 200))[-1] == 2
    reports = [one.report.retuned for one in wrapped]
    assert reports == [None] * 3  # It was steps ago.


def test_the_change_is_reported_on_all_ranks_and_a_width_that_is_set_stays():
    clocks, nets, wrapped = ranks_with_clocks(Network(0.0001, 0.009))
    told = []
    for step in range(40):
        advance(clocks, nets, wrapped, [step])
        if wrapped[0].report.retuned:
            told.append([one.report.retuned for one in wrapped])
    assert len(told) == 1 and len(set(told[0])) == 1 and "K = 2 should take" in told[0][0]
    lockstep(one.flushing() for one in wrapped)  # set_width() would, but one rank after the other.
    for one in wrapped:
        one.set_width(1)
    assert set(advance(clocks, nets, wrapped, range(40, 150))) == {1}


def test_the_guards_word_is_the_last():
    clocks, nets, wrapped = ranks_with_clocks(Network(0.0001, 0.009), guard=GuardOptions())
    assert advance(clocks, nets, wrapped, range(60), loss=1.0)[-1] == 2
    widths = advance(clocks, nets, wrapped, range(60, 250), loss=100.0)
    assert widths[-1] == 1 and wrapped[0].engine.fell_back
    first = widths.index(1)
    assert set(widths[first:]) == {1}


def test_a_checkpoint_goes_on_with_the_choice_bit_by_bit():
    clocks, nets, wrapped = ranks_with_clocks(Network(0.0001, 0.009))
    advance(clocks, nets, wrapped, range(46))
    states = [state_of(one) for one in wrapped]
    assert states[0]["wished_width"] == 2 and len(states[0]["under_way"]) == 1
    assert states[0]["under_way"][0]["times"]
    advance(clocks, nets, wrapped, range(46, 70))
    others, copies, resumed = ranks_with_clocks(Network(0.0001, 0.009))
    for one, state in zip(resumed, states):
        one.load_state_dict(state)
    assert set(advance(others, copies, resumed, range(46, 70))) == {2}
    for net, copy in zip(nets, copies):
        assert all(torch.equal(a, b) for a, b in zip(weights(net), weights(copy)))
    fixed = ranks_with_clocks(Network(0.0001, 0.009), width=4)[2][0]
    with pytest.raises(ValueError, match="width was 'auto' and is 4"):
        fixed.load_state_dict(states[0])


@pytest.mark.parametrize("options, problem", [
    ({"width": "wide"}, 'width must be 1 to 8 or "auto", not wide'),
    ({"width": "auto", "max_width": 9}, "max_width must be 1 to 8, not 9"),
])
def test_impossible_options_are_refused(options, problem):
    with pytest.raises(ValueError, match=problem):
        ranks_with_clocks(Network(0, 0), **options)


def test_real_ranks_agree_with_and_without_ddp():
    def body(rank, size):
        net = model()
        optimizer = Optimizer(sgd(net.parameters()), net, width="auto", hash_every=4)
        train(net, optimizer, rank, range(60))
        ddp = DistributedDataParallel(model())
        other = pipeline.register(ddp, sgd(ddp.parameters()), width="auto", hash_every=4)
        for step in range(60):
            other.zero_grad()
            inputs, labels = batch(rank, step)
            torch.nn.functional.cross_entropy(ddp(inputs), labels).backward()
            other.step()
        for one in (optimizer, other):
            one.flush()
            state = one.engine.retuner.tuner.state
            assert state["windows"] >= 2 and state["measured"]
            check_equal_on_all_ranks([torch.tensor([float(state["width"]), state["compute"],
                                                    state["latency"]], dtype=torch.float64)])
        check_equal_on_all_ranks(weights(net) + weights(ddp))

    run(2, body)
