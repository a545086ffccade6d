"""Have all ranks the same weights? A hash of their bits, and numbers whose sum over ranks tells.

A rank adds the hash's 16-bit pieces h and their squares to a sum over n ranks. By Cauchy and Schwarz
n sum(h^2) = (sum h)^2 exactly if all h are equal; f64 sums of such integers are exact for up to
65,536 ranks. So every rank sees a difference at the same step (src/pipeline/weights_hash.h does the
same).
"""

import hashlib

import torch

COUNT = 8
"""Numbers to be summed over ranks."""


def hash_of_bits(tensors):
    """64 bits that depend on every bit of the tensors and their order."""
    digest = hashlib.blake2b(digest_size=8)
    for tensor in tensors:
        flat = tensor.detach().contiguous().reshape(-1).view(torch.uint8)
        digest.update(memoryview(flat.cpu().numpy()))
    return int.from_bytes(digest.digest(), "little")


def witnesses_of(number):
    """COUNT integers as floats."""
    pieces = [(number >> (16 * i)) & 0xFFFF for i in range(COUNT // 2)]
    return [float(value) for piece in pieces for value in (piece, piece * piece)]


def agree(sums, ranks):
    """sums: COUNT floats, element by element over `ranks` ranks' witnesses."""
    pairs = zip(sums[0::2], sums[1::2])
    return all(int(total) ** 2 == int(squares) * ranks for total, squares in pairs)
