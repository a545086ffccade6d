"""A character-level transformer with FSDP2, trained on a text that every Debian machine has.

    torchrun --nproc-per-node 4 examples/fsdp_tiny_transformer.py

Parameters, gradients and optimizer state are sharded over the ranks: fully_shard gathers each
layer's parameters when it is their turn, and scatters the sums of its gradients.
"""

import argparse
import pathlib

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

TEXT = pathlib.Path("/usr/share/common-licenses/GPL-3")  # From the package base-files.


class TinyTransformer(nn.Module):
    def __init__(self, symbols, width, layers, context):
        super().__init__()
        self.symbol = nn.Embedding(symbols, width)
        self.position = nn.Embedding(context, width)
        self.layers = nn.ModuleList(
            nn.TransformerEncoderLayer(width, 4, 4 * width, dropout=0, batch_first=True,
                                       norm_first=True)
            for _ in range(layers)
        )
        self.head = nn.Linear(width, symbols)
        self.register_buffer("mask", nn.Transformer.generate_square_subsequent_mask(context),
                             persistent=False)

    def forward(self, tokens):
        length = tokens.shape[1]
        hidden = self.symbol(tokens) + self.position(torch.arange(length))
        for layer in self.layers:
            hidden = layer(hidden, src_mask=self.mask[:length, :length], is_causal=True)
        return self.head(hidden)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--backend", default="sumcast")
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--width", type=int, default=64)
    parser.add_argument("--layers", type=int, default=3)
    parser.add_argument("--context", type=int, default=48)
    parser.add_argument("--batch", type=int, default=8, help="excerpts per rank and step")
    arguments = parser.parse_args()

    dist.init_process_group(arguments.backend)
    rank, size = dist.get_rank(), dist.get_world_size()
    torch.set_num_threads(1)
    text = TEXT.read_text()
    symbols = sorted(set(text))
    tokens = torch.tensor([symbols.index(c) for c in text])

    torch.manual_seed(7)
    model = TinyTransformer(len(symbols), arguments.width, arguments.layers, arguments.context)
    mesh = init_device_mesh("cpu", (size,))
    for layer in model.layers:
        fully_shard(layer, mesh=mesh)
    fully_shard(model, mesh=mesh)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    mine = sum(p.to_local().numel() for p in model.parameters())
    whole = sum(p.numel() for p in model.parameters())
    if rank == 0:
        print(f"{whole} parameters, {mine} of them on rank 0")

    excerpts = torch.Generator().manual_seed(100 + rank)
    first = last = None
    for step in range(arguments.steps):
        starts = torch.randint(0, len(tokens) - arguments.context - 1, (arguments.batch,),
                               generator=excerpts)
        rows = torch.stack([tokens[s : s + arguments.context + 1] for s in starts])
        optimizer.zero_grad()
        loss = F.cross_entropy(model(rows[:, :-1]).flatten(0, 1), rows[:, 1:].flatten())
        loss.backward()
        optimizer.step()
        mean = loss.detach()
        dist.all_reduce(mean, dist.ReduceOp.AVG)
        first, last = first or mean.item(), mean.item()
        if rank == 0 and (step % 50 == 0 or step + 1 == arguments.steps):
            print(f"step {step}: loss {last:.3f}", flush=True)
    if not last < first:
        raise SystemExit(f"the loss did not fall: {first:.3f} to {last:.3f}")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
