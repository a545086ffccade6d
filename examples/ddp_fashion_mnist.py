"""A small CNN on Fashion-MNIST with DistributedDataParallel.

    torchrun --nproc-per-node 4 examples/ddp_fashion_mnist.py
    torchrun --nproc-per-node 4 examples/ddp_fashion_mnist.py --backend gloo     for comparison

The data set comes from the Debian package dataset-fashion-mnist. At the end every rank compares its
weights with rank 0's, bit by bit; with --losses FILE rank 0 writes the loss of each step.
"""

import argparse
import gzip
import hashlib
import json
import pathlib

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.nn.parallel import DistributedDataParallel

DATA = pathlib.Path("/usr/share/datasets/fashion-mnist")


def read_idx(name, header_bytes):
    with gzip.open(DATA / name) as file:
        return torch.frombuffer(bytearray(file.read()[header_bytes:]), dtype=torch.uint8)


def load(kind):
    """Images f32[n, 1, 28, 28] from 0 to 1, labels i64[n]."""
    images = read_idx(f"{kind}-images-idx3-ubyte.gz", 16).reshape(-1, 1, 28, 28).float() / 255
    return images, read_idx(f"{kind}-labels-idx1-ubyte.gz", 8).long()


class SmallCnn(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Conv2d(1, 16, 5, stride=2, padding=2)
        self.second = nn.Conv2d(16, 32, 5, stride=2, padding=2)
        self.last = nn.Linear(32 * 7 * 7, 10)

    def forward(self, images):
        hidden = F.relu(self.second(F.relu(self.first(images))))
        return self.last(hidden.flatten(1))


def check_equal_weights(model):
    """All ranks hold the same bits, or all ranks fail."""
    digest = hashlib.sha256()
    for parameter in model.parameters():
        digest.update(parameter.detach().numpy().tobytes())
    everybody = [None] * dist.get_world_size()
    dist.all_gather_object(everybody, digest.hexdigest())
    if len(set(everybody)) != 1:
        raise SystemExit(f"weights differ between ranks: {everybody}")
    return everybody[0]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--backend", default="sumcast")
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--batch", type=int, default=32, help="images per rank and step")
    parser.add_argument("--losses", help="file for the mean loss of each step, as JSON")
    arguments = parser.parse_args()

    dist.init_process_group(arguments.backend)
    rank, size = dist.get_rank(), dist.get_world_size()
    torch.set_num_threads(1)
    torch.manual_seed(7)  # The same first weights and the same order on every rank.
    images, labels = load("train")
    order = torch.randperm(len(images))
    model = DistributedDataParallel(SmallCnn())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)

    losses = []
    for step in range(arguments.steps):
        first = (step * size + rank) * arguments.batch % (len(images) - arguments.batch)
        chosen = order[first : first + arguments.batch]
        optimizer.zero_grad()
        loss = F.cross_entropy(model(images[chosen]), labels[chosen])
        loss.backward()
        optimizer.step()
        mean = loss.detach()
        dist.all_reduce(mean, dist.ReduceOp.SUM)
        losses.append(mean.item() / size)
        if rank == 0 and (step % 50 == 0 or step + 1 == arguments.steps):
            print(f"step {step}: loss {losses[-1]:.4f}", flush=True)

    digest = check_equal_weights(model)
    with torch.no_grad():
        test_images, test_labels = load("t10k")
        mine = slice(rank, None, size)
        right = (model(test_images[mine]).argmax(1) == test_labels[mine]).sum()
    dist.all_reduce(right)
    if rank == 0:
        print(f"accuracy {right.item() / len(test_labels):.3f}, the same weights on {size} ranks "
              f"({digest[:12]})")
        if arguments.losses:
            pathlib.Path(arguments.losses).write_text(json.dumps(losses))
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
