"""Pipelines that are saved, killed, resized or misused; and what compressors do to numbers."""

import copy
import math
import os
import signal
import time

import pytest
import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP

from pipelines import (adamw, backward, check_same, emulated, model, model_with_statistics, sgd, train,
                       weights)
from ranks import Killed, error_of, run
from sumcast import pipeline
from sumcast.pipeline import GuardOptions, Optimizer, encoders, witnesses
from sumcast.pipeline.averagers import LocalRanks, lockstep


def alone(net, rule=sgd, **options):
    return Optimizer(rule(net.parameters()), net, averager=LocalRanks(1).averager(0), **options)


STATES = ({}, {"width": 3, "compensation": "plain", "correction": 0.3},
          {"compressor": "top-k:0.1", "guard": GuardOptions(settle=2)}, {"forecast": "none"},
          {"compressor": "int8", "width": 4})


def test_a_run_goes_on_bit_by_bit_from_a_checkpoint_with_gradients_under_way(tmp_path):
    def body(rank, size):
        for hooked in (True, False):
            for number, options in enumerate(STATES):
                make = model_with_statistics
                file = tmp_path / f"{hooked}-{number}-{rank}"

                def start(rule=adamw):
                    net = make()
                    if not hooked:
                        return net, Optimizer(rule(net.parameters()), net, **options)
                    net = DDP(net)
                    return net, pipeline.register(net, rule(net.parameters()), **options)

                net, optimizer = start()
                train(net, optimizer, rank, range(7))
                assert optimizer.in_flight == options.get("width", 2) - 1
                torch.save({"model": net.state_dict(), "optimizer": optimizer.state_dict()}, file)
                train(net, optimizer, rank, range(7, 14))
                optimizer.flush()

                saved = torch.load(file, weights_only=True)
                other, resumed = start()
                other.load_state_dict(saved["model"])
                resumed.load_state_dict(saved["optimizer"])
                train(other, resumed, rank, range(7, 14))
                resumed.flush()
                check_same(weights(other), weights(net))
                if not hooked:  # DDP's broadcast has the last word on statistics there.
                    check_same(list(other.buffers()), list(net.buffers()))
                assert resumed.updates == optimizer.updates == 14

    run(2, body, limit=150)


def test_a_state_that_does_not_fit_changes_nothing():
    net = model()
    optimizer = alone(net)
    train(net, optimizer, 0, range(5))
    state = optimizer.state_dict()

    def refusal(other, **options):
        fresh = alone(other, **options)
        before = weights(other)
        text = error_of(lambda: fresh.load_state_dict(state))
        check_same(weights(other), before)
        assert fresh.steps == 0 and fresh.in_flight == 0 and "\n" not in text
        return text

    assert "width was 2 and is 3" in refusal(model(), width=3)
    assert "compressor was 'none' and is 'bf16'" in refusal(model(), compressor="bf16")
    assert "parameters differ" in refusal(nn.Linear(3, 3))
    assert "made steps already" in error_of(lambda: optimizer.load_state_dict(state))
    assert "not saved by a pipeline" in error_of(
        lambda: alone(model()).load_state_dict(optimizer.inner.state_dict()))
    two = LocalRanks(2).averager(1)
    other = model()
    moved = Optimizer(sgd(other.parameters()), other, averager=two)
    assert "is of rank 0 of 1, this is rank 1 of 2" in error_of(lambda: moved.load_state_dict(state))


def test_a_job_of_another_size_takes_the_means_and_drops_the_shares():
    states = []

    def then(step, nets, wrapped):
        if step == 5:
            states.append((wrapped[0].state_dict(), [w.clone() for w in wrapped[0]._committed]))

    emulated(3, 6, then=then, compressor="int8")
    state, committed = states[0]
    meeting = LocalRanks(2)
    nets = [model() for _ in range(2)]
    wrapped = [Optimizer(sgd(net.parameters()), net, averager=meeting.averager(rank), compressor="int8",
                         hash_every=1) for rank, net in enumerate(nets)]
    for one in wrapped:
        one.load_state_dict(copy.deepcopy(state), resized=True)
        check_same(one._committed, committed)
        assert one.in_flight == 1 and one.updates == 5
        assert all(not r.any() for r in one.engine.feedback.residuals)
    for step in range(6, 10):
        for rank, net in enumerate(nets):
            wrapped[rank].zero_grad()
            backward(net, rank, step)
        lockstep(one.stepping() for one in wrapped)
    lockstep(one.flushing() for one in wrapped)
    check_same(weights(nets[0]), weights(nets[1]))
    assert wrapped[0].updates == 10  # Five before, the one under way, four since.


def test_a_killed_rank_is_named_by_the_others_and_the_job_goes_on_from_its_checkpoint(tmp_path):
    """The survivors' timeout is ten minutes. The job started anew ends with the weights of one that
    was never killed."""

    def life(rank, number):
        net = DDP(model())
        optimizer = pipeline.register(net, sgd(net.parameters()), compressor="top-k:0.2")
        file, begin = tmp_path / f"state-{rank}", 0
        if file.exists():
            optimizer.load_state_dict(torch.load(file, weights_only=True))
            begin = optimizer.steps
        for step in range(begin, 12):
            if number == 0 and rank == 1 and step == 7:
                (tmp_path / "killed").write_text(str(time.time()))
                os.kill(os.getpid(), signal.SIGKILL)
            train(net, optimizer, rank, range(step, step + 1))
            if step == 4:
                torch.save(optimizer.state_dict(), file)
        optimizer.flush()
        return weights(net), begin

    def first(rank, size):
        text = error_of(lambda: life(rank, 0))
        return text, time.time() - float((tmp_path / "killed").read_text())

    results = run(3, first, timeout=600, limit=60)
    assert isinstance(results[1], Killed)
    for text, seconds in (results[0], results[2]):
        assert "rank 1" in text, text
        print(f"a survivor raised {seconds:.2f} s after the death")

    def second(rank, size):
        mine, begin = life(rank, 1)
        check_same(mine, weights(emulated(3, 12, compressor="top-k:0.2")[rank]))
        return begin

    assert run(3, second) == [5, 5, 5]


def test_sharded_models_are_refused():
    def body(rank, size):
        from torch.distributed.device_mesh import init_device_mesh
        from torch.distributed.fsdp import FullyShardedDataParallel, fully_shard

        net = model()
        fully_shard(net, mesh=init_device_mesh("cpu", (size,)))
        texts = [error_of(lambda: Optimizer(sgd(net.parameters()), net)),
                 error_of(lambda: Optimizer(sgd(net.parameters())))]
        old = FullyShardedDataParallel(model(), device_id=torch.device("cpu"))
        texts.append(error_of(lambda: Optimizer(sgd(old.parameters()), old)))
        return texts

    for texts in run(2, body):
        for text in texts:
            assert "sharded (FSDP, DTensor)" in text and "\n" not in text, text


def test_sparse_gradients_are_refused():
    net = nn.Embedding(10, 3, sparse=True)
    optimizer = alone(net, lambda p: torch.optim.SGD(p, lr=0.1))
    net(torch.tensor([1, 2])).sum().backward()
    assert "a gradient is sparse" in error_of(optimizer.step)


def test_bad_input_is_one_line():
    frozen = model()
    for parameter in frozen.parameters():
        parameter.requires_grad_(False)
    cases = [
        (lambda: alone(frozen), "no parameter that wants a gradient"),
        (lambda: alone(model(), width=0), "width must be 1 to 8 or \"auto\", not 0"),
        (lambda: alone(model(), forecast="best"), "forecast must be one of auto, none"),
        (lambda: alone(model(), correction=2), "correction must be 0 to 1, not 2"),
        (lambda: alone(model(), compressor="zip"), "no compressor 'zip'; there are none, bf16"),
        (lambda: alone(model(), compressor="top-k:2"), "the share must be above 0 and at most 1"),
        (lambda: alone(model(), compressor="qsgd:500"), "levels must be 1 to 127, not 500"),
        (lambda: alone(model(), guard=GuardOptions(patience=0)), "guard patience must be at least 1"),
        (lambda: alone(model().double(), compressor="bf16"), "compressors take float32"),
        (lambda: alone(model(), lambda p: torch.optim.LBFGS(p)), "LBFGS cannot be wrapped"),
        (lambda: Optimizer(alone(model()), None), "it has a pipeline already"),
        (lambda: Optimizer(sgd(model().parameters())), "init_process_group first"),
        (lambda: Optimizer("sgd"), "wraps a torch optimiser, not a str"),
        (lambda: alone(model(), fresh=(torch.zeros(1),)), "fresh names what is no parameter"),
        (lambda: alone(model()).step(lambda: 0), "step() takes no closure"),
        (lambda: alone(model()).add_param_group({}), "parameters cannot be added"),
        (lambda: Optimizer(sgd(model().parameters()), averager=LocalRanks(64).averager(0),
                           compressor="int8"), "63 ranks at most, use bf16"),
    ]
    for call, part in cases:
        text = error_of(call)
        assert part in text and "\n" not in text, text


LOSSY = ("bf16", "fp16", "int8", "top-k:0.05", "qsgd:64")


def exchanged(spec, shares, step=0):
    """[(own, mean)] by rank, of shares by rank, each a flat tensor."""
    meeting = LocalRanks(len(shares))
    averagers = [meeting.averager(rank) for rank in range(len(shares))]
    coders = [encoders.make(spec) for _ in shares]
    sent = lockstep(coder.send([share.clone()], step, averager)
                    for coder, share, averager in zip(coders, shares, averagers))
    return [(sending[0].own, sending[0].wait()) for sending in sent]


@pytest.mark.parametrize("spec", LOSSY)
def test_the_mean_is_the_sum_of_decoded_shares_and_the_same_everywhere(spec):
    torch.manual_seed(3)
    shares = [torch.randn(1000) * 10.0 ** torch.randint(-3, 2, (1000,)) for _ in range(4)]
    results = exchanged(spec, shares)
    total = results[0][0].clone()
    for own, _ in results[1:]:
        total += own
    for own, mean in results:
        assert torch.equal(mean, results[0][1])
        # Equal up to the rounding of the sum's own type.
        assert torch.allclose(mean, total, rtol=1e-2, atol=1e-2 * float(total.abs().max()) / 100)
        assert own.shape == mean.shape == (1000,)
    wanted = sum(shares)
    if not spec.startswith("top-k"):
        assert (results[0][1] - wanted).norm() < 0.3 * wanted.norm()


@pytest.mark.parametrize("spec", LOSSY)
def test_what_is_not_finite_travels_and_is_never_owed(spec):
    for bad in (math.nan, math.inf):
        shares = [torch.linspace(-1, 1, 600) for _ in range(3)]
        shares[1][7] = bad
        results = exchanged(spec, shares)
        for _, mean in results:
            assert not math.isfinite(mean[7])
        feedback = encoders.Feedback([torch.zeros(600)])
        feedback.add([shares[1].clone()])
        feedback.owe([encoders.Sending(results[1][0], None)])
        assert torch.isfinite(feedback.residuals[0]).all()


@pytest.mark.parametrize("spec", ["bf16", "fp16", "int8", "top-k:0.05"])
def test_error_feedback_sends_in_the_long_run_what_was_wanted(spec):
    """Of a constant share: the sum of what was sent is steps times it, up to what is owed now."""
    share = torch.linspace(-1, 1, 300) ** 3 + 1e-4
    coder, averager = encoders.make(spec), LocalRanks(1).averager(0)
    feedback, total = encoders.Feedback([share]), torch.zeros(300, dtype=torch.float64)
    for step in range(50):
        shares = [share.clone()]
        feedback.add(shares)
        sendings = lockstep([coder.send(shares, step, averager)])[0]
        feedback.owe(sendings)
        total += sendings[0].own
        sendings[0].wait()
    assert torch.allclose(total + feedback.residuals[0], 50 * share.double(), atol=1e-4)


def test_qsgd_is_unbiased():
    share = torch.linspace(-1, 1, 256)
    mean = sum(exchanged("qsgd:4", [share], step)[0][1].double() for step in range(800)) / 800
    # Levels are norm / 4 apart: 2.3 here; one rounding deviates by at most half of that.
    assert (mean - share).abs().max() < 5 * 1.2 / math.sqrt(800)


def test_witnesses_tell_any_difference_of_one_bit():
    tensors = [torch.linspace(0, 1, 100), torch.ones(3, dtype=torch.float64)]
    number = witnesses.hash_of_bits(tensors)
    other = [tensors[0].clone(), tensors[1]]
    other[0].view(torch.int32)[50] ^= 1
    assert witnesses.hash_of_bits(other) != number
    assert witnesses.hash_of_bits([tensors[1], tensors[0]]) != number

    def sums(numbers):
        return [sum(x) for x in zip(*map(witnesses.witnesses_of, numbers))]

    assert witnesses.agree(sums([number] * 5), 5)
    for bit in range(64):
        assert not witnesses.agree(sums([number] * 4 + [number ^ (1 << bit)]), 5)
