#!/usr/bin/env python3
"""PyTorch's AdamW on the tensors of update_bench.cpp: the rival of its adamw/threads:N.

    OMP_NUM_THREADS=2 python3 bench/optim/adamw_torch.py [--rounds 9] > RESULT.json

100 million parameters in GPT-2's 148 tensors; matrices decay, vectors do not. `fused` is one pass over
memory and left out where this PyTorch has none for processors (before 2.4), `foreach` an operation over
all tensors at a time, `loop` one tensor after another. They take turns in each round, with 1 and with 2
threads. The same bytes are counted as there: 28 a parameter. The
rows are those of Google Benchmark, so that summary.py and compare.py read them.
"""

import argparse
import datetime
import json
import os
import statistics
import sys
import time

BYTES = 28


def tensors(torch):
    """The (size, decays) of update_bench.cpp."""
    C = 768
    sizes = [(18432 * C, True), (1024 * C, True)]
    for _ in range(12):
        for rows, columns in ((C, 3 * C), (C, C), (C, 4 * C), (4 * C, C)):
            sizes += [(rows * columns, True), (columns, False)]
        sizes += [(C, False)] * 4
    sizes += [(C, False)] * 2
    made = []
    for size, decays in sizes:
        tensor = torch.full((size,), 1e-3, requires_grad=True)
        tensor.grad = torch.full((size,), 1e-3)
        made.append((tensor, decays))
    return made


def optimizers(torch, made):
    """The ways to update; what this version of PyTorch does not have is named and left out."""
    groups = lambda: [{"params": [t for t, decays in made if decays is wanted], "weight_decay": decay}
                      for wanted, decay in ((True, 0.1), (False, 0.0))]
    ways = {}
    for name, options in (("fused", {"fused": True}), ("foreach", {"foreach": True}),
                          ("loop", {"foreach": False})):
        try:
            way = torch.optim.AdamW(groups(), lr=1e-3, betas=(0.9, 0.95), **options)
            way.step()  # makes the moments, and refuses what this build lacks
        except (RuntimeError, TypeError) as error:
            print(f"adamw_torch.py: {name} is left out: {error}", file=sys.stderr)
            continue
        ways[name] = way
    return ways


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--threads", default="1,2")
    options = parser.parse_args()
    try:
        import torch
    except ImportError as error:
        sys.exit(f"adamw_torch.py: no PyTorch here: {error}\n  fix: apt-get install python3-torch")

    made = tensors(torch)
    count = sum(tensor.numel() for tensor, _ in made)
    ways = optimizers(torch, made)
    rows = []
    for threads in map(int, options.threads.split(",")):
        torch.set_num_threads(threads)
        seconds = {name: [] for name in ways}
        for round_ in range(options.rounds + 1):
            order = list(ways)
            for name in order[round_ % len(order):] + order[:round_ % len(order)]:
                begin = time.perf_counter()
                ways[name].step()
                if round_ > 0:  # the first one warms up
                    seconds[name].append(time.perf_counter() - begin)
        for name, taken in seconds.items():
            typical = statistics.median(taken)
            run = f"adamw_torch_{name}/threads:{threads}"
            rows.append({"name": run, "run_name": run, "run_type": "iteration", "iterations": options.rounds,
                         "real_time": typical * 1e3, "cpu_time": typical * 1e3, "time_unit": "ms",
                         "GB/s": BYTES * count / typical * 1e-9})
    print(json.dumps({"context": {"date": datetime.datetime.now().astimezone().isoformat(timespec="seconds"),
                                  "num_cpus": os.cpu_count(), "load_avg": list(os.getloadavg()),
                                  "torch": torch.__version__, "parameters": count, "tensors": len(made)},
                      "benchmarks": rows}, indent=1))


if __name__ == "__main__":
    main()
