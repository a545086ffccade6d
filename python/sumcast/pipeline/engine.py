"""Gradients on their way: launched in the order of steps, taken in when they are due.

    exchange(gradients)     one step. Copies the gradients (the next backward would overwrite them),
                            begins their sum, and waits for what is due now: with K under way, the
                            oldest. Returns the flights to be applied, oldest first
    drain()                 what is still under way

It knows gradients and means, neither optimiser nor model, and committed weights only to compare and
to correct with. Both are generators (averagers.py): they yield before they wait. Whatever depends on
values is decided on means and sums over ranks. After an error the object is of no use any more.
"""

import collections
import math

import torch

from sumcast.pipeline import encoders, witnesses
from sumcast.pipeline.guard import Guard
from sumcast.pipeline.retuner import Retuner
from sumcast.pipeline.warmup import Warmup

# Loss, who told one, alignment, witnesses; then uses by parameter, and, if a window is over, times.
_FACTS = 3 + witnesses.COUNT


class Flight:
    """One step's gradient, from its launch until it is applied."""

    def __init__(self, step):
        self.step = step
        self.settings = None  # of the optimiser, in its step
        self.buffers = None  # of the model, after its step's forward
        self.skip_non_finite = False
        self.delayed = False  # whether weights moved between its step and its turn
        self.sendings = None
        self.facts_handle = None
        self.own = None  # a tensor per bucket: what of this rank entered; if forecasts need it
        self.then = None  # committed weights of its step, by bucket; if compensation needs them
        self.mean = None  # a tensor per bucket, once it arrived
        self.used = None  # by parameter: whether any rank had a gradient
        self.facts = None
        self.times = []  # of all ranks, summed up, if it carried any
        self.begun = None


class Engine:
    def __init__(self, layout, averager, options, keeps_own, committed):
        """committed: list of the committed weights by parameter; read, never written."""
        self.layout = layout
        self.averager = averager
        self.options = options
        self._keeps_own = keeps_own
        self._committed = committed
        self._encoder = encoders.make(options.compressor)
        self._encoder.check(averager.ranks)
        self._check_types()
        self.feedback = (encoders.Feedback(layout.empty()) if self._encoder.wants_feedback else None)
        self.guard = Guard(options.guard) if options.guard else None
        self.under_way = collections.deque()
        self.last = None
        """The flight that was applied last: estimates build on its mean."""
        tuning = options.tuner()
        self.retuner = Retuner(tuning, averager.rank, averager.ranks) if tuning else None
        self.wished_width = 1 if tuning else options.width
        self.warmup = Warmup(options.warmup_steps)
        self.retuned = None
        """Why the width changed in this step, if it did."""
        self._draining = False  # A change of width: all that is under way is applied first.
        self.steps = 0
        self.fell_back = None
        """Why the guard has gone back to K = 1, if so."""
        self._alignment = 0.0
        self._blanks = []  # buckets to be used again: fresh memory costs as much as a pass over it
        self._estimated = None

    def _blank(self):
        return self._blanks.pop() if self._blanks else self.layout.empty()

    def _check_types(self):
        if self._encoder.lossless:
            return
        for bucket in self.layout.buckets:
            if bucket.dtype != torch.float32 or bucket.device.type != "cpu":
                raise ValueError("sumcast.pipeline: compressors take float32 parameters on the CPU, "
                                 f"not {bucket.dtype} on {bucket.device}")

    @property
    def width(self):
        """In force now: 1 during warm-up and after the guard has acted."""
        if self.warmup.lasts(self.steps) or self._draining:
            return 1
        return self.wished_width

    @property
    def tunes(self):
        return self.retuner is not None and self.retuner.on

    def exchange(self, gradients, flight, loss=None):
        """gradients: by parameter a tensor, or None where this rank has none. loss: float or None."""
        self.retuned = None
        self.warmup.observe(self.steps, flight.settings)
        yield from self._launch(gradients, flight, loss)
        if self.layout.fresh:
            yield
            self.learn_facts(flight)
            self._arrive(flight, fresh=True)
        due = yield from self._take_due(lambda: self.width)
        self._draining = False
        if self.tunes:
            self.retuner.step_ended(counts=not self.warmup.lasts(self.steps))
        self.steps += 1
        return due

    def drain(self):
        self.retuned = None
        due = yield from self._take_due(lambda: 1)
        self._draining = False
        if self.tunes:
            self.retuner.interrupted()
        return due

    def _take_due(self, width):
        due = []
        # Guard and tuner may change the width while gradients arrive: then all of them are due.
        while len(self.under_way) >= width():
            yield
            flight = self.under_way[0]
            if self.tunes and flight.begun is not None:
                self.retuner.waiting(lambda: self.arrive(flight))
                if flight.step < self.steps and len(self.under_way) == 1 and width() == 1:
                    self.retuner.drained(flight.begun)
            else:
                self.arrive(flight)
            self._check(flight)
            flight.delayed = flight.step < self.steps
            self.under_way.popleft()
            due.append(flight)
        return due

    def _launch(self, gradients, flight, loss):
        if self.tunes:
            flight.begun = self.retuner.clock()
        # Facts are few and go first: fresh gradients are applied by them within this step.
        flight.facts_handle = self.averager.sum(self._facts_of(gradients, loss))
        shares = self.layout.flatten(gradients, 1.0 / self.averager.ranks, self._blank())
        if self.feedback:
            self.feedback.add(shares)
        lossless = self._encoder.lossless
        room = self._blank() if lossless and self._keeps_own else None
        flight.sendings = yield from self._encoder.send(shares, self.steps, self.averager, room)
        if self.feedback:
            self.feedback.owe(flight.sendings)
        if not lossless:
            self._blanks.append(shares)
        if self._keeps_own:
            flight.own = [sending.own for sending in flight.sendings]
        if self.options.compensation != "none" and self.options.widest > 1:
            flight.then = self.layout.flatten(self._committed)
        flight.mean = [None] * len(self.layout.buckets)
        self.under_way.append(flight)

    def _facts_of(self, gradients, loss):
        facts = [loss if loss is not None else 0.0, float(loss is not None), self._alignment]
        every = self.options.hash_every
        if every > 0 and self.steps % every == 0:
            facts += witnesses.witnesses_of(witnesses.hash_of_bits(self._committed))
        else:
            facts += [0.0] * witnesses.COUNT
        facts += [float(gradient is not None) for gradient in gradients]
        if self.tunes:
            facts += self.retuner.due()
        return torch.tensor(facts, dtype=torch.float64)

    def learn_facts(self, flight):
        """Waits until it is known which parameters any rank had a gradient of."""
        if flight.facts is not None:
            return
        facts = flight.facts_handle.wait().tolist()
        flight.facts = facts[:_FACTS]
        uses = _FACTS + len(self.layout.shapes)
        flight.used = [count > 0 for count in facts[_FACTS:uses]]
        flight.times = facts[uses:]
        flight.facts_handle = None

    def _arrive(self, flight, fresh):
        for number, bucket in enumerate(self.layout.buckets):
            if bucket.fresh == fresh and flight.mean[number] is None:
                flight.mean[number] = flight.sendings[number].wait()

    def arrive(self, flight):
        """Waits until all of it is here."""
        self.learn_facts(flight)
        self._arrive(flight, fresh=True)
        self._arrive(flight, fresh=False)
        flight.sendings = None

    def _check(self, flight):
        """What all ranks find out together."""
        ranks = self.averager.ranks
        if not any(flight.used):
            raise RuntimeError(f"sumcast.pipeline: no rank had a gradient in step {flight.step + 1}: "
                               "call backward() before step()")
        if not witnesses.agree(flight.facts[3:], ranks):
            raise RuntimeError(f"sumcast.pipeline: the ranks' weights differ before step "
                               f"{flight.step + 1}: a rank has drifted, its results are worth "
                               "nothing; go back to a checkpoint")
        if self.guard is not None:
            self._consult_guard(flight)
        if self.tunes and flight.times:
            self._consult_tuner(flight)

    def _consult_guard(self, flight):
        ranks = self.averager.ranks
        loss = flight.facts[0] / ranks if flight.facts[1] == ranks else None
        verdict = self.guard.observe(loss, flight.facts[2] / ranks)
        if verdict and (self.wished_width > 1 or self.tunes):
            self.set_width(1)
            self.fell_back = verdict

    def _consult_tuner(self, flight):
        reason = self.retuner.observe(flight.times)
        if reason is None:
            return
        self.retuned = reason
        self.wished_width = self.retuner.tuner.width
        self._draining = True

    def set_width(self, width):
        """From now on; nothing chooses it any more."""
        self.wished_width = width
        if self.retuner is not None:
            self.retuner.on = False

    def late_buckets(self):
        return [i for i, bucket in enumerate(self.layout.buckets) if not bucket.fresh]

    def effective(self, flight):
        """What of the flight is to be applied to the late parameters: its mean, or a corrected copy.

        A tensor per bucket (means of fresh ones as they are). The flight has arrived.
        """
        options = self.options
        corrects = options.correction > 0 and self.last is not None
        if not flight.delayed or not (corrects or flight.then is not None):
            return flight.mean
        now = self.layout.flatten(self._committed) if flight.then is not None else None
        result = list(flight.mean)
        for i in self.late_buckets():
            mean = flight.mean[i]
            better = mean.clone()
            if corrects:
                better.add_(mean - self.last.mean[i], alpha=options.correction)
            if flight.then is not None:
                square = mean * mean
                if options.compensation == "adaptive":
                    square /= (square + 1e-12).sqrt_()
                better.addcmul_(square, now[i] - flight.then[i],
                                value=options.compensation_strength)
            result[i] = better
        return result

    def applied(self, flight, skipped):
        """To be told when a flight has been applied, or, not being finite, has not."""
        if skipped:
            return
        if self.guard is not None and self.last is not None:
            self._alignment = self._cosine(flight.mean, self.last.mean)
        if self.last is not None and self._encoder.lossless:
            self._blanks.append(self.last.mean)
            if self.last.own is not None:
                self._blanks.append(self.last.own)
        self.last = flight

    def _cosine(self, one, other):
        along = squares = others = 0.0
        for i in self.late_buckets():
            a, b = one[i].double(), other[i].double()
            along += float(a.dot(b))
            squares += float(a.dot(a))
            others += float(b.dot(b))
        both = squares * others
        return along / math.sqrt(both) if both > 0 else along

    def estimate(self, flight):
        """Of the mean under way, a tensor per bucket, finite; valid until the next call. Of fresh
        parameters nothing of worth."""
        last = self.last
        if self._estimated is None:
            self._estimated = self.layout.empty()
        for i in self.late_buckets():
            own = flight.own[i] if flight.own else None
            place = self._estimated[i]
            if own is not None and (last is None or self.options.forecast == "local"):
                # An own share is 1/n of the own gradient. Without a mean yet it is all there is.
                torch.mul(own, self.averager.ranks, out=place)
            elif last is None:
                place.zero_()
            elif own is None or last.own is None:
                place.copy_(last.mean[i])
            else:
                torch.sub(own, last.own[i], out=place).add_(last.mean[i])
            # What is not finite will be found out by its mean; the weights ahead stay usable.
            place.nan_to_num_(0.0, 0.0, 0.0)
        return self._estimated
