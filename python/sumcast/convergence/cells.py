"""One cell of the grid: a task learnt by one variant of training, from one seed."""

import copy
import math
import time

import torch

from sumcast.convergence.tasks import accuracy_of, loss_of
from sumcast.pipeline import GuardOptions, Optimizer
from sumcast.pipeline.averagers import LocalRanks, lockstep

RANKS = 4
WARMUP = 0.05  # Share of the steps in which the rate rises; then it falls along half a cosine.

# Options of sumcast.pipeline by name; None: the server.
VARIANTS = {
    "sync": {"width": 1},
    "plain": {"forecast": "none", "warmup_steps": 2},
    "default": {},
    "local": {"warmup_steps": 2},
    "forecast": {"forecast": "local-and-previous", "warmup_steps": 2},
    "previous": {"forecast": "previous", "warmup_steps": 2},
    "compensation": {"forecast": "none", "warmup_steps": 2, "compensation": "plain"},
    "adaptive": {"forecast": "none", "warmup_steps": 2, "compensation": "adaptive"},
    "correction": {"correction": 0.5},
    "fresh": {"fresh": "last half"},
    "bf16": {"compressor": "bf16"},
    "fp16": {"compressor": "fp16"},
    "int8": {"compressor": "int8"},
    "top-k": {"compressor": "top-k:0.01"},
    "qsgd": {"compressor": "qsgd:127"},
    "guard": {"guard": GuardOptions()},
    "async": None,
}


def optimizer_of(name, parameters, rate):
    if name == "sgd":
        return torch.optim.SGD(parameters, lr=rate, momentum=0.9)
    if name == "sgd0":
        return torch.optim.SGD(parameters, lr=rate)
    return torch.optim.AdamW(parameters, lr=rate)


def schedule(optimizer, steps):
    first = max(1, round(WARMUP * steps))

    def factor(step):
        if step < first:
            return (step + 1) / first
        return 0.5 * (1 + math.cos(math.pi * (step - first) / (steps - first)))

    return torch.optim.lr_scheduler.LambdaLR(optimizer, factor)


def batches(task, seed, rank):
    """Indices, batch after batch, without end: each epoch deals the shuffled samples to the ranks."""
    random = torch.Generator().manual_seed(seed)
    while True:
        order = torch.randperm(len(task.train[0]), generator=random)[rank::RANKS]
        for first in range(0, len(order) - task.batch + 1, task.batch):
            yield order[first:first + task.batch]


def train(task, optimizer, variant, seed, rate, tick=lambda: None):
    """Trains; a dictionary of what came out. tick: called after each step."""
    begin = time.monotonic()
    torch.manual_seed(seed)
    model = task.model()
    run = _by_server if VARIANTS[variant] is None else _by_ranks
    losses, facts = run(task, model, optimizer, variant, seed, rate, tick)
    finite = all(map(math.isfinite, losses)) and len(losses) == task.steps
    return {"task": task.name, "optimizer": optimizer, "variant": variant, "seed": seed, "rate": rate,
            "steps": task.steps, "ranks": RANKS, "batch": task.batch, "diverged": not finite,
            "accuracy": round(accuracy_of(model, task), 3), **facts,
            "losses": [round(x, 4) for x in _thinned(losses)],
            "seconds": round(time.monotonic() - begin, 2)}


def _by_ranks(task, model, optimizer, variant, seed, rate, tick):
    meeting = LocalRanks(RANKS)
    models = [model] + [copy.deepcopy(model) for _ in range(RANKS - 1)]
    sources = [batches(task, seed, rank) for rank in range(RANKS)]
    wrapped = []
    for rank, replica in enumerate(models):
        options = dict(VARIANTS[variant])
        if options.get("fresh") == "last half":
            parameters = list(replica.parameters())
            options["fresh"] = tuple(parameters[len(parameters) // 2:])
        wrapped.append(Optimizer(optimizer_of(optimizer, replica.parameters(), rate), replica,
                                 averager=meeting.averager(rank), **options))
    schedules = [schedule(one, task.steps) for one in wrapped]
    losses, pipelined = [], 0
    for _ in range(task.steps):
        mine = []
        for replica, source, one in zip(models, sources, wrapped):
            one.zero_grad()
            inputs, targets = task.batch_of(next(source))
            loss = loss_of(replica(inputs), targets)
            loss.backward()
            mine.append(float(loss.detach()))
        lockstep(one.stepping(loss) for one, loss in zip(wrapped, mine))
        pipelined += wrapped[0].in_flight > 0
        for one in schedules:
            one.step()
        losses.append(sum(mine) / RANKS)
        tick()
        if not math.isfinite(losses[-1]):
            break
    lockstep(one.flushing() for one in wrapped)
    first = wrapped[0].engine.warmup.steps
    return losses, {"pipelined": round(pipelined / max(1, task.steps - first), 3),
                    "warmup_steps": first, "fell_back": wrapped[0].engine.fell_back}


def _by_server(task, model, optimizer, variant, seed, rate, tick):
    """An asynchronous server, on a fixed schedule: workers take turns; each gradient is computed at the
    weights that its worker fetched after its own last turn, RANKS - 1 updates ago, and is applied at
    once. As many samples as the others, in RANKS times as many updates at 1/RANKS of the rate."""
    server = optimizer_of(optimizer, model.parameters(), rate / RANKS)
    plan = schedule(server, task.steps * RANKS)
    replicas = [copy.deepcopy(model) for _ in range(RANKS)]
    sources = [batches(task, seed, rank) for rank in range(RANKS)]
    losses = []
    for _ in range(task.steps):
        mine = []
        for replica, source in zip(replicas, sources):
            replica.zero_grad()
            inputs, targets = task.batch_of(next(source))
            loss = loss_of(replica(inputs), targets)
            loss.backward()
            mine.append(float(loss.detach()))
            for parameter, computed in zip(model.parameters(), replica.parameters()):
                parameter.grad = computed.grad
            server.step()
            plan.step()
            with torch.no_grad():
                for place, weight in zip(replica.parameters(), model.parameters()):
                    place.copy_(weight)
                # A server holds no statistics; its model is tested with the last worker's.
                for place, value in zip(model.buffers(), replica.buffers()):
                    place.copy_(value)
        losses.append(sum(mine) / RANKS)
        tick()
        if not math.isfinite(losses[-1]):
            break
    return losses, {"pipelined": 0.0, "fell_back": None}


def _thinned(losses, points=50):
    """Means of equal stretches, for curves."""
    length = max(1, len(losses) // points)
    return [sum(losses[i:i + length]) / length for i in range(0, len(losses) - length + 1, length)]
