"""Works: futures that complete by themselves, timeouts, errors, aborts; point to point."""

import array
import datetime
import re
import threading
import time
import weakref

import torch
import torch.distributed as dist

import sumcast.torch
from ranks import error_of, run
from test_collectives import PATHS


def test_futures_complete_without_anybody_waiting():
    def body(rank, size):
        done = []
        tensors = [torch.full((5000,), float(rank + i)) for i in range(20)]
        for i, tensor in enumerate(tensors):
            work = dist.all_reduce(tensor, async_op=True)
            work.get_future().then(lambda future, i=i: done.append((i, future.value()[0][0].item())))
            del work
        until = time.monotonic() + 30
        while len(done) < 20 and time.monotonic() < until:
            time.sleep(0.01)
        assert sorted(done) == [(i, 3.0 + 3 * i) for i in range(20)]

    run(3, body)


def test_futures_chain_and_a_message_may_answer_a_collective():
    def body(rank, size):
        # The future of the first receive sends what the other rank's second collective waits for.
        got = torch.empty(4)
        ready = dist.new_group([0, 1])
        work = dist.irecv(got, 1 - rank)

        def answer(future):
            return dist.all_reduce(got, group=ready, async_op=True).get_future()

        chained = work.get_future().then(answer)
        dist.send(torch.full((4,), rank + 1.0), 1 - rank)
        dist.all_reduce(torch.ones(100000))
        chained.wait().wait()
        assert got.tolist() == [3, 3, 3, 3]

    run(2, body)


def test_a_work_is_completed_by_polling_alone():
    def body(rank, size):
        tensor = torch.ones(2, 3).t()
        work = dist.all_reduce(tensor, async_op=True)
        until = time.monotonic() + 30
        while not work.is_completed() and time.monotonic() < until:
            time.sleep(0.001)
        assert work.is_completed() and work.is_success() and (tensor == 2).all()
        assert work.exception() is None and work.wait()
        assert work.result()[0] is not None
        # The same for one that cannot end well.
        group = dist.new_group([0, 1], timeout=datetime.timedelta(seconds=1))
        if rank == 0:
            work = dist.all_reduce(tensor, group=group, async_op=True)
            while not work.is_completed() and time.monotonic() < until:
                time.sleep(0.01)
            assert not work.is_success()
            assert "rank 1" in error_of(work.wait)

    run(2, body)


def test_dropped_works_keep_their_tensors():
    def body(rank, size):
        for i in range(50):
            dist.all_reduce(torch.full((1000,), float(i)), async_op=True)
        tensor = torch.ones(1)
        dist.all_reduce(tensor)
        assert tensor.item() == size

    run(3, body)


def test_a_timeout_names_operation_number_ranks_and_address():
    def body(rank, size):
        tensor = torch.ones(10)
        dist.all_reduce(tensor)
        if rank == 1:
            time.sleep(4)
            return None
        work = dist.all_reduce(tensor, async_op=True)
        text = error_of(lambda: work.wait(datetime.timedelta(seconds=1)))
        assert re.search(r"DistBackendError: sumcast: all_reduce #2 of group \"0\" \(rank 0 of 2, "
                         r"job at 127\.0\.0\.1:\d+\)", text), text
        assert "timeout" in text and "rank 1" in text
        # The group is over, and says so at once.
        assert "rank 1" in error_of(lambda: dist.all_reduce(tensor))
        assert work.exception() is not None or not work.is_success()
        return text

    run(2, body)


@PATHS
def test_an_aborted_group_touches_nothing_any_more(path):
    def body(rank, size):
        backend = dist.group.WORLD._get_backend(torch.device("cpu"))
        if rank == 1:
            # In the middle: rank 0 has begun too.
            tensor, got = torch.ones(1 << 24), torch.zeros(1 << 22)
            works = [dist.irecv(got, 0), dist.all_reduce(tensor, async_op=True)]
            backend.abort()
            copies = tensor.clone(), got.clone()
            time.sleep(0.5)
            assert torch.equal(tensor, copies[0]) and torch.equal(got, copies[1])
            assert all("abort" in error_of(work.wait) for work in works)
        else:
            dist.isend(torch.ones(1 << 22), 1)
            tensor = torch.ones(1 << 24)
            assert "rank 1" in error_of(lambda: dist.all_reduce(tensor))
            copy = tensor.clone()
            time.sleep(0.5)
            assert torch.equal(tensor, copy)

    run(2, body, environment=path)


@PATHS
def test_a_call_may_have_a_shorter_timeout_than_its_group(path):
    """The group's is ten minutes, the run ends them after one."""

    def body(rank, size):
        def options_of(kind, **values):
            options = kind()
            options.timeout = datetime.timedelta(milliseconds=700)
            for name, value in values.items():
                setattr(options, name, value)
            return options

        ones, c10d = torch.ones(3), dist.distributed_c10d
        calls = {
            "all_reduce": lambda g: g.allreduce([ones], options_of(c10d.AllreduceOptions)),
            "broadcast": lambda g: g.broadcast([ones], options_of(c10d.BroadcastOptions, rootRank=1)),
            "all_gather": lambda g: g.allgather([[ones, ones]], [ones],
                                                options_of(c10d.AllgatherOptions)),
            "barrier": lambda g: g.barrier(options_of(c10d.BarrierOptions)),
            "gather": lambda g: g.gather([[ones, ones]], [ones], options_of(c10d.GatherOptions)),
        }
        for name, call in calls.items():
            group = dist.new_group([0, 1], timeout=datetime.timedelta(minutes=10))
            if rank == 0:
                text = error_of(lambda: call(group).wait())
                assert "timeout" in text and name in text and "rank 1" in text, text
        # And a group's that is set later.
        group = dist.new_group([0, 1], timeout=datetime.timedelta(minutes=10))
        group.set_timeout(datetime.timedelta(milliseconds=700))
        if rank == 0:
            assert "timeout" in error_of(lambda: dist.all_reduce(torch.ones(3), group=group))
        store = dist.distributed_c10d._get_default_store()
        if rank == 0:
            store.set("over", "")
        store.wait(["over"])

    run(2, body, environment=path, timeout=600, limit=60)


def test_point_to_point_in_both_directions_with_tags_and_any_source():
    def body(rank, size):
        me = torch.full((20000,), float(rank))
        works = [dist.isend(me, peer, tag=rank) for peer in range(size) if peer != rank]
        got = {peer: torch.empty(20000) for peer in range(size) if peer != rank}
        works += [dist.irecv(got[peer], peer, tag=peer) for peer in reversed(sorted(got))]
        for work in works:
            work.wait()
        assert all((tensor == peer).all() for peer, tensor in got.items())
        if rank == 0:
            seen = set()
            for _ in range(size - 1):
                out = torch.empty(3)
                source = dist.recv(out)
                assert (out == source).all()
                seen.add(source)
            assert seen == set(range(1, size))
        else:
            dist.send(torch.full((3,), float(rank)), 0)
        operations = [dist.P2POp(dist.isend, me, (rank + 1) % size, tag=9),
                      dist.P2POp(dist.irecv, got[(rank - 1) % size], (rank - 1) % size, tag=9)]
        for work in dist.batch_isend_irecv(operations):
            work.wait()
        objects = [None]
        if rank == 1:
            dist.send_object_list([{"from": rank}], 2)
        elif rank == 2:
            dist.recv_object_list(objects, 1)
            assert objects == [{"from": 1}]

    run(4, body)


def test_a_receive_that_times_out_leaves_the_group_usable():
    def body(rank, size):
        out = torch.empty(3)
        if rank == 0:
            work = dist.irecv(out, 1)
            text = error_of(lambda: work.wait(datetime.timedelta(milliseconds=200)))
            assert "nothing came from rank 1" in text and "recv #1 from rank 1 with tag 0" in text
        dist.barrier()
        if rank == 0:
            dist.recv(out, 1)
            assert out.tolist() == [1, 1, 1]
        else:
            dist.send(torch.ones(3), 0)

    run(2, body)


def test_different_calls_are_the_same_error_on_all_ranks():
    def body(rank, size):
        tensor = torch.ones(10 + rank)
        text = error_of(lambda: dist.all_reduce(tensor))
        assert "10" in text and "11" in text and (tensor == 1).all()
        return text

    texts = run(2, body)
    assert texts[0].split("): ")[-1] == texts[1].split("): ")[-1]

    def messages(rank, size):
        if rank == 0:
            dist.isend(torch.ones(3, dtype=torch.int32), 1).wait()
            return ""
        return error_of(lambda: dist.recv(torch.empty(3), 0))

    assert "another operation or type" in run(2, messages)[1]


def test_monitored_barrier_names_all_that_are_missing():
    def body(rank, size):
        sumcast.torch.monitored_barrier(timeout=10)
        sumcast.torch.monitored_barrier()  # The group's own timeout.
        if rank in (1, 2):
            time.sleep(2)
            return
        call = lambda: sumcast.torch.monitored_barrier(timeout=0.5, wait_all_ranks=True)
        text = error_of(call)
        if rank == 0:
            assert "Ranks 1, 2 failed to pass monitoredBarrier" in text
        else:
            assert f"Rank {rank} successfully reached monitoredBarrier" in text

    run(4, body)


def test_ranks_that_call_something_else_than_a_gather_are_a_mismatch_everywhere():
    def other_root(rank, size):
        tensor = torch.ones(10)
        root = 1 if rank == 1 else 0
        outputs = [torch.zeros(10) for _ in range(size)] if rank == root else None
        text = error_of(lambda: (dist.gather(tensor, outputs, dst=root), dist.barrier()))
        assert "gather #1 on group 0 does not match" in text
        assert "rank 1 calls gather Float to rank 1" in text

    def a_collective(rank, size):
        tensor = torch.ones(10)
        outputs = [torch.zeros(10) for _ in range(size)]
        if rank == 0:
            text = error_of(lambda: dist.gather(tensor, outputs, dst=0))
        else:
            text = error_of(lambda: dist.all_reduce(tensor))
        assert "rank 0 calls gather Float to rank 0; rank 1 calls all_reduce" in text
        assert all(not output.any() for output in outputs[1:])

    run(3, other_root)
    run(2, a_collective)


def test_stats_count_operations_bytes_and_datagrams():
    def body(rank, size):
        for _ in range(3):
            dist.all_reduce(torch.ones(1000))
        dist.barrier()
        group = dist.new_group([0, 1])
        dist.broadcast(torch.ones(10), 0, group=group)
        stats = sumcast.torch.stats()
        ours = stats["groups"]["0"]["all_reduce"]
        assert ours["count"] == 3 and ours["bytes"] == 12000 and ours["failed"] == 0
        assert ours["seconds"] > 0
        assert len(stats["groups"]) == 2
        assert set(stats["transport"]) >= {"datagrams_sent", "datagrams_received", "retransmits"}
        assert stats["transport"]["datagrams_sent"] > 0

    run(2, body, environment={"SUMCAST_ONE_RANK_PER_HOST": "1"})


def test_ranks_of_one_host_send_no_datagrams():
    def body(rank, size):
        tensor = torch.ones(100_000)
        dist.all_reduce(tensor)
        dist.reduce(tensor, 1)
        dist.broadcast(tensor, 2)
        dist.all_gather_into_tensor(torch.empty(size * 100_000), tensor)
        dist.reduce_scatter_tensor(torch.empty(1000), torch.ones(size * 1000))
        dist.barrier()
        stats = sumcast.torch.stats()
        assert stats["groups"]["0"]["all_reduce"]["bytes"] == 400_000
        return stats["transport"]["datagrams_sent"]

    assert run(3, body) == [0, 0, 0]


def test_stats_may_be_asked_for_while_groups_come_and_go():
    def body(rank, size):
        over = threading.Event()
        asked = 0

        def ask():
            nonlocal asked
            while not over.is_set():
                sumcast.torch.stats()
                asked += 1

        thread = threading.Thread(target=ask)
        thread.start()
        for _ in range(100):
            group = dist.new_group([0, 1])
            dist.all_reduce(torch.ones(10), group=group)
            dist.destroy_process_group(group)
        over.set()
        thread.join()
        return asked

    assert all(asked > 0 for asked in run(2, body))


def test_a_callback_may_begin_operations():
    """Also while another thread begins one, which finds the callback's work ended."""

    def body(rank, size):
        got, done = torch.empty(2), []

        def slow(future):
            time.sleep(1)  # Keeps the thread that completes collectives.

        def talk(future):
            works = [dist.isend(torch.ones(2), 1 - rank, tag=5), dist.irecv(got, 1 - rank, tag=5)]
            done.extend(works)

        works = [dist.all_reduce(torch.ones(3), async_op=True) for _ in range(2)]
        works[0].get_future().then(slow)
        works[1].get_future().then(talk)
        time.sleep(0.3)
        dist.all_reduce(torch.ones(3))
        until = time.monotonic() + 20
        while len(done) < 2 and time.monotonic() < until:
            time.sleep(0.01)
        for work in done:
            work.wait()
        assert len(done) == 2 and got.tolist() == [1, 1]

    run(2, body, limit=40)


def watched(count, value):
    """A tensor, and a question: is its memory alive?"""
    memory = array.array("f", [value] * count)
    alive = weakref.ref(memory)
    return torch.frombuffer(memory, dtype=torch.float32), lambda: alive() is not None


def test_an_open_receive_keeps_no_tensors_of_later_works_alive():
    def body(rank, size):
        late = torch.empty(1)
        work = dist.irecv(late, 1 - rank, tag=3)
        alive = []
        for wait in (True, False):
            for _ in range(20):
                tensor, question = watched(100, 1.0)
                one = dist.all_reduce(tensor, async_op=True)
                if wait:
                    one.wait()
                alive.append(question)
                del tensor, one
        dist.barrier()
        dist.barrier()  # Begins when all else has ended.
        assert sum(question() for question in alive) == 0
        dist.send(torch.ones(1), 1 - rank, tag=3)
        work.wait()

    run(2, body, limit=40)


def test_looking_at_a_work_does_not_stop_the_thread_that_completes_it():
    """That thread drops tensors, for which it needs Python's lock."""

    def body(rank, size):
        for _ in range(300):
            tensor, _ = watched(4, 1.0)
            work = dist.all_gather([torch.empty(4) for _ in range(size)], tensor, async_op=True)
            future = work.get_future()
            del tensor
            until = time.monotonic() + 20
            while not work.is_success() and time.monotonic() < until:
                work.exception()
            assert work.is_success() and future.wait() is not None

    run(2, body, limit=60)


def test_polling_holds_a_call_to_its_own_timeout():
    def body(rank, size):
        group = dist.new_group([0, 1], timeout=datetime.timedelta(seconds=1))
        options = dist.AllreduceOptions()
        options.timeout = datetime.timedelta(seconds=30)
        options.asyncOp = True
        tensor = torch.ones(3)
        if rank == 1:
            time.sleep(2.5)
        work = group.allreduce([tensor], options)
        until = time.monotonic() + 20
        while not work.is_completed() and time.monotonic() < until:
            time.sleep(0.01)
        work.wait()
        assert tensor.tolist() == [2, 2, 2]

    run(2, body, limit=40)
