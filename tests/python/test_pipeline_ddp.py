"""The communication hook: DDP in its variants, with gradients that come one step late."""

import contextlib
import copy
import math

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP

from pipelines import (adamw, backward, batch, check_equal_on_all_ranks, check_same, emulated, model,
                       model_with_statistics, sgd, train, weights)
from ranks import error_of, run
from sumcast import pipeline


def pipelined(net, rule=sgd, ddp=None, **options):
    """(DDP, optimiser)"""
    wrapped = DDP(net, **(ddp or {}))
    return wrapped, pipeline.register(wrapped, rule(wrapped.parameters()), **options)


VARIANTS = ({}, {"static_graph": True}, {"bucket_cap_mb": 0.001}, {"gradient_as_bucket_view": True},
            {"find_unused_parameters": True},
            {"bucket_cap_mb": 0.001, "gradient_as_bucket_view": True, "static_graph": True})


def test_width_one_is_plain_ddp_bit_by_bit():
    def body(rank, size):
        for variant in VARIANTS[:1] + VARIANTS[-1:]:
            plain = DDP(model(), **variant)
            train(plain, sgd(plain.parameters()), rank, range(6))
            net, optimizer = pipelined(model(), ddp=variant, width=1)
            train(net, optimizer, rank, range(6))
            check_same(weights(net), weights(plain))
        return True

    assert all(run(3, body))


def test_every_variant_gives_the_same_late_gradients():
    """Small buckets are rebuilt after the first step, in another order: gradients keep their places."""

    def body(rank, size):
        for rule, options in ((sgd, {}), (adamw, {"width": 3}), (sgd, {"compressor": "int8"}),
                              (sgd, {"forecast": "none", "compensation": "plain", "correction": 0.5})):
            wanted = weights(emulated(size, 8, rule=rule, **options)[rank])
            for variant in VARIANTS if not options else VARIANTS[2:3]:
                net, optimizer = pipelined(model(), rule, variant, hash_every=3, **options)
                train(net, optimizer, rank, range(8))
                optimizer.flush()
                check_same(weights(net), wanted)
        return True

    assert all(run(3, body))


def test_grad_is_the_mean_of_the_step_before():
    def body(rank, size):
        net, optimizer = pipelined(model(), forecast="none", warmup_steps=2)
        before = None
        for step in range(6):
            twin = copy.deepcopy(net.module)
            backward(twin, rank, step)
            means = [p.grad / size for p in twin.parameters()]
            for mean in means:
                dist.all_reduce(mean)
            optimizer.zero_grad()
            backward(net, rank, step)
            wanted = means if step < 2 else before if step > 2 else [torch.zeros_like(m) for m in means]
            for parameter, value in zip(net.parameters(), wanted):
                assert torch.allclose(parameter.grad, value, rtol=1e-5, atol=1e-8), step
            optimizer.step()
            before = means

    run(2, body)


def test_clipping_by_the_program_is_clipping_of_the_late_mean():
    def body(rank, size):
        net, optimizer = pipelined(model())
        for step in range(8):
            optimizer.zero_grad()
            backward(net, rank, step)
            torch.nn.utils.clip_grad_norm_(net.parameters(), 0.05)
            optimizer.step()
        with optimizer.committed():
            mine = weights(net)
        other, built_in = pipelined(model(), clip_norm=0.05)
        train(other, built_in, rank, range(8))
        with built_in.committed():
            for one, two in zip(mine, weights(other)):
                assert torch.allclose(one, two, atol=1e-6)
        check_equal_on_all_ranks(mine)

    run(2, body)


def test_no_sync_adds_up_and_launches_once():
    def body(rank, size):
        net, optimizer = pipelined(model())
        plain = model()
        reference = pipeline.Optimizer(sgd(plain.parameters()), plain)
        for step in range(6):
            optimizer.zero_grad()
            reference.zero_grad()
            for part in range(3):
                with net.no_sync() if part < 2 else contextlib.nullcontext():
                    backward(net, rank, 10 * step + part)
                backward(plain, rank, 10 * step + part)
            optimizer.step()
            reference.step()
        assert optimizer.steps == 6
        optimizer.flush()
        reference.flush()
        check_same(weights(net), weights(plain))

    run(2, body)


class Branching(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(2)
        self.always, self.left, self.right = nn.Linear(8, 8), nn.Linear(8, 8), nn.Linear(8, 8)

    def forward(self, x, branch):
        hidden = self.always(x)
        return {"left": self.left, "right": self.right, "none": nn.Identity()}[branch](hidden)


def test_unused_parameters():
    """A gradient that no rank had is not applied, also late; one that some rank had is, although the
    step in which it is due does not use its parameter."""

    def branch_of(rank, step):
        return ("left", "none")[rank] if step % 3 == 0 else "right" if step % 3 == 1 else "none"

    def go(net, optimizer, rank, steps=9):
        for step in range(steps):
            optimizer.zero_grad()
            inputs = torch.randn(3, 8, generator=torch.Generator().manual_seed(10 * step + rank))
            net(inputs, branch_of(rank, step)).square().sum().backward()
            optimizer.step()

    def body(rank, size):
        for options in ({"width": 1}, {"forecast": "none"}, {}, {"width": 3}):
            plain = Branching()
            reference = pipeline.Optimizer(sgd(plain.parameters()), plain, **options)
            go(plain, reference, rank)
            net, optimizer = pipelined(Branching(), ddp={"find_unused_parameters": True}, **options)
            go(net, optimizer, rank)
            if options.get("width") == 1:
                other = DDP(Branching(), find_unused_parameters=True)
                go(other, sgd(other.parameters()), rank)
                check_same(weights(net), weights(other))
            reference.flush()
            optimizer.flush()
            check_same(weights(net), weights(plain))
            check_equal_on_all_ranks(weights(net))

    run(2, body)


def scaled(hooked):
    """(network, optimiser, loss scaler): by the hook, or by the wrapper alone."""
    scaler = torch.amp.GradScaler("cpu", init_scale=1024.0, growth_interval=2)
    net = model()
    if hooked:
        return *pipelined(net, scaler=scaler), scaler
    return net, pipeline.Optimizer(sgd(net.parameters()), net), scaler


def test_a_loss_scale_that_changes_leaves_gradients_as_they_are():
    """Scales are powers of two: with and without them the bits are the same."""

    def body(rank, size):
        wanted = weights(emulated(size, 10)[rank])
        for hooked in (True, False):
            net, optimizer, scaler = scaled(hooked)
            scales = set()
            for step in range(10):
                optimizer.zero_grad()
                inputs, labels = batch(rank, step)
                scaler.scale(F.cross_entropy(net(inputs), labels)).backward()
                scaler.step(optimizer)
                scaler.update()
                scales.add(scaler.get_scale())
            assert len(scales) > 3
            optimizer.flush()
            check_same(weights(net), wanted)

    run(2, body)


def test_an_overflow_on_one_rank_is_skipped_by_all_and_it_is_the_right_gradient():
    """As a run that drops the gradient of step 4, whichever way it came."""

    def steps_with_overflow(net, optimizer, rank, scaler):
        skipped = []
        for step in range(9):
            optimizer.zero_grad()
            inputs, labels = batch(rank, step)
            loss = F.cross_entropy(net(inputs), labels)
            if step == 4 and rank == 1:
                loss = loss * math.inf
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
            skipped.append(optimizer.report.skipped)
        optimizer.flush()
        return skipped

    def body(rank, size):
        results = []
        for hooked in (True, False):
            net, optimizer, scaler = scaled(hooked)
            assert steps_with_overflow(net, optimizer, rank, scaler) == [0, 0, 0, 0, 0, 1, 0, 0, 0]
            assert optimizer.updates == 8
            check_equal_on_all_ranks(weights(net))
            results.append(weights(net))
        check_same(*results)

    run(2, body)


def test_a_loss_scale_that_the_hook_does_not_know_is_refused():
    def body(rank, size):
        net, optimizer = pipelined(model())
        scaler = torch.amp.GradScaler("cpu")
        scaler.scale(net(batch(rank, 0)[0]).sum()).backward()
        return error_of(lambda: scaler.step(optimizer))

    assert all("register(..., scaler=scaler)" in text for text in run(2, body))


def test_autocast_and_statistics_and_frozen_layers():
    def body(rank, size):
        net = model_with_statistics()
        net[0].weight.requires_grad_(False)
        frozen = net[0].weight.clone()
        ddp = DDP(net)
        rule = adamw([p for p in net.parameters() if p.requires_grad])
        optimizer = pipeline.register(ddp, rule, hash_every=2)
        for step in range(6):
            optimizer.zero_grad()
            inputs, labels = batch(rank, step)
            with torch.autocast("cpu", dtype=torch.bfloat16):
                loss = F.cross_entropy(ddp(inputs), labels)
            loss.backward()
            optimizer.step(loss=loss)
        optimizer.flush()
        assert torch.equal(net[0].weight, frozen)
        assert net[1].num_batches_tracked.item() == 6
        check_equal_on_all_ranks(weights(net))

    run(2, body)


def test_the_guard_acts_on_all_ranks_in_one_step():
    """The loss that ranks tell in step() travels with the next gradient."""

    def body(rank, size):
        options = {"forecast": "none", "hash_every": 1,
                   "guard": pipeline.GuardOptions(settle=5, patience=3)}
        net, optimizer = pipelined(model(), lambda p: torch.optim.SGD(p, lr=0.8, momentum=0.9), **options)
        falls = []
        for step in range(60):
            train(net, optimizer, rank, range(step, step + 1))
            if optimizer.report.fell_back:
                falls.append((step, optimizer.report.fell_back, optimizer.report.updates))
            if falls:
                assert optimizer.width == 1 and optimizer.in_flight == 0
        assert optimizer.updates == optimizer.steps == 60
        check_equal_on_all_ranks(weights(net))
        return falls

    first, *others = run(3, body)
    assert len(first) == 1 and first[0][2] == 2 and all(falls == first for falls in others)


def test_a_gradient_is_neither_lost_nor_applied_twice():
    def body(rank, size):
        net, optimizer = pipelined(model())
        text = error_of(optimizer.step)
        assert "step() without a backward() before it" in text
        backward(net, rank, 0)
        assert "flush() before step()" in error_of(optimizer.flush)
        assert "state_dict() before step()" in error_of(optimizer.state_dict)
        assert "use no_sync()" in error_of(lambda: backward(net, rank, 1))

    run(2, body)


def test_join_is_refused_on_all_ranks():
    from torch.distributed.algorithms.join import Join

    def uneven(net, optimizer, rank):
        with Join([net]):
            for step in range(2 + rank):
                optimizer.zero_grad()
                backward(net, rank, step)
                optimizer.step()

    def body(rank, size):
        net, optimizer = pipelined(model())
        return error_of(lambda: uneven(net, optimizer, rank))

    assert all("Join is not supported" in text for text in run(2, body))


def test_what_cannot_work_is_refused_in_one_line():
    def body(rank, size):
        net = DDP(model())
        texts = [
            error_of(lambda: pipeline.register(net.module, sgd(net.parameters()))),
            error_of(lambda: pipeline.register(net, sgd(list(net.parameters())[:2]))),
            error_of(lambda: pipeline.register(net, sgd(net.parameters()), width=9)),
            error_of(lambda: pipeline.register(net, sgd(net.parameters()), width=4, total_steps=3)),
        ]
        dist.barrier()
        return texts

    for texts in run(2, body):
        for text, part in zip(texts, ("takes a DistributedDataParallel, not a Sequential",
                                      "4 are DDP's alone and 0 the optimiser's",
                                      "width must be 1 to 8 or \"auto\", not 9",
                                      "width 4 is larger than the run of 3 steps")):
            assert part in text and "\n" not in text, text


def test_plain_ddp_goes_on_from_the_state_after_a_flush(tmp_path):
    def body(rank, size):
        net, optimizer = pipelined(model())
        train(net, optimizer, rank, range(5))
        optimizer.flush()
        if rank == 0:
            torch.save({"model": net.module.state_dict(), "optimizer": optimizer.inner.state_dict()},
                       tmp_path / "plain")
        dist.barrier()
        saved = torch.load(tmp_path / "plain", weights_only=True)
        other = DDP(model())
        other.module.load_state_dict(saved["model"])
        rule = sgd(other.parameters())
        rule.load_state_dict(saved["optimizer"])
        train(other, rule, rank, range(5, 8))
        optimizer.set_width(1)
        train(net, optimizer, rank, range(5, 8))
        check_same(weights(net), weights(other))

    run(2, body)
