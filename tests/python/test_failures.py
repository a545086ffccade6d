"""Ranks that die: the others learn it soon, and who it was."""

import os
import signal
import time

import torch
import torch.distributed as dist

from ranks import Killed, error_of, run


def die(signal_number=signal.SIGKILL):
    os.kill(os.getpid(), signal_number)


def in_collectives(rank, size):
    tensor = torch.ones(100000)
    for step in range(1000000):
        if rank == 1 and step == 20:
            die()
        dist.all_reduce(tensor)


def check_named(results, dead):
    assert isinstance(results[dead], Killed)
    for rank, (text, seconds) in enumerate(r for r in results if not isinstance(r, Killed)):
        assert f"rank {dead}" in text, text
        assert "\n" not in text.strip(), text
        print(f"a survivor raised {seconds:.2f} s after the death: {text}")


def test_a_killed_rank_is_named_by_all_others_long_before_their_timeout():
    """Their timeout is ten minutes; the run ends them after one."""

    def body(rank, size):
        dist.barrier()
        start = time.monotonic()
        text = error_of(lambda: in_collectives(rank, size))
        return text, time.monotonic() - start

    check_named(run(4, body, timeout=600, limit=60), 1)


def test_the_death_of_a_rank_ends_messages_that_wait_for_it_and_for_others():
    def body(rank, size):
        dist.barrier()
        if rank == 2:
            die()
        start = time.monotonic()
        # Rank 0 waits for the dead one, rank 1 for nobody in particular.
        text = error_of(lambda: dist.recv(torch.empty(3), 2 if rank == 0 else None))
        return text, time.monotonic() - start

    check_named(run(3, body, timeout=600, limit=60), 2)


def test_futures_of_survivors_fail_too():
    def body(rank, size):
        dist.barrier()
        if rank == 1:
            die()
        start = time.monotonic()
        future = dist.all_reduce(torch.ones(10), async_op=True).get_future()
        text = error_of(future.wait)
        return text.split("Exception raised")[0], time.monotonic() - start

    results = run(3, body, timeout=600, limit=60)
    assert all("rank 1" in r[0] for r in results if not isinstance(r, Killed))


def test_the_death_of_rank_zero_is_noticed_as_any_other():
    def body(rank, size):
        dist.barrier()
        if rank == 0:
            die()
        return error_of(lambda: dist.all_reduce(torch.ones(10)))

    results = run(3, body, timeout=600, limit=60)
    for text in results[1:]:
        assert "rank 0" in text or "coordinator" in text, text


def test_a_stopped_rank_is_named():
    def body(rank, size):
        dist.barrier()
        if rank == 1:
            pid = os.getpid()
            if os.fork() == 0:  # Somebody has to wake it again.
                time.sleep(6)
                os.kill(pid, signal.SIGCONT)
                os._exit(0)
            die(signal.SIGSTOP)
            return "stopped"
        return error_of(lambda: dist.all_reduce(torch.ones(10)))

    results = run(3, body, timeout=600, limit=60)
    assert all("rank 1" in text for text in results if text != "stopped")


def test_an_exception_on_one_rank_does_not_keep_it_from_ending():
    def body(rank, size):
        tensor = torch.ones(1000)
        dist.all_reduce(tensor)
        if rank == 1:
            dist.destroy_process_group()
            return "left"
        return error_of(lambda: dist.all_reduce(tensor))

    results = run(3, body, timeout=600, limit=60)
    assert all("rank 1" in text for text in results if text != "left")
