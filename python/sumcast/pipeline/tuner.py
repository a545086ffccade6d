"""Chooses the width by what steps have taken: the timing model of `sumcast plan`, calibrated over and
over by the run itself. src/pipeline/tuner.h tells how; this is the same for one way of summing, and
tests/python/tuner_courses.txt holds what both of them decide.

Ranks that are told the same decide the same. No clock is read here.
"""

import dataclasses
import math

GAIN = 0.05
"""What a larger width has to promise."""
LOSS = 0.01
"""What a smaller one may cost."""
CLEAR = 0.2
"""A promise of so much needs no second window."""
_ALIKE = 0.03  # Times this close to each other are alike.

TIMES = 3
"""Numbers that a rank adds: busy, step, drained; seconds, means over a window's steps."""


@dataclasses.dataclass
class TunerOptions:
    width_max: int = 4
    """Widths 1 to this are allowed."""
    window_steps: int = 16
    """Steps that are looked at together."""
    first_steps: int = 6
    """The same, while nothing is known yet and steps do not overlap."""
    patience: int = 2
    """Windows that must say the same before anything changes."""
    recheck_windows: int = 64
    """Windows after which a sum is looked at anew, because nothing about it has shown meanwhile."""


def joined(sums):
    """(busiest rank, mean step, quickest sum alone or 0) of all ranks' times: TIMES each, in a row."""
    busy, step, drained = sums[0::TIMES], sums[1::TIMES], [s for s in sums[2::TIMES] if s > 0]
    return max(busy), math.fsum(step) / len(step), min(drained, default=0.0)


def pipelined_step(compute, latency, occupancy, width, stolen):
    """max(compute, occupancy, (compute + latency) / width); what a sum steals counts as long as it
    runs beside computing. src/plan/timing.h has it with more cases."""
    if width == 1:
        return compute + latency
    beside = max(occupancy, stolen)
    busy = step = compute + stolen
    if beside > busy:
        busy = compute * beside / (beside - stolen)
        step = busy + (1 - busy / beside) * occupancy
    return max(step, (busy + latency) / width)


class Tuner:
    def __init__(self, options, ranks):
        self._options = options
        self._ranks = ranks
        # Everything it remembers, so that a checkpoint can hold it. Seconds; late_width: at which
        # steps last waited for the latency; settled: the occupancy has shown, else it is a bound.
        self.state = {"width": 1, "candidate": 1, "agreed": 0, "unseen": 0, "windows": 0, "bare": False,
                      "compute": 0.0, "stolen": 0.0, "measured": False, "settled": False,
                      "late_width": 0, "latency": 0.0, "occupancy": 0.0}

    @property
    def width(self):
        return self.state["width"]

    def window_steps(self):
        """Steps of the window that begins now."""
        state = self.state
        if state["windows"] == 0 or state["agreed"] >= self._options.patience:
            return self._options.first_steps
        return -(-self._options.window_steps // state["width"]) * state["width"]

    def observe(self, busy, step, drained=0.0):
        """A window with `width` in force throughout. Why the width changes now, or None."""
        if not (busy > 0 and step > 0 and math.isfinite(busy) and math.isfinite(step)):
            return None
        state, patience = self.state, self._options.patience
        step = max(step, busy)
        self._learn(busy, step, drained)
        state["windows"] += 1
        if self._looks_again(busy, step):
            self._change_to(1)
            state["agreed"] = patience  # One window is enough to return.
            return (f"nothing has shown about sums in {self._options.recheck_windows} windows: a look "
                    "at one alone")
        before = state["width"]
        at_once = state["windows"] == 1 or state["agreed"] >= patience
        best = self._decide(step)
        if best == before:
            state["agreed"] = 0
            return None
        state["agreed"] = state["agreed"] + 1 if best == state["candidate"] else 1
        state["candidate"] = best
        promised = self.predicted(best)
        if not at_once and promised >= (1 - CLEAR) * step and state["agreed"] < patience:
            return None
        self._change_to(best)
        return (f"a step of K = {before} takes {1e3 * step:.3g} ms, busy {1e3 * busy:.3g}, a sum "
                f"{1e3 * state['latency']:.3g}; K = {best} should take {1e3 * promised:.3g}")

    def _change_to(self, width):
        self.state.update(width=width, agreed=0, unseen=0)

    def _looks_again(self, busy, step):
        state = self.state
        if state["unseen"] < self._options.recheck_windows:
            return False
        state["unseen"] = 0
        if state["width"] == 1:
            state["stolen"] /= 2
            return False
        if not state["settled"]:
            return True
        state.update(settled=False, late_width=state["width"], latency=state["width"] * step - busy)
        return False

    def _learn(self, busy, step, drained):
        state = self.state
        state["unseen"] += 1
        if state["width"] == 1:
            self._learn_alone(busy, step)
        else:
            self._learn_beside(busy, step, drained)
        state["measured"] = True
        state["latency"] = max(state["latency"], state["occupancy"])

    def _learn_alone(self, busy, step):
        state = self.state
        state.update(compute=busy, bare=True, late_width=0)
        latency = max(0.0, step - busy)
        self._scale(latency, state["latency"])
        if not state["settled"]:
            state["occupancy"] = latency  # As on a local network, until a larger width shows more.
        state["latency"] = latency

    def _learn_beside(self, busy, step, drained):
        state = self.state
        width, fresh = state["width"], state["bare"]
        if fresh:
            state["stolen"] = min(max(busy - state["compute"], 0.0), busy / 2)
            state["bare"] = False
        state["compute"] = max(busy - state["stolen"], busy / 2)
        hidden = width * step - busy
        if step <= (1 + _ALIKE) * busy:
            if drained > 0:
                state.update(latency=drained, unseen=0)
            state["latency"] = min(state["latency"], hidden)
            state["occupancy"] = min(state["occupancy"], state["latency"], step)
            state.update(late_width=0, settled=False)
            return
        by_latency = (busy + state["latency"]) / width
        if state["settled"]:
            if state["occupancy"] >= by_latency:
                self._scale(step, state["occupancy"])
            else:
                self._scale(hidden, state["latency"])
        elif ((not fresh and state["late_width"] == 0) or state["late_width"] == width
              or step <= (1 + _ALIKE) * by_latency):
            self._scale(hidden, state["latency"])
            state.update(latency=hidden, occupancy=min(state["occupancy"], step), late_width=width)
        else:
            state.update(occupancy=step, settled=True, late_width=0)

    def _scale(self, now, before):
        """The link has become slower or faster: both sides of a sum's cost change alike."""
        state = self.state
        if not state["measured"] or before == 0 or not now > 0:
            return
        factor = now / before
        state["latency"] *= factor
        state["occupancy"] *= factor

    def predicted(self, width):
        """What the model says a step takes."""
        state = self.state
        # The next width is believed to help until it was tried.
        hopes = not state["settled"] and width > 2 and width > state["width"]
        return pipelined_step(state["compute"], state["latency"], 0.0 if hopes else state["occupancy"],
                              width, state["stolen"])

    def _decide(self, step):
        now = self.state["width"]
        if self._ranks == 1:
            return 1
        offers = {now: step}
        for width in range(1, min(self._options.width_max, max(2, now + 1)) + 1):
            promised = self.predicted(width)
            if width != now and promised <= ((1 + LOSS) if width < now else (1 - GAIN)) * step:
                offers[width] = promised
        fastest = min(offers.values())
        return min(width for width, takes in offers.items() if takes <= (1 + _ALIKE) * fastest)
