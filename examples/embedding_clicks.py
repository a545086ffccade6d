"""A click model with an embedding table of any size, on any number of ranks.

    torchrun --nproc-per-node 4 examples/embedding_clicks.py          # or plain python, alone
    torchrun ... examples/embedding_clicks.py --checkpoint DIR --resume

Clicks are generated: ten fields, each with a million values of which few are frequent, and a truth
that the model has to find out. Rows are made when a value first occurs. The dense part is DDP's;
one optimizer.step() moves both.
"""

import argparse
import os

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

import sumcast

FIELDS, VALUES = 10, 1_000_000


def clicks(count, seed):
    """(keys int64[count][FIELDS], labels float32[count][1]) of a log that `seed` tells apart."""
    generator = torch.Generator().manual_seed(seed)
    # Frequencies fall with the power 1.2: the inverse of their sums, by uniform numbers.
    uniform = torch.rand(count, FIELDS, generator=generator, dtype=torch.float64)
    values = (1 - uniform * (1 - VALUES ** -0.2)) ** -5 - 1
    keys = values.long() + torch.arange(FIELDS) * VALUES
    # What each value is worth, by its key alone.
    worth = torch.sin(keys.double() * 12.9898) * 43758.5453 % 1.0 - 0.5
    chance = torch.sigmoid(2 * worth.sum(1))
    labels = (torch.rand(count, generator=generator, dtype=torch.float64) < chance).float()
    return keys, labels[:, None]


def area_under_curve(scores, labels):
    """Chance that a click has a higher score than none."""
    order = torch.argsort(scores.flatten())
    ranks = torch.empty(len(order)).index_copy_(0, order, torch.arange(1.0, len(order) + 1))
    clicked = labels.flatten() > 0
    hits, rest = int(clicked.sum()), int((~clicked).sum())
    return float((ranks[clicked].sum() - hits * (hits + 1) / 2) / (hits * rest))


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--batch", type=int, default=1024, help="clicks of all ranks together")
    parser.add_argument("--dim", type=int, default=8)
    parser.add_argument("--hot", type=int, default=0, help="keys summed by the aggregator, at most")
    parser.add_argument("--checkpoint", help="a directory that all ranks see")
    parser.add_argument("--resume", action="store_true")
    return parser.parse_args()


def main():
    options = arguments()
    if "RANK" in os.environ:
        dist.init_process_group("sumcast")
    rank, ranks = (dist.get_rank(), dist.get_world_size()) if dist.is_initialized() else (0, 1)
    torch.manual_seed(1)
    table = sumcast.EmbeddingBag(options.dim, "sum", optimizer="adagrad", lr=0.1, hot=options.hot,
                                 checkpoint=options.checkpoint, resume=options.resume)
    dense = torch.nn.Sequential(table, torch.nn.Linear(options.dim, 16), torch.nn.ReLU(),
                                torch.nn.Linear(16, 1))
    optimizer = torch.optim.Adagrad(dense.parameters(), lr=0.05)
    begun = 0
    if table.restored:
        begun = table.restored["step"]
        dense.load_state_dict(table.restored["dense"])
        optimizer.load_state_dict(table.restored["optimizer"])
    table.attach(optimizer)
    model = DistributedDataParallel(dense) if ranks > 1 else dense

    mine = slice(rank * options.batch // ranks, (rank + 1) * options.batch // ranks)
    for step in range(begun, options.steps):
        keys, labels = clicks(options.batch, 1000 + step)
        loss = torch.nn.functional.binary_cross_entropy_with_logits(model(keys[mine]), labels[mine])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if rank == 0 and (step + 1) % 50 == 0:
            print(f"step {step + 1}: loss {loss.item():.4f}", flush=True)
    if options.checkpoint:
        table.save({"step": options.steps, "dense": dense.state_dict(),
                    "optimizer": optimizer.state_dict()})

    model.eval()
    keys, labels = clicks(20_000, 1)
    with torch.no_grad():  # All ranks read the same rows here.
        scores = model(keys)
    rows = torch.tensor([table.counters()["rows_held"]])
    if ranks > 1:
        dist.all_reduce(rows)
    if rank == 0:
        print(f"{int(rows)} rows on {ranks} ranks; on clicks that were not trained on: "
              f"AUC {area_under_curve(scores, labels):.4f}")
    table.close()
    if dist.is_initialized():
        dist.destroy_process_group()


if __name__ == "__main__":
    main()
