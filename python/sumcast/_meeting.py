"""How the ranks of a job find each other.

Without a daemon, rank 0 makes a key and a name at random, listens on a free port, and hands all
three to the others through the store that torch.distributed has at hand; when all have joined it
deletes them. A daemon has to know the key beforehand, so with one only the name passes through the
store.

The default process group joins a job; groups made later are groups of that job. A group whose ranks
are not in it (the default group has another backend) joins a job of its own.
"""

import atexit
import datetime
import json
import os
import secrets
import socket
import time

from sumcast import _native

# Seconds to try for an aggregator. The other ranks may take as long as the group's timeout, half an
# hour by default; a daemon was started before, or starts beside them.
REACH_SECONDS = 60

# A program that ends without destroy_process_group() leaves all the same.
atexit.register(_native.leave_all)

# The job of the default process group, a weak reference: it lives as long as its groups do.
_default_job = None


def create_backend(options, backend_options):
    """What torch calls for each device of each process group that is made.

    options: store, group_rank, group_size, timeout, group_id, global_ranks_in_group (empty for the
    default group).
    """
    global _default_job
    timeout_ms = _milliseconds(getattr(backend_options, "_timeout", None) or options.timeout)
    ranks = [int(rank) for rank in options.global_ranks_in_group]
    job = _default_job() if _default_job is not None else None
    if ranks and job is not None and set(ranks) <= set(job.ranks):
        return _native.open_group(job, ranks, options.group_id, timeout_ms)
    job = _join(options, ranks or list(range(options.group_size)), timeout_ms)
    if not ranks:
        _default_job = _native.WeakJob(job)
    return _native.open_group(job, None, options.group_id, timeout_ms)


def _milliseconds(timeout):
    if isinstance(timeout, datetime.timedelta):
        timeout = timeout.total_seconds()
    return max(1, int(1000 * timeout))


def _join(options, ranks, timeout_ms, join=_native.join):
    """Meets the other ranks over options.store; what `join` then makes of the meeting."""
    rank, store = options.group_rank, options.store
    aggregator = _native.setting("aggregator")
    key_file = _native.setting("key_file")
    insecure = bool(_native.setting("insecure"))
    if aggregator and not key_file and not insecure:
        raise RuntimeError(
            "sumcast: a daemon (SUMCAST_AGGREGATOR) has to hold the job's key: set SUMCAST_KEY_FILE "
            "to the file that it was started with, or SUMCAST_INSECURE=1 on both sides"
        )
    meeting = {
        "job": "",
        "aggregator": aggregator,
        "coordinator": "",
        "key_file": key_file,
        "key": b"",
        "insecure": insecure,
        "on_listening": None,
        "rank": rank,
        "ranks": ranks,
        "timeout_ms": timeout_ms,
    }
    until = time.monotonic() + timeout_ms / 1000
    if rank != 0:
        _Guest(store, meeting, until).hear()
        _reach(aggregator, timeout_ms)
        return join(**meeting)
    host = _Host(store, meeting, until)
    try:
        hosts = host.receive()
        _reach(aggregator, timeout_ms)
        _announce(host, meeting, hosts)
        job = join(**meeting)
    except Exception as error:
        # The others would wait for the meeting; they are told instead.
        host.refuse(str(error).removeprefix("sumcast: "))
        raise
    # All have read it. A key does not stay where others may look.
    host.forget()
    return job


# A store may outlive processes (torchrun keeps one over restarts) and serve several starts. What lies
# in it may be of ranks that are gone, so nothing is believed that does not answer the reader:
#
#   sumcast/start                    rank 0: the start's name, at random; the newest counts
#   sumcast/<start>/host/<rank>      the others: host, number of ranks, a nonce
#   sumcast/<start>/to/<nonce>       rank 0's answer to it
#   sumcast/<start>/size, /error     rank 0: its number of ranks; why the start failed. Believed if no
#                                    newer start comes for BELIEF_SECONDS.

BELIEF_SECONDS = 5
_LOOK_SECONDS = (0.005, 0.2)  # Between two looks, at first and at most.


class _Host:
    """Rank 0's side of a start."""

    def __init__(self, store, meeting, until):
        self.store, self.meeting, self.until = store, meeting, until
        self.size = len(meeting["ranks"])
        self.place = f"sumcast/{secrets.token_hex(8)}"
        self.guests = {}
        store.set(f"{self.place}/size", str(self.size))
        store.set("sumcast/start", self.place)

    def receive(self):
        """The others' hosts, when all have come; all must mean the same number of ranks."""
        for rank in range(1, self.size):
            left = max(0.001, self.until - time.monotonic())
            try:
                self.store.wait([f"{self.place}/host/{rank}"], datetime.timedelta(seconds=left))
            except Exception as error:
                missing = ", ".join(str(one) for one in range(1, self.size) if not self._sees(one))
                raise RuntimeError(
                    f"sumcast: rank {missing or rank} of {self.size} has not come to "
                    f"init_process_group within {self.meeting['timeout_ms'] / 1000:g} s"
                ) from error
            said = self._sees(rank)
            if said["size"] != self.size:
                raise RuntimeError(
                    f"sumcast: rank 0 was told that there are {self.size} ranks, and rank {rank} "
                    f"that there are {said['size']}; start all with one world size"
                )
        return [self.guests[rank]["host"] for rank in range(1, self.size)]

    def _sees(self, rank):
        """What the rank said when it came; what it may say later is not looked at."""
        if rank not in self.guests and self.store.check([f"{self.place}/host/{rank}"]):
            self.guests[rank] = json.loads(self.store.get(f"{self.place}/host/{rank}"))
        return self.guests.get(rank)

    def answer(self, said):
        for guest in self.guests.values():
            self.store.set(f"{self.place}/to/{guest['nonce']}", json.dumps(said))

    def refuse(self, why):
        try:
            for rank in range(1, self.size):
                self._sees(rank)
            self.answer({"error": why})
            self.store.set(f"{self.place}/error", why)
        except Exception:  # The store is gone; the error at hand says more.
            pass

    def forget(self):
        names = [f"{self.place}/host/{rank}" for rank in self.guests]
        names += [f"{self.place}/to/{guest['nonce']}" for guest in self.guests.values()]
        for name in names:
            try:
                self.store.delete_key(name)
            except Exception:  # Some stores cannot delete.
                return


class _Guest:
    """Another rank's side: it comes to the newest start until one answers."""

    def __init__(self, store, meeting, until):
        self.store, self.meeting, self.until = store, meeting, until
        self.size = len(meeting["ranks"])
        self.nonce = secrets.token_hex(8)
        self.place = None
        self.came_at = 0.0

    def hear(self):
        """Fills in what rank 0 says."""
        said = self._answer()
        if "error" in said:
            raise RuntimeError(f"sumcast: rank 0 could not start the job: {said['error']}")
        self.meeting["job"] = said["job"]
        self.meeting["coordinator"] = said.get("coordinator", "")
        self.meeting["key"] = bytes.fromhex(said.get("key", ""))

    def _answer(self):
        pause, most = _LOOK_SECONDS
        while True:
            self._come()
            if self.place is not None:
                if self.store.check([f"{self.place}/to/{self.nonce}"]):
                    return json.loads(self.store.get(f"{self.place}/to/{self.nonce}"))
                if time.monotonic() > self.came_at + BELIEF_SECONDS:
                    self._believe()
            if time.monotonic() > self.until:
                raise RuntimeError(f"sumcast: {self._complaint()}")
            time.sleep(pause)
            pause = min(2 * pause, most)

    def _come(self):
        """To the newest start, once."""
        if not self.store.check(["sumcast/start"]):
            return
        place = self.store.get("sumcast/start").decode()
        if place == self.place:
            return
        self.place, self.came_at = place, time.monotonic()
        mine = {"host": _native.host_identity(), "size": self.size, "nonce": self.nonce}
        self.store.set(f"{place}/host/{self.meeting['rank']}", json.dumps(mine))

    def _believe(self):
        """This start has had time to answer, or to be followed by a newer one."""
        if self.store.check([f"{self.place}/error"]):
            why = self.store.get(f"{self.place}/error").decode()
            raise RuntimeError(f"sumcast: rank 0 could not start the job: {why}")
        size = int(self.store.get(f"{self.place}/size"))
        if size != self.size:
            raise RuntimeError(
                f"sumcast: rank 0 was told that there are {size} ranks, and rank "
                f"{self.meeting['rank']} that there are {self.size}; start all with one world size"
            )

    def _complaint(self):
        waited = f"{self.meeting['timeout_ms'] / 1000:g} s"
        if self.place is not None:
            missing = [
                str(rank)
                for rank in range(1, self.size)
                if not self.store.check([f"{self.place}/host/{rank}"])
            ]
            if missing:
                return (
                    f"rank {', '.join(missing)} of {self.size} has not come to init_process_group "
                    f"within {waited}"
                )
        return (
            f"rank {self.meeting['rank']} of {self.size} waited {waited} for rank 0, which has not "
            "come to init_process_group (or listens to another store)"
        )


def _reach(aggregator, timeout_ms):
    """Is it there? Said soon, not when the group's timeout has passed. Jobs begin at the first one."""
    first = aggregator.split(",")[0].strip()
    if not first:
        return
    host, _, port = first.rpartition(":")
    until = time.monotonic() + min(REACH_SECONDS, timeout_ms / 1000)
    while True:
        try:
            left = max(0.1, until - time.monotonic())
            socket.create_connection((host.strip("[]"), int(port)), timeout=left).close()
            return
        except ValueError:
            return  # Not an address, which joining says better.
        except OSError as error:
            trouble = error
        if time.monotonic() > until:
            raise RuntimeError(
                f"sumcast: the aggregator {first} (SUMCAST_AGGREGATOR) cannot be reached: {trouble}"
            )
        time.sleep(0.2)


def _announce(host, meeting, hosts):
    """Rank 0: makes up what the others need, and says it as soon as it listens."""
    meeting["job"] = "torch-" + secrets.token_hex(8)
    said = {"job": meeting["job"]}
    if meeting["aggregator"]:
        host.answer(said)
        return
    if not meeting["key_file"] and not meeting["insecure"]:
        meeting["key"] = secrets.token_bytes(32)
        said["key"] = meeting["key"].hex()
    address = _own_address(hosts)
    meeting["coordinator"] = (f"[{address}]" if ":" in address else address) + ":0"

    def on_listening(where):
        host.answer(dict(said, coordinator=where))

    meeting["on_listening"] = on_listening


def _wait(store, key, meeting, complaint):
    """Until `key` is in the store, at most the group's timeout."""
    try:
        store.wait([key], datetime.timedelta(milliseconds=meeting["timeout_ms"]))
    except Exception as error:
        raise RuntimeError(f"sumcast: {complaint}") from error


def _own_address(hosts):
    """The address of rank 0 that the others, on these hosts, reach.

    MASTER_ADDR is rank 0's host as the others know it, but on that host itself it may resolve to
    loopback (Debian: 127.0.1.1). That is fine if all ranks are on it, which their hosts tell.
    """
    master = os.environ.get("MASTER_ADDR", "")
    address = _native.reachable_address(master, True)
    if not address.startswith("127.") and address != "::1":
        return address
    if any(host != _native.host_identity() for host in hosts):
        return _native.reachable_address(master, False)
    return address
