"""Every collective against an oracle, with another value in every element."""

import functools
import itertools
import operator

import pytest
import torch
import torch.distributed as dist
from torch.distributed import ReduceOp

from ranks import error_of, run

FLOATS = [torch.float16, torch.bfloat16, torch.float32, torch.float64]
INTEGERS = [torch.int8, torch.uint8, torch.int16, torch.int32, torch.int64]
UNSIGNED = [torch.uint16, torch.uint32, torch.uint64]
COMPLEX = [torch.complex64, torch.complex128]
# How ranks of one host reach each other: through shared memory, or as if they were on several hosts.
PATHS = pytest.mark.parametrize("path", [{}, {"SUMCAST_ONE_RANK_PER_HOST": "1"}],
                                ids=["shared memory", "datagrams"])
SHAPES = [(), (0,), (1,), (7,), (3, 5), (70001,)]


def values(dtype, shape, rank):
    """Different on every rank and in every element, exact in every type and under every fold."""
    count = torch.Size(shape).numel()
    base = (torch.arange(count, dtype=torch.int64) * 7 + 3 * rank + 1) % 11 + 1
    if dtype is torch.bool:
        return (base % 3 != 0).reshape(shape)
    if dtype.is_complex:
        return torch.complex((base % 5).double(), (base % 7).double()).to(dtype).reshape(shape)
    return base.to(dtype).reshape(shape)


def oracle(op, all_values):
    """The fold in exact arithmetic, element by element."""
    dtype = all_values[0].dtype
    wide = torch.complex128 if dtype.is_complex else (
        torch.float64 if dtype.is_floating_point else torch.int64)
    wide_values = [v.to(wide) for v in all_values]
    if op in (ReduceOp.SUM, ReduceOp.AVG):
        total = functools.reduce(operator.add, wide_values)
        if dtype is torch.bool:
            return (total == len(all_values)) if op == ReduceOp.AVG else total != 0
        if op == ReduceOp.AVG:
            if wide is torch.int64:
                return torch.div(total, len(all_values), rounding_mode="trunc").to(dtype)
            total = total / len(all_values)
        return total.to(dtype)
    fold = {ReduceOp.PRODUCT: operator.mul, ReduceOp.MIN: torch.minimum, ReduceOp.MAX: torch.maximum,
            ReduceOp.BAND: operator.and_, ReduceOp.BOR: operator.or_,
            ReduceOp.BXOR: operator.xor}[op]
    return functools.reduce(fold, wide_values).to(dtype)


def pairs():
    arithmetic = [ReduceOp.SUM, ReduceOp.AVG, ReduceOp.PRODUCT, ReduceOp.MIN, ReduceOp.MAX]
    bits = [ReduceOp.BAND, ReduceOp.BOR, ReduceOp.BXOR]
    yield from itertools.product(FLOATS, arithmetic)
    yield from itertools.product(INTEGERS + [torch.bool], arithmetic + bits)
    yield from itertools.product(UNSIGNED, [op for op in arithmetic + bits if op != ReduceOp.AVG])
    yield from itertools.product(COMPLEX, [ReduceOp.SUM, ReduceOp.AVG])


def same(a, b):
    if a.dtype is torch.bfloat16 or a.dtype is torch.float16:
        return torch.allclose(a.double(), b.double(), rtol=1e-2)  # AVG: the oracle rounds twice.
    if a.dtype.is_floating_point or a.dtype.is_complex:
        return torch.allclose(a, b, rtol=1e-6)
    return torch.equal(a.view(torch.uint8) if a.dim() else a, b.view(torch.uint8) if b.dim() else b)


@PATHS
def test_all_reduce_of_every_type_reduction_and_shape(path):
    def body(rank, size):
        for dtype, op in pairs():
            for shape in SHAPES:
                tensor = values(dtype, shape, rank)
                dist.all_reduce(tensor, op)
                wanted = oracle(op, [values(dtype, shape, r) for r in range(size)])
                assert same(tensor, wanted), (dtype, op, shape, tensor, wanted)

    run(3, body, environment=path)


@PATHS
def test_reduce_and_reduce_scatter_of_every_type_and_reduction(path):
    def body(rank, size):
        for dtype, op in pairs():
            wanted = oracle(op, [values(dtype, (size, 5), r) for r in range(size)])
            mine = values(dtype, (size, 5), rank)
            tensor = mine.clone()
            dist.reduce(tensor, 1, op)
            assert same(tensor, wanted if rank == 1 else mine), (dtype, op)
            out = torch.empty(5, dtype=dtype)
            dist.reduce_scatter_tensor(out, mine, op)
            assert same(out, wanted[rank]), (dtype, op, out, wanted[rank])
            out = torch.empty(5, dtype=dtype)
            dist.reduce_scatter(out, list(mine), op)
            assert same(out, wanted[rank]), (dtype, op, out, wanted[rank])

    run(3, body, environment=path)


def test_unsigned_order_is_kept_where_the_top_bit_is_set():
    def body(rank, size):
        for dtype, top in ((torch.uint16, 2**16), (torch.uint32, 2**32), (torch.uint64, 2**64)):
            mine = [top - 1 - rank, rank, top // 2 + rank]
            numbers = torch.tensor([n - top if n >= top // 2 else n for n in mine],
                                   dtype=torch.int64).to(getattr(torch, f"int{dtype.itemsize * 8}"))
            tensor = numbers.view(dtype)
            dist.all_reduce(tensor, ReduceOp.MAX)
            assert [int(x) for x in tensor.tolist()] == [top - 1, size - 1, top // 2 + size - 1]

    run(2, body)


@PATHS
def test_moving_collectives_carry_every_type(path):
    def body(rank, size):
        for dtype in FLOATS + INTEGERS + UNSIGNED + COMPLEX + [
                torch.bool, torch.float8_e4m3fn, torch.complex32]:
            mine = torch.arange(48, dtype=torch.uint8).add(7 * rank).view(dtype) if (
                dtype is not torch.bool) else torch.arange(48) % (rank + 2) == 0
            everybody = [torch.arange(48, dtype=torch.uint8).add(7 * r).view(dtype) if (
                dtype is not torch.bool) else torch.arange(48) % (r + 2) == 0 for r in range(size)]

            def bits(tensor):
                return tensor.contiguous().view(torch.uint8).tolist()

            tensor = mine.clone()
            dist.broadcast(tensor, 1)
            assert bits(tensor) == bits(everybody[1]), dtype
            gathered = [torch.empty_like(mine) for _ in range(size)]
            dist.all_gather(gathered, mine)
            assert [bits(t) for t in gathered] == [bits(t) for t in everybody], dtype
            flat = torch.empty(size * mine.numel(), dtype=dtype)
            dist.all_gather_into_tensor(flat, mine)
            assert bits(flat) == sum((bits(t) for t in everybody), []), dtype
            parts = [torch.empty_like(mine) for _ in range(size)] if rank == 2 else None
            dist.gather(mine, parts, dst=2)
            if rank == 2:
                assert [bits(t) for t in parts] == [bits(t) for t in everybody], dtype
            got = torch.empty_like(mine)
            dist.scatter(got, list(everybody) if rank == 0 else None, src=0)
            assert bits(got) == bits(mine), dtype
            got = [torch.empty_like(mine) for _ in range(size)]
            dist.all_to_all(got, [mine] * size)
            assert [bits(t) for t in got] == [bits(t) for t in everybody], dtype

    run(3, body, environment=path)


@PATHS
def test_strided_tensors_go_in_and_out(path):
    def body(rank, size):
        def strided(fill):
            return torch.full((6, 8), float(fill)).t()[::2, 1::2]  # Neither rows nor columns.

        def numbered(r):
            tensor = torch.zeros(8, 6).t()[1::2, ::2]
            tensor.copy_(torch.arange(tensor.numel()).reshape(tensor.shape) + 100.0 * r)
            return tensor

        tensor = numbered(rank)
        assert not tensor.is_contiguous()
        dist.all_reduce(tensor)
        assert torch.equal(tensor, sum(numbered(r) for r in range(size)))
        tensor = numbered(rank)
        dist.broadcast(tensor, 1)
        assert torch.equal(tensor, numbered(1))
        outs = [strided(-1) for _ in range(size)]
        shape_like = [torch.zeros(8, 6).t()[1::2, ::2] for _ in range(size)]
        del outs
        dist.all_gather(shape_like, numbered(rank))
        assert all(torch.equal(shape_like[r], numbered(r)) for r in range(size))
        out = torch.zeros(8, 6).t()[1::2, ::2]
        dist.reduce_scatter(out, [numbered(rank) + r for r in range(size)])
        assert torch.equal(out, sum(numbered(r) + rank for r in range(size)))
        if rank == 0:
            dist.send(numbered(0), 1)
        elif rank == 1:
            out = torch.zeros(8, 6).t()[1::2, ::2]
            dist.recv(out, 0)
            assert torch.equal(out, numbered(0))
        conjugate = torch.full((3,), 1 + 2j).conj()  # torch.distributed itself cannot take one.
        dist.group.WORLD._get_backend(torch.device("cpu")).allreduce([conjugate]).wait()
        assert torch.equal(conjugate, torch.full((3,), size * (1 - 2j)))

    run(3, body, environment=path)


def test_premultiplied_sums():
    def body(rank, size):
        for factor in (0.5, torch.tensor([0.25])):
            op = dist._make_nccl_premul_sum(factor)
            for dtype in (torch.float32, torch.float64, torch.complex64):
                tensor = values(dtype, (9,), rank)
                wanted = sum(values(dtype, (9,), r) * float(factor) for r in range(size))
                dist.all_reduce(tensor, op)
                assert torch.allclose(tensor, wanted.to(dtype))
                assert torch.equal(values(dtype, (9,), rank), values(dtype, (9,), rank))

    if not hasattr(dist, "_make_nccl_premul_sum"):
        pytest.skip("this torch was built without the maker of PREMUL_SUM")
    run(2, body)


def test_uneven_all_to_all():
    def body(rank, size):
        send = [(rank + peer) % 3 for peer in range(size)]
        receive = [(peer + rank) % 3 for peer in range(size)]
        rows = torch.arange(sum(send) * 4, dtype=torch.float32).reshape(-1, 4) + 1000 * rank
        out = torch.full((sum(receive), 4), -1.0)
        dist.all_to_all_single(out, rows, receive, send)
        at = 0
        for peer in range(size):
            theirs = [(peer + other) % 3 for other in range(size)]
            begin = sum(theirs[:rank])
            wanted = torch.arange(sum(theirs) * 4, dtype=torch.float32).reshape(-1, 4) + 1000 * peer
            assert torch.equal(out[at:at + receive[peer]], wanted[begin:begin + theirs[rank]])
            at += receive[peer]

    run(4, body)


@PATHS
def test_coalesced_forms_are_several_operations_with_one_work(path):
    def body(rank, size):
        tensors = [torch.full((n,), rank + 1.0) for n in (1, 0, 1000)]
        dist.all_reduce_coalesced(tensors)
        assert all((t == 6).all() for t in tensors)
        group = dist.group.WORLD
        with dist._coalescing_manager(group) as manager:
            for tensor in tensors:
                dist.all_reduce(tensor)
        assert all((t == 18).all() for t in tensors)
        with dist._coalescing_manager(group, torch.device("cpu"), async_ops=True) as manager:
            dist.all_reduce(tensors[0])
            dist.all_reduce(tensors[2])
        manager.wait()
        assert (tensors[2] == 54).all()
        outs = [torch.empty(size * n) for n in (2, 3)]
        ins = [torch.full((n,), float(rank)) for n in (2, 3)]
        with dist._coalescing_manager(group):
            for out, one in zip(outs, ins):
                dist.all_gather_into_tensor(out, one)
        assert outs[1].tolist() == [0, 0, 0, 1, 1, 1, 2, 2, 2]
        with dist._coalescing_manager(group):
            for one, out in zip(ins, outs):
                dist.reduce_scatter_tensor(one, out)
        assert (ins[0] == 3 * rank).all()
        lists = [[torch.empty(2), torch.empty(3)] for _ in range(size)]
        dist.all_gather_coalesced(lists, [torch.full((2,), float(rank)), torch.full((3,), -1.0 * rank)])
        assert all(lists[r][0][0] == r and lists[r][1][0] == -r for r in range(size))

    run(3, body, environment=path)


def test_coalescing_begins_anew_behind_an_exception():
    def body(rank, size):
        peer = 1 - rank
        out, sparse = torch.empty(3), torch.ones(3).to_sparse()
        call = lambda: dist.batch_isend_irecv([dist.P2POp(dist.isend, torch.ones(3), peer),
                                               dist.P2POp(dist.irecv, sparse, peer)])
        assert "Sparse" in error_of(call)
        dist.recv(out, peer)  # What had begun goes on.
        assert out.tolist() == [1, 1, 1]
        for work in dist.batch_isend_irecv([dist.P2POp(dist.isend, torch.full((3,), 2.0), peer),
                                            dist.P2POp(dist.irecv, out, peer)]):
            work.wait()
        assert out.tolist() == [2, 2, 2]

    run(2, body, limit=60)


def test_sparse_all_reduce():
    def body(rank, size):
        # Entries that meet, entries of one rank only, and one rank without any.
        if rank == 2:
            tensor = torch.sparse_coo_tensor(torch.empty(1, 0, dtype=torch.int64),
                                             torch.empty(0, 2), (10, 2))
        else:
            tensor = torch.sparse_coo_tensor([[rank, 5, 5]], torch.full((3, 2), 1.0 + rank), (10, 2))
        dense = torch.zeros(10, 2)
        dense[0] = 1
        dense[1] = 2
        dense[5] = 6
        dist.all_reduce(tensor)
        assert tensor.is_coalesced()
        assert torch.equal(tensor.to_dense(), dense)
        work = dist.all_reduce(tensor, async_op=True)
        work.get_future().wait()
        assert torch.equal(tensor.to_dense(), dense * size)
        text = error_of(lambda: dist.all_reduce(tensor, ReduceOp.MAX))
        assert "SUM only" in text
        shape = (4, 2) if rank == 1 else (10, 2)
        other = torch.sparse_coo_tensor([[0]], torch.ones(1, 2), shape)
        assert "another shape or type" in error_of(lambda: dist.all_reduce(other)) or rank == 1

    run(3, body)


def test_entries_outside_of_a_sparse_tensor_are_an_error_on_all_ranks():
    def body(rank, size):
        def with_entry(at):
            # What a peer might send; torch does not look at what is said to be coalesced.
            return torch.ops.aten._sparse_coo_tensor_unsafe(
                torch.tensor([at]), torch.ones(len(at)), [10], is_coalesced=True)

        texts = []
        for bad, words in (([3, 1 << 40], "outside"), ([-5, 3], "outside"),
                           (list(range(11)), "11 entries")):
            group = dist.new_group(range(size))
            tensor = with_entry(bad if rank == 1 else [1, 2])
            texts.append(error_of(lambda: dist.all_reduce(tensor, group=group)))
            assert "rank 1" in texts[-1] and words in texts[-1], texts[-1]
            # The group is over, and no rank waits for another.
            error_of(lambda: dist.all_reduce(torch.ones(1), group=group))
        tensor = torch.ones(1)
        dist.all_reduce(tensor)
        assert tensor.item() == size

    run(3, body, limit=60)


def test_a_tensor_beyond_two_gibibytes_of_elements_of_one_byte():
    def body(rank, size):
        count = 2**31 + 1
        tensor = torch.zeros(count, dtype=torch.uint8)
        tensor[0], tensor[2**31 - 1], tensor[-1] = rank + 1, rank + 2, rank + 3
        dist.all_reduce(tensor)
        assert tensor[[0, 1, 2**31 - 1, -1]].tolist() == [3, 0, 5, 7]

    run(2, body, limit=170)


def test_unsupported_pairs_say_what_is_supported_and_leave_the_group_usable():
    def body(rank, size):
        text = error_of(lambda: dist.all_reduce(torch.ones(3), ReduceOp.BAND))
        assert "does not do BAND of Float" in text and "SUM AVG PRODUCT MIN MAX" in text
        text = error_of(lambda: dist.all_reduce(torch.ones(3, dtype=torch.complex64), ReduceOp.MAX))
        assert "MAX of ComplexFloat" in text or "does not support" in text
        text = error_of(lambda: dist.all_reduce(torch.ones(3).to(torch.float8_e4m3fn)))
        assert "SUM of Float8_e4m3fn" in text
        tensor = torch.ones(3)
        dist.all_reduce(tensor)
        assert tensor.tolist() == [2, 2, 2]

    run(2, body)
