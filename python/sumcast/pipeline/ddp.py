"""DistributedDataParallel with gradients that come late: a communication hook, and the optimiser.

    ddp = DistributedDataParallel(model)
    optimizer = sumcast.pipeline.register(ddp, torch.optim.SGD(ddp.parameters(), lr=0.1, momentum=0.9))

The rest of the program stays: after backward() the parameters' .grad holds the mean that is due - of
the step before, with K = 2 - so that clipping and looking at it work as ever; step() applies it.

The hook collects the gradients of each bucket by parameter (DDP rebuilds its buckets after the first
step), launches their sum when the last one is there, and puts what is due in their place. In a step
in which nothing is due .grad is zero, and step() applies nothing.
"""

import torch

from sumcast.pipeline import parties
from sumcast.pipeline.averagers import complete
from sumcast.pipeline.optimizer import Optimizer


def register(ddp, optimizer, *, scaler=None, group=None, **options):
    """Registers the hook with `ddp`, before its first backward; returns the optimiser to use instead.

    scaler: the GradScaler, if there is one: gradients are unscaled before they are kept. group: whose
    processes train together; by default a new group of those of `ddp`. options: those of `Options`.
    ValueError, one line, for what cannot work. A collective call, on all ranks alike.
    """
    if not isinstance(ddp, torch.nn.parallel.DistributedDataParallel):
        raise ValueError("sumcast.pipeline: register() takes a DistributedDataParallel, not a "
                         f"{type(ddp).__name__}; for a bare module there is Optimizer")
    parameters = parties.trained(optimizer, ddp)
    wanted = {p for p in ddp.parameters() if p.requires_grad}
    if set(parameters) != wanted:
        raise ValueError("sumcast.pipeline: the optimiser and DistributedDataParallel must have the same "
                         f"parameters; {len(wanted - set(parameters))} are DDP's alone and "
                         f"{len(set(parameters) - wanted)} the optimiser's")
    averager = parties.averager_of(group, ranks_of=ddp.process_group)
    wrapped = Optimizer(optimizer, ddp, averager=averager, **options)
    hook = _Hook(wrapped, ddp, scaler)
    ddp.register_comm_hook(hook, _on_bucket)
    wrapped._hook = hook
    return wrapped


def _on_bucket(hook, bucket):
    return hook.on_bucket(bucket)


class _Hook:
    def __init__(self, optimizer, ddp, scaler):
        self._optimizer = optimizer
        self._ddp = ddp
        self._scaler = scaler
        self._numbers = {p: i for i, p in enumerate(optimizer.parameters)}
        self._buckets = []  # of this backward: (future, buffer)
        self._places = {}  # by number: where in those buffers its gradient lies
        self._used = set()  # numbers of parameters that this rank had a gradient of
        self._exchanged = None  # flights due and the newest one, until step()
        self._loss = None  # of the last step; travels with the next gradient
        for number, parameter in enumerate(optimizer.parameters):
            parameter.register_post_accumulate_grad_hook(
                lambda _, number=number: self._used.add(number))

    def on_bucket(self, bucket):
        if self._ddp._join_config.enable:
            raise RuntimeError("sumcast.pipeline: Join is not supported: a rank without data would apply "
                               "no late gradients and drift; give all ranks equally many batches")
        self.check_idle("a second backward()")
        for parameter, gradient in zip(bucket.parameters(), bucket.gradients()):
            self._places[self._numbers[parameter]] = gradient
        future = torch.futures.Future()
        self._buckets.append((future, bucket.buffer()))
        if bucket.is_last():
            self._exchange()
        return future

    def check_idle(self, what):
        if self._exchanged is not None:
            raise RuntimeError(f"sumcast.pipeline: {what} before step() would lose a gradient; to add up "
                               "several backward() use no_sync() for all but the last")

    @torch.no_grad()
    def _exchange(self):
        optimizer = self._optimizer
        scale = self._scaler.get_scale() if self._scaler is not None else 1.0
        gradients = [self._places[i] if i in self._used else None
                     for i in range(len(optimizer.parameters))]
        if scale != 1.0:
            gradients = [g if g is None else g / scale for g in gradients]
        due, newest = complete(optimizer._exchange(gradients, self._loss, self._scaler is not None))
        self._hand_out(due, newest, scale)
        self._exchanged = (due, newest)
        buckets, self._buckets, self._places, self._used = self._buckets, [], {}, set()
        for future, buffer in buckets:
            future.set_result(buffer)

    def _hand_out(self, due, newest, scale):
        """Puts the gradients to be applied where DDP will find them."""
        engine = self._optimizer.engine
        late = engine.effective(due[-1]) if due else None
        fresh = set(engine.layout.fresh)
        for number, place in self._places.items():
            flat = newest.mean if number in fresh else late
            if flat is None:
                place.zero_()
            else:
                torch.mul(engine.layout.view(flat, number), scale, out=place)

    def step(self, grad_scale, scaled, loss):
        """The second half of a step; see Optimizer.step."""
        if self._exchanged is None:
            raise RuntimeError("sumcast.pipeline: step() without a backward() before it; under no_sync() "
                               "gradients are only added up")
        if scaled and self._scaler is None:
            raise RuntimeError("sumcast.pipeline: gradients carry a loss scale: give the GradScaler to "
                               "register(..., scaler=scaler)")
        (due, newest), self._exchanged = self._exchanged, None
        self._loss = loss
        self._optimizer._commit((due, newest), self._in_hand(due, newest, grad_scale))

    def _in_hand(self, due, newest, grad_scale):
        """By parameter what is to be applied: .grad, as the program left it."""
        optimizer = self._optimizer
        gradients = [p.grad for p in optimizer.parameters]
        if grad_scale is not None:
            for gradient in gradients:
                if gradient is not None:
                    gradient.div_(grad_scale)
        if not self._ddp.find_unused_parameters or not due:
            return gradients
        # DDP leaves .grad alone where no rank used the parameter now, though a mean may be due.
        engine = optimizer.engine
        learn = lambda: engine.learn_facts(newest)  # noqa: E731
        engine.retuner.waiting(learn) if engine.tunes else learn()
        flat = optimizer.engine.effective(due[-1])
        fresh = set(optimizer.engine.layout.fresh)
        for number in range(len(gradients)):
            used_then = (newest if number in fresh else due[-1]).used[number]
            if not used_then:
                gradients[number] = None
            elif not newest.used[number]:
                gradients[number] = optimizer.engine.layout.view(flat, number)
        return gradients
