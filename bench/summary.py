#!/usr/bin/env python3
"""Markdown tables of Google Benchmark's result files, one for each: median time, rate, and all of_ ratios.

    python3 bench/summary.py bench/results/*.json > bench/results/summary.md

of_roof is the part of the roof that is reached; of_RIVAL above 1 says that Reef is faster.
"""

import json
import statistics
import sys
from pathlib import Path

RATES = ("GB/s", "GFLOP/s", "M/s", "tokens_per_s")


def main():
    print(__doc__.splitlines()[0] + "\n")
    print(__doc__.splitlines()[-1] + "\n")
    for path in map(Path, sys.argv[1:]):
        try:
            result = json.loads(path.read_text())
            entries, context = result["benchmarks"], result["context"]
        except (ValueError, KeyError, TypeError):
            continue  # of another program
        runs = {}
        for entry in entries:
            if entry.get("run_type") != "aggregate" and not entry.get("error_occurred"):
                runs.setdefault(entry["run_name"], []).append(entry)
        print(f"## {path.stem}\n")
        print(f"{context['date']}, {context['num_cpus']} cores, load {context['load_avg'][0]:.1f}\n")
        print("| benchmark | time | rate | beside |")
        print("|---|--:|--:|---|")
        for name, entries in runs.items():
            middle = lambda key: statistics.median(entry[key] for entry in entries)
            rates = [f"{middle(key):.4g} {key}" for key in RATES if key in entries[0]]
            ratios = [f"{key} {middle(key):.2f}" for key in entries[0] if key.startswith("of_")]
            short = "/".join(part for part in name.split("/")
                             if not part.startswith("iterations:") and part not in ("manual_time", "real_time"))
            print(f"| {short} | {middle('real_time'):.4g} {entries[0]['time_unit']} | {', '.join(rates)} | "
                  f"{', '.join(ratios)} |")
        print()


if __name__ == "__main__":
    main()
