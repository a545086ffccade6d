"""Who takes part: which parameters, which ranks. What cannot work is refused here, in one line."""

import torch
import torch.distributed as dist

from sumcast.pipeline.averagers import TorchAverager


def trained(optimizer, model):
    """The parameters that want gradients, in the optimiser's order: the same on all ranks."""
    if not isinstance(optimizer, torch.optim.Optimizer):
        raise ValueError("sumcast.pipeline: Optimizer wraps a torch optimiser, not a "
                         f"{type(optimizer).__name__}")
    name = type(optimizer).__name__
    if name in ("LBFGS", "ZeroRedundancyOptimizer", "Optimizer"):
        reason = {"LBFGS": "it evaluates gradients again",
                  "ZeroRedundancyOptimizer": "it holds a part of the state only",
                  "Optimizer": "it has a pipeline already"}[name]
        raise ValueError(f"sumcast.pipeline: {name} cannot be wrapped: {reason}")
    _refuse_sharded(optimizer, model)
    parameters = [parameter for group in optimizer.param_groups for parameter in group["params"]
                  if parameter.requires_grad]
    if not parameters:
        raise ValueError("sumcast.pipeline: the optimiser has no parameter that wants a gradient; "
                         "there is nothing to train")
    return parameters


def _refuse_sharded(optimizer, model):
    from torch.distributed.fsdp import FSDPModule, FullyShardedDataParallel
    from torch.distributed.tensor import DTensor

    modules = list(model.modules()) if isinstance(model, torch.nn.Module) else []
    sharded = any(isinstance(m, (FSDPModule, FullyShardedDataParallel)) for m in modules)
    for group in optimizer.param_groups:
        sharded = sharded or any(isinstance(p, DTensor) or hasattr(p, "_sharded_size")
                                 for p in group["params"])
    if sharded:
        raise ValueError("sumcast.pipeline: the parameters are sharded (FSDP, DTensor), and a pipeline "
                         "needs whole gradients; use DistributedDataParallel")


def fresh_numbers(fresh, parameters):
    """Numbers of the parameters that `fresh`, of parameters and modules, names."""
    places = {parameter: number for number, parameter in enumerate(parameters)}
    numbers = set()
    for item in fresh:
        if isinstance(item, torch.nn.Module):
            numbers.update(places[p] for p in item.parameters() if p in places)
        elif item in places:
            numbers.add(places[item])
        else:
            raise ValueError("sumcast.pipeline: fresh names what is no parameter of the optimiser and "
                             f"no module: a {type(item).__name__}")
    return numbers


def refuse_sparse(gradients):
    if any(g is not None and g.layout != torch.strided for g in gradients):
        raise RuntimeError("sumcast.pipeline: a gradient is sparse; make the embedding with sparse=False, "
                           "or train it through Sumcast's sparse path (docs/pytorch.md)")


def statistics(model):
    """Buffers that forward passes advance: those of BatchNorm and InstanceNorm."""
    if not isinstance(model, torch.nn.Module):
        return []
    found = []
    for module in model.modules():
        if isinstance(module, torch.nn.modules.batchnorm._NormBase) and module.track_running_stats:
            found += [b for b in (module.running_mean, module.running_var,
                                  module.num_batches_tracked) if b is not None]
    return found


def averager_of(group, ranks_of=None):
    """Over `group`, or a new one of all processes (or of those of the group `ranks_of`).

    A group of its own: the program's other collectives, DDP's broadcast of buffers among them, then
    do not queue behind a sum that has a whole step's time. A collective call.
    """
    if not dist.is_initialized():
        raise ValueError("sumcast.pipeline: there is no process group: call "
                         "torch.distributed.init_process_group first")
    if group is not None:
        return TorchAverager(group)
    beside = ranks_of or dist.group.WORLD
    ranks = dist.get_process_group_ranks(beside)
    whole = len(ranks) == dist.get_world_size()
    options = beside._get_backend(torch.device("cpu")).options
    made = dist.new_group(ranks, timeout=options._timeout, use_local_synchronization=not whole)
    return TorchAverager(made)
