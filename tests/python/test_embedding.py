"""EmbeddingBag on one machine: what torch's own computes, with torch's own optimisers."""

import os
import threading

import pytest
import torch
import torch.nn.functional as functional

import sumcast
import sumcast.torch
from ranks import error_of

VOCABULARY = torch.tensor([0, -1, 1, 2**63 - 1, -(2**63), 7, 1 << 40, -77, 12345, 3, 99, -5])
DIM = 6


@pytest.fixture
def tables():
    """Makes tables of this process alone, and closes them."""
    made = []

    def make(dim=DIM, mode="sum", **arguments):
        made.append(sumcast.EmbeddingBag(dim, mode, **arguments))
        return made[-1]

    yield make
    for table in made:
        table.close()


def bags(seed, count=9, longest=6):
    """Places in the vocabulary and offsets, some bags empty, and weights."""
    generator = torch.Generator().manual_seed(seed)
    sizes = torch.randint(0, longest, (count,), generator=generator)
    sizes[1] = sizes[count - 1] = 0
    sizes[0] = longest
    places = torch.randint(0, len(VOCABULARY), (int(sizes.sum()),), generator=generator)
    offsets = torch.cat([torch.zeros(1, dtype=torch.int64), sizes.cumsum(0)])
    return places, offsets, torch.randn(len(places), generator=generator)


def twin_of(table, mode, **arguments):
    """torch's own, with the rows that the table has."""
    return torch.nn.EmbeddingBag.from_pretrained(table.rows(VOCABULARY).clone(), freeze=False,
                                                 mode=mode, **arguments)


def some_loss(out):
    """With gradients that are neither equal nor small numbers."""
    return (out * torch.linspace(0.3, 1.7, out.numel()).view_as(out)).sum() + out.square().mean()


def rows_in_order(places, of_bags, offsets, factors):
    """Gradients of rows, added sample by sample."""
    merged = torch.zeros(len(VOCABULARY), DIM)
    for bag, (begin, end) in enumerate(zip(offsets[:-1], offsets[1:])):
        for sample in range(begin, end):
            merged[places[sample]] += factors[sample] * of_bags[bag]
    return merged


@pytest.mark.parametrize("include_last", [False, True])
@pytest.mark.parametrize("padded", [False, True])
@pytest.mark.parametrize("mode, weighted", [("sum", False), ("sum", True), ("mean", False), ("max", False)])
def test_bags_are_torchs_bit_for_bit_and_gradients_up_to_rounding(tables, mode, weighted, padded,
                                                                  include_last):
    table = tables(mode=mode, lr=1.0, include_last_offset=include_last,
                   padding_idx=int(VOCABULARY[4]) if padded else None)
    twin = twin_of(table, mode, include_last_offset=include_last, padding_idx=4 if padded else None)
    places, offsets, weights = bags(3)
    mine = weights.clone().requires_grad_() if weighted else None
    theirs = weights.clone().requires_grad_() if weighted else None
    begins = offsets if include_last else offsets[:-1]
    out = table(VOCABULARY[places], begins, mine)
    expected = twin(places, begins, theirs)
    if weighted and padded:  # There torch calls BLAS, whose bits depend on where tensors lie.
        torch.testing.assert_close(out, expected, rtol=1e-6, atol=1e-7)
    else:
        assert torch.equal(out, expected)
    before = table.rows(VOCABULARY)
    out.retain_grad()
    some_loss(out).backward()
    some_loss(expected).backward()
    if weighted:
        torch.testing.assert_close(mine.grad, theirs.grad)
    table.step()
    torch.optim.SGD(twin.parameters(), lr=1.0).step()
    torch.testing.assert_close(table.rows(VOCABULARY), twin.weight.detach(), rtol=1e-5, atol=1e-6)
    if mode == "sum" and not padded:
        factors = weights if weighted else torch.ones_like(weights)
        moved = rows_in_order(places, out.grad, offsets, factors)
        assert torch.equal(table.rows(VOCABULARY), before - moved)


@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
def test_gradients_are_those_of_the_definition(tables, mode):
    """Bags computed row by row in double precision, without torch's embedding_bag."""
    table = tables(mode=mode, lr=1.0)
    places, offsets, weights = bags(8)
    weights = weights if mode == "sum" else None
    before = table.rows(VOCABULARY)
    rows = before.double().requires_grad_()
    defined = []
    for begin, end in zip(offsets[:-1], offsets[1:]):
        bag = rows[places[begin:end]]
        if weights is not None:
            bag = bag * weights[begin:end, None].double()
        empty = torch.zeros(DIM, dtype=torch.float64)
        defined.append(empty if begin == end else bag.amax(0) if mode == "max" else
                       bag.sum(0) if mode == "sum" else bag.mean(0))
    defined = torch.stack(defined)
    out = table(VOCABULARY[places], offsets[:-1], weights)
    torch.testing.assert_close(out.double(), defined, rtol=1e-5, atol=1e-6)
    some_loss(out).backward()
    # amax() shares the gradient among equal maxima; here a row may come twice in a bag, as one.
    some_loss(defined).backward()
    table.step()
    moved = before - table.rows(VOCABULARY)
    torch.testing.assert_close(moved.double(), rows.grad, rtol=1e-4, atol=1e-5)


OPTIMIZERS = {
    "sgd": lambda rows: torch.optim.SGD(rows, lr=0.05),
    "momentum": lambda rows: torch.optim.SGD(rows, lr=0.05, momentum=0.9),
    "adagrad": lambda rows: torch.optim.Adagrad(rows, lr=0.05),
    "adam": lambda rows: torch.optim.Adam(rows, lr=0.05),
}


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_optimizers_are_torchs_where_all_rows_are_touched(tables, name):
    table = tables(optimizer=name, lr=0.05, eps=1e-10 if name == "adagrad" else None)
    twin = twin_of(table, "sum")
    optimizer = OPTIMIZERS[name](twin.parameters())
    for step in range(8):
        places, offsets, weights = bags(step)
        places = torch.cat([places, torch.arange(len(VOCABULARY))])
        weights = torch.cat([weights, torch.ones(len(VOCABULARY))])
        some_loss(table(VOCABULARY[places], offsets[:-1], weights)).backward()
        optimizer.zero_grad()
        some_loss(twin(places, offsets[:-1], weights)).backward()
        optimizer.step()
        table.step()
    torch.testing.assert_close(table.rows(VOCABULARY), twin.weight, rtol=2e-5, atol=2e-6)


def test_sparse_adam_is_adam_until_rows_are_left_out(tables):
    table = tables(optimizer="adam", lr=0.05)
    twin = torch.nn.EmbeddingBag.from_pretrained(table.rows(VOCABULARY), freeze=False, mode="sum",
                                                 sparse=True)
    optimizer = torch.optim.SparseAdam(list(twin.parameters()), lr=0.05)
    for step in range(5):
        places = torch.randperm(len(VOCABULARY)).repeat(2)
        for module, keys in ((table, VOCABULARY[places]), (twin, places)):
            some_loss(module(keys, torch.arange(0, len(keys), 3))).backward()
        optimizer.step()
        optimizer.zero_grad()
        table.step()
        torch.testing.assert_close(table.rows(VOCABULARY), twin.weight.detach(), rtol=2e-5, atol=2e-6)


def lazy_step(name, state, row, gradient):
    """One row's own optimiser, by torch's formulas; only when the row is touched."""
    parameter = state.setdefault("row", torch.nn.Parameter(row.clone()))
    optimizer = state.setdefault("optimizer", OPTIMIZERS[name]([parameter]))
    parameter.grad = gradient.clone()
    optimizer.step()
    return parameter.detach().clone()


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_rows_that_are_not_touched_do_not_move_and_keep_their_state(tables, name):
    table = tables(optimizer=name, lr=0.05, mode="mean")
    rows = table.rows(VOCABULARY).clone()
    states = [{} for _ in VOCABULARY]
    for step in range(10):
        places, offsets, _ = bags(step, count=4, longest=3)
        leaf = rows.clone().requires_grad_()
        some_loss(functional.embedding_bag(places, leaf, offsets[:-1], mode="mean")).backward()
        some_loss(table(VOCABULARY[places], offsets[:-1])).backward()
        table.step()
        for place in set(places.tolist()):
            rows[place] = lazy_step(name, states[place], rows[place], leaf.grad[place])
        torch.testing.assert_close(table.rows(VOCABULARY), rows, rtol=2e-5, atol=2e-6)


def test_rectangular_input_and_other_key_types(tables):
    table = tables(mode="mean")
    twin = twin_of(table, "mean")
    places = torch.randint(0, len(VOCABULARY), (4, 3))
    assert torch.equal(table(VOCABULARY[places]), twin(places))
    assert torch.equal(table(VOCABULARY[places].view(torch.uint64)), twin(places))
    small = torch.tensor([3, 7, 1], dtype=torch.int32)
    assert torch.equal(table(small, torch.tensor([0, 2], dtype=torch.int32)),
                       twin(torch.tensor([9, 5, 2]), torch.tensor([0, 2])))


def test_no_bags_empty_bags_and_padding_alone(tables):
    table = tables(padding_idx=7)
    none = torch.empty(0, dtype=torch.int64)
    assert table(none, none).shape == (0, DIM)
    out = table(none, torch.zeros(3, dtype=torch.int64))
    assert torch.equal(out, torch.zeros(3, DIM))
    out.sum().backward()
    table.step()
    out = table(torch.tensor([7, 7]), torch.tensor([0]))
    assert torch.equal(out, torch.zeros(1, DIM))
    out.sum().backward()
    table.step()
    assert table.counters()["rows_held"] == 0 and table.counters()["cold_pushed"] == 0


def test_several_forwards_and_accumulated_gradients_are_one_step(tables):
    table, whole = tables(optimizer="adagrad"), tables(optimizer="adagrad")
    parts = [bags(seed) for seed in range(3)]
    for places, offsets, _ in parts:
        some_loss(table(VOCABULARY[places], offsets[:-1])).backward()
    outs = [whole(VOCABULARY[places], offsets[:-1]) for places, offsets, _ in parts]
    sum(some_loss(out) for out in outs).backward()
    table.step()
    whole.step()
    assert torch.equal(table.rows(VOCABULARY), whole.rows(VOCABULARY))
    # The same gradients in one backward of one leaf, up to the order of additions.
    twin = twin_of(tables(), "sum")
    optimizer = torch.optim.Adagrad(twin.parameters(), lr=0.01)
    sum(some_loss(twin(places, offsets[:-1])) for places, offsets, _ in parts).backward()
    optimizer.step()
    torch.testing.assert_close(table.rows(VOCABULARY), twin.weight.detach(), rtol=1e-5, atol=1e-6)


def test_announced_keys_come_in_the_same_round(tables):
    plain, ahead = tables(optimizer="adam"), tables(optimizer="adam")
    inputs = [VOCABULARY[bags(seed)[0]] for seed in range(5)]
    zero = torch.tensor([0])
    for step, keys in enumerate(inputs):
        some_loss(plain(keys, zero)).backward()
        plain.step()
        if step == 0:
            ahead.prefetch(keys[:4], keys[4:])
        some_loss(ahead(keys[:4], zero) + ahead(keys[4:], zero)).backward()
        ahead.step(next_input=inputs[step + 1] if step + 1 < len(inputs) else None)
    torch.testing.assert_close(plain.rows(VOCABULARY), ahead.rows(VOCABULARY), rtol=1e-5, atol=1e-6)
    assert ahead.counters()["rounds"] == 1 + 5 + 1 and plain.counters()["rounds"] == 10 + 1
    ahead.prefetch(torch.tensor([1, 2, 3]))
    assert "not announced" in error_of(lambda: ahead(torch.tensor([4]), zero))
    assert torch.equal(ahead(torch.tensor([2, 2]), zero), 2 * ahead.rows(torch.tensor([2])))


def test_reading_makes_no_rows_and_does_not_disturb_a_step(tables):
    table = tables()
    table.eval()
    table(VOCABULARY, torch.tensor([0]))
    with torch.no_grad():
        table.train()(VOCABULARY, torch.tensor([0]))
    assert table.counters()["rows_held"] == 0
    out = table(VOCABULARY[:3], torch.tensor([0]))
    assert table.rows(VOCABULARY.view(3, 4)).shape == (3, 4, DIM)
    out.sum().backward()
    table.step()
    assert table.counters()["rows_held"] == 3
    assert table.counters()["cold_pushed"] == 3


@pytest.mark.parametrize("row_wire", ["bf16", "fp16", "int8"])
def test_training_reads_rounded_rows_and_all_else_is_exact(tables, row_wire):
    table = tables(row_wire=row_wire, optimizer="sgd", lr=0.25, average=False)
    keys = VOCABULARY[:5]
    exact = table.rows(keys)
    out = table(keys.view(-1, 1))
    bound = exact.abs().amax(1, keepdim=True) / 250
    assert not torch.equal(out, exact) and bool(((out - exact).abs() <= bound).all())
    out.sum().backward()
    table.step()
    torch.testing.assert_close(table.rows(keys), exact - 0.25, rtol=0, atol=1e-7)
    with torch.no_grad():
        assert torch.equal(table(keys.view(-1, 1)), table.rows(keys))
    table.set_hot(keys[:3])
    hot = table(keys.view(-1, 1)).detach()
    table.discard()
    table.set_hot(None)
    assert torch.equal(table(keys.view(-1, 1)).detach(), hot)
    table.discard()


def test_a_discarded_step_moves_nothing(tables):
    table = tables(optimizer="momentum")
    before = table.rows(VOCABULARY)
    table(VOCABULARY, torch.tensor([0])).sum().backward()
    table.discard()
    table.step()
    assert torch.equal(table.rows(VOCABULARY), before)
    assert table.counters()["cold_pushed"] == 0


def test_the_loss_scale_is_taken_out(tables):
    table, plain = tables(lr=1.0), tables(lr=1.0)
    for one, scale in ((table, 1024.0), (plain, 1.0)):
        (scale * some_loss(one(VOCABULARY, torch.tensor([0, 5])))).backward()
        one.step(scale=1 / scale)
    assert torch.equal(table.rows(VOCABULARY), plain.rows(VOCABULARY))


def test_an_attached_table_steps_with_the_optimizer(tables):
    table = tables()
    model = torch.nn.Sequential(torch.nn.Linear(DIM, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    handle = table.attach(optimizer)
    model(table(VOCABULARY, torch.tensor([0]))).sum().backward()
    optimizer.step()
    assert table.counters()["cold_pushed"] == len(VOCABULARY)
    handle.remove()
    optimizer.step()
    assert table.counters()["rounds"] == 2


@pytest.mark.parametrize("name", ["sgd", "momentum", "adagrad", "adam"])
def test_a_scheduler_of_torch_drives_the_rate(tables, name):
    table = tables(optimizer=name, lr=0.05, eps=1e-10 if name == "adagrad" else None)
    twin = twin_of(table, "sum")
    ours, theirs = table.as_optimizer(), OPTIMIZERS[name](list(twin.parameters()))
    schedules = [torch.optim.lr_scheduler.CosineAnnealingLR(one, 6) for one in (ours, theirs)]
    places = torch.arange(len(VOCABULARY))
    offsets = torch.arange(0, len(VOCABULARY), 3)
    rates = []
    for _ in range(8):
        for out, optimizer in ((table(VOCABULARY, offsets), ours), (twin(places, offsets), theirs)):
            theirs.zero_grad()
            some_loss(out).backward()
            optimizer.step()
        for schedule in schedules:
            schedule.step()
        rates.append(table.lr)
        torch.testing.assert_close(table.rows(VOCABULARY), twin.weight.detach(), rtol=2e-5, atol=2e-6)
    assert len(set(rates)) > 5 and min(rates) < 0.01
    with pytest.raises(ValueError, match="rate -1"):
        table.lr = -1.0
    assert table.lr == rates[-1]


def test_rows_are_admitted_and_evicted(tables):
    table = tables(lr=1.0, admit_after=2, evict_after=4, max_rows=1000)
    key, other, offsets = VOCABULARY[:1], VOCABULARY[1:2], torch.tensor([0])
    new = table.rows(key).clone()

    def train(keys):
        table(keys, offsets).sum().backward()
        table.step()

    for _ in range(2):
        train(key)
        assert torch.equal(table.rows(key), new)
    train(key)
    assert torch.equal(table.rows(key), new - 1)
    assert table.counters()["rows_held"] == 1
    for _ in range(3):
        train(other)
    assert torch.equal(table.rows(key), new - 1)
    train(other)
    assert torch.equal(table.rows(key), new)
    assert table.counters()["rows_held"] == 1


def test_hot_keys_from_a_file_a_list_and_by_themselves(tables, tmp_path):
    file = tmp_path / "hot.json"
    file.write_text('{"keys": [{"key": "0xffffffffffffffff"}, {"key": "0x0000000000000007"}]}')
    given = tables(optimizer="adagrad", hot=str(file))
    listed = tables(optimizer="adagrad", hot=[2**64 - 1, 7])
    cold, followed = tables(optimizer="adagrad"), tables(optimizer="adagrad", hot=4, track=2)
    for step in range(6):
        places, offsets, _ = bags(step)
        for table in (given, listed, cold, followed):
            some_loss(table(VOCABULARY[places], offsets[:-1])).backward()
            table.step()
    assert given.counters()["hot_keys"] == listed.counters()["hot_keys"] == 2
    assert given.counters()["hot_pushed"] > 0
    for table in (given, listed, followed):
        assert torch.equal(table.rows(VOCABULARY), cold.rows(VOCABULARY))
    listed.set_hot(None)
    assert listed.counters()["hot_keys"] == 0
    assert torch.equal(listed.rows(VOCABULARY), cold.rows(VOCABULARY))
    file.write_text("[1, 2]")
    assert "sumcast hot" in error_of(lambda: tables(hot=file))


def test_a_checkpoint_holds_rows_and_state_as_one(tables, tmp_path):
    folder = tmp_path / "rows"
    table = tables(optimizer="adam", checkpoint=folder)
    assert table.restored is None

    def train(table, steps):
        for step in steps:
            places, offsets, _ = bags(step)
            some_loss(table(VOCABULARY[places], offsets[:-1])).backward()
            table.step()

    train(table, range(3))
    table.save({"step": 3, "dense": {"weight": torch.arange(3.0)}})
    train(table, range(3, 5))
    table.save({"step": 5}, full=False)
    train(table, range(5, 7))
    wanted = table.rows(VOCABULARY)
    table.close()
    saved = sumcast.read_table(folder)
    assert saved.state == {"step": 5} and saved.number == 2 and saved.optimizer == "adam"
    assert saved.rows.shape == (len(saved.keys), DIM)
    assert saved.optimizer_state.shape == (len(saved.keys), 2 * DIM + 2)
    assert "holds a checkpoint" in error_of(lambda: tables(optimizer="adam", checkpoint=folder))
    again = tables(optimizer="adam", checkpoint=folder, resume=True)
    assert again.restored == {"step": 5}
    assert torch.equal(again.rows(saved.keys), saved.rows)
    train(again, range(5, 7))
    assert torch.equal(again.rows(VOCABULARY), wanted)
    again.close()
    text = error_of(lambda: tables(dim=3, optimizer="adam", checkpoint=folder, resume=True))
    assert text.startswith("DistBackendError") and "width 6, this job 3" in text, text
    text = error_of(lambda: tables(optimizer="sgd", checkpoint=folder, resume=True))
    assert "adam" in text and "sgd" in text
    assert "holds no checkpoint" in error_of(lambda: sumcast.read_table(tmp_path))
    assert "no checkpoint directory" in error_of(tables().save)


def test_a_state_dict_tells_what_it_lacks(tables):
    table = tables()
    table(VOCABULARY, torch.tensor([0])).sum().backward()
    table.step()
    saved = torch.nn.Sequential(table).state_dict()
    with pytest.warns(UserWarning, match="no rows"):
        torch.nn.Sequential(tables()).load_state_dict(saved)
    with pytest.raises(ValueError, match="row_wire 'fp8'; there are fp32, bf16, fp16, int8"):
        sumcast.EmbeddingBag(4, row_wire="fp8")
    with pytest.raises(ValueError, match="dim"):
        torch.nn.Sequential(tables(dim=3)).load_state_dict(saved)


def test_bad_input_is_refused_before_anything_is_sent(tables):
    table = tables(mode="sum", include_last_offset=False)
    last = tables(mode="sum", include_last_offset=True)
    keys = torch.tensor([1, 2, 3])

    def refused(kind, words, call):
        text = error_of(call)
        assert text.startswith(kind) and words in text, text

    refused("TypeError", "torch.float32", lambda: table(torch.rand(3), torch.tensor([0])))
    refused("TypeError", "list", lambda: table([1, 2], torch.tensor([0])))
    refused("TypeError", "offsets are torch.float32", lambda: table(keys, torch.tensor([0.0])))
    refused("ValueError", "needs offsets", lambda: table(keys))
    refused("ValueError", "must not fall: 3 stands before 2", lambda: table(keys, torch.tensor([0, 3, 2])))
    refused("ValueError", "first offset is 1", lambda: table(keys, torch.tensor([1, 2])))
    refused("ValueError", "last offset is 4", lambda: table(keys, torch.tensor([0, 4])))
    refused("ValueError", "last offset is 2", lambda: last(keys, torch.tensor([0, 2])))
    refused("ValueError", "no offsets", lambda: table(keys, torch.empty(0, dtype=torch.int64)))
    refused("ValueError", "2-D", lambda: table(keys.view(1, 3), torch.tensor([0])))
    refused("ValueError", "3 dimensions", lambda: table(keys.view(1, 1, 3)))
    refused("ValueError", "shape", lambda: table(keys, torch.tensor([0]), torch.ones(2)))
    refused("TypeError", "float64", lambda: table(keys, torch.tensor([0]), torch.ones(3).double()))
    refused("ValueError", "mode", lambda: tables(mode="mean")(keys, torch.tensor([0]), torch.ones(3)))
    refused("ValueError", "median", lambda: tables(mode="median"))
    refused("ValueError", "sgd, momentum", lambda: tables(optimizer="lamb"))
    refused("ValueError", "rate", lambda: tables(lr=-1))
    refused("ValueError", "dim=0", lambda: tables(dim=0))
    refused("ValueError", "64 bits", lambda: tables(hot=[2**64]))
    refused("ValueError", "twice", lambda: tables(hot=[5, 5]))
    refused("ValueError", "rows of 2000 lanes do not fit", lambda: tables(dim=2000, hot=8))
    assert table.counters()["rounds"] == 0
    table.close()
    refused("RuntimeError", "is closed", lambda: table(keys, torch.tensor([0])))


def test_statistics_name_open_tables(tables):
    table = tables(name="words")
    table(VOCABULARY, torch.tensor([0])).sum().backward()
    table.step()
    counted = sumcast.torch.stats()["tables"]["words"]
    assert counted["cold_pushed"] == counted["rows_held"] == len(VOCABULARY)
    table.close()
    assert "words" not in sumcast.torch.stats()["tables"]


def test_a_forked_process_may_not_use_it(tables):
    table = tables()
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.write(write, error_of(lambda: table(VOCABULARY, torch.tensor([0]))).encode())
            table.close()  # As at a normal exit: the parent's stays open.
        finally:
            os._exit(0)
    os.close(write)
    assert "forked" in os.read(read, 1000).decode()
    os.waitpid(child, 0)
    some_loss(table(VOCABULARY, torch.tensor([0]))).backward()
    table.step()


def test_threads_take_turns(tables):
    table = tables()
    threads = [threading.Thread(target=lambda: [table.rows(VOCABULARY) for _ in range(20)])
               for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive()
    assert table.counters()["rounds"] == 60
