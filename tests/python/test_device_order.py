"""What calls on an accelerator's tensors do when: seen from inside the test device (toy_device/), whose
streams and copies can be held. No clock decides anything here."""

import datetime
import threading
import time

import pytest
import torch
import torch.distributed as dist

import toy
from ranks import error_of
from test_devices import PIECE, run_on, toy_device  # noqa: F401  A fixture.

SOON = 30  # Seconds that something certain may take.


def until(condition):
    """Polls; fails if it does not become true."""
    end = time.monotonic() + SOON
    while not condition():
        assert time.monotonic() < end, "it did not happen"
        time.sleep(0.002)


def count(device, direction):
    return sum(copy[0] == direction for copy in device.copies())


MODES = pytest.mark.parametrize("kind", ["toy", "toy ahead"])


def store():
    return dist.distributed_c10d._get_default_store()


def backend_of(device):
    return dist.group.WORLD._get_backend(device)


@MODES
def test_a_call_waits_for_what_the_callers_stream_still_does(kind):
    def body(rank, size, place):
        device = toy.load()
        tensor = torch.zeros(1000, device=place)
        device.synchronize()
        device.forget_copies()
        held = device.hold()
        tensor.fill_(rank + 1)  # Queued behind the hold.
        work = dist.all_reduce(tensor, async_op=True)
        assert not work.is_completed()
        assert device.copies() == []
        device.let_go(held)
        work.wait()
        assert tensor.unique().tolist() == [3]

    run_on(kind, 2, body)


@MODES
def test_wait_does_not_wait_for_copies_back_but_the_callers_stream_does(kind):
    def body(rank, size, place):
        device = toy.load()
        tensor = torch.ones(PIECE // 4 * 2, device=place)
        after = torch.zeros(PIECE // 4 * 2, device=place)
        device.synchronize()
        device.forget_copies()
        device.hold_copies_out(0)
        work = dist.all_reduce(tensor, async_op=True)
        work.wait()
        after.copy_(tensor)  # In the order of the stream.
        assert count(device, "out") == 0 and count(device, "within") == 0
        assert not work.is_completed()
        device.hold_copies_out(-1)
        assert after.cpu().unique().tolist() == [2]
        assert work.is_completed()

    run_on(kind, 2, body)


@MODES
def test_callbacks_of_futures_run_in_the_order_of_the_device(kind):
    def body(rank, size, place):
        device = toy.load()
        tensor = torch.ones(1000, device=place)
        after = torch.zeros(1000, device=place)
        device.synchronize()
        device.hold_copies_out(0)
        future = dist.all_reduce(tensor, async_op=True).get_future()
        chained = future.then(lambda done: after.copy_(done.value()[0]))
        chained.wait()
        assert count(device, "out") == 0
        device.hold_copies_out(-1)
        assert after.cpu().unique().tolist() == [2]

    run_on(kind, 2, body)


@MODES
def test_copies_in_the_network_and_copies_back_overlap(kind):
    pieces = 5

    def body(rank, size, place):
        device = toy.load()
        tensor = torch.full((PIECE // 4 * pieces,), rank + 1.0, device=place)
        device.synchronize()
        device.forget_copies()
        if rank == 0:
            work = dist.all_reduce(tensor, async_op=True)
            # Rank 1 has not called: no piece can have gone through the network.
            until(lambda: count(device, "in") >= 2)
            assert count(device, "out") == 0
            store().set("copied in", "")
            # Rank 1 gives two pieces and no more.
            until(lambda: count(device, "out") == 2)
            assert count(device, "in") > 2 and not work.is_completed()
            store().set("copied back", "")
        else:
            store().wait(["copied in"])
            device.hold_copies_in(2)
            work = dist.all_reduce(tensor, async_op=True)
            store().wait(["copied back"])
            device.hold_copies_in(-1)
        work.wait()
        assert tensor.cpu().unique().tolist() == [3]
        assert count(device, "in") == pieces + 1  # And the look at it.
        streams = {direction: {copy[1] for copy in device.copies()[:-1] if copy[0] == direction}
                   for direction in ("in", "out")}
        assert streams["in"].isdisjoint(streams["out"]) and 0 not in streams["out"]

    run_on(kind, 2, body)


def test_pinned_memory_is_written_again_only_when_its_last_copy_has_been_made():
    def body(rank, size, place):
        device = toy.load()
        first = torch.full((1000,), 1.0 if rank == 0 else 0.0, device=place)
        second = torch.full((1000,), 2.0 if rank == 0 else 0.0, device=place)
        device.synchronize()
        device.hold_copies_out(0)
        one = dist.broadcast(first, 0, async_op=True)
        until(one.get_future().done)  # Through the network; its copy to the device is held.
        two = dist.broadcast(second, 0, async_op=True)
        time.sleep(0.3)  # Time enough for the second to come into the first one's memory.
        device.hold_copies_out(-1)
        one.wait()
        two.wait()
        assert first.cpu().unique().tolist() == [1] and second.cpu().unique().tolist() == [2]

    run_on("toy", 2, body)


def test_pinned_memory_has_a_bound():
    def body(rank, size, place):
        device = toy.load()
        tensor = torch.ones(PIECE // 4 * 20, device=place)
        device.synchronize()
        device.forget_copies()
        work = dist.all_reduce(tensor, async_op=True) if rank == 0 else None
        if rank == 0:
            until(lambda: count(device, "in") >= 2)
            time.sleep(0.2)
            assert count(device, "in") <= 8
            store().set("seen", "")
        else:
            store().wait(["seen"])
            work = dist.all_reduce(tensor, async_op=True)
        work.wait()
        assert tensor.cpu().unique().tolist() == [2]

    run_on("toy", 2, body)


@pytest.mark.parametrize("kind, when", [("toy", "the stream is held"),
                                        ("toy", "others have not come"),
                                        ("toy ahead", "the stream is held"),
                                        ("toy ahead", "others have not come")])
def test_abort_is_a_fence(kind, when):
    def body(rank, size, place):
        device = toy.load()
        tensor = torch.ones(PIECE // 4 * 3, device=place)
        device.synchronize()
        if rank == 1:
            store().wait(["aborted"])
            return
        held = device.hold() if when == "the stream is held" else None
        works = [dist.all_reduce(tensor, async_op=True) for _ in range(2)]
        if held is None:
            until(lambda: count(device, "in") >= 2)
        abort = threading.Thread(target=backend_of(place).abort)
        abort.start()
        if held is not None and "ahead" in kind:
            device.let_go(held)  # What was queued ahead has to come through.
        abort.join(SOON / 2)
        assert not abort.is_alive()
        device.forget_copies()
        if held is not None:
            device.let_go(held)
        device.synchronize()
        for work in works:
            text = error_of(work.wait)
            assert "aborted" in text, text
        time.sleep(0.1)
        assert device.copies() == []
        assert "aborted" in error_of(lambda: dist.all_reduce(tensor))
        store().set("aborted", "")

    run_on(kind, 2, body)


def test_an_error_of_the_device_reaches_every_rank():
    def body(rank, size, place):
        device = toy.load()
        tensor = torch.ones(1000, device=place)
        device.synchronize()
        held = device.hold()
        work = dist.all_reduce(tensor, async_op=True)
        if rank == 0:
            device.fail("toy: an unspecified launch failure")
        else:
            device.let_go(held)
        text = error_of(work.wait)
        device.fail("")
        if rank == 0:
            device.let_go(held)
            assert "all_reduce" in text and "an unspecified launch failure" in text, text
        else:
            assert "rank 0" in text, text
        future = work.get_future()
        assert "DistBackendError" in error_of(future.wait)

    run_on("toy", 2, body)


def test_wait_waits_for_nothing_if_calls_are_queued_ahead():
    def body(rank, size, place):
        device = toy.load()
        tensors = [torch.ones(PIECE // 4 * 2 + 1, device=place) for _ in range(3)]
        after = torch.zeros(PIECE // 4 * 2 + 1, device=place)
        device.synchronize()
        device.forget_copies()
        if rank == 1:
            store().wait(["has waited"])
        for tensor in tensors:
            dist.all_reduce(tensor)
        dist.broadcast(tensors[2], 1)
        tensors[2].fill_(7)  # Behind what reads and writes it.
        after.copy_(tensors[1])
        if rank == 0:  # Rank 1 has not called.
            assert count(device, "out") == 0 and count(device, "within") == 0
            store().set("has waited", "")
        assert after.cpu().unique().tolist() == [2]
        assert tensors[2].cpu().unique().tolist() == [7]

    run_on("toy ahead", 2, body)


def test_a_failure_behind_wait_shows_in_the_next_call_and_stops_no_stream():
    def body(rank, size, place):
        device = toy.load()
        tensor = torch.ones(PIECE // 4 * 3, device=place)
        if rank == 1:
            store().wait(["gone on"], datetime.timedelta(seconds=SOON))
            return
        work = dist.all_reduce(tensor, async_op=True)
        work.wait()
        tensor.cpu()  # The stream has come through.
        until(lambda: work.exception() is not None)
        assert "timeout" in error_of(work.get_future().wait)
        assert "all_reduce" in error_of(dist.barrier)  # As one calls before a checkpoint.
        assert "all_reduce" in error_of(lambda: dist.all_reduce(tensor))
        device.forget_copies()
        device.synchronize()
        assert device.copies() == []
        store().set("gone on", "")

    run_on("toy ahead", 2, body, timeout=3)


def test_a_device_that_does_not_come_to_a_call_is_a_timeout():
    def body(rank, size, place):
        device = toy.load()
        tensor = torch.ones(1000, device=place)
        held = device.hold()
        text = error_of(dist.all_reduce(tensor, async_op=True).wait)
        assert "the device has not come to this call within" in text, text
        device.let_go(held)

    run_on("toy", 2, body, timeout=2)


def test_waiting_with_a_timeout_gives_up():
    def body(rank, size, place):
        tensor = torch.ones(1000, device=place)
        if rank == 1:
            store().wait(["given up"])
            return
        work = dist.all_reduce(tensor, async_op=True)
        text = error_of(lambda: work.wait(datetime.timedelta(milliseconds=300)))
        assert "not done after 300 ms" in text, text
        store().set("given up", "")

    run_on("toy", 2, body)


def test_a_callback_of_a_call_that_failed_before_it_began_may_call_again():
    """The line's own thread finds that it failed; what the callback calls and awaits it has to begin."""

    def body(rank, size, place):
        device = toy.load()
        tensor, other = torch.ones(1000, device=place), torch.ones(10, device=place)
        held = device.hold()
        work = dist.all_reduce(tensor, async_op=True)
        again = work.get_future().then(lambda _: error_of(dist.all_reduce(other, async_op=True).wait))
        until(again.done)
        assert "sumcast" in str(again.value())
        device.let_go(held)

    run_on("toy", 2, body, timeout=2)


@MODES
def test_tensors_that_nobody_holds_stay_until_the_device_is_done(kind):
    def body(rank, size, place):
        device = toy.load()
        device.hold_copies_out(0)
        dist.all_reduce(torch.ones(PIECE // 4 * 2, device=place), async_op=True)
        dist.all_gather([torch.zeros(100, device=place) for _ in range(size)],
                        torch.ones(100, device=place), async_op=True)
        device.hold_copies_out(-1)
        dist.barrier()
        dist.destroy_process_group()
        assert device.faults() == 0 and count(device, "out") == 2 + size

    run_on(kind, 2, body)


@MODES
def test_a_cpu_call_behind_a_held_device_call_keeps_its_place(kind):
    def body(rank, size, place):
        device = toy.load()
        first = torch.ones(10, device=place)
        second = torch.ones(20)
        device.synchronize()
        held = device.hold() if rank == 0 else None
        works = [dist.all_reduce(first, async_op=True), dist.all_reduce(second, async_op=True)]
        if rank == 0:
            assert not works[1].is_completed()
            device.let_go(held)
        for work in works:
            work.wait()
        assert first.tolist() == [2] * 10 and second.tolist() == [2] * 20

    run_on(kind, 2, body)


@MODES
def test_a_receive_may_stay_open_while_others_end(kind):
    def body(rank, size, place):
        mine = torch.full((5,), float(rank), device=place)
        other = 1 - rank
        late = torch.zeros(5, device=place)
        soon = [torch.zeros(300_000, device=place) for _ in range(12)]
        open_one = dist.irecv(late, other, tag=1)
        works = [dist.irecv(one, other, tag=2) for one in soon]
        for number in range(12):
            works.append(dist.isend(torch.full((300_000,), float(number), device=place), other,
                                    tag=2))
        for work in works:
            work.wait()
        assert [one[0].item() for one in soon] == list(range(12))
        assert not open_one.is_completed()
        dist.barrier()
        dist.send(mine, other, tag=1)
        open_one.wait()
        assert late.unique().tolist() == [other]

    run_on(kind, 2, body)


def test_a_program_may_end_in_the_middle():
    def body(rank, size, place):
        device = toy.load()
        if rank == 0:
            device.hold()  # For ever.
            dist.all_reduce(torch.ones(10, device=place), async_op=True)
        dist.destroy_process_group()

    run_on("toy", 2, body)
