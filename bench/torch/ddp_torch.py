"""PyTorch's side of the comparison: the modules of modules.hpp under DistributedDataParallel; a line of JSON from rank 0.

data_parallel.py starts it with RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT; the ranks talk by gloo.
"""

import argparse
import json
import math
import os
import resource
import statistics
import time

import torch
from torch import nn
from torch.nn import functional


class GptBlock(nn.Module):
    def __init__(self, channels, heads):
        super().__init__()
        self.heads = heads
        self.ln_1 = nn.LayerNorm(channels)
        self.c_attn = nn.Linear(channels, 3 * channels)
        self.c_proj = nn.Linear(channels, channels)
        self.ln_2 = nn.LayerNorm(channels)
        self.c_fc = nn.Linear(channels, 4 * channels)
        self.mlp_proj = nn.Linear(4 * channels, channels)

    def forward(self, x):
        B, T, C = x.shape
        q, k, v = self.c_attn(self.ln_1(x)).view(B, T, 3, self.heads, C // self.heads).permute(2, 0, 3, 1, 4)
        scores = q.matmul(k.transpose(-2, -1)) / math.sqrt(C // self.heads)
        later = torch.ones(T, T, dtype=torch.bool).triu(1)
        p = scores.masked_fill(later, -math.inf).softmax(-1)
        x = x + self.c_proj(p.matmul(v).transpose(1, 2).reshape(B, T, C))
        return x + self.mlp_proj(functional.gelu(self.c_fc(self.ln_2(x)), approximate="tanh"))


class Gpt(nn.Module):
    def __init__(self):
        super().__init__()
        self.wte = nn.Embedding(512, 128)
        self.h0 = GptBlock(128, 4)
        self.h1 = GptBlock(128, 4)
        self.ln_f = nn.LayerNorm(128)
        self.head = nn.Linear(128, 512)

    def forward(self, tokens):
        x = self.h1(self.h0(self.wte(tokens)))
        return self.head(self.ln_f(x)).view(-1, 512)


def module(name):
    torch.manual_seed(1)
    if name == "mlp":
        return nn.Sequential(nn.Linear(256, 1024), nn.ReLU(), nn.Linear(1024, 1024), nn.ReLU(), nn.Linear(1024, 1024), nn.ReLU(),
                             nn.Linear(1024, 10))
    if name == "conv":
        return nn.Sequential(nn.Conv2d(3, 32, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(32, 64, 3, padding=1),
                             nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(64, 128, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
                             nn.Flatten(), nn.Linear(2048, 10))
    return Gpt()


def batch(name, number):
    sizes = {"mlp": (32, 256), "conv": (16, 3, 32, 32), "gpt": (4, 64)}[name]
    count = math.prod(sizes)
    wave = (torch.arange(count, dtype=torch.float32) * (0.3 + 0.01 * (number % 7))).sin().view(sizes)
    if name == "gpt":
        tokens = ((wave + 1) * 255).floor().long()
        return tokens, tokens.roll(-1, 1).reshape(-1)
    return wave, (wave.flatten(1).sum(1) * 3).floor().long().remainder(10)


def cpu_seconds():
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--module", default="mlp")
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--warmup", type=int, default=10)
    parser.add_argument("--foreach", action="store_true", help="AdamW over all tensors at a time")
    parser.add_argument("--zero", action="store_true", help="ZeroRedundancyOptimizer")
    options = parser.parse_args()
    torch.set_num_threads(1)
    rank, ranks = int(os.environ.get("RANK", 0)), int(os.environ.get("WORLD_SIZE", 1))

    net = module(options.module)
    if ranks > 1:
        torch.distributed.init_process_group("gloo")
        net = nn.parallel.DistributedDataParallel(net, gradient_as_bucket_view=True)
    settings = {"lr": 1e-3, "betas": (0.9, 0.999), "weight_decay": 0.0, "foreach": options.foreach}
    if options.zero:
        from torch.distributed.optim import ZeroRedundancyOptimizer
        optimizer = ZeroRedundancyOptimizer(net.parameters(), torch.optim.AdamW, **settings)
    else:
        optimizer = torch.optim.AdamW(net.parameters(), **settings)

    batches = [batch(options.module, number) for number in range(7)]
    seconds = []
    for step in range(options.warmup + options.steps):
        if step == options.warmup:
            cpu_begin = cpu_seconds()
        begin = time.perf_counter()
        x, labels = batches[(step * ranks + rank) % 7]
        optimizer.zero_grad(set_to_none=ranks == 1)
        loss = functional.cross_entropy(net(x), labels)
        loss.backward()
        optimizer.step()
        if step >= options.warmup:
            seconds.append(time.perf_counter() - begin)
    cpu = (cpu_seconds() - cpu_begin) / options.steps
    loss = loss.detach().clone()
    if ranks > 1:
        torch.distributed.all_reduce(loss)
    local = optimizer.optim if options.zero else optimizer
    states = sum(value.numel() * value.element_size() for state in local.state.values()
                 for value in state.values() if torch.is_tensor(value) and value.dim() > 0)
    if rank == 0:
        print(json.dumps({"seconds": statistics.median(seconds), "fastest": min(seconds), "cpu_seconds": cpu, "loss": loss.item() / ranks, "optimizer_bytes": states,
                          "parameters": sum(p.numel() for p in net.parameters()), "torch": torch.__version__}))


if __name__ == "__main__":
    main()
