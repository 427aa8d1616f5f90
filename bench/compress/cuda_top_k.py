#!/usr/bin/env python3
"""torch.topk on a GPU beside the top-k of cuda_codecs_bench.cu, which has run before on the same card.

    python3 bench/compress/cuda_top_k.py --ours build/gpu/compress_cuda_codecs.json --out build/gpu/compress_cuda_top_k.json

PyTorch takes the magnitudes, topk of them, not sorted, and the numbers at its indices, and brings both to the host; the message is not
written. The rows are those of Google Benchmark: `of_rival` is PyTorch's median time over ours. Where there is no PyTorch, or no GPU,
the reason is printed and nothing written.
"""

import argparse
import json
import re
import statistics
import time
from pathlib import Path


def seconds_of(torch, n, ratio):
    torch.manual_seed(1)
    values = (torch.rand(n, device="cuda") * 2 - 1) ** 3
    k = -(-n // ratio)
    taken = []
    for _ in range(12):
        torch.cuda.synchronize()
        begin = time.perf_counter()
        indices = torch.topk(values.abs(), k, sorted=False).indices
        values[indices].cpu(), indices.int().cpu()
        taken.append(time.perf_counter() - begin)
    return statistics.median(taken[2:])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ours", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    try:
        import torch
    except ImportError as error:
        print(f"skipped: there is no PyTorch: {error}")
        return
    if not torch.cuda.is_available():
        print("skipped: PyTorch sees no GPU")
        return
    rows = []
    for entry in json.loads(options.ours.read_text())["benchmarks"]:
        found = re.match(r"top_k_(\d+)/(\d+)", entry["name"])
        if not found:
            continue
        theirs = seconds_of(torch, int(found[2]), int(found[1]))
        rows.append({**entry, "label": "torch.topk", "of_rival": theirs * 1e6 / entry["real_time"]})
    options.out.write_text(json.dumps({"benchmarks": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()
