"""With a daemon: two jobs at once, and keys that do not fit. SUMCASTD names the program."""

import datetime
import os
import socket
import subprocess
import time

import pytest
import torch
import torch.distributed as dist

from ranks import error_of, run

SUMCASTD = os.environ.get("SUMCASTD", "")
pytestmark = pytest.mark.skipif(not SUMCASTD, reason="SUMCASTD does not name the daemon")


def key_file(path, digit):
    path.write_text(digit * 64 + "\n")
    path.chmod(0o600)
    return str(path)


@pytest.fixture
def daemon(daemon_process):
    """The daemon's address and its key file."""
    return daemon_process[:2]


@pytest.fixture
def daemon_process(tmp_path):
    """Beside that, its process."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{probe.getsockname()[1]}"
    key = key_file(tmp_path / "key", "5")
    process = subprocess.Popen([SUMCASTD, "--listen", address, "--key-file", key, "--http", ""],
                               stderr=subprocess.DEVNULL)
    host, port = address.split(":")
    until = time.monotonic() + 20
    while time.monotonic() < until:
        with socket.socket() as probe:
            if probe.connect_ex((host, int(port))) == 0:
                break
        time.sleep(0.05)
    yield address, key, process.pid
    process.terminate()
    process.wait(10)


def test_two_jobs_share_a_daemon(daemon, tmp_path):
    address, key = daemon

    def body(rank, size):
        job, place = divmod(rank, 2)
        os.environ.update(MASTER_ADDR="127.0.0.1", SUMCAST_AGGREGATOR=address, SUMCAST_KEY_FILE=key,
                          SUMCAST_ALGORITHM="in-network", SUMCAST_ONE_RANK_PER_HOST="1")
        store = dist.FileStore(str(tmp_path / f"store {job}"), 2)
        dist.init_process_group("sumcast", store=store, rank=place, world_size=2)
        for step in range(20):
            tensor = torch.full((5000,), 10.0 * job + step)
            dist.all_reduce(tensor)
            assert (tensor == 2 * (10.0 * job + step)).all()
        dist.destroy_process_group()

    run(4, body, join=False)


@pytest.mark.parametrize("wrong", ["key", "insecure"])
def test_a_key_that_does_not_fit_is_an_error_on_every_rank(daemon, tmp_path, wrong):
    address, _ = daemon

    def body(rank, size):
        os.environ.update(MASTER_ADDR="127.0.0.1", SUMCAST_AGGREGATOR=address)
        if wrong == "key":
            os.environ["SUMCAST_KEY_FILE"] = key_file(tmp_path / f"key {rank}", "6")
        else:
            os.environ["SUMCAST_INSECURE"] = "1"
        store = dist.FileStore(str(tmp_path / "store"), 2)
        return error_of(lambda: dist.init_process_group(
            "sumcast", store=store, rank=rank, world_size=2,
            timeout=datetime.timedelta(seconds=10)))

    for text in run(2, body, join=False):
        assert ("key" in text or "secure" in text) and "\n" not in text, text
        print(text)
