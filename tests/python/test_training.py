"""Training as users do it: DDP in its variants, Join, FSDP2, DeviceMesh. Compared with one process."""

import contextlib
import copy

import torch
import torch._dynamo  # DDP and FSDP import it, which takes seconds: once, before ranks are forked.
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP

from ranks import run


def model():
    torch.manual_seed(1)
    return nn.Sequential(nn.Linear(20, 50), nn.ReLU(), nn.Linear(50, 30), nn.ReLU(), nn.Linear(30, 4))


def batch(rank, step, rows=6):
    generator = torch.Generator().manual_seed(1000 * step + rank)
    return (torch.randn(rows, 20, generator=generator),
            torch.randint(0, 4, (rows,), generator=generator))


def train(net, rank, steps=4, context=contextlib.nullcontext):
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
    for step in range(steps):
        optimizer.zero_grad()
        inputs, labels = batch(rank, step)
        with context():
            loss = F.cross_entropy(net(inputs), labels)
        loss.backward()
        optimizer.step()
    return [p.detach().clone() for p in net.parameters()]


def alone(size, steps=4):
    """The same training in one process: the mean over ranks is the mean over their rows."""
    net = model()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
    for step in range(steps):
        optimizer.zero_grad()
        parts = [batch(rank, step) for rank in range(size)]
        inputs, labels = (torch.cat(x) for x in zip(*parts))
        F.cross_entropy(net(inputs), labels).backward()
        optimizer.step()
    return [p.detach().clone() for p in net.parameters()]


def check_equal_on_all_ranks(tensors):
    for tensor in tensors:
        everybody = [torch.empty_like(tensor) for _ in range(dist.get_world_size())]
        dist.all_gather(everybody, tensor)
        assert all(torch.equal(one, everybody[0]) for one in everybody)


def check_like_alone(parameters, size):
    for mine, wanted in zip(parameters, alone(size)):
        assert torch.allclose(mine, wanted, atol=1e-5), (mine - wanted).abs().max()
    check_equal_on_all_ranks(parameters)


def test_ddp_in_its_variants():
    def body(rank, size):
        for options in ({}, {"static_graph": True}, {"bucket_cap_mb": 0.001},
                        {"gradient_as_bucket_view": True}, {"find_unused_parameters": True}):
            check_like_alone(train(DDP(model(), **options), rank), size)

    run(4, body)


def test_ddp_with_unused_parameters():
    class Branching(nn.Module):
        def __init__(self):
            super().__init__()
            torch.manual_seed(2)
            self.always, self.left, self.right = nn.Linear(8, 8), nn.Linear(8, 8), nn.Linear(8, 8)

        def forward(self, x, go_left):
            return (self.left if go_left else self.right)(self.always(x))

    def body(rank, size):
        net = DDP(Branching(), find_unused_parameters=True)
        for step in range(3):
            net.zero_grad()
            net(torch.ones(2, 8), go_left=(rank + step) % 2 == 0).sum().backward()
            check_equal_on_all_ranks([p.grad for p in net.parameters()])

    run(3, body)


def test_no_sync_accumulates_and_the_last_step_sums_up():
    def body(rank, size):
        net = DDP(model())
        other = copy.deepcopy(net.module)
        with net.no_sync():
            for step in range(3):
                inputs, labels = batch(rank, step)
                F.cross_entropy(net(inputs), labels).backward()
        local = [p.grad.clone() for p in net.parameters()]
        inputs, labels = batch(rank, 3)
        F.cross_entropy(net(inputs), labels).backward()
        F.cross_entropy(other(inputs), labels).backward()
        for grad, before, last in zip((p.grad for p in net.parameters()), local,
                                      (p.grad for p in other.parameters())):
            mean = before + last
            dist.all_reduce(mean)
            assert torch.allclose(grad, mean / size, atol=1e-6)

    run(3, body)


def test_join_with_uneven_inputs():
    from torch.distributed.algorithms.join import Join

    def body(rank, size):
        net = DDP(model())
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
        with Join([net]):
            for step in range(3 + rank):
                optimizer.zero_grad()
                inputs, labels = batch(rank, step)
                F.cross_entropy(net(inputs), labels).backward()
                optimizer.step()
        check_equal_on_all_ranks([p.detach() for p in net.parameters()])

    run(3, body)


def test_bf16_autocast_and_comm_hooks():
    from torch.distributed.algorithms.ddp_comm_hooks import default_hooks

    def body(rank, size):
        autocast = lambda: torch.autocast("cpu", dtype=torch.bfloat16)
        check_equal_on_all_ranks(train(DDP(model()), rank, context=autocast))

        def bf16_hook(state, bucket):  # torch's own wants CUDA.
            future = dist.all_reduce(bucket.buffer().bfloat16() / size, async_op=True).get_future()
            return future.then(lambda done: bucket.buffer().copy_(done.value()[0]))

        for hook in (bf16_hook, default_hooks.fp16_compress_hook):
            net = DDP(model())
            net.register_comm_hook(None, hook)
            parameters = train(net, rank)
            check_equal_on_all_ranks(parameters)
            for mine, wanted in zip(parameters, alone(size)):
                assert torch.allclose(mine, wanted, atol=2e-2)

    run(3, body)


def test_zero_redundancy_optimizer():
    from torch.distributed.optim import ZeroRedundancyOptimizer

    def body(rank, size):
        net = DDP(model())
        optimizer = ZeroRedundancyOptimizer(net.parameters(), torch.optim.SGD, lr=0.1, momentum=0.9)
        for step in range(4):
            optimizer.zero_grad()
            inputs, labels = batch(rank, step)
            F.cross_entropy(net(inputs), labels).backward()
            optimizer.step()
        check_like_alone([p.detach() for p in net.parameters()], size)

    run(4, body)


class Transformer(nn.Module):
    """Two layers, small."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(3)
        self.embed = nn.Embedding(40, 32)
        self.layers = nn.ModuleList(
            nn.TransformerEncoderLayer(32, 4, 64, dropout=0, batch_first=True) for _ in range(2))
        self.head = nn.Linear(32, 40)

    def forward(self, tokens):
        hidden = self.embed(tokens)
        for layer in self.layers:
            hidden = layer(hidden)
        return self.head(hidden)


def tokens_of(rank, step):
    return torch.randint(0, 40, (2, 12), generator=torch.Generator().manual_seed(100 * step + rank))


def test_fsdp2_on_a_device_mesh_trains_as_one_process_does():
    def body(rank, size):
        from torch.distributed.device_mesh import init_device_mesh
        from torch.distributed.fsdp import fully_shard

        mesh = init_device_mesh("cpu", (size,))
        net = Transformer()
        wanted = Transformer()
        for layer in net.layers:
            fully_shard(layer, mesh=mesh)
        fully_shard(net, mesh=mesh)
        optimizer = torch.optim.AdamW(net.parameters(), lr=1e-3)
        plain = torch.optim.AdamW(wanted.parameters(), lr=1e-3)
        for step in range(3):
            tokens = tokens_of(rank, step)
            optimizer.zero_grad()
            F.cross_entropy(net(tokens).flatten(0, 1), tokens.flatten()).backward()
            optimizer.step()
            plain.zero_grad()
            every = torch.cat([tokens_of(r, step) for r in range(size)])
            F.cross_entropy(wanted(every).flatten(0, 1), every.flatten()).backward()
            plain.step()
        for mine, theirs in zip(net.parameters(), wanted.parameters()):
            whole = mine.full_tensor()
            assert torch.allclose(whole, theirs, atol=1e-4), (whole - theirs).abs().max()

    run(4, body)


def test_a_mesh_of_two_dimensions_has_groups_of_its_own():
    def body(rank, size):
        from torch.distributed.device_mesh import init_device_mesh
        from torch.distributed.tensor import DTensor, Replicate, Shard, distribute_tensor

        mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("replicate", "shard"))
        tensor = torch.tensor([float(rank)])
        dist.all_reduce(tensor, group=mesh.get_group("shard"))
        assert tensor.item() == (1 if rank < 2 else 5)
        dist.all_reduce(tensor, group=mesh.get_group("replicate"))
        assert tensor.item() == 6
        whole = torch.arange(32.0).reshape(8, 4)
        shared = distribute_tensor(whole, mesh, [Replicate(), Shard(0)])
        assert torch.equal(shared.full_tensor(), whole)
        again = shared.redistribute(mesh, [Shard(1), Replicate()])
        assert torch.equal(again.full_tensor(), whole)
        product = (shared @ distribute_tensor(whole.t().contiguous(), mesh,
                                              [Replicate(), Replicate()])).full_tensor()
        assert torch.equal(product, whole @ whole.t())
        assert isinstance(again, DTensor)

    run(4, body)


def test_a_distributed_checkpoint_is_saved_and_loaded(tmp_path):
    def body(rank, size):
        import torch.distributed.checkpoint as checkpoint

        net = DDP(model())
        train(net, rank, steps=1)
        checkpoint.save({"net": net.module.state_dict()}, checkpoint_id=str(tmp_path / "c"))
        other = model()
        state = {"net": other.state_dict()}
        checkpoint.load(state, checkpoint_id=str(tmp_path / "c"))
        other.load_state_dict(state["net"])
        assert all(torch.equal(a, b) for a, b in zip(other.parameters(), net.module.parameters()))

    run(2, body)


def test_communication_hooks_that_wait_for_further_operations():
    """PowerSGD begins operations in a callback and waits for them there."""
    from torch.distributed.algorithms.ddp_comm_hooks import powerSGD_hook

    def body(rank, size):
        net = DDP(model())
        state = powerSGD_hook.PowerSGDState(None, matrix_approximation_rank=1, start_powerSGD_iter=2,
                                            min_compression_rate=1)
        net.register_comm_hook(state, powerSGD_hook.powerSGD_hook)
        check_equal_on_all_ranks(train(net, rank, steps=6))
        return True

    assert all(run(2, body, limit=60))
