"""EmbeddingBag on several ranks: one table, whatever their number."""

import json
import os
import signal
import threading
import time

import pytest
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

import sumcast
import sumcast.torch
from ranks import Killed, error_of, run
from test_daemon import SUMCASTD, daemon, daemon_process  # noqa: F401

DIM = 4
KEYS = torch.arange(40) * 0x123456789ABCDEF - 2**62


def train(rank, size, steps=5, own=False, exact=False, before_step=lambda step: None, **arguments):
    """Rows after some steps over a global batch of eight bags, cut into as many parts as ranks.

    own: no key is in two bags. exact: gradients are small whole numbers, which add exactly.
    """
    table = sumcast.EmbeddingBag(DIM, "sum", **arguments)
    for step in range(steps):
        before_step(step)
        generator = torch.Generator().manual_seed(step)
        bags = torch.randint(0, 40 // 8 if own else 40, (8, 6), generator=generator)
        if own:
            bags += 5 * torch.arange(8)[:, None]
        weights = torch.randint(-8, 9, (8, DIM), generator=generator).float()
        share = slice(rank * 8 // size, (rank + 1) * 8 // size)
        out = table(KEYS[bags[share]])
        loss = (out * weights[share]).sum()
        (loss if exact else loss + out.square().sum() / 3).backward()
        table.step()
    rows = table.rows(KEYS).tolist()
    counters = table.counters()
    table.close()
    return rows, counters


def rows_of(size, **arguments):
    results = run(size, lambda rank, size: train(rank, size, **arguments), join=size > 1)
    for rows, _ in results[1:]:
        assert rows == results[0][0]
    return results[0][0]


@pytest.mark.parametrize("optimizer", ["sgd", "adagrad", "adam"])
def test_any_number_of_ranks_gives_the_same_bits_where_sums_are_exact(optimizer):
    for exact in ({"own": True}, {"exact": True}):
        one, two, four = (rows_of(n, optimizer=optimizer, average=False, **exact) for n in (1, 2, 4))
        assert one == two == four


def test_where_sums_are_rounded_ranks_differ_by_rounding_alone():
    one, four = (torch.tensor(rows_of(n, optimizer="adagrad", average=False)) for n in (1, 4))
    torch.testing.assert_close(one, four, rtol=1e-5, atol=1e-6)


def test_servers_hot_keys_and_steps_ahead_change_no_bit():
    plain = rows_of(3, optimizer="adam")
    assert rows_of(3, optimizer="adam", servers=1) == plain
    assert rows_of(3, optimizer="adam", servers=2, segments=7) == plain
    assert rows_of(3, optimizer="adam", hot=KEYS[:20]) == plain
    assert rows_of(3, optimizer="adam", hot=10, track=2, servers=1) == plain


def test_a_model_under_ddp_is_the_model_of_one_process():
    def body(rank, size):
        torch.manual_seed(5)
        dense = torch.nn.Linear(DIM, 1)
        table = sumcast.EmbeddingBag(DIM, "mean", optimizer="adagrad", lr=0.1)
        model = torch.nn.Sequential(table, dense)
        if size > 1:
            model = DistributedDataParallel(model)
        optimizer = torch.optim.SGD(dense.parameters(), lr=0.1)
        table.attach(optimizer)
        for step in range(5):
            generator = torch.Generator().manual_seed(step)
            bags = torch.randint(0, 40, (8, 6), generator=generator)
            labels = torch.randint(0, 2, (8, 1), generator=generator).float()
            share = slice(rank * 8 // size, (rank + 1) * 8 // size)
            optimizer.zero_grad()
            torch.nn.functional.binary_cross_entropy_with_logits(
                model(KEYS[bags[share]]), labels[share]).backward()
            optimizer.step()
        rows = table.rows(KEYS)
        table.close()
        return rows.tolist(), dense.weight.tolist()

    one = run(1, body, join=False)[0]
    for four in run(4, body):
        for mine, theirs in zip(four, one):
            torch.testing.assert_close(torch.tensor(mine), torch.tensor(theirs), rtol=1e-5, atol=1e-6)


def test_groups_of_other_backends_and_subgroups_have_tables():
    def body(rank, size):
        group = dist.new_group([1, 2])
        whole = train(rank, size, steps=2)[0]
        if rank == 0:
            text = error_of(lambda: sumcast.EmbeddingBag(DIM, process_group=group))
            assert "not in" in text
            return whole, None
        return whole, train(rank - 1, 2, steps=2, process_group=group)[0]

    results = run(3, body, backend="gloo")
    assert results[0][0] == results[1][0] == results[2][0]
    assert results[1][1] == results[2][1] == rows_of(2, steps=2)


def test_ranks_that_want_different_tables_get_the_same_error():
    def body(rank, size):
        dims = error_of(lambda: sumcast.EmbeddingBag(4 if rank else 8, optimizer="adam"))
        kinds = error_of(lambda: sumcast.EmbeddingBag(4, optimizer="sgd" if rank == 2 else "adam"))
        means = error_of(lambda: sumcast.EmbeddingBag(4, average=rank != 1))
        return dims, kinds, means, train(rank, size, steps=1)[0]  # The group is as it was.

    for dims, kinds, means, _ in run(3, body):
        assert means.startswith("ValueError: sumcast: ranks ask for different tables: average is ")
        assert dims == ("ValueError: sumcast: ranks ask for different tables: width is 8 on rank 0 "
                        "and 4 on rank 1")
        assert "optimizer is 'adam' on rank 0 and 'sgd' on rank 2" in kinds


def test_ranks_that_call_different_things_get_an_error():
    def body(rank, size):
        table = sumcast.EmbeddingBag(DIM, "sum")
        text = error_of(lambda: table(KEYS[None]) if rank == 0 else table.rows(KEYS))
        later = error_of(table.step)
        table.close()
        return text, later

    for text, later in run(2, body):
        assert text.startswith("DistBackendError") and "different things" in text
        assert "different things" in later


def test_a_rank_that_dies_is_an_error_within_seconds():
    def body(rank, size):
        table = sumcast.EmbeddingBag(DIM, "sum")

        def look_up():
            table.rows(KEYS)  # Rank 1 may have its rows, and die, before another rank has its own.
            if rank == 1:
                os.kill(os.getpid(), signal.SIGKILL)
            table(KEYS[None])

        begun = time.monotonic()
        text = error_of(look_up)
        return text, time.monotonic() - begun

    results = run(3, body)
    assert isinstance(results[1], Killed)
    for text, seconds in (results[0], results[2]):
        assert "died" in text and seconds < 20, text


def test_a_rank_that_does_not_come_is_named():
    def body(rank, size):
        if rank == 1:
            return ""
        return error_of(lambda: sumcast.EmbeddingBag(DIM, timeout=1.5))

    texts = run(2, body)
    assert "rank 1 of 2 has not come to open the table" in texts[0]


def test_a_rank_that_waits_lets_other_threads_run():
    def body(rank, size):
        table = sumcast.EmbeddingBag(DIM, "sum")
        if rank == 1:
            time.sleep(1)
            table.rows(KEYS)
            return 0
        ticks, stop = [], threading.Event()

        def count():
            while not stop.wait(0.01):
                ticks.append(0)

        thread = threading.Thread(target=count)
        thread.start()
        table.rows(KEYS)
        counted = len(ticks)
        stop.set()
        thread.join()
        return counted

    assert run(2, body)[0] > 5


def test_an_abort_ends_all_ranks():
    def body(rank, size):
        table = sumcast.EmbeddingBag(DIM, "sum")
        if rank == 1:
            time.sleep(0.3)
            table.abort("enough of it")
        return error_of(lambda: table(KEYS[None]))

    for text in run(2, body):
        assert "enough of it" in text


def test_a_checkpoint_is_for_any_number_of_ranks(tmp_path):
    folder = str(tmp_path / "rows")

    def first(rank, size):
        table = sumcast.EmbeddingBag(DIM, "sum", optimizer="adagrad", checkpoint=folder)
        for step in range(3):
            table(KEYS[step * 8 + rank:][None, :20]).square().sum().backward()
            table.step()
        table.save({"rank": rank})
        return table.rows(KEYS).tolist()

    def second(rank, size):
        table = sumcast.EmbeddingBag(DIM, "sum", optimizer="adagrad", checkpoint=folder, resume=True)
        return table.restored, table.rows(KEYS).tolist()

    wanted = run(3, first)[0]
    for size in (2, 1):
        for state, rows in run(size, second, join=size > 1):
            assert state == {"rank": 0} and rows == wanted


@pytest.mark.skipif(not SUMCASTD, reason="SUMCASTD does not name the daemon")
def test_a_daemon_sums_hot_rows(daemon):  # noqa: F811
    address, key = daemon
    wanted = rows_of(2, optimizer="adam")

    def body(rank, size):
        os.environ.update(SUMCAST_AGGREGATOR=address, SUMCAST_KEY_FILE=key,
                          SUMCAST_ALGORITHM="in-network")
        return train(rank, size, optimizer="adam", hot=KEYS[:20])

    for rows, counters in run(2, body):
        assert rows == wanted and counters["hot_pushed"] > 0


@pytest.mark.skipif(not SUMCASTD, reason="SUMCASTD does not name the daemon")
def test_training_outlives_the_daemon_with_the_same_bits(daemon_process):  # noqa: F811
    address, key, pid = daemon_process
    wanted = rows_of(2, optimizer="adam")

    def body(rank, size):
        def kill(step):
            if rank == 0 and step == 2:
                os.kill(pid, signal.SIGKILL)

        os.environ.update(SUMCAST_AGGREGATOR=address, SUMCAST_KEY_FILE=key)
        return train(rank, size, optimizer="adam", hot=KEYS[:20], before_step=kill)

    for rows, counters in run(2, body, backend="gloo"):
        assert rows == wanted and counters["failovers"] == 1


def test_many_tables_live_side_by_side():
    def body(rank, size):
        tables = [sumcast.EmbeddingBag(DIM, "sum", name=f"table {i}") for i in range(4)]
        for table in tables:
            table(KEYS[None, rank * 10:]).sum().backward()
        for table in tables:
            table.step()
        counted = sumcast.torch.stats()["tables"]
        rows = [table.rows(KEYS).tolist() for table in tables]
        assert rows[1:] == rows[:-1]
        return json.dumps(counted)

    assert "table 3" in run(2, body)[0]
