"""The examples, as a user runs them: torchrun, small settings."""

import json
import os
import pathlib
import re
import subprocess
import sys

import pytest

EXAMPLES = pathlib.Path(__file__).resolve().parents[2] / "examples"


def torchrun(ranks, example, *arguments, options=(), good=True):
    environment = dict(os.environ, OMP_NUM_THREADS="1")
    done = subprocess.run(
        [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", str(ranks), *options,
         "--rdzv-backend=c10d", "--rdzv-endpoint=localhost:0", str(EXAMPLES / example), *arguments],
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=150, env=environment,
        check=False)
    assert (done.returncode == 0) == good, done.stdout
    print(done.stdout)
    return done.stdout


def test_ddp_has_the_loss_curve_of_gloo_and_one_set_of_weights(tmp_path):
    curves = {}
    for backend in ("sumcast", "gloo"):
        file = tmp_path / backend
        said = torchrun(4, "ddp_fashion_mnist.py", "--steps", "30", "--batch", "16", "--backend",
                        backend, "--losses", str(file))
        assert "the same weights on 4 ranks" in said
        curves[backend] = json.loads(file.read_text())
    ours, theirs = curves["sumcast"], curves["gloo"]
    assert len(ours) == 30 and ours[-1] < 0.8 * ours[0]
    # The same sums up to the order of additions; 30 steps multiply that a little.
    for mine, other in zip(ours, theirs):
        assert mine == pytest.approx(other, rel=2e-3), (ours, theirs)


def test_a_pipeline_trains_and_goes_on_from_a_checkpoint_with_a_gradient_under_way(tmp_path):
    settings = ("pipeline_fashion_mnist.py", "--batch", "16", "--epoch", "15", "--folder", str(tmp_path))
    whole = torchrun(2, *settings, "--epochs", "3")
    for file in tmp_path.iterdir():
        file.unlink()
    torchrun(2, *settings, "--epochs", "3", "--stop", "22")
    resumed = torchrun(2, *settings, "--epochs", "3")
    assert "goes on at step 22, 1 gradient under way" in resumed
    digest = re.compile(r"the same weights on 2 ranks \((\w+)\)")
    assert digest.findall(whole) == digest.findall(resumed) and digest.findall(whole)
    losses = [float(x) for x in re.findall(r"loss ([0-9.]+)", whole)]
    assert losses[-1] < 0.8 * losses[0]


def test_clicks_are_learnt_and_a_resumed_training_ends_as_one_in_one_go(tmp_path):
    def last_line(ranks, *arguments):
        return torchrun(ranks, "embedding_clicks.py", "--batch", "512", *arguments).strip().splitlines()[-1]

    whole = last_line(2, "--steps", "40", "--hot", "200")
    saved = ("--checkpoint", str(tmp_path / "rows"))
    last_line(2, "--steps", "25", *saved)
    assert last_line(2, "--steps", "40", "--resume", *saved) == whole
    assert float(re.search(r"AUC ([0-9.]+)", whole)[1]) > 0.65
    # Another number of ranks takes it up.
    assert "on 1 ranks" in last_line(1, "--steps", "41", "--resume", *saved)


def test_fsdp_trains_a_transformer():
    said = torchrun(4, "fsdp_tiny_transformer.py", "--steps", "25", "--width", "32")
    losses = [float(x) for x in re.findall(r"loss ([0-9.]+)", said)]
    assert losses[-1] < losses[0]


def test_a_killed_rank_restarts_the_job_which_goes_on_from_its_checkpoint(tmp_path):
    said = torchrun(3, "elastic.py", "--folder", str(tmp_path), "--kill", "20", "--steps", "40",
                    options=("--max-restarts", "2"))
    assert "life 0: continues at step 0" in said
    assert "life 1: continues at step 17" in said and "life 1: ended at step 40" in said
    for rank in (0, 2):
        assert (tmp_path / f"noticed-{rank}").exists(), said
        assert f"rank {rank} noticed" in said and "rank 1" in said


def test_a_program_may_end_without_destroying_its_groups(tmp_path):
    program = tmp_path / "program.py"
    program.write_text(
        "import torch, torch.distributed as dist\n"
        "dist.init_process_group('sumcast')\n"  # Nobody imports sumcast: torch finds it.
        "group = dist.new_group([0, 1])\n"
        "tensor = torch.ones(1000)\n"
        "future = dist.all_reduce(tensor, async_op=True).get_future().wait()\n"
        "keep = [group, dist.group.WORLD, future]\n"
        "import sys\nsys.stdout.write(f'sum {int(tensor[0])}\\n')\n")  # One write: ranks share it.
    for _ in range(3):
        assert torchrun(2, program).count("sum 2") == 2
