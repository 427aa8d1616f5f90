#!/usr/bin/env python3
"""Compares two result files of Google Benchmark, entry by entry.

    build/release/bench/run_executor_bench --benchmark_repetitions=9 \\
        --benchmark_out=before.json --benchmark_out_format=json
    (change something, build, run again with --benchmark_out=after.json)
    python3 bench/compare.py before.json after.json [--least 1.05]

Prints for each benchmark the median real time of either file, their ratio (below 1 is faster now) and
how far the repetitions of each spread (largest over smallest). Single runs are shown, but machines are
noisy: repeat. A difference counts where the ratio leaves 1 by more than --least and by more than both
spreads; the exit status is 1 if one that counts is slower, else 0.
"""

import argparse
import json
import statistics
import sys


def times(path):
    """Real seconds of every repetition, by benchmark."""
    try:
        with open(path) as file:
            entries = json.load(file)["benchmarks"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        sys.exit(f"compare.py: {path} is no result of Google Benchmark: {error}\n"
                 "  fix: run the benchmark with --benchmark_out=FILE --benchmark_out_format=json")
    failed = [entry["name"] for entry in entries if entry.get("error_occurred")]
    if failed:
        sys.exit(f"compare.py: {path}: failed were {', '.join(failed)}\n  fix: run them again, or leave them out.")
    unit = {"ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1.0}
    result = {}
    for entry in entries:
        if entry.get("run_type") == "aggregate":
            continue
        name = entry.get("run_name", entry["name"])
        result.setdefault(name, []).append(entry["real_time"] * unit[entry["time_unit"]])
    return result


def readable(seconds):
    for unit, size in (("s", 1.0), ("ms", 1e-3), ("us", 1e-6)):
        if seconds >= size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds / 1e-9:.3g} ns"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("before")
    parser.add_argument("after")
    parser.add_argument("--least", type=float, default=1.05, help="the least ratio that counts (1.05)")
    options = parser.parse_args()
    if options.least < 1:
        parser.error("--least is a ratio of at least 1")

    before, after = times(options.before), times(options.after)
    shared = [name for name in before if name in after]
    if not shared:
        sys.exit("compare.py: the two files have no benchmark in common.")
    width = max(len(name) for name in shared)
    print(f"{'benchmark':{width}}  {'before':>9}  {'after':>9}  ratio  spread       ")
    slower = 0
    for name in shared:
        medians = [statistics.median(runs[name]) for runs in (before, after)]
        spreads = [max(runs[name]) / min(runs[name]) for runs in (before, after)]
        ratio = medians[1] / medians[0]
        counts = max(ratio, 1 / ratio) > max(options.least, *spreads)
        slower += counts and ratio > 1
        verdict = ("slower" if ratio > 1 else "faster") if counts else ""
        print(f"{name:{width}}  {readable(medians[0]):>9}  {readable(medians[1]):>9}  {ratio:5.2f}  "
              f"{spreads[0]:.2f}  {spreads[1]:.2f}  {verdict}".rstrip())
    for name in sorted(set(before) ^ set(after)):
        print(f"{name}: only {'before' if name in before else 'after'}")
    return 1 if slower else 0


if __name__ == "__main__":
    sys.exit(main())
