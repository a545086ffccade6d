"""Runs a function on several ranks, which are forked processes of this one.

    def body(rank, size): ...
    results = run(4, body)

Each rank joins with init_process_group("sumcast"), or another backend, over a store in a file,
calls body, and leaves. What body returns comes back; an exception of any rank fails the test with its traceback. Ranks that
do not end in time are killed, and named.
"""

import datetime
import multiprocessing
import multiprocessing.connection
import os
import sys
import tempfile
import time
import traceback

os.environ.setdefault("OMP_NUM_THREADS", "1")

import torch
import torch.distributed as dist

import sumcast  # noqa: F401  Registers the backend.

torch.set_num_threads(1)


class Killed(Exception):
    """What the result of a rank is that died by a signal."""


def _child(pipe, rank, size, store, body, join, timeout, backend, prepare):
    try:
        sys.stdin.close()
        os.environ["MASTER_ADDR"] = "127.0.0.1"
        if prepare:
            prepare(rank)
        if join:
            dist.init_process_group(backend, init_method=f"file://{store}", rank=rank,
                                    world_size=size, timeout=datetime.timedelta(seconds=timeout))
        result = body(rank, size)
        if join and dist.is_initialized():
            dist.destroy_process_group()
        pipe.send(("ok", result))
    except BaseException:
        pipe.send(("error", traceback.format_exc()))
    pipe.close()
    os._exit(0)


def run(size, body, *, join=True, timeout=60, limit=120, environment=None,
        backend="sumcast", prepare=None):
    """Results by rank; of a rank that was killed, a Killed. prepare(rank): before it joins."""
    if environment:
        saved = {name: os.environ.get(name) for name in environment}
        os.environ.update(environment)  # The ranks inherit it.
        try:
            return run(size, body, join=join, timeout=timeout, limit=limit, backend=backend,
                       prepare=prepare)
        finally:
            for name, value in saved.items():
                os.environ.pop(name, None)
                if value is not None:
                    os.environ[name] = value
    context = multiprocessing.get_context("fork")
    with tempfile.TemporaryDirectory(prefix="sumcast-test-") as folder:
        store = os.path.join(folder, "store")
        pipes, processes = [], []
        for rank in range(size):
            mine, theirs = context.Pipe(duplex=False)
            process = context.Process(target=_child,
                                      args=(theirs, rank, size, store, body, join, timeout,
                                            backend, prepare))
            process.start()
            theirs.close()
            pipes.append(mine)
            processes.append(process)
        results, errors = [None] * size, []
        until = time.monotonic() + limit
        for rank, pipe in enumerate(pipes):
            if not pipe.poll(max(0, until - time.monotonic())):
                errors.append(f"rank {rank} did not end within {limit} s")
                continue
            try:
                kind, value = pipe.recv()
            except EOFError:
                results[rank] = Killed()
                continue
            results[rank] = value
            if kind == "error":
                errors.append(f"rank {rank}:\n{value}")
        for process in processes:
            process.join(5)
            if process.is_alive():
                process.kill()
                process.join()
        if errors:
            raise AssertionError("\n".join(errors))
        return results


def error_of(call):
    """The text of what `call` raises; fails if it raises nothing."""
    try:
        call()
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    raise AssertionError("no exception")
