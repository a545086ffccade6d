"""Runs PyTorch's own backend-neutral suite against Sumcast, and prints how many tests passed.

    python tests/python/pytorch_suite.py                    all, 4 forked ranks
    python tests/python/pytorch_suite.py --backend gloo     the same for comparison
    python tests/python/pytorch_suite.py test_all_reduce_sum ...

The suite (torch/testing/_internal/distributed/distributed_test.py, in the wheel) decides by a
backend's name what to run. Its text is taken as it is but for those conditions: where gloo is named
Sumcast counts as gloo, and where MPI is named for all_to_all on the CPU Sumcast counts as MPI. Each
replacement must apply as often as stated here, so that another version of the suite is noticed.
"""

import argparse
import atexit
import collections
import functools
import importlib.util
import os
import pathlib
import re
import shutil
import sys
import tempfile
import types
import unittest

SUITE = "torch.testing._internal.distributed.distributed_test"
# pattern, replacement, how often it applies in torch 2.13.0
CONDITIONS = [
    # What runs with MPI at any size is not skipped for want of ranks.
    (r'(BACKEND != "mpi", "Only MPI supports[^)]*\)\n)\s*@skip_if_small_worldsize\n', r'\1', 3),
    (r'BACKEND != "mpi", "Only MPI supports', 'BACKEND not in ("mpi", "sumcast"), "Only MPI supports', 12),
    (r'BACKEND != "gloo"', 'BACKEND not in ("gloo", "sumcast")', 0),
    (r'BACKEND == "gloo"', 'BACKEND in ("gloo", "sumcast")', 0),
    (r'require_backend_is_available\(\{"gloo"\}\)', 'require_backend_is_available({"gloo", "sumcast"})', 0),
]

# What gloo passes and no other backend can.
CANNOT_APPLY = {
    "test_ddp_logging_data_cpu":
        "wants DDP's logging data to name the backend; torch writes 'custom' for all but its own",
}


def load_suite(backend):
    """The suite as a module, with the conditions above applied."""
    from torch.testing._internal import common_distributed

    if backend != "gloo":
        import sumcast
        import sumcast.torch
        import torch.distributed as dist
        from torch.distributed import distributed_c10d

        sumcast.register()
        for feature in ("gpu", "cuda", "ddp", "subgroup", "plugin"):
            common_distributed.DistTestCases.backend_feature[feature].add(backend)
        # torch offers this call for the name gloo only.
        torch_barrier = distributed_c10d.monitored_barrier

        @functools.wraps(torch_barrier)
        def monitored_barrier(group=None, timeout=None, wait_all_ranks=False):
            return sumcast.torch.monitored_barrier(group, timeout, wait_all_ranks)

        dist.monitored_barrier = distributed_c10d.monitored_barrier = monitored_barrier
    path = pathlib.Path(importlib.util.find_spec(SUITE).origin)
    text = path.read_text()
    if backend != "gloo":
        for pattern, replacement, expected in CONDITIONS:
            text, count = re.subn(pattern, replacement, text)
            if count == 0 or (expected and count != expected):
                sys.exit(f"pytorch_suite.py: /{pattern}/ applies {count} times in {path}")
    module = types.ModuleType(SUITE)
    module.__file__ = str(path)
    sys.modules[SUITE] = module
    exec(compile(text, str(path), "exec"), module.__dict__)
    if backend != "gloo":
        module.PROFILING_SUPPORTED_BACKENDS.append(backend)
    return module


class Result(unittest.TextTestResult):
    """Remembers what passed, and shows one line a test."""

    def __init__(self, *arguments, **named):
        super().__init__(*arguments, **named)
        self.passed = []

    def addSuccess(self, test):
        super().addSuccess(test)
        self.passed.append(test)


def make_case(suite):
    """The suite's tests with forked ranks: spawning takes 30 times as long."""
    import torch

    class SumcastSuite(suite.TestDistBackend, suite.DistributedTest._DistTestBase):
        def setUp(self):
            super().setUp()
            self._start_processes(torch.multiprocessing.get_context("fork").Process)

    return SumcastSuite


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--backend", default="sumcast", choices=["sumcast", "gloo"])
    parser.add_argument("--ranks", default="4")
    parser.add_argument("--at-least", type=int, default=0, help="fail if fewer pass")
    parser.add_argument("--skipped", action="store_true", help="list what was skipped, and why")
    parser.add_argument("tests", nargs="*")
    arguments = parser.parse_args()
    folder = tempfile.mkdtemp(prefix="sumcast-suite-")
    # Not by the ranks, which are forks of this process.
    atexit.register(lambda owner=os.getpid():
                    os.getpid() == owner and shutil.rmtree(folder, ignore_errors=True))
    for name in ("barrier", "test_dir", "init_dir"):
        (pathlib.Path(folder) / name).mkdir()
    os.environ.update(BACKEND=arguments.backend, WORLD_SIZE=arguments.ranks, TEMP_DIR=folder,
                      INIT_METHOD=f"file://{folder}/init_dir/init", OMP_NUM_THREADS="1")
    suite = load_suite(arguments.backend)
    case = make_case(suite)
    names = arguments.tests or unittest.TestLoader().getTestCaseNames(case)
    if arguments.backend != "gloo":
        names = [name for name in names if name not in CANNOT_APPLY]
        for name, reason in CANNOT_APPLY.items():
            print(f"cannot apply: {name}: {reason}")
    tests = unittest.TestSuite(case(name) for name in names)
    result = unittest.TextTestRunner(verbosity=2, resultclass=Result).run(tests)
    bad = len(result.failures) + len(result.errors)
    if arguments.skipped:
        reasons = collections.defaultdict(list)
        for test, reason in result.skipped:
            reasons[reason].append(test._testMethodName)
        for reason, who in sorted(reasons.items()):
            print(f"skipped, {reason}: {', '.join(who)}")
    print(f"PyTorch suite, backend {arguments.backend}, {arguments.ranks} ranks: "
          f"{len(result.passed)} passed, {bad} failed, {len(result.skipped)} skipped "
          f"of {result.testsRun}")
    for test, _ in result.failures + result.errors:
        print(f"failed: {test._testMethodName}")
    too_few = len(result.passed) < arguments.at_least
    if too_few:
        print(f"fewer than {arguments.at_least} passed")
    sys.exit(1 if bad or too_few else 0)


if __name__ == "__main__":
    main()
