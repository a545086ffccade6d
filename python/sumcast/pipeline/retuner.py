"""What an engine needs to re-tune its width: takes the times, passes them to the other ranks beside a
step's facts, and gives the tuner what came back.

Which steps carry times, and when the width changes, depends on counts and reduced values only: it is
the same on all ranks.
"""

import statistics
import time

from sumcast.pipeline.tuner import TIMES, Tuner, joined


def steady_mean(values):
    """Their mean, none counted for more than three times the median; 0 of none."""
    if not values:
        return 0.0
    most = 3 * statistics.median_high(values)
    return sum(min(value, most) for value in values) / len(values)


class Retuner:
    def __init__(self, options, rank, ranks, clock=time.monotonic):
        self.tuner = Tuner(options, ranks)
        self.clock = clock
        self.on = True
        """Until the guard or the caller has set a width."""
        self._rank, self._ranks = rank, ranks
        self._last = None  # the end of the last step; None: the next one is not timed
        self._waited = 0.0
        self._start_window()
        self._skip = 2  # The first step is of cold caches, and has no step before it.

    def _start_window(self):
        self._left = self.tuner.window_steps()
        self._drained = 0.0
        self._busy, self._step = [], []

    def due(self):
        """This rank's share of all ranks' times if a window is complete, else []."""
        if not self.on or self._skip > 0 or self._left > 0:
            return []
        share = [0.0] * (TIMES * self._ranks)
        share[TIMES * self._rank:TIMES * (self._rank + 1)] = [
            steady_mean(self._busy), steady_mean(self._step), self._drained]
        self._start_window()
        return share

    def waiting(self, call):
        """Waits for a late sum."""
        start = self.clock()
        call()
        self._waited += self.clock() - start

    def drained(self, begun):
        """A sum that began then was waited for, and nothing ran beside it."""
        took = self.clock() - begun
        if 2 * self._waited >= took:  # Less of a wait: it may have been over long ago.
            self._drained = took

    def observe(self, sums):
        """Sums over ranks of what due() gave. Why the width changes, or None."""
        reason = self.tuner.observe(*joined(sums))
        if reason is not None:
            self._start_window()
            self._skip = self.tuner.width + 1
        return reason

    def step_ended(self, counts):
        """counts: False if another width than the tuner's was in force."""
        now, before = self.clock(), self._last
        busy = None if before is None else max(0.0, now - before - self._waited)
        self._last, self._waited = now, 0.0
        if not counts:
            return
        if self._skip > 0:
            self._skip -= 1
            return
        self._left = max(0, self._left - 1)
        if before is not None:
            self._busy.append(busy)
            self._step.append(now - before)

    def interrupted(self):
        """What comes before the next step's end is not a step alone (a flush, an evaluation)."""
        self._last = None

    def state_dict(self):
        """All that ranks share; the times of a window that is not complete are dropped."""
        return {"on": self.on, "tuner": dict(self.tuner.state), "skip": self._skip,
                "left": self._left}

    def load_state_dict(self, state):
        self.on = state["on"]
        self.tuner.state = dict(state["tuner"])
        self._start_window()
        self._skip, self._left = state["skip"], state["left"]
