"""Questions about Sumcast's process groups, beside what torch.distributed offers."""

import datetime

import torch
import torch.distributed as dist

from sumcast import _native

__all__ = ["stats", "monitored_barrier", "queue_ahead"]


def stats():
    """What this process's groups and tables have done.

    Returns {"groups": {name: {operation: {"count", "failed", "bytes", "seconds"}}}, "transport":
    {"datagrams_sent", "datagrams_received", "retransmits", "rejected", "bytes_folded", "compact"}, "staging":
    {"operations", "bytes_in", "bytes_out", "seconds_in", "seconds_out"}, "tables": {name: {"rounds",
    "hot_pushed", "cold_pushed", "hot_moved", "cold_pulled", "hot_keys", "hot_changes", "rows_held",
    "failovers", "checkpoints", "returns"}}}. Seconds run from the call
    until its completion was noticed; bytes are those of this rank's input tensors. "staging" has the
    calls on tensors of an accelerator, and what was copied to the host and back for them, once the
    device has done it; its seconds are the device's own (0 where it has no clock).
    """
    return _native.stats()


def queue_ahead(on=True, *, device=None, gate=None):
    """Whether calls on an accelerator's tensors are queued on it whole when they are made.

    If so, wait() without a timeout blocks the host for nothing, as NCCL's does, and a failure after
    it shows in the group's next call; the tensor is of no worth then, and the program has gone on
    with it. Of this process and of calls made from now on; off to begin with. Point to point is as
    before, and so are devices whose streams cannot wait for the host. CUDA's can.

    device, gate: what makes a stream of this kind of device wait, from the maker of another device:
    the address of a C function int(void *native_stream, const uint32_t *word), which queues that what
    follows waits until *word, in pinned memory, is 1 or more, and returns 0, or queues nothing.
    """
    if (device is None) != (gate is None):
        raise ValueError("sumcast: queue_ahead takes a device and its gate, or neither")
    if device is not None:
        _native.set_stream_gate(torch.device(device).type, gate)
    _native.set_queueing_ahead(on)


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
