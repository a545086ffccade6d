"""Training with late gradients: a step's sum travels while the next step computes.

    optimizer = sumcast.pipeline.register(ddp, optimizer)       with DistributedDataParallel
    optimizer = sumcast.pipeline.Optimizer(optimizer, model)    without

Over torch.distributed with any backend of CPU tensors. docs/pipeline.md tells how it is used,
docs/convergence.md what it costs and what the remedies give back.
"""

from sumcast.pipeline.ddp import register
from sumcast.pipeline.guard import GuardOptions
from sumcast.pipeline.optimizer import Optimizer
from sumcast.pipeline.options import Options

__all__ = ["GuardOptions", "Optimizer", "Options", "register"]
