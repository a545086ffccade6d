"""Questions about Sumcast's process groups, beside what torch.distributed offers."""

import datetime

import torch
import torch.distributed as dist

from sumcast import _native

__all__ = ["stats", "monitored_barrier"]


def stats():
    """What this process's groups and tables have done.

    Returns {"groups": {name: {operation: {"count", "failed", "bytes", "seconds"}}}, "transport":
    {"datagrams_sent", "datagrams_received", "retransmits", "rejected", "bytes_folded"}, "tables": {name: {"rounds",
    "hot_pushed", "cold_pushed", "hot_moved", "cold_pulled", "hot_keys", "hot_changes", "rows_held",
    "failovers", "checkpoints"}}}. Seconds run
    from the call until its completion was noticed; bytes are those of this rank's input tensors.
    """
    return _native.stats()


def monitored_barrier(group=None, timeout=None, wait_all_ranks=False):
    """torch.distributed.monitored_barrier, which torch itself offers for gloo only."""
    group = group or dist.group.WORLD
    if dist._rank_not_in_group(group):
        return
    if timeout is None:
        timeout = group._get_backend(torch.device("cpu")).options._timeout
    if not isinstance(timeout, datetime.timedelta):
        timeout = datetime.timedelta(seconds=timeout)
    group.monitored_barrier(timeout, wait_all_ranks=wait_all_ranks)
