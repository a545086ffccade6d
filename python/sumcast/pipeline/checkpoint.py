"""A pipeline as a dictionary of tensors and numbers, gradients under way as the means they became."""

import torch

_VERSION = 2
_WITHOUT_TIMES = 1  # Before width="auto"; means the same for every fixed width.
_FLIGHT = ("step", "settings", "buffers", "skip_non_finite", "delayed", "own", "then", "mean", "used",
           "facts", "times")


def save(optimizer):
    """See Optimizer.state_dict. torch.load(weights_only=True) reads it back."""
    engine = optimizer.engine
    for flight in engine.under_way:
        engine.arrive(flight)
    return {
        "version": _VERSION,
        "fits": _fits(optimizer),
        "rank": engine.averager.rank,
        "ranks": engine.averager.ranks,
        "inner": optimizer.inner.state_dict(),
        "committed": [weight.clone() for weight in optimizer._committed],
        "committed_buffers": [buffer.clone() for buffer in optimizer._committed_buffers],
        "updates": optimizer.updates,
        "steps": engine.steps,
        "wished_width": engine.wished_width,
        "warmup": dict(engine.warmup.state),
        "fell_back": engine.fell_back,
        "alignment": engine._alignment,
        "tuning": engine.retuner.state_dict() if engine.retuner else None,
        "guard": dict(engine.guard.state) if engine.guard else None,
        "residuals": [r.clone() for r in engine.feedback.residuals] if engine.feedback else [],
        "under_way": [_saved(flight) for flight in engine.under_way],
        "last": _saved(engine.last) if engine.last else None,
    }


def _fits(optimizer):
    """What has to be the same for a state to mean the same."""
    options = optimizer.options
    return {"parameters": optimizer.engine.layout.signature(), "width": options.width,
            "max_width": options.max_width if options.width == "auto" else None,
            "forecast": options.forecast, "compensation": options.compensation,
            "compressor": options.compressor, "guard": options.guard is not None,
            "statistics": [list(buffer.shape) for buffer in optimizer._buffers]}


def _saved(flight):
    return {name: _copied(getattr(flight, name)) for name in _FLIGHT}


def _copied(value):
    """Lists of tensors by value: a flight's memory is used again after its time."""
    if isinstance(value, list) and value and isinstance(value[0], torch.Tensor):
        return [tensor.clone() for tensor in value]
    return value


def load(optimizer, state, resized):
    """See Optimizer.load_state_dict."""
    engine = optimizer.engine
    _check(optimizer, state, resized)
    optimizer.inner.load_state_dict(state["inner"])
    with torch.no_grad():
        for place, weight in zip(optimizer._committed, state["committed"]):
            place.copy_(weight)
        optimizer._show(optimizer._committed)
    optimizer.updates = state["updates"]
    engine.steps = state["steps"]
    engine.wished_width = state["wished_width"]
    engine.warmup.load_state_dict(state.get("warmup"), engine.steps)
    engine.fell_back = optimizer._reported_fall = state["fell_back"]
    engine._alignment = state["alignment"]
    if engine.retuner:
        engine.retuner.load_state_dict(state["tuning"])
    if engine.guard:
        engine.guard.state = dict(state["guard"])
    engine.under_way.extend(_restored(flight, resized) for flight in state["under_way"])
    engine.last = _restored(state["last"], resized) if state["last"] else None
    if engine.feedback and not resized:
        for residual, value in zip(engine.feedback.residuals, state["residuals"]):
            residual.copy_(value)
    with torch.no_grad():
        optimizer._committed_buffers = [buffer.clone() for buffer in state["committed_buffers"]]
        newest = engine.under_way[-1].buffers if engine.under_way else optimizer._committed_buffers
        optimizer._put_buffers(newest)
        if optimizer._forecasts:
            optimizer._forecast()


def _check(optimizer, state, resized):
    engine = optimizer.engine

    def refuse(why):
        raise ValueError(f"sumcast.pipeline: this state does not fit: {why}")

    if not isinstance(state, dict) or state.get("version") not in (_WITHOUT_TIMES, _VERSION):
        refuse("it was not saved by a pipeline's state_dict() of this version")
    if engine.steps:
        refuse("the pipeline has made steps already; load into a new one")
    for name, mine in _fits(optimizer).items():
        if state["fits"].get(name) != mine:
            refuse(f"{name} differ" if name in ("parameters", "statistics") else
                   f"{name} was {state['fits'].get(name)!r} and is {mine!r}")
    where = (state["rank"], state["ranks"])
    if not resized and where != (engine.averager.rank, engine.averager.ranks):
        refuse(f"it is of rank {where[0]} of {where[1]}, this is rank {engine.averager.rank} of "
               f"{engine.averager.ranks}; each rank loads its own, or all with resized=True")


def _restored(saved, resized):
    from sumcast.pipeline.engine import Flight

    flight = Flight(saved["step"])
    for name in _FLIGHT:
        setattr(flight, name, _copied(saved.get(name, [])))
    if resized:
        flight.own = None
        flight.facts = [0.0] * len(flight.facts)
        flight.times = []
    return flight
