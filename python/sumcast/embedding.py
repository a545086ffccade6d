"""EmbeddingBag over a table that all ranks share: any key, rows made on first use.

    table = sumcast.EmbeddingBag(16, mode="sum", optimizer="adagrad", lr=0.05)
    out = table(input, offsets)          # as torch.nn.EmbeddingBag
    loss.backward()
    optimizer.step()                     # the dense parameters
    table.step()                         # the rows that this step's batches of all ranks touched

Rows are no parameters: no rank has all of them. A forward brings this batch's distinct rows, as a
leaf of autograd; torch's own embedding_bag computes on them, and a key's gradient is the sum over
its samples in the order of the batch.
step() gives the leaf's gradient, one row per key, to whoever holds the key; all ranks' gradients of
a key are added in rank order, and its row moves once.

All ranks call forward, step and the like in the same order; a rank without data calls them with
empty tensors. docs/embedding.md is the manual.
"""

import collections
import io
import json
import os
import warnings

import torch

from sumcast import _bags, _keys, _native, _tables

__all__ = ["EmbeddingBag", "read_table"]

_MODES = ("sum", "mean", "max")
_WIRES = {"fp32": 0, "bf16": 1, "fp16": 2, "int8": 3}
_FORGOTTEN_LOOKUPS = 100

# What a forward brought: keys int64[n], and the leaf f32[n or more][dim].
_Lookup = collections.namedtuple("_Lookup", ["keys", "leaf"])

SavedTable = collections.namedtuple(
    "SavedTable", ["keys", "rows", "optimizer", "optimizer_state", "number", "state"])


def read_table(directory):
    """All rows of a checkpoint of save() that ever moved, without a job.

    Returns (keys: int64[n], ascending as unsigned numbers; rows: float32[n][dim]; optimizer: name;
    optimizer_state: float32[n][lanes]; number of the checkpoint; state: as given to save()).
    """
    saved = _native.read_table(os.fspath(directory))
    saved["state"] = _decode(saved["state"])
    return SavedTable(**saved)


class EmbeddingBag(torch.nn.Module):
    """Sums, means or maxima of bags of rows, by key.

    dim: floats of a row. mode: "sum", "mean" or "max".
    optimizer: "sgd", "momentum", "adagrad", "rowwise-adagrad", "adam" or "ftrl", with lr, momentum,
        betas, eps (None: 1e-10 for both Adagrads, 1e-8 for adam, as torch), initial_accumulator,
        and ftrl_beta, l1, l2.
    average: gradients are divided by the number of ranks, as DDP does with those of the dense part;
        False: they are added.
    init_scale: new rows are uniform in [-init_scale, init_scale], from `seed` and their key alone;
        None: 1 / sqrt(dim).
    padding_idx, include_last_offset: as torch.nn.EmbeddingBag.
    hot: keys whose gradients are summed by the aggregator, and whose rows every rank holds: a file
        of `sumcast hot --out`, a sequence or int64 tensor of keys, hottest first, or a number: so
        many at most, chosen from what rank 0 trains and looked at again every `track` steps.
    admit_after: the first so many updates of a key (steps in which any rank trained it) are counted
        and dropped; until then it gives its new row. evict_after: a key without update for so many
        steps is as new; 0: never. max_rows: of all ranks together; where they are there, the row
        updated longest ago makes room, if rows may go (evict_after), else that is an error; 0: no
        limit.
    servers: ranks that hold rows, from rank 0 on; 0: all, or the first 16.
    wire: how gradients travel: "fp32", "bf16", "fp16" or "int8".
    row_wire: how rows travel, the same: a training forward reads rounded rows, hot ones alike; what
        is kept, moved and saved is exact, and so is what a forward without gradients reads.
    checkpoint: a directory that all ranks see, for save(). resume: go on from what is in it, if
        anything is; `restored` is then the state that was saved with it.
    process_group: None: the default one, or this process alone. timeout: of every call; None: the
        group's. name: in errors and statistics.

    What the table and its training depend on is equal on all ranks, or all get the same ValueError;
    how a rank looks up (`mode`, `padding_idx`, `include_last_offset`), `checkpoint` and `timeout` are
    its own.
    """

    def __init__(self, dim, mode="mean", *, optimizer="sgd", lr=0.01, momentum=0.9,
                 betas=(0.9, 0.999), eps=None, initial_accumulator=0.0, ftrl_beta=1.0, l1=0.0,
                 l2=0.0, average=True, init_scale=None, seed=1, padding_idx=None,
                 include_last_offset=False, hot=None, track=100, admit_after=0, evict_after=0,
                 max_rows=0, servers=0, segments=4, wire="fp32", row_wire="fp32", checkpoint=None,
                 resume=False, process_group=None, timeout=None, name="table"):
        super().__init__()
        if mode not in _MODES:
            raise ValueError(f"sumcast: mode {mode!r}; there are sum, mean and max")
        for argument, value in (("wire", wire), ("row_wire", row_wire)):
            if value not in _WIRES:
                raise ValueError(f"sumcast: {argument} {value!r}; there are {', '.join(_WIRES)}")
        if dim < 1:
            raise ValueError(f"sumcast: dim={dim}; a row has 1 float or more")
        hot_max, hot_keys = _keys.hot_keys(hot)
        self.dim, self.mode, self.optimizer = int(dim), mode, optimizer
        self.padding_idx = None if padding_idx is None else _keys.signed(padding_idx)
        self.include_last_offset = include_last_offset
        self._settings = {
            "width": self.dim, "optimizer": optimizer, "rate": lr, "momentum": momentum,
            "beta1": betas[0], "beta2": betas[1],
            "epsilon": (1e-10 if "adagrad" in optimizer else 1e-8) if eps is None else eps,
            "beta": ftrl_beta, "l1": l1, "l2": l2, "initial": initial_accumulator,
            "init_scale": self.dim ** -0.5 if init_scale is None else init_scale, "seed": seed,
            "servers": servers, "segments": segments, "wire": _WIRES[wire],
            "row_wire": _WIRES[row_wire],
            "checkpoint_directory": "" if checkpoint is None else os.fspath(checkpoint),
            "resume": int(bool(resume)), "hot_max": hot_max, "track": track,
            "admit_after": admit_after, "evict_after": evict_after, "max_rows": max_rows,
            # For the ranks to compare: the table itself does not know them.
            "average": bool(average), "hot": None if hot_keys is None else _keys.fingerprint(hot_keys),
        }
        self._table, self.ranks = _tables.open_table(name, self._settings, process_group, timeout)
        self._factor = 1.0 / self.ranks if average else 1.0
        self._lookups = []  # Since the last step().
        self._current = _keys.no_keys()  # Their keys, or those of the prefetch: ascending.
        self._fetched = None  # Rows of the current keys, if they were prefetched.
        self._announced = None  # (int64[n], its _keys.distinct()): what was announced last.
        restored = self._table.restored()
        self.restored = None if restored is None else _decode(restored)
        self._was_resumed = restored is not None
        if hot_keys is not None:
            self.set_hot(hot_keys)

    def forward(self, input, offsets=None, per_sample_weights=None):
        """As torch.nn.EmbeddingBag, with keys for indices: int64, int32 or uint64, of any value.

        Rows are made for new keys, and the batch is remembered for step(), only while gradients
        are recorded and the module is in training mode; otherwise rows are only read, and a key
        that nobody has trained gives its new row.
        """
        flat = self._check(input, offsets, per_sample_weights)
        keys, places, padding = self._announced_as(flat) or _keys.distinct(flat, self.padding_idx)
        learns = self.training and torch.is_grad_enabled()
        # One row more where something must stand that is no key's: padding, or no keys at all.
        leaf = torch.zeros(len(keys) + (padding or len(keys) == 0), self.dim)
        if learns:
            self._look_up(keys, leaf)
        else:
            self._table.peek(keys, leaf)
        leaf = leaf.to(input.device).requires_grad_(learns)
        bags = _bags.embedding_bag(
            places.to(input.device).view(input.shape), leaf,
            None if offsets is None else offsets.to(torch.int64), self.mode, per_sample_weights,
            self.include_last_offset, len(keys) if padding else None)
        if learns:
            self._lookups.append(_Lookup(keys, leaf))
        return bags

    def step(self, next_input=None, scale=1.0):
        """Moves the rows that all ranks have touched since the last step, by their gradients.

        A key counts as touched if it was in a batch, or announced, whatever its gradient is.

        next_input: the keys of the next step's batches, one tensor or several, which come in the
            same round: its forwards then send nothing, and may have no other keys.
        scale: what gradients are multiplied by before they are added: 1 / the scale of the loss.
        """
        gradients = self._gradients()
        factor = self._factor * scale
        if factor != 1.0:
            gradients.mul_(factor)
        keys, announced = _keys.no_keys(), None
        if next_input is not None:
            keys, announced = self._distinct_of(next_input)
        rows = torch.empty(len(keys), self.dim)
        self._table.push(gradients, keys, rows)
        self._lookups = []
        self._current, self._fetched = keys, None if next_input is None else rows
        self._announced = announced

    def prefetch(self, *inputs):
        """Announces the keys of all forwards until the next step(): they come in one round."""
        if self._lookups:
            raise RuntimeError("sumcast: prefetch() comes before the forwards of a step")
        keys, announced = self._distinct_of(inputs)
        rows = torch.empty(len(keys), self.dim)
        self._table.pull(keys, rows)
        self._current, self._fetched, self._announced = keys, rows, announced

    def discard(self):
        """Forgets what was looked up since the last step: a step that all ranks skip. No row
        moves."""
        self._lookups = []
        self._table.pull(_keys.no_keys(), torch.empty(0, self.dim))
        self._current, self._fetched, self._announced = _keys.no_keys(), None, None

    @property
    def lr(self):
        """The optimiser's rate from the next step() on; setting it is a schedule. All ranks alike."""
        return self._settings["rate"]

    @lr.setter
    def lr(self, value):
        self._table.set_rate(value)
        self._settings["rate"] = float(value)

    def as_optimizer(self):
        """A torch.optim.Optimizer whose step() is this table's step(), at the "lr" of its only
        parameter group: for torch.optim.lr_scheduler, and for loops over optimizers."""
        return _RowOptimizer(self)

    def attach(self, optimizer):
        """Has every optimizer.step() end with this table's step(). Returns a handle to undo it."""
        return optimizer.register_step_post_hook(lambda *unused: self.step())

    def rows(self, keys):
        """Rows of these keys, f32[..., dim], with no gradient; makes none. All ranks call it."""
        _keys.check_key_type(keys)
        distinct, places, _ = _keys.distinct(_keys.as_keys(keys), None)
        rows = torch.empty(len(distinct), self.dim)
        self._table.peek(distinct, rows)
        return rows[places].view(*keys.shape, self.dim)

    def set_hot(self, keys):
        """Names the hot keys from now on, hottest first; None: all are cold. All ranks alike."""
        _, keys = _keys.hot_keys([] if keys is None else keys)
        self._table.set_hot(_keys.no_keys() if keys is None else keys)

    def save(self, state=None, full=True):
        """Writes a checkpoint into the directory `checkpoint`: all rows with their optimiser's
        state, and `state` of rank 0 (anything that torch.save takes and torch.load loads with
        weights_only), as one: the old one is there until the new one is. All ranks call it.

        full: False: only rows that moved since the last one.
        """
        with io.BytesIO() as buffer:
            torch.save(state, buffer)
            self._table.save(full, buffer.getvalue())

    def counters(self):
        """Of this rank, in rows: see sumcast.torch.stats()."""
        return self._table.counters()

    def abort(self, reason="aborted by its caller"):
        """Ends the table on all ranks, from any thread."""
        self._table.abort(reason)

    def close(self):
        """Leaves. Waits for the other ranks to leave too, two seconds at most."""
        self._table.close()

    def extra_repr(self):
        return f"{self.dim}, mode={self.mode!r}, optimizer={self.optimizer!r}, ranks={self.ranks}"

    # A state_dict of the model says what table it goes with; rows are save()'s to keep.
    def get_extra_state(self):
        return json.dumps({"dim": self.dim, "optimizer": self.optimizer,
                           "seed": self._settings["seed"],
                           "trained": self._was_resumed or self.counters()["rounds"] > 0})

    def set_extra_state(self, state):
        saved = json.loads(state)
        for key, mine in (("dim", self.dim), ("optimizer", self.optimizer)):
            if saved[key] != mine:
                raise ValueError(f"sumcast: the state_dict is of a table with {key} {saved[key]!r}, "
                                 f"this one has {mine!r}")
        if saved["trained"] and not self._was_resumed:
            warnings.warn("sumcast: a state_dict has no rows of a table; open it with "
                          "checkpoint=..., resume=True, where save() has put them", stacklevel=2)

    def _check(self, input, offsets, per_sample_weights):
        """Refuses what torch would not, or would only later; before anything is sent."""
        _keys.check_key_type(input)
        if per_sample_weights is not None:
            if self.mode != "sum":
                raise ValueError("sumcast: per_sample_weights go with mode \"sum\" only")
            if per_sample_weights.dtype != torch.float32:
                raise TypeError(f"sumcast: per_sample_weights are {per_sample_weights.dtype}; they "
                                "must be float32")
            if per_sample_weights.shape != input.shape:
                raise ValueError("sumcast: per_sample_weights of another shape than the keys")
        if input.dim() == 2:
            if offsets is not None:
                raise ValueError("sumcast: offsets go with a 1-D input; rows of a 2-D one are bags")
            if input.size(1) == 0:
                raise ValueError("sumcast: a 2-D input of no columns; a rank without data passes an "
                                 "empty 1-D input and offsets")
        elif input.dim() == 1:
            _keys.check_offsets(offsets, len(input), self.include_last_offset)
        else:
            raise ValueError(f"sumcast: an input of {input.dim()} dimensions; bags have 1 or 2")
        return _keys.as_keys(input)

    def _distinct_of(self, inputs):
        """(distinct keys of all tensors, what to remember of them)."""
        inputs = [inputs] if isinstance(inputs, torch.Tensor) else list(inputs)
        for one in inputs:
            _keys.check_key_type(one)
        flat = torch.cat([_keys.as_keys(one) for one in inputs]) if inputs else _keys.no_keys()
        distinct = _keys.distinct(flat, self.padding_idx)
        return distinct[0], (flat.clone(), distinct)

    def _announced_as(self, flat):
        """_keys.distinct() of keys that are all that was announced, in their order; or None."""
        if self._announced is None or not torch.equal(self._announced[0], flat):
            return None
        return self._announced[1]

    def _look_up(self, keys, leaf):
        """Brings the rows, and makes sure that all of this step's keys are the current ones."""
        if self._fetched is not None:
            rows = self._fetched
            if keys is not self._current:
                rows = rows[_keys.places_in(self._current, keys)]
            leaf[:len(keys)] = rows
            return
        if not self._lookups:
            self._table.pull(keys, leaf)
            self._current = keys
            return
        if len(self._lookups) == _FORGOTTEN_LOOKUPS:
            warnings.warn(f"sumcast: {_FORGOTTEN_LOOKUPS} forwards and no step() of this "
                          "EmbeddingBag: rows do not move before it", stacklevel=4)
        current = torch.unique(torch.cat([self._current, keys]))
        rows = torch.empty(len(current), self.dim)
        self._table.pull(current, rows)
        self._current = current
        leaf[:len(keys)] = rows[_keys.places_in(current, keys)]

    def _gradients(self):
        """Of the current keys; the caller's to change. Lookups are added in their order."""
        if len(self._lookups) == 1 and self._lookups[0].keys is self._current:
            leaf = self._lookups[0].leaf
            if leaf.grad is not None:
                return leaf.grad[:len(self._current)].to("cpu", copy=True)
        gradients = torch.zeros(len(self._current), self.dim)
        for keys, leaf in self._lookups:
            if leaf.grad is not None:
                gradients.index_add_(0, _keys.places_in(self._current, keys),
                                     leaf.grad[:len(keys)].to("cpu"))
        return gradients


class _RowOptimizer(torch.optim.Optimizer):
    """Rows are no parameters: the group has one of no elements, for torch wants one."""

    def __init__(self, table):
        super().__init__([torch.zeros(0)], {"lr": table.lr})
        self._table = table

    @torch.no_grad()
    def step(self, closure=None):
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        rate = float(self.param_groups[0]["lr"])
        if rate != self._table.lr:
            self._table.lr = rate
        self._table.step()
        return loss


def _decode(state):
    return torch.load(io.BytesIO(state), weights_only=True)
