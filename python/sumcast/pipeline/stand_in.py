"""An object that schedulers, GradScaler and programs take for the torch optimiser that it wraps."""

import torch


class StandIn(torch.optim.Optimizer):
    """All that a torch optimiser keeps is the wrapped one's."""

    _step_supports_amp_scaling = True  # GradScaler leaves unscaling, and skipping, to step().

    def __init__(self, inner):
        # Not torch.optim.Optimizer's, which would make parameter groups of its own.
        self.inner = inner

    @property
    def param_groups(self):
        return self.inner.param_groups

    @property
    def state(self):
        return self.inner.state

    @property
    def defaults(self):
        return self.inner.defaults

    def zero_grad(self, set_to_none=True):
        self.inner.zero_grad(set_to_none)

    def register_step_pre_hook(self, hook):
        return self.inner.register_step_pre_hook(hook)

    def register_step_post_hook(self, hook):
        return self.inner.register_step_post_hook(hook)
