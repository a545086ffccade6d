"""What the tests of sumcast.pipeline share: a model, batches, and training over ranks real or not."""

import copy

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn

from sumcast.pipeline import Optimizer
from sumcast.pipeline.averagers import LocalRanks, lockstep


def model():
    torch.manual_seed(1)
    return nn.Sequential(nn.Linear(20, 50), nn.ReLU(), nn.Linear(50, 30), nn.ReLU(), nn.Linear(30, 4))


def model_with_statistics():
    torch.manual_seed(1)
    return nn.Sequential(nn.Linear(20, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Linear(16, 4))


def batch(rank, step, rows=6):
    generator = torch.Generator().manual_seed(1000 * step + rank)
    return (torch.randn(rows, 20, generator=generator),
            torch.randint(0, 4, (rows,), generator=generator))


def sgd(parameters, **options):
    return torch.optim.SGD(parameters, **{"lr": 0.05, "momentum": 0.9, "weight_decay": 0.01, **options})


def adamw(parameters):
    return torch.optim.AdamW(parameters, lr=0.01)


def backward(net, rank, step):
    inputs, labels = batch(rank, step)
    loss = F.cross_entropy(net(inputs), labels)
    loss.backward()
    return float(loss.detach())


def train(net, optimizer, rank, steps):
    """steps: a range. Over real ranks."""
    for step in steps:
        optimizer.zero_grad()
        loss = backward(net, rank, step)
        optimizer.step(loss=loss) if isinstance(optimizer, Optimizer) else optimizer.step()


def emulated(size, steps, make=model, rule=sgd, then=None, **options):
    """The same over ranks of this process; their models, flushed."""
    meeting = LocalRanks(size)
    nets = [make() for _ in range(size)]
    wrapped = [Optimizer(rule(net.parameters()), net, averager=meeting.averager(rank), **options)
               for rank, net in enumerate(nets)]
    for step in range(steps):
        losses = []
        for rank, net in enumerate(nets):
            wrapped[rank].zero_grad()
            losses.append(backward(net, rank, step))
        lockstep(one.stepping(loss) for one, loss in zip(wrapped, losses))
        if then:
            then(step, nets, wrapped)
    lockstep(one.flushing() for one in wrapped)
    return nets


def weights(net):
    return [p.detach().clone() for p in net.parameters()]


def check_same(one, other):
    for mine, theirs in zip(one, other, strict=True):
        assert torch.equal(mine, theirs), (mine - theirs).abs().max()


def check_equal_on_all_ranks(tensors):
    for tensor in tensors:
        everybody = [torch.empty_like(tensor) for _ in range(dist.get_world_size())]
        dist.all_gather(everybody, tensor)
        assert all(torch.equal(one, everybody[0]) for one in everybody)


def state_of(optimizer):
    """A copy that later steps do not touch."""
    return copy.deepcopy(optimizer.state_dict())
