"""An optimiser whose gradients come one step, or K - 1 steps, late.

A step, in this order:

    exchange    the gradient's sum begins; what is due arrives (engine.py)
    commit      weights go back to the committed ones; the wrapped optimiser applies what is due
    forecast    weights go where its own rule would take them by estimates of what is under way

Committed weights are the same bits on all ranks. While gradients are under way the model holds the
forecast ones: `flush()` or `committed()` before evaluating or saving it.
"""

import contextlib
import math

import torch

from sumcast.pipeline import checkpoint, parties
from sumcast.pipeline.averagers import complete
from sumcast.pipeline.engine import Engine, Flight
from sumcast.pipeline.layout import Layout
from sumcast.pipeline.options import Options
from sumcast.pipeline.peek import Peek, accumulates, settings_in_force, settings_of
from sumcast.pipeline.stand_in import StandIn


class Report:
    """What the last step or flush did."""

    def __init__(self):
        self.updates = 0
        """Gradients applied: 0 in the pipeline's first step, 1 in most, more in a flush."""
        self.skipped = 0
        """Gradients whose mean was not finite."""
        self.fell_back = None
        """Why the guard went back to K = 1, in this step."""
        self.retuned = None
        """Why the width changed, in this step, with `width="auto"`."""

    def __repr__(self):
        return f"Report({', '.join(f'{name}={value!r}' for name, value in vars(self).items())})"


class Optimizer(StandIn):
    """Wraps a torch optimiser; takes its place for schedulers and GradScaler.

    optimizer = Optimizer(torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9), model)
    ... loss.backward(); optimizer.step(loss=loss) ... optimizer.flush()
    """

    def __init__(self, optimizer, model=None, *, group=None, averager=None, **options):
        """optimizer: any torch optimiser without a closure. model: the module it trains; needed if it
        has statistics (BatchNorm), so that they stay with the committed weights. group: whose
        processes train together, with the timeout to wait by; by default a new group of all. options:
        those of `Options`.

        ValueError, one line, for what cannot work. A collective call, on all ranks alike.
        """
        super().__init__(optimizer)
        self.options = Options(**options)
        self.parameters = parties.trained(optimizer, model)
        problems = self.options.problems()
        if problems:
            raise ValueError("sumcast.pipeline: " + "; ".join(problems))
        self._settle_forecast()
        fresh = parties.fresh_numbers(self.options.fresh, self.parameters)
        layout = Layout(self.parameters, fresh, self.options.bucket_bytes)
        # If weights are never forecast, the model's are the committed ones.
        self._forecasts = self.options.forecast != "none" and bool(layout.late)
        self._committed = ([p.detach().clone() for p in self.parameters] if self._forecasts
                           else [p.detach() for p in self.parameters])
        averager = averager or parties.averager_of(group)
        keeps_own = self._forecasts and self.options.forecast != "previous"
        self.engine = Engine(layout, averager, self.options, keeps_own, self._committed)
        self._peek = Peek(optimizer, self.parameters)
        self._buffers = parties.statistics(model) if self._forecasts else []
        self._committed_buffers = [b.clone() for b in self._buffers]
        self.updates = 0
        """Updates of the committed weights so far."""
        self.report = Report()
        self._hook = None  # of DDP, if gradients come through it

    def _settle_forecast(self):
        options = self.options
        if options.widest == 1:
            options.forecast = "none"
        if options.forecast == "auto":
            options.forecast = "local" if accumulates(self.inner) else "none"
        if options.forecast != "none" and options.warmup_steps != "auto":
            options.warmup_steps = max(1, options.warmup_steps)

    def add_param_group(self, param_group):
        raise RuntimeError("sumcast.pipeline: parameters cannot be added to a pipeline; flush() it, add "
                           "them to the wrapped optimiser, and make a new one")

    def __repr__(self):
        return f"Pipelined(width={self.options.width}, {self.inner!r})"

    # Steps.

    @property
    def width(self):
        """In force: 1 during warm-up and after the guard has acted."""
        return self.engine.width

    @property
    def in_flight(self):
        return len(self.engine.under_way)

    @property
    def steps(self):
        return self.engine.steps

    def step(self, closure=None, *, loss=None):
        """Takes the parameters' .grad, begins their sum, applies what is due.

        loss: this rank's mean loss, for the guard. A collective call. `report` says what it did.
        """
        if closure is not None:
            raise RuntimeError("sumcast.pipeline: step() takes no closure: a late gradient cannot be "
                               "evaluated again")
        if self._hook is not None:
            self._hook.step(getattr(self, "grad_scale", None), hasattr(self, "found_inf"), loss)
        else:
            complete(self.stepping(loss))

    def stepping(self, loss=None):
        """step() as a generator that yields before it waits: for ranks in one process."""
        if self._hook is not None:
            raise RuntimeError("sumcast.pipeline: gradients come through DDP's hook here")
        gradients = [p.grad for p in self.parameters]
        parties.refuse_sparse(gradients)
        scale = getattr(self, "grad_scale", None)
        if scale is not None:
            gradients = [g if g is None else g / scale for g in gradients]
        due = yield from self._exchange(gradients, loss, amp=hasattr(self, "found_inf"))
        self._commit(due)

    @torch.no_grad()  # As a decorator: in a generator it holds between yields only.
    def _exchange(self, gradients, loss, amp=False):
        flight = Flight(self.engine.steps)
        flight.settings = settings_of(self.inner)
        flight.skip_non_finite = self.options.skip_non_finite or amp
        flight.buffers = [b.clone() for b in self._buffers]
        loss = float(loss) if loss is not None else None
        due = yield from self.engine.exchange(gradients, flight, loss)
        return due, flight

    @torch.no_grad()
    def _commit(self, exchanged, handed=None):
        """Applies what is due, and moves the weights ahead of what is under way.

        exchanged: flights due, and the newest one, whose fresh gradients are applied. handed: by
        parameter the gradients of the last one due, if others had them in hand.
        """
        due, newest = exchanged
        self._opt_called = True  # Schedulers look for it, also where ranks share a process.
        report = self.report = Report()
        report.retuned = self.engine.retuned
        fell_back = self.engine.fell_back
        self._show(self._committed)
        kept = [p.grad for p in self.parameters]
        layout = self.engine.layout
        if newest is not None and layout.fresh:
            if handed is None:
                self._apply(newest, newest.mean, layout.fresh, report)
            else:
                self._apply_gradients(newest, self._only(layout.fresh, handed), report, late=False)
        for flight in due:
            if flight is due[-1] and handed is not None:
                self._apply_gradients(flight, self._only(layout.late, handed), report)
            else:
                self._apply(flight, self.engine.effective(flight), layout.late, report)
        for parameter, gradient in zip(self.parameters, kept):
            parameter.grad = gradient
        if self._forecasts:
            torch._foreach_copy_(self._committed, [p.detach() for p in self.parameters])
            self._forecast()
        if fell_back != self._reported_fall:
            report.fell_back = self._reported_fall = fell_back

    _reported_fall = None

    def _only(self, numbers, gradients):
        return [gradients[i] if i in set(numbers) else None for i in range(len(gradients))]

    def _apply(self, flight, flat, numbers, report):
        """Of the flight, the parameters with these numbers."""
        layout = self.engine.layout
        gradients = [None] * len(self.parameters)
        for number in numbers:
            if flight.used[number]:  # What no rank used has no gradient, as in DDP.
                gradients[number] = layout.view(flat, number)
        self._apply_gradients(flight, gradients, report, late=numbers is layout.late)

    def _apply_gradients(self, flight, gradients, report, late=True):
        skips = self._clip_or_skip(flight, gradients)
        if not skips:
            for parameter, gradient in zip(self.parameters, gradients):
                parameter.grad = gradient
            with settings_in_force(self.inner, flight.settings):
                self.inner.step()
        if not late:
            return
        report.updates += not skips
        report.skipped += skips
        self.updates += not skips
        self._committed_buffers = flight.buffers
        self.engine.applied(flight, skips)

    def _clip_or_skip(self, flight, gradients):
        """Clips the gradients in place; True if they are not to be applied."""
        limit = self.options.clip_norm
        if limit <= 0 and not flight.skip_non_finite:
            return False
        present = [g for g in gradients if g is not None]
        if not present:
            return False
        norm = math.sqrt(sum(float(g.double().square().sum()) for g in present))
        if flight.skip_non_finite and not math.isfinite(norm):
            return True
        if 0 < limit < norm:
            for number, gradient in enumerate(gradients):
                if gradient is not None:  # A copy: the mean serves estimates as it is.
                    gradients[number] = gradient * (limit / norm)
        return False

    def _forecast(self):
        engine = self.engine
        if not engine.under_way:
            return
        layout = engine.layout
        late = set(layout.late)
        used = engine.last.used if engine.last else [True] * len(self.parameters)
        with self._peek as peek:
            for flight in engine.under_way:
                flat = engine.estimate(flight)
                peek.update([layout.view(flat, i) if i in late and used[i] else None
                             for i in range(len(self.parameters))], flight.settings)

    def _show(self, weights):
        if self._forecasts:
            torch._foreach_copy_([p.detach() for p in self.parameters], weights)

    # Between steps.

    def flush(self):
        """Applies all that is under way, in order; then the model holds the committed weights.

        At the end of an epoch, before evaluating, before saving a model to be used without the
        pipeline. On all ranks at the same step. The next step fills the pipeline again.
        """
        complete(self.flushing())
        return self.report

    @torch.no_grad()
    def flushing(self):
        """flush() as a generator, for ranks in one process."""
        self._check_idle("flush()")
        due = yield from self.engine.drain()
        self._commit((due, None))

    def set_width(self, width):
        """Flushes, and goes on with another width, at most the one it was made with; nothing chooses it
        any more."""
        if not 1 <= width <= self.options.widest:
            raise ValueError(f"sumcast.pipeline: width must be 1 to {self.options.widest}, with which the "
                             f"pipeline was made, not {width}")
        self.flush()
        self.engine.set_width(width)

    @contextlib.contextmanager
    def committed(self):
        """Inside, the model holds the committed weights, and the statistics of the steps that they
        contain; nothing is flushed. For saving or looking, not for training."""
        ahead = [p.detach().clone() for p in self.parameters] if self._forecasts else None
        newest = [b.clone() for b in self._buffers]
        with torch.no_grad():
            self._show(self._committed)
            self._put_buffers(self._committed_buffers)
        try:
            yield
        finally:
            with torch.no_grad():
                if ahead is not None:
                    self._show(ahead)
                self._put_buffers(newest)

    def _check_idle(self, what):
        if self._hook is not None:
            self._hook.check_idle(what)

    def _put_buffers(self, values):
        for buffer, value in zip(self._buffers, values):
            buffer.copy_(value)

    def state_dict(self):
        """Everything of this rank, gradients under way included: waits for them and does not apply
        them, so that a run with a checkpoint and one without go on alike, bit by bit.

        Each rank saves its own. For a file that plain DDP loads: flush(), then the model's and
        `inner.state_dict()`.
        """
        self._check_idle("state_dict()")
        return checkpoint.save(self)

    def load_state_dict(self, state, resized=False):
        """Into an object made with the same options, before its first step; sets the model's weights.

        resized: takes a state of another number of ranks (of any one of them): means in flight stay,
        what single ranks owed or contributed is dropped. ValueError, and nothing changed, if `state`
        does not fit.
        """
        checkpoint.load(self, state, resized)
