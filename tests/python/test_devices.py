"""Tensors of an accelerator: every call, on the test device (toy_device/) and, where there is one, on
CUDA. What can only be seen from inside the device is in test_device_order.py."""

import datetime
import functools

import pytest
import torch
import torch._dynamo  # DDP and FSDP import it, which takes seconds: once, before ranks are forked.
import torch.distributed as dist
from torch.distributed import ReduceOp

import sumcast.torch
import toy
from ranks import error_of, run
from test_collectives import oracle, pairs, same, values

PIECE = 4 << 20  # Bytes; python/csrc/staging.cc.
CUDA = pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
KINDS = pytest.mark.parametrize("kind", [  # "ahead": sumcast.torch.queue_ahead().
    "toy", "toy ahead", pytest.param("cuda", marks=CUDA), pytest.param("cuda ahead", marks=CUDA)])


@pytest.fixture(scope="session", autouse=True)
def toy_device():
    toy.build()


def run_on(kind, size, body, **options):
    """body(rank, size, device) on every rank; no copy may have met memory that was gone."""
    def with_device(rank, size):
        result = body(rank, size, toy.device_of(kind, rank))
        if kind.startswith("toy"):
            assert toy.load().faults() == 0
        return result

    return run(size, with_device, prepare=functools.partial(toy.device_of, kind), **options)


@KINDS
def test_memory_of_a_device_is_not_what_the_host_sees(kind):
    def body(rank, size, device):
        tensor = torch.arange(1, 5, dtype=torch.uint8, device=device)
        assert tensor.cpu().tolist() == [1, 2, 3, 4]
        if kind.startswith("toy"):
            assert toy.load().raw_byte(tensor) == 1 ^ 0x5A

    run_on(kind, 1, body)


@KINDS
def test_all_reduce_of_every_type_and_reduction(kind):
    def body(rank, size, device):
        for dtype, op in pairs():
            for shape in [(), (0,), (3, 5)]:
                tensor = values(dtype, shape, rank).to(device)
                dist.all_reduce(tensor, op)
                wanted = oracle(op, [values(dtype, shape, r) for r in range(size)])
                assert same(tensor.cpu(), wanted), (dtype, op, shape, tensor.cpu(), wanted)

    run_on(kind, 2, body)


@KINDS
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.complex64, torch.bool],
                         ids=str)
def test_every_collective(kind, dtype):
    def body(rank, size, device):
        mine = values(dtype, (size, 3), rank)
        every = torch.stack([values(dtype, (size, 3), r) for r in range(size)])
        total = oracle(ReduceOp.SUM, list(every))

        def fresh():
            return mine.to(device)

        def room(*shape):
            return torch.zeros(*shape, dtype=dtype, device=device)

        def check(tensor, wanted, what):
            assert same(tensor.cpu(), wanted), (what, tensor.cpu(), wanted)

        tensor = fresh()
        dist.reduce(tensor, 1)
        check(tensor, total if rank == 1 else mine, "reduce")
        tensor = fresh()
        dist.broadcast(tensor, 1)
        check(tensor, every[1], "broadcast")
        out = room(size * size, 3)
        dist.all_gather_into_tensor(out, fresh())
        check(out, every.reshape(-1, 3), "all_gather_into_tensor")
        outs = [room(size, 3) for _ in range(size)]
        dist.all_gather(outs, fresh())
        check(torch.stack([one.cpu() for one in outs]), every, "all_gather")
        out = room(1, 3)
        dist.reduce_scatter_tensor(out, fresh())
        check(out, total[rank:rank + 1], "reduce_scatter_tensor")
        out = room(3)
        dist.reduce_scatter(out, list(fresh()))
        check(out, total[rank], "reduce_scatter")
        outs = [room(size, 3) for _ in range(size)] if rank == 1 else None
        dist.gather(fresh(), outs, dst=1)
        if rank == 1:
            check(torch.stack([one.cpu() for one in outs]), every, "gather")
        out = room(3)
        dist.scatter(out, list(fresh()) if rank == 1 else None, src=1)
        check(out, every[1][rank], "scatter")
        outs = [room(3) for _ in range(size)]
        dist.all_to_all(outs, list(fresh()))
        check(torch.stack([one.cpu() for one in outs]), every[:, rank], "all_to_all")
        out = room(size, 3)
        dist.all_to_all_single(out, fresh())
        check(out, every[:, rank], "all_to_all_single")
        dist.barrier()

    run_on(kind, 3, body)


@KINDS
def test_uneven_all_to_all_and_lists_of_lists(kind):
    def body(rank, size, device):
        # Rank r sends r + 1 rows to each.
        mine = torch.full(((rank + 1) * size, 2), float(rank), device=device)
        out = torch.empty(sum(r + 1 for r in range(size)), 2, device=device)
        dist.all_to_all_single(out, mine, [r + 1 for r in range(size)], [rank + 1] * size)
        wanted = torch.cat([torch.full((r + 1, 2), float(r)) for r in range(size)])
        assert torch.equal(out.cpu(), wanted)

        tensors = [torch.full((n,), float(rank + n), device=device) for n in (1, 4, 0)]
        with dist._coalescing_manager(device=device, async_ops=True) as manager:
            for tensor in tensors:
                dist.all_reduce(tensor)
        manager.wait()
        for tensor, n in zip(tensors, (1, 4, 0)):
            assert tensor.tolist() == [float(sum(r + n for r in range(size)))] * n
        dist.all_reduce_coalesced(tensors)
        assert tensors[0].item() == size * sum(r + 1 for r in range(size))

    run_on(kind, 3, body)


@KINDS
def test_point_to_point(kind):
    def body(rank, size, device):
        other = 1 - rank
        large = 100_000  # Waits for the receiver.
        for count in (0, 3, large):
            mine = torch.full((count,), float(rank + 1), device=device)
            theirs = torch.zeros(count, device=device)
            works = dist.batch_isend_irecv([dist.P2POp(dist.isend, mine, other),
                                            dist.P2POp(dist.irecv, theirs, other)])
            for work in works:
                work.wait()
            assert torch.equal(theirs.cpu(), torch.full((count,), float(other + 1)))
        # Of one pair and tag, in the order in which they were posted, whatever memory they are in.
        if rank == 0:
            for number in range(20):
                dist.isend(torch.tensor([float(number)], device=device if number % 3 else "cpu"), 1)
        else:
            got = [torch.zeros(1, device=device if number % 2 else "cpu") for number in range(20)]
            for work in [dist.irecv(one, 0) for one in got]:
                work.wait()
            assert [one.item() for one in got] == list(range(20))
        tensor = torch.full((2,), float(rank), device=device)
        if rank == 0:
            dist.send(tensor, 1, tag=7)
        else:
            assert dist.recv(tensor, tag=7) == 0
            assert tensor.tolist() == [0, 0]

    run_on(kind, 2, body)


@KINDS
def test_tensors_that_are_not_contiguous(kind):
    def body(rank, size, device):
        sum_of = sum(range(1, size + 1))
        base = torch.arange(24.0).reshape(4, 6)
        for view in (lambda t: t.t(), lambda t: t[:, ::2], lambda t: t[1]):
            whole = (base * (rank + 1)).to(device)
            dist.all_reduce(view(whole))
            wanted = base * (rank + 1)
            view(wanted).copy_(view(base * sum_of))
            assert torch.equal(whole.cpu(), wanted)
        numbers = torch.complex(base, base + 1)
        tensor = (numbers * (rank + 1)).to(device)
        backend = dist.group.WORLD._get_backend(device)  # torch.distributed itself takes no such view.
        backend.allreduce([tensor.conj()]).wait()
        assert torch.equal(tensor.cpu(), numbers * sum_of)
        # A target of pieces, too.
        long = torch.zeros(2, PIECE // 4 + 100, device=device)
        long[:, 1:].t().fill_(1)
        dist.all_reduce(long.t())
        wanted = torch.full((2, PIECE // 4 + 100), float(size))
        wanted[:, 0] = 0
        assert torch.equal(long.cpu(), wanted)
        target = torch.zeros(2, PIECE // 4 + 100, device=device)
        dist.broadcast(target.t() if rank else long.t(), 0)
        assert torch.equal((target if rank else long).cpu(), wanted)

    run_on(kind, 2, body)


@KINDS
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.complex64], ids=str)
def test_pieces_give_the_bits_of_the_whole(kind, dtype):
    def body(rank, size, device):
        count = int(3.3 * PIECE) // dtype.itemsize
        generator = torch.Generator().manual_seed(rank)
        mine = torch.randn(count, generator=generator).to(dtype)
        wanted = mine.clone()
        dist.all_reduce(wanted)
        before = sumcast.torch.stats()
        tensor = mine.to(device)
        dist.all_reduce(tensor)
        assert torch.equal(tensor.cpu().view(torch.uint8), wanted.view(torch.uint8))
        tensor = mine.to(device)
        dist.reduce(tensor, 0)
        assert torch.equal(tensor.cpu(), wanted if rank == 0 else mine)
        dist.broadcast(tensor, 0)
        assert torch.equal(tensor.cpu(), wanted)
        dist.barrier()
        after = sumcast.torch.stats()
        operations = [after["groups"]["0"][name]["count"] - before["groups"]["0"].get(
            name, {"count": 0})["count"] for name in ("all_reduce", "reduce", "broadcast")]
        assert operations == [1, 1, 1]  # One each, of four pieces.
        moved = after["groups"]["0"]["all_reduce"]["bytes"]
        assert moved == 2 * count * dtype.itemsize

    run_on(kind, 2, body)


@KINDS
def test_stats_count_what_was_copied(kind):
    def body(rank, size, device):
        for _ in range(3):
            tensor = torch.ones(1000, device=device)
            dist.all_reduce(tensor)
        dist.destroy_process_group()  # All copies have been looked at.
        staged = sumcast.torch.stats()["staging"]
        assert (staged["operations"], staged["bytes_in"], staged["bytes_out"]) == (3, 12000, 12000)
        assert staged["seconds_in"] > 0 and staged["seconds_out"] > 0

    run_on(kind, 2, body)


@KINDS
def test_premultiplied_sums(kind):
    def body(rank, size, device):
        tensor = torch.full((5,), float(rank + 1), device=device)
        dist.all_reduce(tensor, dist._make_nccl_premul_sum(0.5))
        assert tensor.tolist() == [1.5] * 5
        factor = torch.tensor(float(rank + 2), device=device)
        tensor = torch.ones(5, device=device)
        dist.all_reduce(tensor, dist._make_nccl_premul_sum(factor))
        assert tensor.tolist() == [5] * 5

    run_on(kind, 2, body)


@KINDS
def test_calls_on_cpu_and_device_tensors_go_in_one_order(kind):
    def body(rank, size, device):
        works, tensors = [], []
        for number in range(30):
            place = device if (number * 7) % 3 else "cpu"
            tensors.append(torch.full((number * 10 + 1,), float(number + rank), device=place))
            works.append(dist.all_reduce(tensors[-1], async_op=True))
        for work in works:
            work.wait()
        for number, tensor in enumerate(tensors):
            assert tensor.unique().tolist() == [2 * number + 1]

    run_on(kind, 2, body)


@KINDS
def test_bad_calls_raise_where_they_are_made(kind):
    def body(rank, size, device):
        both = [torch.ones(2, device=device), torch.ones(2)]
        text = error_of(lambda: dist.all_gather(both, torch.ones(2, device=device)))
        assert "all tensors of a call are on one device" in text and str(device) in text, text
        text = error_of(lambda: dist.all_reduce(torch.ones(2, device=device), ReduceOp.BAND))
        assert "does not do BAND of Float" in text, text
        text = error_of(lambda: dist.broadcast(torch.ones(2, device=device), 5))
        assert "5" in text, text
        tensor = torch.ones(2, device=device)
        dist.all_reduce(tensor)  # Nothing was begun by those.
        assert tensor.tolist() == [2, 2]

    run_on(kind, 2, body)


@KINDS
def test_a_rank_that_does_not_come_ends_the_call_in_time(kind):
    def body(rank, size, device):
        tensor = torch.ones(10, device=device)
        store = dist.distributed_c10d._get_default_store()
        if rank == 0:
            work = dist.all_reduce(tensor, async_op=True)
            text = error_of(work.get_future().wait if "ahead" in kind else work.wait)
            assert "timeout" in text and "all_reduce" in text, text
            assert "all_reduce" in error_of(lambda: dist.all_reduce(tensor))
            store.set("over", "")
        else:
            store.wait(["over"], datetime.timedelta(seconds=30))

    run_on(kind, 2, body, timeout=2)


@KINDS
@pytest.mark.parametrize("backend", ["sumcast", "both"])
def test_ddp_trains_to_the_weights_of_the_cpu(kind, backend):
    def body(rank, size, device):
        def train(place):
            torch.manual_seed(1)
            model = torch.nn.Sequential(torch.nn.Linear(20, 30), torch.nn.ReLU(),
                                        torch.nn.Linear(30, 4)).to(place)
            ddp = torch.nn.parallel.DistributedDataParallel(
                model, device_ids=None if place == "cpu" else [place.index], bucket_cap_mb=0.001)
            optimizer = torch.optim.SGD(ddp.parameters(), lr=0.1)
            generator = torch.Generator().manual_seed(100 + rank)
            for _ in range(4):
                batch = torch.randn(8, 20, generator=generator)
                optimizer.zero_grad()
                ddp(batch.to(place)).square().mean().backward()
                optimizer.step()
            return [parameter.detach().cpu() for parameter in model.parameters()]

        for here, there in zip(train(device), train("cpu")):
            assert torch.equal(here, there) if device.type == "toy" else torch.allclose(here, there)

    name = "sumcast" if backend == "sumcast" else f"cpu:sumcast,{kind.split()[0]}:sumcast"
    run_on(kind, 2, body, backend=name)


@KINDS
def test_groups_and_meshes(kind):
    def body(rank, size, device):
        half = dist.new_group([0, 1])
        tensor = torch.full((3,), float(rank), device=device)
        if rank < 2:
            dist.all_reduce(tensor, group=half)
            assert tensor.tolist() == [1, 1, 1]
        mesh = dist.init_device_mesh(device.type, (2, 2), mesh_dim_names=("a", "b"))
        tensor = torch.full((3,), float(rank), device=device)
        dist.all_reduce(tensor, group=mesh.get_group("a"))
        assert tensor.tolist() == [2 * (rank % 2) + 2] * 3

    run_on(kind, 4, body)


@KINDS
def test_fsdp2_trains_to_the_weights_of_the_cpu(kind):
    """Layers are gathered and their gradients scattered on streams of FSDP's own."""

    def body(rank, size, device):
        from torch.distributed.fsdp import fully_shard

        def train(place):
            torch.manual_seed(3)
            model = torch.nn.Sequential(torch.nn.Linear(20, 30), torch.nn.ReLU(),
                                        torch.nn.Linear(30, 18), torch.nn.Tanh()).to(place)
            mesh = dist.init_device_mesh(torch.device(place).type, (size,))
            for layer in (model[0], model[2]):
                fully_shard(layer, mesh=mesh)
            fully_shard(model, mesh=mesh)
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
            generator = torch.Generator().manual_seed(100 + rank)
            for _ in range(4):
                batch = torch.randn(8, 20, generator=generator)
                optimizer.zero_grad()
                model(batch.to(place)).square().mean().backward()
                optimizer.step()
            return [parameter.full_tensor().detach().cpu() for parameter in model.parameters()]

        for here, there in zip(train(device), train("cpu")):
            assert torch.equal(here, there) if device.type == "toy" else torch.allclose(here, there)

    run_on(kind, 2, body)


@KINDS
def test_a_callback_may_begin_and_await_a_further_call(kind):
    def body(rank, size, device):
        first = torch.full((1000,), float(rank + 1), device=device)
        second = torch.zeros(1000, device=device)

        def chain(future):
            second.copy_(future.value()[0])  # In the order of the device.
            return dist.all_reduce(second, async_op=True).get_future().wait()[0]

        dist.all_reduce(first, async_op=True).get_future().then(chain).wait()
        assert first.cpu().unique().tolist() == [3] and second.cpu().unique().tolist() == [6]

    run_on(kind, 2, body)


@KINDS
def test_a_communication_hook_of_ddp_may_chain_to_its_call(kind):
    """In 16 bits; what is chained runs in the order of the device."""

    def body(rank, size, device):
        def hook(state, bucket):
            small = (bucket.buffer() / size).to(torch.bfloat16)
            future = dist.all_reduce(small, async_op=True).get_future()
            return future.then(lambda done: bucket.buffer().copy_(done.value()[0]))

        def train(place):
            torch.manual_seed(1)
            model = torch.nn.Sequential(torch.nn.Linear(20, 30), torch.nn.Tanh(),
                                        torch.nn.Linear(30, 4)).to(place)
            ddp = torch.nn.parallel.DistributedDataParallel(model)
            ddp.register_comm_hook(None, hook)
            generator = torch.Generator().manual_seed(100 + rank)
            for _ in range(2):
                ddp.zero_grad()
                ddp(torch.randn(8, 20, generator=generator).to(place)).square().mean().backward()
            return [parameter.grad.cpu() for parameter in model.parameters()]

        for here, there in zip(train(device), train("cpu")):
            assert torch.equal(here, there) if device.type == "toy" else torch.allclose(here, there)

    run_on(kind, 2, body)
