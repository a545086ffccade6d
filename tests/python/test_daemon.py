"""With a daemon: two jobs at once, and keys that do not fit. SUMCASTD names the program."""

import datetime
import os
import re
import socket
import socketserver
import subprocess
import threading
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

    def settings(rank):
        if wrong == "key":
            return {"SUMCAST_KEY_FILE": key_file(tmp_path / f"key {rank}", "6")}
        return {"SUMCAST_INSECURE": "1"}

    for text in texts_of_a_refused_start(tmp_path, address, settings):
        assert ("key" in text if wrong == "key" else "requires a key" in text), text
        assert address in text, text


def texts_of_a_refused_start(tmp_path, address, settings):
    """What two ranks get, long before the ten minutes that they would wait for one another."""

    def body(rank, size):
        os.environ.update(settings(rank), MASTER_ADDR="127.0.0.1", SUMCAST_AGGREGATOR=address)
        store = dist.FileStore(str(tmp_path / "store"), 2)
        return error_of(lambda: dist.init_process_group(
            "sumcast", store=store, rank=rank, world_size=2,
            timeout=datetime.timedelta(seconds=600)))

    texts = run(2, body, join=False, limit=30)
    assert all("\n" not in text and text.startswith("RuntimeError: sumcast: ") for text in texts), texts
    return texts


class AnotherVersion(socketserver.ThreadingTCPServer):
    """Between ranks and a daemon: its hello says that it speaks version 9."""

    daemon_threads = True
    allow_reuse_address = True

    def __init__(self, behind):
        self.behind = behind
        super().__init__(("127.0.0.1", 0), AnotherVersion.Relay)

    class Relay(socketserver.BaseRequestHandler):
        def handle(self):
            with socket.create_connection(self.server.behind) as daemon:
                hello = daemon.recv(4096)
                changed = re.sub(rb'("protocol": ?)\d', rb"\g<1>9", hello)
                assert changed != hello
                self.request.sendall(changed)
                self.request.settimeout(20)
                while self.request.recv(4096):  # Until the rank has had enough of it.
                    pass


def test_a_daemon_of_another_version_is_an_error_on_every_rank(daemon, tmp_path):
    address, key = daemon
    host, port = address.split(":")
    with AnotherVersion((host, int(port))) as other:
        threading.Thread(target=other.serve_forever, daemon=True).start()
        where = f"127.0.0.1:{other.server_address[1]}"
        texts = texts_of_a_refused_start(tmp_path, where, lambda rank: {"SUMCAST_KEY_FILE": key})
        other.shutdown()
    for text in texts:
        assert f"{where} speaks control protocol 9" in text, text
