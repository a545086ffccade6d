"""How the ranks of a process group open a table together.

Each puts what it asks for into the store; rank 0 compares, and all hear the same: go on, or which
rank wants something else. Then they meet as process groups do (_meeting.py), in a job of the
table's own, whatever the backend of the group is. Without a process group there is nobody to meet.
"""

import datetime
import json
import types

import torch
import torch.distributed as dist

from sumcast import _meeting, _native

_opened = {}  # By group: tables so far, the same on all ranks.

_DEFAULT_TIMEOUT = datetime.timedelta(minutes=10)


def open_table(name, settings, group=None, timeout=None):
    """A native table, and how many ranks share it.

    settings: by the names of sumcast_table_options. group: None is the default process group, or
    this process alone if there is none.
    """
    if not dist.is_available() or not dist.is_initialized():
        if group is not None:
            raise ValueError("sumcast: a process group, but torch.distributed is not initialized")
        return _native.open_table(name, _meeting._milliseconds(timeout or _DEFAULT_TIMEOUT), settings), 1
    group = group or dist.group.WORLD
    if dist._rank_not_in_group(group):
        raise ValueError("sumcast: this rank is not in the table's process group")
    rank, size = dist.get_rank(group), dist.get_world_size(group)
    timeout_ms = _meeting._milliseconds(timeout or _timeout_of(group))
    if size == 1:
        return _native.open_table(name, timeout_ms, settings), 1
    number = _opened[group.group_name] = _opened.get(group.group_name, 0) + 1
    store = dist.PrefixStore(f"sumcast/table/{group.group_name}/{number}",
                             dist.distributed_c10d._get_default_store())
    _agree(store, rank, size, dict(settings, table=name), timeout_ms)
    options = types.SimpleNamespace(store=store, group_rank=rank)
    ranks = dist.get_process_group_ranks(group)

    def join(**meeting):
        return _native.join_table(name=name, settings=settings, **meeting)

    return _meeting._join(options, ranks, timeout_ms, join), size


def _timeout_of(group):
    try:
        return group._get_backend(torch.device("cpu")).options._timeout
    except (RuntimeError, AttributeError):  # Of a group for other devices only.
        return _DEFAULT_TIMEOUT


def _agree(store, rank, size, settings, timeout_ms):
    """Raises the same ValueError on all ranks if they ask for different tables."""
    store.set(f"settings/{rank}", json.dumps(settings))
    meeting = {"timeout_ms": timeout_ms}
    if rank == 0:
        verdict = ""
        for other in range(1, size):
            _meeting._wait(store, f"settings/{other}", meeting,
                           f"rank {other} of {size} has not come to open the table within "
                           f"{timeout_ms / 1000:g} s")
            verdict = verdict or _difference(settings, json.loads(store.get(f"settings/{other}")), other)
        store.set("verdict", verdict or "none")
    else:
        _meeting._wait(store, "verdict", meeting,
                       f"rank 0 of {size} has not come to open the table, or waits for other ranks "
                       f"that have not, for {timeout_ms / 1000:g} s")
        verdict = store.get("verdict").decode()
    if verdict and verdict != "none":
        raise ValueError(f"sumcast: {verdict}")


def _difference(mine, theirs, rank):
    for key in mine:  # In their order: what others follow from comes first.
        if mine[key] != theirs.get(key) and key != "checkpoint_directory":
            return (f"ranks ask for different tables: {key} is {mine.get(key)!r} on rank 0 and "
                    f"{theirs.get(key)!r} on rank {rank}")
    return ""
