"""Tensors of every layout and size through every call: strided, of zero dimensions, of no elements."""

import pytest
import torch
import torch.distributed as dist

from ranks import run
from test_collectives import PATHS

SIZE = 3


def plain(shape):
    return torch.zeros(shape)


def strided(shape):
    """Neither rows nor columns follow one another; of zero dimensions: one element of many."""
    wide = torch.zeros([2 * n + 1 for n in reversed(shape)] or [5])
    if not shape:
        return wide[3]
    return wide.permute(*reversed(range(len(shape))))[tuple(slice(1, None, 2) for _ in shape)]


LAYOUTS = pytest.mark.parametrize("make", [plain, strided])
SHAPES = pytest.mark.parametrize("shape", [(), (0,), (2, 0), (1,), (4, 3)], ids=str)


def numbered(make, shape, start):
    tensor = make(shape)
    tensor.copy_(torch.arange(tensor.numel()).reshape(shape) + float(start))
    return tensor


def check(tensor, shape, start, what):
    wanted = torch.arange(torch.Size(shape).numel()).reshape(shape) + float(start)
    assert torch.equal(tensor, wanted), (what, tensor, wanted)


@PATHS
@LAYOUTS
@SHAPES
def test_every_call_takes_it(path, make, shape):
    def body(rank, size):
        count = torch.Size(shape).numel()

        def mine():
            return numbered(make, shape, 100 * rank)

        def room():
            return [make(shape) for _ in range(size)]

        for name, call in (("reduce", lambda t: dist.reduce(t, 1)), ("all_reduce", dist.all_reduce)):
            tensor = mine()
            call(tensor)
            if name == "all_reduce" or rank == 1:
                wanted = 3.0 * torch.arange(count).reshape(shape) + 300
                assert torch.equal(tensor, wanted), (name, tensor, wanted)
        tensor = mine()
        dist.broadcast(tensor, 2)
        check(tensor, shape, 200, "broadcast")
        outs = room()
        dist.all_gather(outs, mine())
        for r, out in enumerate(outs):
            check(out, shape, 100 * r, "all_gather")
        outs = room() if rank == 0 else None
        dist.gather(mine(), outs, dst=0)
        for r, out in enumerate(outs or []):
            check(out, shape, 100 * r, "gather")
        out = make(shape)
        dist.scatter(out, [numbered(make, shape, 10 * r) for r in range(size)] if rank == 1 else None,
                     src=1)
        check(out, shape, 10 * rank, "scatter")
        out = make(shape)
        dist.reduce_scatter(out, [numbered(make, shape, 10 * r) for r in range(size)], dist.ReduceOp.MAX)
        check(out, shape, 10 * rank, "reduce_scatter")
        outs = room()
        dist.all_to_all(outs, [numbered(make, shape, 100 * rank + r) for r in range(size)])
        for r, out in enumerate(outs):
            check(out, shape, 100 * r + rank, "all_to_all")
        out = make(shape)
        receive = dist.irecv(out, (rank - 1) % size)
        dist.send(mine(), (rank + 1) % size)
        receive.wait()
        check(out, shape, 100 * ((rank - 1) % size), "send and recv")

    run(SIZE, body, environment=path)


@PATHS
@LAYOUTS
@SHAPES
def test_every_call_with_one_flat_tensor_takes_it(path, make, shape):
    """What torch cuts along the first dimension; c10d wants the outside contiguous or not at all."""

    def body(rank, size):
        whole = (size, *shape)
        out = make(whole)
        dist.all_gather_into_tensor(out, numbered(make, shape, 100 * rank))
        for r in range(size):
            check(out[r], shape, 100 * r, "all_gather_into_tensor")
        count = torch.Size(shape).numel()
        out = make(shape)
        dist.reduce_scatter_tensor(out, numbered(make, whole, 0))
        wanted = 3.0 * (torch.arange(count).reshape(shape) + rank * count)
        assert torch.equal(out, wanted), (out, wanted)
        out = make(whole)
        dist.all_to_all_single(out, numbered(make, whole, 1000 * rank))
        for r in range(size):
            check(out[r], shape, 1000 * r + rank * count, "all_to_all_single")

    run(SIZE, body, environment=path)


@PATHS
def test_more_than_two_gibibytes_in_one_call(path):
    """Bytes and offsets beyond 32 bits, with messages as with collectives."""

    def body(rank, size):
        count = 2**31 + 9
        spots = [0, 1, 2**31 - 1, 2**31, count - 1]
        tensor = torch.zeros(count, dtype=torch.uint8)
        if rank == 0:
            for number, spot in enumerate(spots):
                tensor[spot] = number + 1
        dist.broadcast(tensor, 0)
        assert tensor[spots].tolist() == [1, 2, 3, 4, 5]
        if rank == 1:
            tensor[spots] += 10
            dist.send(tensor, 0)
        else:
            dist.recv(tensor, 1)
            assert tensor[spots].tolist() == [11, 12, 13, 14, 15]

    run(2, body, environment=path, limit=170)
