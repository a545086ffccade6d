"""Where each parameter's gradient lies in the buckets that are summed.

A bucket is one flat tensor of one dtype. Places are keyed by the parameter's number in the
optimiser, never by anybody else's buckets: DDP rebuilds its own after the first step.
"""

import dataclasses

import torch


@dataclasses.dataclass
class Bucket:
    dtype: torch.dtype
    device: torch.device
    fresh: bool
    """Summed within its step."""
    members: list
    """Numbers of its parameters, in order."""
    elements: int = 0


class Layout:
    """The same on all ranks, given the same parameters in the same order."""

    def __init__(self, parameters, fresh, bucket_bytes):
        """parameters: list of tensors that want gradients. fresh: numbers of those never late."""
        self.shapes = [parameter.shape for parameter in parameters]
        self.sizes = [parameter.numel() for parameter in parameters]
        self.buckets = []
        self.places = [None] * len(parameters)  # (bucket, first element) by parameter
        # Fresh ones first: sums stream in the order in which they begin.
        order = sorted(range(len(parameters)), key=lambda i: (i not in fresh, i))
        for number in order:
            self._place(number, parameters[number], number in fresh, bucket_bytes)
        self.fresh = sorted(fresh)
        self.late = [i for i in range(len(parameters)) if i not in fresh]

    def _place(self, number, parameter, fresh, bucket_bytes):
        for bucket in self.buckets:
            size = (bucket.elements + self.sizes[number]) * parameter.element_size()
            if (bucket.dtype, bucket.device, bucket.fresh) == (
                    parameter.dtype, parameter.device, fresh) and size <= bucket_bytes:
                break
        else:
            bucket = Bucket(parameter.dtype, parameter.device, fresh, [])
            self.buckets.append(bucket)
        self.places[number] = (self.buckets.index(bucket), bucket.elements)
        bucket.members.append(number)
        bucket.elements += self.sizes[number]

    def signature(self):
        """What has to be equal for a checkpoint to fit."""
        return [[list(shape) for shape in self.shapes],
                [[str(b.dtype), b.fresh, list(b.members)] for b in self.buckets]]

    def empty(self):
        """A flat tensor per bucket, contents undefined."""
        return [torch.empty(b.elements, dtype=b.dtype, device=b.device) for b in self.buckets]

    def flatten(self, tensors, scale=None, into=None):
        """Copies, by parameter a tensor of its shape or None for zeros, into buckets: `into`, or new ones.

        scale: a factor, or None.
        """
        flat = self.empty() if into is None else into
        for number, tensor in enumerate(tensors):
            place = self.view(flat, number)
            if tensor is None:
                place.zero_()
            elif scale is None:
                place.copy_(tensor)
            else:
                torch.mul(tensor, scale, out=place)
        return flat

    def view(self, flat, number):
        """The parameter's part of such buckets, in its shape; lives as long as they do."""
        bucket, first = self.places[number]
        return flat[bucket][first:first + self.sizes[number]].view(self.shapes[number])
