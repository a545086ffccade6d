"""TORCH_DISTRIBUTED_DEBUG: torch's own checks around this backend."""

import pytest
import torch
import torch.distributed as dist

from ranks import error_of, run
from test_training import check_like_alone, model, train


def debug(level):
    return {"environment": {"TORCH_DISTRIBUTED_DEBUG": level},
            "prepare": lambda rank: dist.set_debug_level_from_env()}


@pytest.mark.parametrize("level", ["INFO", "DETAIL"])
def test_calls_and_training_go_on_as_ever(level):
    def body(rank, size):
        assert dist.get_debug_level() == getattr(dist.DebugLevel, level)
        tensor = torch.ones(5)
        dist.all_reduce(tensor, async_op=True).get_future().wait()
        assert tensor.tolist() == [size] * 5
        group = dist.new_group([0, 1])
        if rank < 2:
            dist.broadcast(tensor, 0, group=group)
        out = torch.empty(size, 2)
        dist.all_gather_into_tensor(out, torch.full((2,), float(rank)))
        dist.all_to_all_single(out, out.clone())
        dist.reduce_scatter_tensor(torch.empty(2), out)
        got = torch.empty(1)
        works = dist.batch_isend_irecv([
            dist.P2POp(dist.isend, torch.tensor([float(rank)]), (rank + 1) % size),
            dist.P2POp(dist.irecv, got, (rank - 1) % size)])
        for work in works:
            work.wait()
        assert got.item() == (rank - 1) % size
        dist.barrier()
        check_like_alone(train(torch.nn.parallel.DistributedDataParallel(model()), rank), size)

    run(3, body, **debug(level))


def test_detail_names_the_shapes_and_calls_that_differ():
    def body(rank, size):
        texts = [error_of(lambda: dist.all_reduce(torch.ones(3 + rank)))]
        group = dist.new_group([0, 1])
        call = dist.all_reduce if rank == 0 else lambda t, group: dist.broadcast(t, 0, group=group)
        texts.append(error_of(lambda: call(torch.ones(3), group=group)))
        return texts

    for rank, (shapes, calls) in enumerate(run(2, body, **debug("DETAIL"))):
        assert "TensorShape=[3]" in shapes and "TensorShape=[4]" in shapes, shapes
        assert f"Rank {rank}" in shapes
        assert "ALLREDUCE" in calls and "BROADCAST" in calls, calls
