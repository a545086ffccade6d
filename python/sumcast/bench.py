"""One rank of `sumcast bench torch`: steps of DistributedDataParallel, timed with and without
communication.

Run by that command with RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT set. Rank 0 prints one JSON
object: `step_us` (median of a step, the slowest rank's), `exposed_comm_us` (what communication adds
to a step that does not communicate), `parameters`, and `identical`: whether all ranks hold the same
weights, bit for bit, at the end. With --width K steps follow one another without a barrier, as in
training, through sumcast.pipeline (0: plain DDP, timed the same way), `width` is what was in force at
the end, and exposed_comm_us is left out.
"""

import argparse
import json
import statistics
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from sumcast import pipeline


class Block(nn.Module):
    """Two 3x3 convolutions around a shortcut."""

    def __init__(self, inputs, outputs, stride):
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False),
            nn.BatchNorm2d(outputs),
            nn.ReLU(inplace=True),
            nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False),
            nn.BatchNorm2d(outputs),
        )
        self.shortcut = nn.Identity()
        if stride != 1 or inputs != outputs:
            self.shortcut = nn.Sequential(
                nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs)
            )

    def forward(self, images):
        return torch.relu(self.body(images) + self.shortcut(images))


def resnet18():
    """11,689,512 parameters, as He et al. (CVPR 2016) have it for 1,000 classes."""
    layers = [nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64), nn.ReLU(inplace=True),
              nn.MaxPool2d(3, 2, 1)]
    width = 64
    for outputs, stride in [(64, 1), (128, 2), (256, 2), (512, 2)]:
        layers += [Block(width, outputs, stride), Block(outputs, outputs, 1)]
        width = outputs
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(512, 1000))


class Recommender(nn.Module):
    """Eight tables of 20,000 rows with dense gradients, and a small net over what they give."""

    def __init__(self):
        super().__init__()
        self.tables = nn.ModuleList(nn.Embedding(20_000, 32) for _ in range(8))
        self.top = nn.Sequential(nn.Linear(256, 128), nn.ReLU(), nn.Linear(128, 2))

    def forward(self, keys):
        rows = [table(keys[:, i]) for i, table in enumerate(self.tables)]
        return self.top(torch.cat(rows, dim=1))


MODELS = {
    "resnet18": (resnet18, lambda: (torch.randn(4, 3, 64, 64), torch.randint(1000, (4,)))),
    "embedding": (Recommender, lambda: (torch.randint(20_000, (128, 8)), torch.randint(2, (128,)))),
}


def same_everywhere(model):
    """Whether all ranks hold these bits: the least and the largest of each word are the same."""
    bits = torch.cat([p.detach().reshape(-1).view(torch.int32) for p in model.parameters()])
    least, most = bits.clone(), bits.clone()
    dist.all_reduce(least, dist.ReduceOp.MIN)
    dist.all_reduce(most, dist.ReduceOp.MAX)
    return bool(torch.equal(least, most))


def step_of_a_loop(model, optimizer, loss_of, inputs, targets, args):
    """Seconds of a step, median, where one follows the other."""
    ends = []
    for _ in range(args.warmup + args.steps + 1):
        optimizer.zero_grad()
        loss_of(model(inputs), targets).backward()
        optimizer.step()
        ends.append(time.perf_counter())
    lengths = [after - before for before, after in zip(ends, ends[1:])]
    return statistics.median(lengths[args.warmup :])


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--backend", default="sumcast")
    parser.add_argument("--model", default="resnet18", choices=sorted(MODELS))
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--warmup", type=int, default=3)
    parser.add_argument("--width", type=lambda text: text if text == "auto" else int(text),
                        help="of the pipeline, or auto; 0: plain DDP, timed likewise")
    parser.add_argument("--compressor", default="none", help="of the pipeline")
    args = parser.parse_args()

    torch.set_num_threads(1)
    dist.init_process_group(args.backend)
    torch.manual_seed(1)
    make, batch = MODELS[args.model]
    model = DistributedDataParallel(make())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    if args.width:
        optimizer = pipeline.register(model, optimizer, width=args.width, compressor=args.compressor)
    loss_of = nn.CrossEntropyLoss()
    torch.manual_seed(2 + dist.get_rank())
    inputs, targets = batch()
    if args.width is not None:
        time_of = step_of_a_loop(model, optimizer, loss_of, inputs, targets, args)
        if args.width:
            optimizer.flush()
        report(model, [time_of], {"width": optimizer.width} if args.width else {})
        return

    def gradients():
        optimizer.zero_grad()
        dist.barrier()
        begin = time.perf_counter()
        loss_of(model(inputs), targets).backward()
        return time.perf_counter() - begin

    together, alone, update = [], [], []
    for _ in range(args.warmup + args.steps):
        with model.no_sync():
            without = gradients()
        together.append(gradients())
        alone.append(without)
        begin = time.perf_counter()
        optimizer.step()
        update.append(time.perf_counter() - begin)
    together, alone, update = (
        statistics.median(times[args.warmup :]) for times in (together, alone, update)
    )
    report(model, [together + update, together - alone])


def report(model, seconds, more=None):
    """Rank 0 says what the slowest rank took: a step, and the part that communication adds if known."""
    times = torch.tensor(seconds, dtype=torch.float64)
    dist.all_reduce(times, dist.ReduceOp.MAX)
    result = {"step_us": 1e6 * float(times[0]), **(more or {})}
    if len(seconds) > 1:
        result["exposed_comm_us"] = 1e6 * max(0.0, float(times[1]))
    result["parameters"] = sum(p.numel() for p in model.parameters())
    result["identical"] = same_everywhere(model)
    if dist.get_rank() == 0:
        print(json.dumps(result), flush=True)
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
