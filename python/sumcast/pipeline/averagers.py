"""How a pipeline reaches the other ranks: operations that run while it computes.

All ranks call them in one order. A handle's wait() gives the result; a tensor that was handed over
belongs to the operation until then. Two kinds:

    TorchAverager   a torch.distributed process group, one rank per process
    LocalRanks      all ranks in one process, for the study of learning without a network. Each
                    waits only after all have begun (see `lockstep`), and sums are those of the
                    library (docs/numerics.md: left fold in rank order, f32 accumulator), bit for bit
"""

import torch
import torch.distributed as dist


def complete(steps):
    """Runs a generator that yields where it is about to wait; what it returns."""
    try:
        while True:
            next(steps)
    except StopIteration as end:
        return end.value


def lockstep(generators):
    """Runs one such generator per rank of LocalRanks together; what they return, by rank.

    All yield equally often, for every decision is made on reduced values.
    """
    generators = list(generators)
    results = [None] * len(generators)
    left = set(range(len(generators)))
    while left:
        for rank in sorted(left):
            try:
                next(generators[rank])
            except StopIteration as end:
                results[rank] = end.value
                left.discard(rank)
    return results


class TorchAverager:
    """Over a process group, whose timeout bounds every wait."""

    def __init__(self, group):
        self._group = group
        self.rank = dist.get_rank(group)
        self.ranks = dist.get_world_size(group)

    def sum(self, tensor):
        """In place."""
        return _Reduced(dist.all_reduce(tensor, group=self._group, async_op=True), tensor)

    def maximum(self, tensor):
        """In place."""
        work = dist.all_reduce(tensor, dist.ReduceOp.MAX, group=self._group, async_op=True)
        return _Reduced(work, tensor)

    def gather(self, tensor):
        """A list of all ranks' tensors, of equal shape."""
        everybody = [torch.empty_like(tensor) for _ in range(self.ranks)]
        work = dist.all_gather(everybody, tensor, group=self._group, async_op=True)
        return _Reduced(work, everybody)


class _Reduced:
    def __init__(self, work, result):
        self._work = work
        self._result = result

    def wait(self):
        self._work.wait()
        return self._result


class LocalRanks:
    """Where ranks of one process meet."""

    def __init__(self, ranks):
        self.ranks = ranks
        self._exchanges = {}  # by sequence number: (what to do, tensors by rank, result)

    def averager(self, rank):
        return _LocalAverager(self, rank)

    def enter(self, sequence, rank, combine, tensor):
        entry = self._exchanges.setdefault(sequence, {"shares": {}, "left": self.ranks})
        # Whoever overwrites a gradient in flight would find it out: it is read when all wait.
        entry["shares"][rank] = tensor
        entry["combine"] = combine

    def result(self, sequence, rank):
        entry = self._exchanges[sequence]
        if len(entry["shares"]) < self.ranks:
            raise RuntimeError(f"sumcast.pipeline: local rank {rank} waits for an operation that "
                               "others have not begun; run the ranks' steps with lockstep()")
        if "result" not in entry:
            shares = [entry["shares"][r] for r in range(self.ranks)]
            entry["result"] = entry["combine"](shares)
        entry["left"] -= 1
        if entry["left"] == 0:
            del self._exchanges[sequence]
        return entry["result"]


class _LocalAverager:
    def __init__(self, meeting, rank):
        self._meeting = meeting
        self.rank = rank
        self.ranks = meeting.ranks
        self._next = 0

    def _begin(self, combine, tensor):
        self._next += 1
        self._meeting.enter(self._next, self.rank, combine, tensor)
        return _LocalHandle(self._meeting, self._next, self.rank, tensor)

    def sum(self, tensor):
        return self._begin(_sum, tensor)

    def maximum(self, tensor):
        return self._begin(_maximum, tensor)

    def gather(self, tensor):
        return self._begin(lambda shares: [share.clone() for share in shares], tensor)


class _LocalHandle:
    def __init__(self, meeting, sequence, rank, tensor):
        self._meeting, self._sequence, self._rank = meeting, sequence, rank
        self._tensor = tensor

    def wait(self):
        result = self._meeting.result(self._sequence, self._rank)
        return result if isinstance(result, list) else self._tensor.copy_(result)


def _sum(shares):
    narrow = shares[0].dtype in (torch.float16, torch.bfloat16)
    total = shares[0].float() if narrow else shares[0].clone()
    for share in shares[1:]:
        total += share
    return total.to(shares[0].dtype)


def _maximum(shares):
    most = shares[0].clone()
    for share in shares[1:]:
        torch.maximum(most, share, out=most)
    return most
