"""Lossy gradients: what a rank sends in place of what it has, and what it owes.

An encoder sends a rank's shares (a flat tensor per bucket, already divided by the number of ranks)
and gives them back *decoded*: that is what enters the sum, and what everything else counts as this
rank's share. The difference is the residual, which error feedback adds to the next share.

    name    on the wire, each way                                                    feedback
    none    the tensor itself                                                        -
    bf16    16 bits; sums as the backend makes them (Sumcast: f32, rounded once)     yes
    fp16    the same
    int8    a byte, and an f32 per 256 elements: the largest magnitude over ranks,   yes
            exchanged while the last step's sum still travels. Codes of all ranks share that scale and
            are summed as integers, so each takes 127 / ranks levels each way; 63 ranks at most
    top-k   the k largest of each bucket as index and value, gathered (Lin et al. 2018,      yes
            Stich et al. 2018): 8 k (ranks - 1) bytes to each rank
    qsgd    a byte, and an f32 norm per 512 elements, gathered (Alistarh et al. 2017)    no: unbiased

Block sums do not clip. What is not finite is sent as it is or makes its whole block NaN on all ranks;
it is never owed.
"""

import math

import torch

_BLOCK = 256  # Elements that share a scale, as in the library's int8 (docs/numerics.md).
_NORM_BLOCK = 512


class Sending:
    """One bucket on its way."""

    def __init__(self, own, finish):
        self.own = own
        """What of this rank enters the sum; None if nobody asked for it."""
        self.wait = finish
        """Returns the mean; once."""


def make(spec):
    """The encoder of that name. ValueError, one line, if there is none."""
    name, _, argument = spec.partition(":")
    try:
        if name in _SIMPLE and not argument:
            return _SIMPLE[name]()
        if name == "top-k":
            return TopK(float(argument or 0.01))
        if name == "qsgd":
            return Qsgd(int(argument or 127))
    except ValueError as error:
        raise ValueError(f"sumcast.pipeline: compressor {spec!r}: {error}") from None
    raise ValueError(f"sumcast.pipeline: no compressor {spec!r}; there are none, bf16, fp16, int8, "
                     "top-k:SHARE, qsgd:LEVELS")


class Plain:
    wants_feedback = False
    lossless = True

    def check(self, ranks):
        pass

    def send(self, shares, step, averager, room=None):
        """Begins the sums of all buckets; a generator that yields before it waits.

        shares: belong to the sums from now on if the encoder is lossless; else the caller's again when
        this returns. step: seeds what is random. room: a tensor per bucket in which a lossless encoder
        keeps the own shares; None if nobody will ask. Returns Sendings.
        """
        sendings = []
        for number, share in enumerate(shares):
            own = room[number].copy_(share) if room is not None else None
            sendings.append(Sending(own, averager.sum(share).wait))
        return sendings
        yield  # A generator, as the others.


class Narrow(Plain):
    """bf16 and fp16."""

    wants_feedback = True
    lossless = False

    def __init__(self, dtype):
        self._dtype = dtype

    def send(self, shares, step, averager, room=None):
        sendings = []
        for share in shares:
            narrow = share.to(self._dtype)
            own = narrow.float()
            handle = averager.sum(narrow)
            sendings.append(Sending(own, lambda handle=handle: handle.wait().float()))
        return sendings
        yield


class Int8(Plain):
    wants_feedback = True
    lossless = False

    def check(self, ranks):
        if ranks > 63:
            raise ValueError(f"sumcast.pipeline: int8 sums of {ranks} ranks leave each less than two "
                             "levels; 63 ranks at most, use bf16")

    def send(self, shares, step, averager, room=None):
        blocks = [_in_blocks(share, _BLOCK) for share in shares]
        most = torch.cat([block.abs().amax(dim=1) for block in blocks])
        most[~most.isfinite()] = math.inf
        handle = averager.maximum(most)
        yield
        levels = 127 // averager.ranks
        step_sizes = (handle.wait() / levels).split([len(block) for block in blocks])
        sendings = []
        for share, block, size in zip(shares, blocks, step_sizes):
            size = size.unsqueeze(1)
            usable = (size > 0) & size.isfinite()
            codes = torch.where(usable, block / size, 0.0).nan_to_num_(0.0)
            codes = codes.round_().clamp_(-levels, levels)
            # A block that holds what is not finite has no scale: its sum is NaN everywhere.
            size = torch.where(size.isfinite(), size, math.nan)
            own = (codes * size).reshape(-1)[:share.numel()]
            handle = averager.sum(codes.to(torch.int8))
            sendings.append(Sending(own, lambda handle=handle, size=size, n=share.numel():
                                    (handle.wait().float() * size).reshape(-1)[:n]))
        return sendings


class TopK(Plain):
    wants_feedback = True
    lossless = False

    def __init__(self, share):
        if not 0 < share <= 1:
            raise ValueError(f"the share must be above 0 and at most 1, not {share:g}")
        self._share = share

    def send(self, shares, step, averager, room=None):
        sendings = []
        for share in shares:
            count = min(share.numel(), max(1, math.ceil(self._share * share.numel())))
            # NaN counts as largest: it must travel, not hide.
            magnitudes = share.abs().nan_to_num_(nan=math.inf, posinf=math.inf)
            places = torch.topk(magnitudes, count, sorted=False).indices
            values = share[places]
            own = torch.zeros_like(share).index_copy_(0, places, values)
            packed = torch.cat([places.to(torch.int32), values.view(torch.int32)])
            handle = averager.gather(packed)
            sendings.append(Sending(own, lambda handle=handle, n=share.numel(), k=count:
                                    _add_up(handle.wait(), n, k)))
        return sendings
        yield


def _add_up(everybody, elements, count):
    mean = torch.zeros(elements)
    for packed in everybody:  # In rank order: the same bits everywhere.
        mean.index_add_(0, packed[:count].long(), packed[count:].view(torch.float32))
    return mean


class Qsgd(Plain):
    lossless = False

    def __init__(self, levels):
        if not 1 <= levels <= 127:
            raise ValueError(f"levels must be 1 to 127, not {levels}")
        self._levels = levels

    def send(self, shares, step, averager, room=None):
        random = torch.Generator().manual_seed((step << 16) + averager.rank)
        sendings = []
        for share in shares:
            block = _in_blocks(share, _NORM_BLOCK)
            norms = block.norm(dim=1, dtype=torch.float64).float().unsqueeze(1)
            usable = (norms > 0) & norms.isfinite()
            scaled = torch.where(usable, block.abs() / norms, 0.0).nan_to_num_(0.0) * self._levels
            below = scaled.floor()
            codes = below + (torch.rand(scaled.shape, generator=random) < scaled - below)
            codes = (codes.clamp_(max=self._levels) * block.nan_to_num(0.0).sign()).to(torch.int8)
            norms = torch.where(norms.isfinite(), norms, math.nan)
            own = self._decode(codes, norms, share.numel())
            packed = torch.cat([norms.view(torch.uint8).reshape(-1),
                                codes.view(torch.uint8).reshape(-1)])
            handle = averager.gather(packed)
            sendings.append(Sending(own, lambda handle=handle, n=share.numel():
                                    self._add_up(handle.wait(), n)))
        return sendings
        yield

    def _decode(self, codes, norms, elements):
        return (codes.float() * (norms / self._levels)).reshape(-1)[:elements]

    def _add_up(self, everybody, elements):
        blocks = -(-elements // _NORM_BLOCK)
        mean = torch.zeros(elements)
        for packed in everybody:
            norms = packed[:4 * blocks].view(torch.float32).unsqueeze(1)
            codes = packed[4 * blocks:].view(torch.int8).view(blocks, _NORM_BLOCK)
            mean += self._decode(codes, norms, elements)
        return mean


class Feedback:
    """Adds what is owed before, and takes what is owed after."""

    def __init__(self, flat):
        """flat: a tensor per bucket, whose shapes residuals have."""
        self.residuals = [torch.zeros_like(tensor) for tensor in flat]

    def add(self, shares):
        """To `shares`, in place. Until `owe` the residuals are what is wanted in all."""
        for share, residual in zip(shares, self.residuals):
            share.copy_(residual.add_(share))

    def owe(self, sendings):
        for residual, sending in zip(self.residuals, sendings):
            residual.sub_(sending.own).nan_to_num_(0.0, 0.0, 0.0)


def _in_blocks(flat, length):
    """f32[blocks, length], the last one filled up with zeros."""
    padding = -flat.numel() % length
    if padding:
        flat = torch.nn.functional.pad(flat, (0, padding))
    return flat.view(-1, length)


_SIMPLE = {"none": Plain, "bf16": lambda: Narrow(torch.bfloat16),
           "fp16": lambda: Narrow(torch.float16), "int8": Int8}
