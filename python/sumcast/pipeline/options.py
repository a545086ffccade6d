"""What a pipelined run may choose.

Words: w, the committed weights, equal on all ranks; g(t), the mean gradient of step t; K, the width.
Step t applies the gradient of step t - K + 1, so that K - 1 sums travel while ranks compute.
"""

import dataclasses
import math

from sumcast.pipeline.guard import GuardOptions
from sumcast.pipeline.tuner import TunerOptions

WIDTH_MAX = 8

FORECASTS = ("auto", "none", "previous", "local", "local-and-previous")
COMPENSATIONS = ("none", "plain", "adaptive")


@dataclasses.dataclass
class Options:
    """Checked when a pipeline is made; `problems` says all that is wrong."""

    width: int | str = 2
    """K, 1 to WIDTH_MAX; 1 is synchronous training, bit for bit. "auto": 1 to `max_width`, whatever
    steps take least time with; starts with 1 and changes on all ranks at one step."""
    max_width: int = 4
    """The largest that "auto" may choose, 1 to WIDTH_MAX."""
    warmup_steps: int | str = "auto"
    """Synchronous steps first; at least one if weights are forecast. "auto": as long as the learning
    rate rises and as many steps again, 2 where it does not, 100 at most (warmup.py says why)."""
    forecast: str = "auto"
    """Where the next gradient is computed: at the committed weights ("none"), or where the
    optimiser's own rule would take them by an estimate of each mean under way: the last mean
    ("previous"), the own gradient ("local"), or the last mean with the own share of it replaced by the
    fresh one ("local-and-previous": SAPipe's local_prev_sync, NeurIPS 2022). "auto": "local", whose
    estimates are on average over ranks the mean under way; "none" for SGD without momentum."""
    compensation: str = "none"
    """First-order correction of a late gradient for what the weights moved since: g takes
    s g g (w - w_then), or with "adaptive" s g g / sqrt(g g + eps) (w - w_then), in addition
    (DC-ASGD, ICML 2017)."""
    compensation_strength: float = 0.5
    """s above."""
    correction: float = 0.0
    """0 to 1. A late mean g becomes g + correction (g - the mean before it)."""
    clip_norm: float = 0.0
    """Euclidean norm to which every applied mean is cut; 0: off. With a DDP hook, clip_grad_norm_
    after backward() sees the late mean as well, but only the newest where several are applied in one
    step (a flush, the guard, a change of width under "auto")."""
    skip_non_finite: bool = False
    """A mean that is not finite updates nothing, on all ranks alike. On with a GradScaler."""
    fresh: tuple = ()
    """Parameters, or modules whose parameters, are summed within their step and never late: the last
    layers, whose gradients backward completes first."""
    guard: GuardOptions | None = None
    """Falls back to K = 1, on all ranks at one step."""
    hash_every: int = 100
    """Steps between comparisons of the committed weights' bits; 0: never."""
    compressor: str = "none"
    """What ranks send: "none", "bf16", "fp16", "int8", "top-k" or "top-k:SHARE", "qsgd" or
    "qsgd:LEVELS" (see encoders.py)."""
    bucket_bytes: int = 32 << 20
    """Parameters are summed in pieces of about this size, under way at once."""
    total_steps: int | None = None
    """Length of the run, if known: a width beyond it is refused."""

    @property
    def widest(self):
        """The largest width that may be in force."""
        return self.max_width if self.width == "auto" else self.width

    def tuner(self):
        """Options of the tuner, or None if the width is given."""
        return TunerOptions(width_max=self.max_width) if self.width == "auto" else None

    def problems(self):
        """All that is wrong, one line each."""
        found = []

        def require(holds, problem):
            if not holds:
                found.append(problem)

        require(self.width == "auto" or isinstance(self.width, int) and 1 <= self.width <= WIDTH_MAX,
                f"width must be 1 to {WIDTH_MAX} or \"auto\", not {self.width}")
        require(isinstance(self.max_width, int) and 1 <= self.max_width <= WIDTH_MAX,
                f"max_width must be 1 to {WIDTH_MAX}, not {self.max_width}")
        require(self.warmup_steps == "auto"
                or isinstance(self.warmup_steps, int) and self.warmup_steps >= 0,
                f"warmup_steps must be a number from 0 on or \"auto\", not {self.warmup_steps!r}")
        require(self.forecast in FORECASTS,
                f"forecast must be one of {', '.join(FORECASTS)}, not {self.forecast!r}")
        require(self.compensation in COMPENSATIONS,
                f"compensation must be one of {', '.join(COMPENSATIONS)}, "
                f"not {self.compensation!r}")
        require(math.isfinite(self.compensation_strength) and self.compensation_strength >= 0,
                f"compensation_strength must not be negative, is {self.compensation_strength}")
        require(0 <= self.correction <= 1, f"correction must be 0 to 1, not {self.correction}")
        require(math.isfinite(self.clip_norm) and self.clip_norm >= 0,
                f"clip_norm must not be negative, is {self.clip_norm}")
        require(self.hash_every >= 0, f"hash_every must not be negative, is {self.hash_every}")
        require(self.bucket_bytes >= 1, f"bucket_bytes must be positive, is {self.bucket_bytes}")
        if self.guard is not None:
            found.extend(self.guard.problems())
        if self.total_steps is not None and self.width != "auto" and not found:
            require(self.width <= self.total_steps,
                    f"width {self.width} is larger than the run of {self.total_steps} steps: no "
                    "gradient would ever be applied on time; choose a smaller width")
        return found
