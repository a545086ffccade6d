"""torch's embedding_bag with a backward whose sums have a defined order (csrc/bags.h)."""

import torch
import torch.nn.functional as functional

from sumcast import _native


def embedding_bag(places, rows, offsets, mode, weights, include_last, padding):
    """functional.embedding_bag of these rows; a row's gradient is added up in the samples' order.

    padding: a place, or None.
    """
    if mode == "max":  # torch goes through the bags one by one; there is nothing to merge before.
        return functional.embedding_bag(places, rows, offsets, mode=mode,
                                        include_last_offset=include_last, padding_idx=padding)
    return _Bags.apply(rows, weights, places, offsets, mode, include_last, padding)


def _bags_of(places, offsets, include_last):
    """The bag of each sample: int64[samples]."""
    if places.dim() == 2:
        bags = torch.arange(places.size(0), device=places.device)
        return bags.repeat_interleave(places.size(1))
    begins = offsets[:-1] if include_last else offsets
    samples = torch.arange(len(places), device=places.device)
    return torch.searchsorted(begins, samples, right=True) - 1


class _Bags(torch.autograd.Function):
    @staticmethod
    def forward(ctx, rows, weights, places, offsets, mode, include_last, padding):
        out = functional.embedding_bag(places, rows, offsets, mode=mode, per_sample_weights=weights,
                                       include_last_offset=include_last, padding_idx=padding)
        bags = _bags_of(places, offsets, include_last)
        ctx.bags, ctx.mode, ctx.padding = len(out), mode, padding
        ctx.save_for_backward(rows, weights, places.reshape(-1), bags)
        return out

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, gradient):
        rows, weights, places, bags = ctx.saved_tensors
        factors = None if weights is None else weights.reshape(-1)
        if ctx.mode == "mean":
            counted = torch.ones_like(places) if ctx.padding is None else (places != ctx.padding).long()
            sizes = torch.zeros(ctx.bags, dtype=torch.int64, device=places.device)
            factors = 1.0 / sizes.index_add_(0, bags, counted).clamp(min=1)[bags].float()
        of_rows = of_weights = None
        if ctx.needs_input_grad[0]:
            of_rows = _merge(gradient, places, bags, factors, len(rows))
        if ctx.needs_input_grad[1]:
            of_weights = (gradient[bags] * rows[places]).sum(1)
            if ctx.padding is not None:
                of_weights[places == ctx.padding] = 0
            of_weights = of_weights.view_as(weights)
        return of_rows, of_weights, None, None, None, None, None


def _merge(gradient, places, bags, factors, rows):
    # On the CPU always, where sums end anyway: an accelerator adds in no certain order.
    factors = None if factors is None else factors.cpu().contiguous()
    merged = _native.bag_gradients(gradient.cpu().contiguous(), places.cpu(), bags.cpu(), factors, rows)
    return merged.to(gradient.device)
