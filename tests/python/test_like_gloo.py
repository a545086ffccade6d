"""What trains over gloo trains over Sumcast, to the same weights: the same program over both, by turns.

Sums differ in the order of their additions, so weights are compared within rounding; on the ranks of
one run they are equal bit for bit.
"""

import contextlib

import numpy
import pytest
import torch
import torch._dynamo  # DDP and FSDP import it, which takes seconds: once, before ranks are forked.
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP

from ranks import run
from test_training import Transformer, batch, check_equal_on_all_ranks, model, tokens_of


def weights_of(net):
    """Whole ones, also of what is sharded."""
    return [(p.full_tensor() if hasattr(p, "full_tensor") else p).detach().clone()
            for p in net.parameters()]


def check_like_gloo(body, size=3, atol=1e-5):
    """body(rank, size) returns tensors, which may be others on other ranks."""
    def in_numbers(rank, size):
        return [tensor.numpy() for tensor in body(rank, size)]

    ours, theirs = (run(size, in_numbers, backend=backend) for backend in ("sumcast", "gloo"))
    for mine, other in zip(ours, theirs):
        assert mine and len(mine) == len(other) and any(one.any() for one in other)
        for one, wanted in zip(mine, other):
            assert numpy.allclose(one, wanted, atol=atol), abs(one - wanted).max()


def steps_of(net, rank, steps, loss_of, context=contextlib.nullcontext, lr=0.1):
    optimizer = torch.optim.SGD(net.parameters(), lr=lr, momentum=0.9)
    for step in range(steps):
        optimizer.zero_grad()
        with context():
            loss = loss_of(step)
        loss.backward()
        optimizer.step()


def classify(net, rank, step):
    inputs, labels = batch(rank, step)
    return F.cross_entropy(net(inputs), labels)


class Branching(nn.Module):
    """Of two branches a step uses one, not the same on all ranks; a third is never used."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(2)
        self.always, self.left, self.right, self.never = (nn.Linear(20, 20) for _ in range(4))

    def forward(self, x, go_left):
        return (self.left if go_left else self.right)(torch.tanh(self.always(x)))


@pytest.mark.parametrize("is_static", [False, True], ids=["each step anew", "static graph"])
def test_unused_parameters(is_static):
    def body(rank, size):
        net = DDP(Branching(), static_graph=is_static, find_unused_parameters=not is_static)
        go_left = lambda step: rank == 0 if is_static else (rank + step) % 2 == 0
        steps_of(net, rank, 5, lambda step: net(batch(rank, step)[0], go_left(step)).square().mean())
        assert torch.equal(net.module.never.weight, Branching().never.weight)
        check_equal_on_all_ranks(weights_of(net))
        return weights_of(net)

    check_like_gloo(body)


def test_a_static_graph_whose_layers_are_used_twice_and_recomputed():
    from torch.utils.checkpoint import checkpoint

    def body(rank, size):
        torch.manual_seed(4)
        twice, last = nn.Linear(20, 20), nn.Linear(20, 4)

        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.twice, self.last = twice, last

            def forward(self, x):
                for _ in range(2):
                    x = checkpoint(lambda y: torch.tanh(self.twice(y)), x, use_reentrant=False)
                return self.last(x)

        net = DDP(Net(), static_graph=True, bucket_cap_mb=0.001)
        steps_of(net, rank, 5, lambda step: classify(net, rank, step))
        check_equal_on_all_ranks(weights_of(net))
        return weights_of(net)

    check_like_gloo(body)


def test_no_sync_accumulation():
    def body(rank, size):
        net = DDP(model(), gradient_as_bucket_view=True)
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
        for step in range(0, 9, 3):
            optimizer.zero_grad()
            for part in range(3):
                with net.no_sync() if part < 2 else contextlib.nullcontext():
                    classify(net, rank, step + part).backward()
            optimizer.step()
        check_equal_on_all_ranks(weights_of(net))
        return weights_of(net)

    check_like_gloo(body)


@pytest.mark.parametrize("divide_by_first", [True, False])
def test_join_with_uneven_inputs(divide_by_first):
    from torch.distributed.algorithms.join import Join

    def body(rank, size):
        net = DDP(model())
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
        with Join([net], divide_by_initial_world_size=divide_by_first):
            for step in range(2 + 2 * rank):
                optimizer.zero_grad()
                classify(net, rank, step).backward()
                optimizer.step()
        check_equal_on_all_ranks(weights_of(net))
        return weights_of(net)

    check_like_gloo(body)


def test_join_that_throws_on_the_first_rank_without_inputs():
    from torch.distributed.algorithms.join import Join

    def body(rank, size):
        net = DDP(model())
        steps = 0
        try:
            with Join([net], throw_on_early_termination=True):
                for step in range(2 + 2 * rank):
                    classify(net, rank, step).backward()
                    steps += 1
        except RuntimeError as error:
            assert "exhausted" in str(error), error
            return [torch.tensor([steps])]
        raise AssertionError("no exception")

    check_like_gloo(body)


def test_bf16_autocast():
    def body(rank, size):
        net = DDP(model())
        steps_of(net, rank, 5, lambda step: classify(net, rank, step),
                 lambda: torch.autocast("cpu", dtype=torch.bfloat16))
        check_equal_on_all_ranks(weights_of(net))
        return weights_of(net)

    check_like_gloo(body, atol=2e-3)  # A last bit of a bf16 may fall the other way.


def test_mixed_precision_of_ddp_and_buffers_that_are_broadcast():
    def body(rank, size):
        torch.manual_seed(5)
        net = DDP(nn.Sequential(nn.Linear(20, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Linear(16, 4)))
        steps_of(net, rank, 5, lambda step: classify(net, rank, step))
        net(batch(0, 9)[0])  # Rank 0's statistics, everywhere.
        assert net.module[1].running_mean.any()
        return weights_of(net) + [net.module[1].running_mean]

    check_like_gloo(body)


def test_weights_that_are_averaged_now_and_then():
    from torch.distributed.algorithms.ddp_comm_hooks import post_localSGD_hook as local
    from torch.distributed.algorithms.model_averaging.averagers import PeriodicModelAverager
    from torch.distributed.optim import PostLocalSGDOptimizer

    def body(rank, size):
        net = DDP(model())
        state = local.PostLocalSGDState(None, dist.new_subgroups(1)[0], start_localSGD_iter=2)
        net.register_comm_hook(state, local.post_localSGD_hook)
        optimizer = PostLocalSGDOptimizer(torch.optim.SGD(net.parameters(), lr=0.1),
                                          PeriodicModelAverager(period=2, warmup_steps=2))
        for step in range(7):
            optimizer.zero_grad()
            classify(net, rank, step).backward()
            optimizer.step()
        return weights_of(net)

    check_like_gloo(body)


@pytest.mark.parametrize("kind", ["f32", "bf16", "hybrid", "accumulated", "kept gathered"])
def test_fsdp2(kind):
    def body(rank, size):
        from torch.distributed.device_mesh import init_device_mesh
        from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

        mesh = (init_device_mesh("cpu", (2, size // 2), mesh_dim_names=("replicate", "shard"))
                if kind == "hybrid" else init_device_mesh("cpu", (size,)))
        options = {"mesh": mesh}
        if kind == "bf16":
            options["mp_policy"] = MixedPrecisionPolicy(param_dtype=torch.bfloat16,
                                                        reduce_dtype=torch.float32)
        if kind == "kept gathered":
            options["reshard_after_forward"] = False
        net = Transformer()
        for layer in net.layers:
            fully_shard(layer, **options)
        fully_shard(net, **options)
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
        for step in range(4):
            if kind == "accumulated":
                net.set_requires_gradient_sync(step % 2 == 1)
            tokens = tokens_of(rank, step)
            F.cross_entropy(net(tokens).flatten(0, 1).float(), tokens.flatten()).backward()
            if kind == "accumulated" and step % 2 == 0:
                continue
            nn.utils.clip_grad_norm_(net.parameters(), 1.0)
            optimizer.step()
            optimizer.zero_grad()
        return weights_of(net)

    check_like_gloo(body, size=4, atol=5e-3 if kind == "bf16" else 1e-5)


def test_tensor_parallel_layers():
    def body(rank, size):
        from torch.distributed.device_mesh import init_device_mesh
        from torch.distributed.tensor import parallel

        net = model()
        mesh = init_device_mesh("cpu", (size,))
        parallel.parallelize_module(net, mesh, {"0": parallel.ColwiseParallel(),
                                                "2": parallel.RowwiseParallel()})
        steps_of(net, rank, 4, lambda step: classify(net, 0, step))
        return weights_of(net)

    check_like_gloo(body, size=2)


def test_stages_that_pass_on_microbatches():
    def body(rank, size):
        from torch.distributed.pipelining import PipelineStage, Schedule1F1B

        torch.manual_seed(6)
        parts = [nn.Sequential(nn.Linear(20, 20), nn.Tanh()) for _ in range(size)]
        parts[-1] = nn.Linear(20, 4)
        stage = PipelineStage(parts[rank], rank, size, torch.device("cpu"))
        schedule = Schedule1F1B(stage, n_microbatches=4, loss_fn=F.cross_entropy)
        optimizer = torch.optim.SGD(parts[rank].parameters(), lr=0.1)
        for step in range(3):
            inputs, labels = batch(0, step, rows=8)
            optimizer.zero_grad()
            schedule.step(*([inputs] if rank == 0 else []),
                          **({"target": labels} if rank == size - 1 else {}))
            optimizer.step()
        return weights_of(parts[rank])

    check_like_gloo(body)
