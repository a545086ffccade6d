"""Late gradients, as arithmetic: against references that know nothing of pipelines. Ranks of one
process, but where real ones are said to give the same bits."""

import copy
import math

import numpy
import pytest
import torch
from torch import nn

from pipelines import (adamw, backward, check_equal_on_all_ranks, check_same, emulated, model,
                       model_with_statistics, sgd, state_of, train, weights)
from ranks import error_of, run
from sumcast.pipeline import GuardOptions, Optimizer
from sumcast.pipeline.averagers import LocalRanks, lockstep


def alone(net, rule=sgd, **options):
    return Optimizer(rule(net.parameters()), net, averager=LocalRanks(1).averager(0), **options)


class Scalar(nn.Module):
    """One weight, pulled towards `target`: gradient w - target, in single steps of f32."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.tensor([1.0]))

    def forward(self, target):
        return (0.5 * (self.weight - target) ** 2).sum()


def targets(rank, step):
    return numpy.float32(math.sin(1.0 + rank + 3 * step))


@pytest.mark.parametrize("width", [1, 2, 3, 4])
def test_late_sgd_is_a_scalar_reference_bit_by_bit(width):
    """Plain SGD in numpy: the mean of step t - K + 1 is applied in step t."""
    size, steps, warmup, rate = 4, 40, 3, numpy.float32(0.125)
    meeting = LocalRanks(size)
    nets = [Scalar() for _ in range(size)]
    wrapped = [Optimizer(torch.optim.SGD(net.parameters(), lr=0.125), net, width=width,
                         warmup_steps=warmup, averager=meeting.averager(rank))
               for rank, net in enumerate(nets)]
    weight, under_way = numpy.float32(1.0), []
    for step in range(steps):
        for rank, net in enumerate(nets):
            wrapped[rank].zero_grad()
            net(float(targets(rank, step))).backward()
        lockstep(one.stepping() for one in wrapped)
        mean = (weight - targets(0, step)) * numpy.float32(0.25)
        for rank in range(1, size):
            mean = mean + (weight - targets(rank, step)) * numpy.float32(0.25)
        under_way.append(mean)
        if len(under_way) >= (1 if step < warmup else width):
            weight = weight - rate * under_way.pop(0)
        for net in nets:
            assert net.weight.item() == weight, f"step {step}"
    lockstep(one.flushing() for one in wrapped)
    for mean in under_way:
        weight = weight - rate * mean
    assert [net.weight.item() for net in nets] == [weight] * size


@pytest.mark.parametrize("options", [
    {}, {"forecast": "none"}, {"width": 3, "compensation": "plain"}, {"compressor": "bf16"},
    {"compressor": "int8"}, {"compressor": "top-k:0.1"}, {"compressor": "qsgd"},
], ids=str)
def test_real_ranks_give_the_bits_of_ranks_in_one_process(options):
    """What lets the grid of sumcast.convergence stand for training over a network."""

    def body(rank, size):
        for rule in (sgd, adamw):
            net = model()
            optimizer = Optimizer(rule(net.parameters()), net, hash_every=4, bucket_bytes=4000, **options)
            train(net, optimizer, rank, range(12))
            optimizer.flush()
            check_same(weights(net), weights(emulated(size, 12, rule=rule, bucket_bytes=4000,
                                                      **options)[rank]))
            check_equal_on_all_ranks(weights(net))

    run(3, body)


def test_gloo_works_too_and_ranks_hold_the_same_weights():
    def body(rank, size):
        for compressor in ("none", "bf16", "fp16", "int8", "top-k", "qsgd"):
            net = model()
            optimizer = Optimizer(sgd(net.parameters()), net, compressor=compressor, hash_every=3)
            train(net, optimizer, rank, range(8))
            optimizer.flush()
            check_equal_on_all_ranks(weights(net))
        return True

    assert all(run(2, body, backend="gloo"))


def test_the_first_pipelined_step_updates_nothing():
    """Zeros would still move momentum, weight decay and step counts."""
    for rule in (sgd, adamw):
        net = model()
        optimizer = alone(net, rule, warmup_steps=2, forecast="none")
        train(net, optimizer, 0, range(2))
        before, state = weights(net), state_of(optimizer.inner)
        train(net, optimizer, 0, range(2, 3))
        assert optimizer.report.updates == 0 and optimizer.in_flight == 1
        check_same(weights(net), before)
        for number, values in state["state"].items():
            now = optimizer.inner.state_dict()["state"][number]
            assert all(torch.equal(values[name], now[name]) for name in values)
        train(net, optimizer, 0, range(3, 4))
        assert optimizer.report.updates == 1 and optimizer.updates == 3


def test_a_gradient_under_way_is_a_copy():
    """The caller overwrites .grad as soon as step() returns."""

    def body(rank, size):
        results = []
        for spoil in (False, True):
            net = model()
            optimizer = Optimizer(sgd(net.parameters()), net)
            for step in range(6):
                optimizer.zero_grad()
                backward(net, rank, step)
                optimizer.step()
                if spoil:
                    for parameter in net.parameters():
                        parameter.grad.fill_(math.nan)
            optimizer.flush()
            results.append(weights(net))
        check_same(*results)

    run(2, body)


RULES = {
    "sgd": lambda p: torch.optim.SGD(p, lr=0.1, weight_decay=0.1),
    "momentum": lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9, dampening=0.1),
    "nesterov": lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9, nesterov=True),
    "adam": lambda p: torch.optim.Adam(p, lr=0.01, weight_decay=0.1),
    "amsgrad": lambda p: torch.optim.Adam(p, lr=0.01, amsgrad=True),
    "adamw": lambda p: torch.optim.AdamW(p, lr=0.01),
    "rmsprop": lambda p: torch.optim.RMSprop(p, lr=0.01, momentum=0.5),
}


@pytest.mark.parametrize("rule", RULES)
def test_a_forecast_is_the_optimisers_own_next_update_and_leaves_no_trace(rule):
    net = model()
    optimizer = alone(net, RULES[rule], forecast="previous", warmup_steps=3)
    calls = []
    optimizer.register_step_post_hook(lambda *_: calls.append(optimizer.steps))
    train(net, optimizer, 0, range(7))
    # What the rule would do next, done with copies.
    other = model()
    with optimizer.committed():
        for place, weight in zip(other.parameters(), net.parameters()):
            place.data.copy_(weight)
    twin = RULES[rule](other.parameters())
    twin.load_state_dict(copy.deepcopy(optimizer.inner.state_dict()))
    for number, parameter in enumerate(other.parameters()):
        parameter.grad = optimizer.engine.layout.view(optimizer.engine.last.mean, number).clone()
    twin.step()
    check_same(weights(net), weights(other))
    # Six gradients are applied; the forecasts between them left nothing.
    assert len(calls) == optimizer.updates == 6
    for values in optimizer.inner.state.values():
        assert values.get("step", torch.tensor(6.0)).item() == 6
    random = torch.get_rng_state()
    train(net, optimizer, 0, range(7, 8))
    assert torch.equal(torch.get_rng_state(), random)


@pytest.mark.parametrize("forecast", ["auto", "local-and-previous"])
def test_estimates_are_the_own_gradient_or_the_last_mean_with_the_own_share_fresh(forecast):
    size, nets_seen = 3, []

    def then(step, nets, wrapped):
        engine = wrapped[1].engine
        if step < 4:
            return
        newest, last = engine.under_way[-1], engine.last
        for i, estimate in enumerate(engine.estimate(newest)):
            expected = (size * newest.own[i] if forecast == "auto"
                        else last.mean[i] + (newest.own[i] - last.own[i]))
            assert torch.equal(estimate, expected)
        # Forecasts differ between ranks; what they forecast from does not.
        assert not torch.equal(nets[0][0].weight, nets[1][0].weight)
        check_same(wrapped[0]._committed, wrapped[1]._committed)
        nets_seen.append(step)

    emulated(size, 8, then=then, forecast=forecast)
    assert nets_seen == [4, 5, 6, 7]


def test_a_late_gradient_is_applied_with_the_rate_of_its_own_step():
    """A scheduler of the wrapper, or of what it wraps: the updates see rates 0.1, 0.01, 0.001 ..."""
    for of in (lambda o: o, lambda o: o.inner):
        net, seen = Scalar(), []
        optimizer = alone(net, lambda p: torch.optim.SGD(p, lr=0.1), width=3, warmup_steps=1)
        scheduler = torch.optim.lr_scheduler.ExponentialLR(of(optimizer), 0.1)
        optimizer.register_step_pre_hook(lambda o, *_: seen.append(o.param_groups[0]["lr"]))
        for step in range(6):
            optimizer.zero_grad()
            net(0.0).backward()
            optimizer.step()
            scheduler.step()
        optimizer.flush()
        assert seen == pytest.approx([0.1 * 0.1 ** i for i in range(6)])
        assert optimizer.param_groups[0]["lr"] == pytest.approx(1e-7)


def test_statistics_of_a_forward_are_committed_with_its_gradient():
    """design.md 5P.3: BatchNorm's averages belong to committed weights, whatever forecasts saw."""
    net = model_with_statistics()
    optimizer = alone(net)
    count = net[1].num_batches_tracked
    for step in range(6):
        train(net, optimizer, 0, range(step, step + 1))
        assert count.item() == step + 1
        with optimizer.committed():
            assert count.item() == optimizer.updates
            mean_then = net[1].running_mean.clone()
        assert torch.equal(net[1].running_mean, mean_then) == (optimizer.updates == step + 1)
    optimizer.flush()
    with optimizer.committed():
        assert count.item() == optimizer.updates == 6


def test_fresh_parameters_are_never_late():
    """With all of them fresh it is synchronous training; with some, those of a reference."""
    check_same(weights(emulated(2, 8, width=1)[0]), _fresh(2, 8, whole=True))
    late = _fresh(2, 8, whole=False)
    nets = [model() for _ in range(2)]
    rules = [sgd(net.parameters()) for net in nets]
    first = list(range(4))  # Parameters of the layers that are late.
    before = None
    for step in range(9):
        means = [torch.zeros_like(p) for p in nets[0].parameters()]
        if step < 8:
            for rank, net in enumerate(nets):
                net.zero_grad()
                backward(net, rank, step)
                for mean, parameter in zip(means, net.parameters()):
                    mean += parameter.grad * 0.5
        for net, rule in zip(nets, rules):
            for number, parameter in enumerate(net.parameters()):
                if number in first:
                    source = means if step < 2 else before
                    parameter.grad = source[number].clone() if source else None
                else:
                    parameter.grad = means[number].clone() if step < 8 else None
            rule.step()
        before = means if step >= 2 else None
    check_same(late, weights(nets[0]))


def _fresh(size, steps, whole):
    meeting = LocalRanks(size)
    nets = [model() for _ in range(size)]
    wrapped = [Optimizer(sgd(net.parameters()), net, averager=meeting.averager(rank), forecast="none",
                         fresh=(net,) if whole else (net[4],))
               for rank, net in enumerate(nets)]
    for step in range(steps):
        for rank, net in enumerate(nets):
            wrapped[rank].zero_grad()
            backward(net, rank, step)
        lockstep(one.stepping() for one in wrapped)
    lockstep(one.flushing() for one in wrapped)
    return weights(nets[0])


@pytest.mark.parametrize("kind", ["plain", "adaptive"])
def test_compensation_adds_the_first_order_of_what_the_weights_moved(kind):
    net = Scalar()
    optimizer = alone(net, lambda p: torch.optim.SGD(p, lr=0.25), forecast="none", warmup_steps=1,
                      compensation=kind, compensation_strength=0.5)
    weight, earlier = 1.0, []  # of gradients: (gradient, weight of its step)
    for step in range(10):
        optimizer.zero_grad()
        net(float(targets(0, step))).backward()
        optimizer.step()
        earlier.append((weight - targets(0, step), weight))
        if step < 1 or len(earlier) == 2:
            gradient, then = earlier.pop(0)
            square = gradient ** 2 if kind == "plain" else abs(gradient)
            weight -= 0.25 * (gradient + 0.5 * square * (weight - then))
        assert net.weight.item() == pytest.approx(weight, rel=1e-5), step


def test_correction_feeds_back_how_wrong_the_last_mean_was():
    net = Scalar()
    optimizer = alone(net, lambda p: torch.optim.SGD(p, lr=0.25), forecast="none", warmup_steps=1,
                      correction=0.5)
    weight, under_way, last = 1.0, [], None
    for step in range(10):
        optimizer.zero_grad()
        net(float(targets(0, step))).backward()
        optimizer.step()
        under_way.append(weight - targets(0, step))
        if step < 1 or len(under_way) == 2:
            gradient = under_way.pop(0)
            weight -= 0.25 * (gradient if step < 1 else gradient + 0.5 * (gradient - last))
            last = gradient
        assert net.weight.item() == pytest.approx(weight, rel=1e-5), step


def test_clipping_takes_the_norm_of_the_late_mean():
    seen = []

    def then(step, nets, wrapped):
        wrapped[0].inner.register_step_pre_hook(lambda o, *_: seen.append(
            math.sqrt(sum(float(p.grad.square().sum()) for p in nets[0].parameters())))
        ) if step == 0 else None

    emulated(2, 8, then=then, clip_norm=0.05)
    assert len(seen) == 7 and all(norm == pytest.approx(0.05, rel=1e-5) for norm in seen)


def test_a_mean_that_is_not_finite_is_skipped_by_all_ranks_and_forecasts_recover():
    size = 2
    meeting = LocalRanks(size)
    nets = [model() for _ in range(size)]
    wrapped = [Optimizer(sgd(net.parameters()), net, averager=meeting.averager(rank),
                         skip_non_finite=True) for rank, net in enumerate(nets)]
    skipped = []
    for step in range(8):
        for rank, net in enumerate(nets):
            wrapped[rank].zero_grad()
            backward(net, rank, step)
            if step == 4 and rank == 1:
                net[2].weight.grad[0, 0] = math.inf
        lockstep(one.stepping() for one in wrapped)
        assert wrapped[0].report.skipped == wrapped[1].report.skipped
        skipped.append(wrapped[0].report.skipped)
        assert all(torch.isfinite(p).all() for net in nets for p in net.parameters())
    assert skipped == [0, 0, 0, 0, 0, 1, 0, 0]
    lockstep(one.flushing() for one in wrapped)
    check_same(weights(nets[0]), weights(nets[1]))
    assert wrapped[0].updates == 7


def test_the_guard_lets_all_ranks_fall_back_in_one_step():
    """At a rate that one step of delay does not bear."""
    falls = []

    def then(step, nets, wrapped):
        reports = [one.report.fell_back for one in wrapped]
        assert reports.count(None) in (0, len(wrapped))
        assert [one.engine.fell_back for one in wrapped] == [wrapped[0].engine.fell_back] * len(wrapped)
        if reports[0]:
            falls.append((step, reports[0], [one.report.updates for one in wrapped]))
        if falls:
            assert all(one.width == 1 and one.in_flight == 0 for one in wrapped)

    emulated(3, 60, then=then, rule=lambda p: torch.optim.SGD(p, lr=0.8, momentum=0.9),
             forecast="none", guard=GuardOptions(settle=5, patience=3))
    assert len(falls) == 1, falls
    step, why, updates = falls[0]
    assert "loss" in why or "gradient" in why
    assert updates == [2, 2, 2]  # The late one and that step's own.


def test_the_guard_leaves_a_healthy_run_alone():
    emulated(2, 60, guard=GuardOptions(settle=5, patience=3), rule=lambda p: sgd(p, lr=0.01),
             then=lambda step, nets, wrapped: falls(wrapped))


def falls(wrapped):
    assert wrapped[0].engine.fell_back is None


def test_widths_change_by_a_flush():
    net = model()
    optimizer = alone(net, width=3)
    train(net, optimizer, 0, range(6))
    assert optimizer.in_flight == 2
    optimizer.set_width(1)
    assert optimizer.in_flight == 0 and optimizer.updates == 6
    train(net, optimizer, 0, range(6, 8))
    assert optimizer.updates == 8
    optimizer.set_width(3)
    train(net, optimizer, 0, range(8, 10))
    assert optimizer.in_flight == 2
    assert "width must be 1 to 3" in error_of(lambda: optimizer.set_width(4))


def test_a_width_beyond_a_short_run_loses_nothing_when_flushed():
    """Three gradients, five wide: none is due in time, all are applied by the flush."""
    net, plain = Scalar(), Scalar()
    optimizer = alone(net, lambda p: torch.optim.SGD(p, lr=0.125), width=5, warmup_steps=0)
    gradients = []
    for step in range(3):
        optimizer.zero_grad()
        net(float(targets(0, step))).backward()
        gradients.append(net.weight.grad.clone())
        optimizer.step()
    assert optimizer.updates == 0
    optimizer.flush()
    for gradient in gradients:
        plain.weight.data -= 0.125 * gradient
    assert optimizer.updates == 3 and torch.equal(net.weight, plain.weight)


def test_ranks_whose_weights_differ_are_found_out_together():
    def body(rank, size):
        net = model()
        optimizer = Optimizer(sgd(net.parameters()), net, hash_every=5, forecast="none")
        train(net, optimizer, rank, range(7))
        if rank == 1:
            net[0].weight.data[3, 3] += 1e-7
        return optimizer.steps, error_of(lambda: train(net, optimizer, rank, range(7, 20)))

    results = run(3, body)
    assert all("weights differ before step 11" in text for _, text in results), results


def test_a_step_without_any_gradient_is_an_error_on_all_ranks():
    def body(rank, size):
        net = model()
        optimizer = Optimizer(sgd(net.parameters()), net, width=1)
        return error_of(optimizer.step)

    for text in run(2, body):
        assert "no rank had a gradient in step 1" in text


def test_a_gradient_that_one_rank_lacks_counts_as_zero_there():
    def body(rank, size):
        net = nn.ModuleList([nn.Linear(3, 3), nn.Linear(3, 3), nn.Linear(3, 3)])
        for parameter in net.parameters():
            parameter.data.fill_(1.0)
        optimizer = Optimizer(torch.optim.SGD(net.parameters(), lr=1.0, weight_decay=0.5), net,
                              width=1)
        (net[0](torch.ones(1, 3)) + (net[1](torch.ones(1, 3)) if rank == 0 else 0)).sum().backward()
        optimizer.step()
        return [part.bias[0].item() for part in net]

    # Used by both: 1 - (1 + 0.5). By one: 1 - (0.5 + 0.5). By none: not even decay.
    assert run(2, body) == [[-0.5, 0.0, 1.0]] * 2
