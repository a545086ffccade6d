"""The CNN of ddp_fashion_mnist.py with gradients one step late: their sums travel while it computes.

    torchrun --nproc-per-node 4 examples/pipeline_fashion_mnist.py --width 2
    torchrun --nproc-per-node 4 examples/pipeline_fashion_mnist.py --width 1        synchronous

Beside plain DDP there are three more lines: register() after the model was made, flush() at the end
of an epoch, and what a checkpoint holds. With --folder every rank saves its state when it ends, or
at step --stop, in the middle of an epoch with a gradient under way; the next run goes on from there.
"""

import argparse
import pathlib

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch.nn.parallel import DistributedDataParallel

from ddp_fashion_mnist import SmallCnn, check_equal_weights, load
from sumcast import pipeline


def accuracy(model, images, labels):
    with torch.no_grad():
        return (model(images).argmax(1) == labels).float().mean().item()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--backend", default="sumcast")
    parser.add_argument("--width", type=int, default=2, help="steps under way at once; 1: synchronous")
    parser.add_argument("--compressor", default="none", help="bf16, int8, top-k:0.01, ...")
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--epoch", type=int, default=100, help="steps of an epoch")
    parser.add_argument("--batch", type=int, default=32, help="images per rank and step")
    parser.add_argument("--folder", type=pathlib.Path, help="for checkpoints, one per rank")
    parser.add_argument("--stop", type=int, help="step before which to save and end")
    arguments = parser.parse_args()

    dist.init_process_group(arguments.backend)
    rank, size = dist.get_rank(), dist.get_world_size()
    torch.set_num_threads(1)
    torch.manual_seed(7)
    images, labels = load("train")
    test_images, test_labels = load("t10k")
    order = torch.randperm(len(images))
    model = DistributedDataParallel(SmallCnn())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.03, momentum=0.9)
    optimizer = pipeline.register(model, optimizer, width=arguments.width,
                                  compressor=arguments.compressor, guard=pipeline.GuardOptions())
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer,
                                                           arguments.epochs * arguments.epoch)
    begin = 0
    saved = arguments.folder / f"rank-{rank}.pt" if arguments.folder else None
    if saved and saved.exists():
        state = torch.load(saved, weights_only=True)
        optimizer.load_state_dict(state["optimizer"])  # It sets the weights, too.
        scheduler.load_state_dict(state["scheduler"])
        begin = optimizer.steps
        if rank == 0:
            print(f"goes on at step {begin}, {optimizer.in_flight} gradient under way", flush=True)

    end = arguments.epochs * arguments.epoch
    for step in range(begin, end if arguments.stop is None else arguments.stop):
        first = (step * size + rank) * arguments.batch % (len(images) - arguments.batch)
        chosen = order[first : first + arguments.batch]
        optimizer.zero_grad()
        loss = F.cross_entropy(model(images[chosen]), labels[chosen])
        loss.backward()
        optimizer.step(loss=loss)
        scheduler.step()
        if optimizer.report.fell_back and rank == 0:
            print(f"step {step}: synchronous from here: {optimizer.report.fell_back}", flush=True)
        if (step + 1) % arguments.epoch == 0:
            optimizer.flush()  # Now the model holds the committed weights.
            if rank == 0:
                print(f"step {step + 1}: loss {loss.item():.4f}, accuracy "
                      f"{accuracy(model.module, test_images, test_labels):.3f}", flush=True)

    if saved:
        saved.parent.mkdir(parents=True, exist_ok=True)
        torch.save({"optimizer": optimizer.state_dict(), "scheduler": scheduler.state_dict()}, saved)
    if arguments.stop is None:
        digest = check_equal_weights(model)
        if rank == 0:
            print(f"the same weights on {size} ranks ({digest[:12]})")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
