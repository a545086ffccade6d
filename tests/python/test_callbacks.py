"""Callbacks of futures: they may wait for other operations of their group."""

import os
import time

import torch
import torch.distributed as dist

from ranks import run


def within(seconds, future):
    """Waits for a future that ought to complete by itself; fails behind the deadline."""
    until = time.monotonic() + seconds
    while not future.done() and time.monotonic() < until:
        time.sleep(0.005)
    assert future.done(), "the future did not complete"
    return future.value()


def test_a_callback_may_wait_for_another_operation_of_its_group():
    def body(rank, size):
        def nested(depth):
            def then(future):
                tensor = torch.full((10,), 1.0 + rank)
                inner = dist.all_reduce(tensor, async_op=True).get_future()
                if depth > 0:
                    inner = inner.then(nested(depth - 1))
                inner.wait()
                assert tensor.tolist() == [3.0] * 10
                return depth
            return then

        first = dist.all_reduce(torch.ones(10), async_op=True).get_future()
        assert within(30, first.then(nested(5))) == 5
        # And with messages.
        def answer(future):
            got = torch.empty(3)
            receive = dist.irecv(got, 1 - rank, tag=2).get_future()
            dist.isend(torch.full((3,), 7.0), 1 - rank, tag=2)
            receive.wait()
            return got.tolist()

        one = torch.empty(3)
        future = dist.irecv(one, 1 - rank, tag=1).get_future().then(answer)
        dist.send(torch.ones(3), 1 - rank, tag=1)
        assert within(30, future) == [7, 7, 7]
        # And with sparse tensors, which have a thread of their own.
        def sparse():
            tensor = torch.sparse_coo_tensor([[rank]], torch.ones(1), (2,))
            return dist.all_reduce(tensor, async_op=True).get_future()

        assert within(30, sparse().then(lambda _: sparse().wait() and None or 1)) == 1

    run(2, body, limit=110)


def test_a_callback_may_wait_for_what_was_begun_before():
    def body(rank, size):
        if rank == 1:
            time.sleep(0.5)  # Until rank 0 has chained all of them.
        works = [dist.all_reduce(torch.full((10,), float(i)), async_op=True) for i in range(8)]
        futures = [work.get_future() for work in works]
        chained = [first.then(lambda _, second=second: second.wait()[0][0].item())
                   for first, second in zip(futures, futures[1:])]
        assert [within(30, future) for future in chained] == [2.0 * i for i in range(1, 8)]

    run(2, body, limit=60)


def test_slow_callbacks_all_run_and_leave_few_threads():
    def body(rank, size):
        def threads():
            return len(os.listdir("/proc/self/task"))

        dist.all_reduce(torch.ones(10))
        before, done = threads(), []
        for i in range(30):
            future = dist.all_reduce(torch.ones(10), async_op=True).get_future()
            future.then(lambda _, i=i: (time.sleep(0.03), done.append(i)))
        until = time.monotonic() + 30
        while len(done) < 30 and time.monotonic() < until:
            time.sleep(0.01)
        assert sorted(done) == list(range(30))
        while threads() > before + 2 and time.monotonic() < until:
            time.sleep(0.01)
        assert threads() <= before + 2  # One that waits, and one that stands by.

    run(2, body, limit=60)
