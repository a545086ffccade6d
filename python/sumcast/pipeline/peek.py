"""Runs an optimiser's own rule ahead of time, and leaves no trace.

Weights move; the optimiser's state, step counts, settings, gradients, hooks and random numbers are
afterwards as they were. It works on copies of the state that it keeps for the next time, so it costs
one more update, not one more allocation, a step.
"""

import contextlib
import copy

import torch

# What a scheduler may change from step to step. A gradient that comes late is applied with the values
# of its own step, so that updates see the sequence of values that synchronous training would.
_SCHEDULED = ("lr", "momentum", "betas", "weight_decay")


def settings_of(optimizer):
    """The settings that schedulers change, by parameter group; to be kept with a gradient."""
    return [{key: _copied(group[key]) for key in _SCHEDULED if key in group}
            for group in optimizer.param_groups]


@contextlib.contextmanager
def settings_in_force(optimizer, settings):
    """The optimiser has these settings inside, its own ones afterwards."""
    own = [{key: group[key] for key in then} for group, then in zip(optimizer.param_groups, settings)]
    for group, then in zip(optimizer.param_groups, settings):
        group.update({key: _copied(value) for key, value in then.items()})
    try:
        yield
    finally:
        for group, values in zip(optimizer.param_groups, own):
            group.update(values)


def accumulates(optimizer):
    """Whether past gradients keep moving the weights: then a delay costs stability, and a forecast
    wins more than it costs. True of all but plain SGD."""
    if type(optimizer) is not torch.optim.SGD:
        return True
    return any(group["momentum"] != 0 for group in optimizer.param_groups)


class Peek:
    """While entered, `update` moves the weights of `parameters` only."""

    def __init__(self, optimizer, parameters):
        self._optimizer = optimizer
        self._parameters = parameters
        self._scratch = {}  # by parameter and name: tensors that are like its state
        self._kept = None

    def __enter__(self):
        optimizer = self._optimizer
        state = dict(optimizer.state)
        self._kept = (state, [dict(group) for group in optimizer.param_groups],
                      [parameter.grad for parameter in self._parameters], torch.get_rng_state())
        optimizer.state.clear()
        for parameter, values in state.items():
            optimizer.state[parameter] = self._copy_of(parameter, values)
        return self

    def __exit__(self, *exception):
        state, groups, gradients, random = self._kept
        self._kept = None
        self._optimizer.state.clear()
        self._optimizer.state.update(state)
        for group, values in zip(self._optimizer.param_groups, groups):
            group.clear()
            group.update(values)
        for parameter, gradient in zip(self._parameters, gradients):
            parameter.grad = gradient
        torch.set_rng_state(random)

    def update(self, gradients, settings):
        """One update of the weights, as step() would do it.

        gradients: by parameter a tensor, or None where there is nothing to apply.
        """
        for parameter, gradient in zip(self._parameters, gradients):
            parameter.grad = gradient
        with settings_in_force(self._optimizer, settings):
            _bare_step(self._optimizer)

    def _copy_of(self, parameter, values):
        scratch = self._scratch.setdefault(parameter, {})
        result = {}
        for name, value in values.items():
            if not isinstance(value, torch.Tensor):
                result[name] = copy.deepcopy(value)
                continue
            place = scratch.get(name)
            if place is None or place.shape != value.shape or place.dtype != value.dtype:
                place = scratch[name] = torch.empty_like(value)
            result[name] = place.copy_(value)
        return result


def _bare_step(optimizer):
    """step() without the hooks that torch, schedulers and users put around it."""
    step = type(optimizer).step
    if getattr(step, "hooked", False):
        step = step.__wrapped__
    step(optimizer)


def _copied(value):
    return value.clone() if isinstance(value, torch.Tensor) else value
