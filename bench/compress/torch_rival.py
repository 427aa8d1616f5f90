#!/usr/bin/env python3
"""PyTorch beside codecs_bench.cpp: top-k, and its operations that quantise, in turns with that program.

    python3 bench/compress/torch_rival.py --program build/release/bench/compress_codecs_bench > RESULT.json

| row            | what PyTorch does                                                                         |
|----------------|-------------------------------------------------------------------------------------------|
| top_k_*        | topk of the magnitudes, not sorted, and the numbers at its indices                        |
| blockwise8     | encode: largest magnitudes of blocks of 4096, bucketize of the quotients; decode: index by the code |
| normal_float4  | the same of blocks of 64 and 16 values, which it does not pack two a byte                 |
| uniform8       | mean and deviation, quantize_per_tensor; dequantize                                       |

In each round PyTorch and the program take turns; `of_torch` is the median over rounds of PyTorch's seconds over the program's,
`of_copy` that of PyTorch's copy over its own operation. The rows are those of Google Benchmark, so that summary.py and compare.py
read them.
"""

import argparse
import datetime
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time

MILLION = 1 << 20


def operations(torch, x):
    """By name: (encode, decode or None)."""
    n = x.numel()
    found = {}

    def top_k(ratio):
        k = -(-n // ratio)

        def encode():
            indices = torch.topk(x.abs(), k, sorted=False).indices
            return x[indices], indices

        return encode

    def blockwise(block, values):
        values = torch.tensor(values)
        middles = (values[1:] + values[:-1]) / 2
        rows = x.view(-1, block)

        def encode():
            largest = rows.abs().amax(dim=1, keepdim=True)
            return largest, torch.bucketize(rows / largest, middles, out_int32=True).to(torch.uint8)

        largest, codes = encode()
        return encode, lambda: values[codes.view(-1).long()].view(-1, block) * largest

    def uniform():
        def encode():
            scale = 6 * x.std() / 256
            return torch.quantize_per_tensor(x - x.mean(), float(scale), 128, torch.quint8)

        quantised = encode()
        return encode, lambda: quantised.dequantize()

    dynamic = sorted([0.0, 1.0] + [sign * (10.0 ** (i - 6)) * (0.1 + 0.9 * (j + 0.5) / 2 ** i)
                                   for i in range(7) for j in range(2 ** i) for sign in (1, -1)])
    normal = torch.erfinv(torch.linspace(-0.96, 0.96, 16)).tolist()
    top = max(normal)
    found["top_k_100"] = (top_k(100), None)
    found["top_k_1000"] = (top_k(1000), None)
    found["blockwise8"] = blockwise(4096, dynamic)
    found["normal_float4"] = blockwise(64, [value / top for value in normal])
    found["uniform8"] = uniform()
    return found


def seconds(function, calls):
    taken = []
    for _ in range(calls):
        begin = time.perf_counter()
        function()
        taken.append(time.perf_counter() - begin)
    return statistics.median(taken)


def program_seconds(program, pattern, numbers):
    """By name: seconds of a call, from one run of the program."""
    with tempfile.NamedTemporaryFile(suffix=".json") as file:
        subprocess.run([program, f"--benchmark_filter={pattern}", f"--benchmark_out={file.name}",
                        "--benchmark_out_format=json"], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        entries = json.load(file)["benchmarks"]
    return {entry["name"].split("/iterations")[0]: (4e-9 * numbers / entry["GB/s"], entry["of_roof"]) for entry in entries}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--program", required=True)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", default="1,2")
    parser.add_argument("--millions", default="1,16")
    options = parser.parse_args()
    try:
        import torch
    except ImportError as error:
        sys.exit(f"torch_rival.py: no PyTorch here: {error}\n  fix: apt-get install python3-torch")

    rows = []
    for millions in map(int, options.millions.split(",")):
        n = millions * MILLION
        x = torch.randn(n, generator=torch.Generator().manual_seed(1))
        to = torch.empty_like(x)
        ways = operations(torch, x)
        for threads in map(int, options.threads.split(",")):
            torch.set_num_threads(threads)
            taken = {}
            for _ in range(options.rounds):
                copy = seconds(lambda: to.copy_(x), 5)
                ours = program_seconds(options.program, f"^({'|'.join(ways)})/.*/{millions}M/threads:{threads}/", n)
                for name, (encode, decode) in ways.items():
                    for what, way in (("encode", encode), ("decode", decode)):
                        if way is None:
                            continue
                        run = f"{name}/{what}/{millions}M/threads:{threads}"
                        torch_takes = seconds(way, 3)
                        taken.setdefault(run, []).append((torch_takes, ours[run][0], ours[run][1], copy))
            for run, rounds in taken.items():
                typical = statistics.median(t for t, _, _, _ in rounds)
                rows.append({"name": f"torch/{run}", "run_name": f"torch/{run}", "run_type": "iteration",
                             "iterations": options.rounds, "real_time": typical * 1e3, "cpu_time": typical * 1e3,
                             "time_unit": "ms", "GB/s": 4e-9 * n / typical,
                             "reef_GB/s": 4e-9 * n / statistics.median(ours for _, ours, _, _ in rounds),
                             "of_torch": statistics.median(t / ours for t, ours, _, _ in rounds),
                             "of_roof": statistics.median(roof for _, _, roof, _ in rounds),
                             "of_copy": statistics.median(copy / t for t, _, _, copy in rounds)})
    print(json.dumps({"context": {"date": datetime.datetime.now().astimezone().isoformat(timespec="seconds"),
                                  "num_cpus": os.cpu_count(), "load_avg": list(os.getloadavg()),
                                  "torch": torch.__version__}, "benchmarks": rows}, indent=1))


if __name__ == "__main__":
    main()
