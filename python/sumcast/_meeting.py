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
# hour by default; a daemon was started before.
REACH_SECONDS = 20

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
    # One store may serve several starts, one after the other: the n-th start of each rank meets.
    attempt = store.add(f"sumcast/starts/{rank}", 1)
    place = f"sumcast/meeting/{attempt}"
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
    if rank != 0:
        _hear(store, place, meeting)
        _reach(aggregator, timeout_ms)
        return join(**meeting)
    try:
        hosts = _hosts(store, place, meeting)
        _reach(aggregator, timeout_ms)
        _announce(store, place, meeting, hosts)
        job = join(**meeting)
    except Exception as error:
        # The others would wait for the meeting; they are told instead.
        store.set(place, json.dumps({"error": str(error).removeprefix("sumcast: ")}))
        raise
    # All have read it. A key does not stay where others may look.
    _forget(store, place, meeting)
    return job


def _hosts(store, place, meeting):
    """Rank 0: the others' hosts, when all have come; all must mean the same number of ranks."""
    size = len(meeting["ranks"])
    hosts = []
    for rank in range(1, size):
        key = f"{place}/host/{rank}"
        _wait(store, key, meeting, f"rank {rank} of {size} has not come to init_process_group within "
                                   f"{meeting['timeout_ms'] / 1000:g} s")
        said = json.loads(store.get(key))
        if said["size"] != size:
            raise RuntimeError(f"sumcast: rank 0 was told that there are {size} ranks, and rank {rank} "
                               f"that there are {said['size']}; start all with one world size")
        hosts.append(said["host"])
    return hosts


def _reach(aggregator, timeout_ms):
    """Is one of these there? Said soon, not when the group's timeout has passed."""
    if not aggregator:
        return
    until = time.monotonic() + min(REACH_SECONDS, timeout_ms / 1000)
    while True:
        for where in aggregator.split(","):
            host, _, port = where.strip().rpartition(":")
            try:
                left = max(0.1, until - time.monotonic())
                socket.create_connection((host.strip("[]"), int(port)), timeout=left).close()
                return
            except ValueError:
                return  # Not an address, which joining says better.
            except OSError as error:
                trouble = error
        if time.monotonic() > until:
            raise RuntimeError(f"sumcast: the aggregator {aggregator} (SUMCAST_AGGREGATOR) cannot be "
                               f"reached: {trouble}")
        time.sleep(0.2)


def _announce(store, place, meeting, hosts):
    """Rank 0: makes up what the others need, and says it as soon as it listens."""
    meeting["job"] = "torch-" + secrets.token_hex(8)
    said = {"job": meeting["job"]}
    if meeting["aggregator"]:
        store.set(place, json.dumps(said))
        return
    if not meeting["key_file"] and not meeting["insecure"]:
        meeting["key"] = secrets.token_bytes(32)
        said["key"] = meeting["key"].hex()
    address = _own_address(hosts)
    meeting["coordinator"] = (f"[{address}]" if ":" in address else address) + ":0"

    def on_listening(where):
        store.set(place, json.dumps(dict(said, coordinator=where)))

    meeting["on_listening"] = on_listening


def _hear(store, place, meeting):
    """Other ranks: waits for what rank 0 says."""
    store.set(f"{place}/host/{meeting['rank']}",
              json.dumps({"host": _native.host_identity(), "size": len(meeting["ranks"])}))
    _wait(
        store,
        place,
        meeting,
        f"rank {meeting['rank']} of {len(meeting['ranks'])} waited "
        f"{meeting['timeout_ms'] / 1000:g} s for rank 0, which has not come to "
        "init_process_group (or listens to another store)",
    )
    said = json.loads(store.get(place))
    if "error" in said:
        raise RuntimeError(f"sumcast: rank 0 could not start the job: {said['error']}")
    meeting["job"] = said["job"]
    meeting["coordinator"] = said.get("coordinator", "")
    meeting["key"] = bytes.fromhex(said.get("key", ""))


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


def _forget(store, place, meeting):
    names = [f"{place}/host/{rank}" for rank in range(1, len(meeting["ranks"]))]
    for name in [place, *names]:
        try:
            store.delete_key(name)
        except Exception:  # Some stores cannot delete.
            return
