"""How long the start of a run stays synchronous.

At the start gradients are large and turn quickly, and steps at a rate near its peak go so far that no
forecast foresees the next gradient: a delay then costs many steps, a little later hardly any
(docs/convergence.md). So "auto" waits as long as the learning rate rises, and as many steps again: 2
steps where it never does. After MOST steps it is over in any case: whoever's rate rises that long has
left the start behind.

A rate is the same on all ranks, and so is this.
"""

MOST = 100
_RISE = 1e-6  # Relative; less is rounding.


class Warmup:
    def __init__(self, steps):
        """steps: how many, or "auto"."""
        self._follows_rate = steps == "auto"
        self.state = {"steps": 2 if self._follows_rate else steps, "peak": 0.0}
        """`steps`: how many are synchronous, as far as is known by now."""

    @property
    def steps(self):
        return self.state["steps"]

    def observe(self, step, settings):
        """Before each step, numbered from 0. settings: of the optimiser, by parameter group."""
        if not self._follows_rate or (step > 0 and not self.lasts(step)):
            return
        # An optimiser that chooses its rate itself says None.
        rates = [float(group["lr"]) for group in settings if group.get("lr") is not None]
        rate = max(rates, default=0.0)
        if step == 0 or rate > (1 + _RISE) * self.state["peak"]:
            self.state = {"steps": min(2 * (step + 1), MOST), "peak": rate}

    def lasts(self, step):
        """Whether the step is a synchronous one; of a step that was observed."""
        return step < self.steps

    def load_state_dict(self, state, step):
        """state: of a run that has made `step` steps, None if it said nothing of this."""
        if self._follows_rate:
            self.state = dict(state) if state else {"steps": min(step, MOST), "peak": 0.0}
