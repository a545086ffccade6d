"""Watches a pipelined run and says when the delay does harm: then all ranks go on synchronously.

It sees reduced values only - the mean loss over ranks, and the mean of what they measured as the
angle between successive mean gradients - so every rank's guard says the same at the same step, and
nobody has to be told. Two signs count: the smoothed loss stays well above the lowest it has been, or
gradients keep pointing back where the last one came from. What is no number counts at once.
"""

import dataclasses
import math


@dataclasses.dataclass
class GuardOptions:
    smoothing: float = 0.1
    """Weight of a new value in the moving averages; above 0, at most 1."""
    loss_factor: float = 1.5
    """Above this multiple of the lowest smoothed loss is bad; > 1."""
    alignment_min: float = -0.3
    """A smoothed cosine below it is bad; -1 to 1."""
    patience: int = 20
    """Bad steps in a row before it gives up."""
    settle: int = 20
    """Steps at the start that are only looked at."""

    def problems(self):
        found = []
        if not 0 < self.smoothing <= 1:
            found.append(f"guard smoothing must be above 0 and at most 1, not {self.smoothing}")
        if not self.loss_factor > 1:
            found.append(f"guard loss_factor must be above 1, not {self.loss_factor}")
        if self.patience < 1:
            found.append(f"guard patience must be at least 1, not {self.patience}")
        return found


class Guard:
    def __init__(self, options):
        self._options = options
        # Everything it remembers, so that a checkpoint can hold it.
        self.state = {"loss": None, "lowest": None, "alignment": None, "seen": 0, "bad": 0}

    def observe(self, loss, alignment):
        """Why to fall back to K = 1, or None.

        loss: mean over ranks, or None if ranks do not tell it. alignment: cosine of two successive
        mean gradients, -1 to 1.
        """
        if loss is not None and not math.isfinite(loss):
            return "the mean loss is not a number any more"
        if not math.isfinite(alignment):
            return "the mean gradient is not finite any more"
        state = self.state
        if loss is not None:
            state["loss"] = self._blend(state["loss"], loss)
            lowest = state["lowest"]
            state["lowest"] = state["loss"] if lowest is None else min(lowest, state["loss"])
        state["alignment"] = self._blend(state["alignment"], alignment)
        state["seen"] += 1
        if state["seen"] <= self._options.settle:
            return None
        rising = loss is not None and state["loss"] > self._options.loss_factor * state["lowest"]
        turning = state["alignment"] < self._options.alignment_min
        state["bad"] = state["bad"] + 1 if rising or turning else 0
        if state["bad"] < self._options.patience:
            return None
        if rising:
            return (f"the smoothed loss, {state['loss']:.4g}, has been above "
                    f"{self._options.loss_factor:.3g} times its lowest for {state['bad']} steps")
        return (f"gradients have pointed back (mean cosine {state['alignment']:.2f}) for "
                f"{state['bad']} steps")

    def _blend(self, old, now):
        return now if old is None else old + self._options.smoothing * (now - old)
