"""Builds and loads the test device (toy_device/), and says where ranks of a test keep their tensors.

A process has one accelerator at most, so the extension is loaded by ranks that want it, behind the
fork, and only compiled before.
"""

import contextlib
import importlib.util
import os
import pathlib
import subprocess
import sys
import types

# A look at the devices must not open them: ranks are forked.
os.environ.setdefault("PYTORCH_NVML_BASED_CUDA_CHECK", "1")

import torch

import sumcast.torch

HERE = pathlib.Path(__file__).resolve().parent / "toy_device"
BUILD = HERE.parents[2] / "build" / "toy_device"
NAME = "sumcast_toy_device"
_loaded = None


def build():
    """In a process of its own, so that this one does not load it."""
    subprocess.run([sys.executable, __file__], check=True)


def load():
    """The extension; tensors can be on torch.device("toy") from then on."""
    global _loaded
    if _loaded is None:
        spec = importlib.util.spec_from_file_location(NAME, BUILD / f"{NAME}.so")
        _loaded = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(_loaded)
        torch.utils.rename_privateuse1_backend("toy")
        torch._register_device_module("toy", _module())
        torch.utils.generate_methods_for_privateuse1_backend()
    return _loaded


def device_of(kind, rank):
    """Where this rank's tensors are, current from now on. kind: "toy", "cuda ahead", ..."""
    ahead = kind.endswith(" ahead")
    if kind.startswith("toy"):
        gate = load().gate()
        sumcast.torch.queue_ahead(ahead, device="toy", gate=gate)
        return torch.device("toy", 0)
    sumcast.torch.queue_ahead(ahead)
    device = torch.device("cuda", rank % torch.cuda.device_count())
    torch.cuda.set_device(device)
    return device


def _module():
    module = types.ModuleType("torch.toy")
    module.is_available = lambda: True
    module.is_initialized = lambda: True
    module._is_in_bad_fork = lambda: False
    module.device_count = lambda: 2
    module.current_device = torch._C._accelerator_getDeviceIndex
    module.set_device = lambda device: torch._C._accelerator_setDeviceIndex(
        device if isinstance(device, int) else torch.device(device).index or 0)
    module.manual_seed_all = lambda seed: None
    module.get_amp_supported_dtype = lambda: [torch.bfloat16]
    # What FSDP uses; c10's own streams and events do it all.
    module.Stream = lambda priority=0: torch.Stream(device="toy", priority=priority)
    module.Event = lambda: torch.Event(device="toy")
    module.current_stream = torch.accelerator.current_stream
    module.stream = lambda stream: stream if stream is not None else contextlib.nullcontext()
    return module


def main():
    from torch.utils import cpp_extension

    BUILD.mkdir(parents=True, exist_ok=True)
    # ninja of this environment; ccache, which knows the objects from other clones.
    here = [str(pathlib.Path(sys.executable).parent), "/usr/lib/ccache"]
    os.environ["PATH"] = os.pathsep.join([*here, os.environ.get("PATH", "")])
    cpp_extension.load(name=NAME, sources=[str(path) for path in sorted(HERE.glob("*.cc"))],
                       build_directory=str(BUILD), extra_cflags=["-O1", "-Wall"])


if __name__ == "__main__":
    main()
