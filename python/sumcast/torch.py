"""Questions about Sumcast's process groups, beside what torch.distributed offers."""

import datetime

import torch
import torch.distributed as dist

from sumcast import _native

__all__ = ["stats", "monitored_barrier"]


def stats():
    """What this process's groups have done.

    Returns {"groups": {name: {operation: {"count", "failed", "bytes", "seconds"}}}, "transport":
    {"datagrams_sent", "datagrams_received", "retransmits", "rejected", "bytes_folded"}, "staging":
    {"operations", "bytes_in", "bytes_out", "seconds_in", "seconds_out"}}. Seconds run from the call
    until its completion was noticed; bytes are those of this rank's input tensors. "staging" has the
    calls on tensors of an accelerator, and what was copied to the host and back for them, once the
    device has done it; its seconds are the device's own (0 where it has no clock).
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
