"""Keys of bags: what may be one, which are distinct, where they stand."""

import hashlib
import json
import os

import torch

KEY_TYPES = (torch.int64, torch.int32, torch.uint64)


def no_keys():
    return torch.empty(0, dtype=torch.int64)


def as_keys(keys):
    """int64[n] on the CPU, by their bits."""
    keys = keys.detach().reshape(-1).to("cpu")
    return keys.contiguous().view(torch.int64) if keys.dtype == torch.uint64 else keys.to(torch.int64)


def check_key_type(keys):
    if not isinstance(keys, torch.Tensor) or keys.dtype not in KEY_TYPES:
        kind = keys.dtype if isinstance(keys, torch.Tensor) else type(keys).__name__
        raise TypeError(f"sumcast: keys are {kind}; they must be a tensor of int64, int32 or uint64")


def check_offsets(offsets, size, include_last):
    if offsets is None:
        raise ValueError("sumcast: a 1-D input needs offsets")
    if offsets.dtype not in (torch.int64, torch.int32):
        raise TypeError(f"sumcast: offsets are {offsets.dtype}; they must be int64 or int32")
    if offsets.dim() != 1:
        raise ValueError(f"sumcast: offsets of {offsets.dim()} dimensions; they have one")
    if len(offsets) == 0:
        if include_last:
            raise ValueError("sumcast: include_last_offset, but no offsets")
        if size != 0:
            raise ValueError(f"sumcast: {size} keys, but no offsets: no bag has them")
        return
    if offsets[0] != 0:
        raise ValueError(f"sumcast: the first offset is {int(offsets[0])}; it must be 0")
    falls = (offsets[1:] < offsets[:-1]).nonzero()
    if len(falls) != 0:
        at = int(falls[0])
        raise ValueError(f"sumcast: offsets must not fall: {int(offsets[at])} stands before "
                         f"{int(offsets[at + 1])}")
    last = int(offsets[-1])
    if last > size or (include_last and last != size):
        raise ValueError(f"sumcast: the last offset is {last}, and there are {size} keys")


def distinct(flat, padding):
    """(distinct keys ascending, where each of `flat` is among them, is there padding).

    Padding is none of them; it is at the place behind the last one.
    """
    if padding is None:
        keys, places = torch.unique(flat, return_inverse=True)
        return keys, places, False
    is_key = flat != padding
    keys, among = torch.unique(flat[is_key], return_inverse=True)
    places = torch.full_like(flat, len(keys))
    places[is_key] = among
    return keys, places, not bool(is_key.all())


def places_in(current, keys):
    places = torch.searchsorted(current, keys)
    known = places.clamp(max=len(current) - 1) if len(current) else places
    if len(keys) and (len(current) == 0 or not torch.equal(current[known], keys)):
        raise ValueError("sumcast: a forward has keys that were not announced to prefetch() or "
                         "step(next_input=...)")
    return places


def hot_keys(hot):
    """(how many may be hot at most, keys): one of them says nothing."""
    if hot is None:
        return 0, None
    if isinstance(hot, bool):
        raise TypeError("sumcast: hot is a file, keys, or a number")
    if isinstance(hot, int):
        if not 0 <= hot < 2**32:
            raise ValueError(f"sumcast: hot={hot}; a number of keys is 0 or more")
        return hot, None
    if isinstance(hot, (str, os.PathLike)):
        with open(hot, encoding="utf-8") as file:
            try:
                hot = [int(one["key"], 16) for one in json.load(file)["keys"]]
            except (ValueError, KeyError, TypeError) as error:
                raise ValueError(f"sumcast: {os.fspath(hot)} is not what `sumcast hot --out` "
                                 "writes") from error
    if not isinstance(hot, torch.Tensor):
        hot = torch.tensor([signed(int(key)) for key in hot], dtype=torch.int64)
    check_key_type(hot)
    return 0, as_keys(hot)


def fingerprint(keys):
    """A short text that tells lists of keys apart."""
    return hashlib.sha256(str(keys.tolist()).encode()).hexdigest()[:16]


def signed(key):
    """The int64 of the same 64 bits."""
    if not -(2**63) <= key < 2**64:
        raise ValueError(f"sumcast: key {key} has more than 64 bits")
    return key - 2**64 if key >= 2**63 else key
