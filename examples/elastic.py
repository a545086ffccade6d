"""A job that goes on after one of its processes was killed.

    torchrun --nproc-per-node 3 --max-restarts 2 examples/elastic.py --folder /tmp/elastic --kill 20

At step 20 rank 1 kills itself, in the first life only. The others get an exception at once and end;
torchrun starts all of them again, and they continue from the last checkpoint.
"""

import argparse
import os
import pathlib
import signal
import time

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.nn.parallel import DistributedDataParallel


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--backend", default="sumcast")
    parser.add_argument("--folder", required=True, help="for the checkpoint, on a disk all share")
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--every", type=int, default=8, help="steps between checkpoints")
    parser.add_argument("--kill", type=int, default=-1, help="step at which rank 1 dies")
    arguments = parser.parse_args()
    folder = pathlib.Path(arguments.folder)
    folder.mkdir(parents=True, exist_ok=True)
    life = int(os.environ.get("TORCHELASTIC_RESTART_COUNT", "0"))

    dist.init_process_group(arguments.backend)
    rank, size = dist.get_rank(), dist.get_world_size()
    torch.set_num_threads(1)
    torch.manual_seed(3)
    model = DistributedDataParallel(nn.Sequential(nn.Linear(10, 32), nn.Tanh(), nn.Linear(32, 1)))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    begin = 0
    saved = folder / "checkpoint.pt"
    if saved.exists():
        state = torch.load(saved)
        model.module.load_state_dict(state["model"])
        begin = state["step"] + 1
    if rank == 0:
        print(f"life {life}: continues at step {begin}", flush=True)

    for step in range(begin, arguments.steps):
        if step == arguments.kill and rank == 1 and life == 0:
            (folder / "killed").write_text(str(time.time()))
            os.kill(os.getpid(), signal.SIGKILL)
        inputs = torch.randn(16, 10, generator=torch.Generator().manual_seed(100 * step + rank))
        optimizer.zero_grad()
        try:
            loss = F.mse_loss(model(inputs), inputs.sum(1, keepdim=True))
            loss.backward()
        except RuntimeError as error:
            noticed = time.time() - float((folder / "killed").read_text())
            (folder / f"noticed-{rank}").write_text(str(noticed))
            print(f"rank {rank} noticed after {noticed:.2f} s: {error}", flush=True)
            raise
        optimizer.step()
        if step % arguments.every == 0:
            if rank == 0:
                torch.save({"model": model.module.state_dict(), "step": step}, folder / "next.pt")
                (folder / "next.pt").replace(saved)
            dist.barrier()
    if rank == 0:
        print(f"life {life}: ended at step {arguments.steps} with loss {loss.item():.4f}",
              flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
