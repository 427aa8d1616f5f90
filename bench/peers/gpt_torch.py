"""PyTorch's side of the comparison: the same GPT from the same file on the same tokens; one line of JSON.

run.py, or on a GPU gpu.py, starts it; gpt_reef.hpp is the other side and explains the options. On a GPU attention is
PyTorch's own scaled_dot_product_attention, and --compile has the model compiled. For several ranks, torchrun
or whoever starts it sets RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT; they talk by gloo.
"""

import argparse
import json
import math
import os
import resource
import struct
import time

import numpy
import torch
import torch.distributed
from torch import nn
from torch.nn import functional

CONFIGURATIONS = {  # layers, heads, channels, vocabulary, rows of wte, context, sequence, batch
    "a": (12, 12, 768, 50257, 50304, 1024, 64, 4),
    "gpt2": (12, 12, 768, 50257, 50304, 1024, 1024, 8),
    "b256": (6, 6, 384, 256, 256, 256, 256, 8),
    "b50k": (6, 6, 384, 50257, 50304, 256, 256, 8),
}


class Block(nn.Module):
    def __init__(self, channels, heads, length):
        super().__init__()
        self.heads = heads
        self.ln_1 = nn.LayerNorm(channels)
        self.c_attn = nn.Linear(channels, 3 * channels)
        self.c_proj = nn.Linear(channels, channels)
        self.ln_2 = nn.LayerNorm(channels)
        self.c_fc = nn.Linear(channels, 4 * channels)
        self.mlp_proj = nn.Linear(4 * channels, channels)
        self.register_buffer("mask", torch.ones(length, length).tril().view(1, 1, length, length) == 0, False)

    def forward(self, x):
        B, T, C = x.shape
        q, k, v = self.c_attn(self.ln_1(x)).split(C, dim=2)
        q, k, v = (y.view(B, T, self.heads, C // self.heads).transpose(1, 2) for y in (q, k, v))
        if x.is_cuda:
            y = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        else:
            scores = (q @ k.transpose(-2, -1)) * (1.0 / math.sqrt(k.size(-1)))
            scores = scores.masked_fill(self.mask, float("-inf"))
            y = functional.softmax(scores, dim=-1) @ v
        y = y.transpose(1, 2).contiguous().view(B, T, C)
        x = x + self.c_proj(y)
        return x + self.mlp_proj(functional.gelu(self.c_fc(self.ln_2(x)), approximate="tanh"))


class Gpt(nn.Module):
    def __init__(self, layers, heads, channels, rows, context, length):
        super().__init__()
        self.wte = nn.Embedding(rows, channels)
        self.wpe = nn.Embedding(context, channels)
        self.h = nn.ModuleList(Block(channels, heads, length) for _ in range(layers))
        self.ln_f = nn.LayerNorm(channels)
        self.register_buffer("positions", torch.arange(length), False)

    def forward(self, tokens, targets):
        x = self.wte(tokens) + self.wpe(self.positions)
        for block in self.h:
            x = block(x)
        logits = functional.linear(self.ln_f(x), self.wte.weight)
        return functional.cross_entropy(logits.view(-1, logits.size(-1)), targets.view(-1))


def read_safetensors(path):
    with open(path, "rb") as file:
        (length,) = struct.unpack("<Q", file.read(8))
        header = json.loads(file.read(length))
        data = file.read()
    tensors = {}
    for name, entry in header.items():
        if name == "__metadata__":
            continue
        assert entry["dtype"] == "F32", name
        begin, end = entry["data_offsets"]
        values = numpy.frombuffer(data, numpy.float32, (end - begin) // 4, begin)
        tensors[name] = torch.from_numpy(values.reshape(entry["shape"]).copy())
    return tensors


def load(model, path):
    """GPT-2 keeps its projections as (in, out), nn.Linear as (out, in)."""
    stored = read_safetensors(path)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            parts = name.split(".")
            if parts[0] == "h":
                module = {"c_attn": "attn.c_attn", "c_proj": "attn.c_proj", "c_fc": "mlp.c_fc",
                          "mlp_proj": "mlp.c_proj"}.get(parts[2], parts[2])
                name = ".".join(["h", parts[1], module, parts[3]])
                if parameter.dim() == 2:
                    stored["transformer." + name] = stored["transformer." + name].t()
            parameter.copy_(stored.pop("transformer." + name))
    assert not stored, stored.keys()


def batch(first, count, length, vocabulary):
    """The tokens of configuration.hpp: (count, length + 1)."""
    u64 = numpy.uint64
    samples = (numpy.arange(first, first + count, dtype=u64) << u64(16))[:, None]
    x = samples + numpy.arange(1, length + 2, dtype=u64)[None, :]
    x = x * u64(0x9E3779B97F4A7C15)
    x = (x ^ (x >> u64(30))) * u64(0xBF58476D1CE4E5B9)
    r = x >> u64(48)
    tokens = ((r * r * r * r >> u64(48)) * u64(vocabulary)) >> u64(16)
    tokens = torch.from_numpy(tokens.astype(numpy.int64))
    return tokens[:, :-1].contiguous(), tokens[:, 1:].contiguous()


def cpu_seconds():
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--configuration", default="b256")
    parser.add_argument("--weights", required=True)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--steps", type=int, default=13)
    parser.add_argument("--warmup", type=int, default=3)
    parser.add_argument("--lr", type=float, default=1e-3)
    parser.add_argument("--clip", type=float, default=1.0)
    parser.add_argument("--precision", choices=["fp32", "bf16"], default="fp32",
                        help="bf16: torch.autocast, with fp32 weights")
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    parser.add_argument("--compile", action="store_true", help="by torch.compile")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    rank, ranks = int(os.environ.get("RANK", 0)), int(os.environ.get("WORLD_SIZE", 1))

    layers, heads, channels, vocabulary, rows, context, length, samples = CONFIGURATIONS[options.configuration]
    module = Gpt(layers, heads, channels, rows, context, length)
    load(module, options.weights)
    model = module.to(options.device)
    if options.compile:
        model = torch.compile(module)
    if ranks > 1:
        torch.distributed.init_process_group("gloo")
        model = nn.parallel.DistributedDataParallel(module)
    parameters = list(module.parameters())
    optimizer = torch.optim.AdamW(
        [{"params": [p for p in parameters if p.dim() >= 2], "weight_decay": 0.1},
         {"params": [p for p in parameters if p.dim() < 2], "weight_decay": 0.0}],
        lr=options.lr, betas=(0.9, 0.95), eps=1e-8, **({"fused": True} if options.device == "cuda" else {}))

    losses, seconds, cpu = [], [], 0.0
    share = samples // ranks
    for step in range(options.steps):
        if step == options.warmup:
            cpu = cpu_seconds()
        begin = time.perf_counter()
        tokens, targets = (one.to(options.device)
                           for one in batch(step * samples + rank * share, share, length, vocabulary))
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast(options.device, torch.bfloat16, enabled=options.precision == "bf16"):
            loss = model(tokens, targets)
        loss.backward()
        if options.clip > 0:
            nn.utils.clip_grad_norm_(parameters, options.clip)
        optimizer.step()
        mean = loss.detach()
        if ranks > 1:
            torch.distributed.all_reduce(mean)
            mean /= ranks
        losses.append(mean.item())
        if step >= options.warmup:
            seconds.append(time.perf_counter() - begin)
    if rank == 0:
        print(json.dumps({"tokens": samples * length, "cpu_seconds": cpu_seconds() - cpu,
                          "losses": losses, "seconds": seconds}))


if __name__ == "__main__":
    main()
