#!/usr/bin/env python3
"""Markdown tables of Google Benchmark's result files, one for each: median time, all counters, and all of_ ratios.

    python3 bench/summary.py bench/results/*.json > bench/results/summary.md

of_roof is the part of the roof that is reached; of_RIVAL above 1 says that Reef is faster.
"""

import json
import statistics
import sys
from pathlib import Path

# What Google Benchmark itself says of an entry; the rest are counters of the program.
OWN = {"name", "run_name", "run_type", "family_index", "per_family_instance_index", "repetitions", "repetition_index",
       "threads", "iterations", "real_time", "cpu_time", "time_unit", "label"}


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
        print("| benchmark | time | counters | beside |")
        print("|---|--:|--:|---|")
        for name, entries in runs.items():
            middle = lambda key: statistics.median(entry[key] for entry in entries)
            counters = [key for key in entries[0] if key not in OWN]
            rates = [f"{middle(key):.4g} {key}" for key in counters if not key.startswith("of_")]
            ratios = [f"{key} {middle(key):.3g}" for key in counters if key.startswith("of_")]
            short = "/".join(part for part in name.split("/")
                             if not part.startswith("iterations:") and part not in ("manual_time", "real_time"))
            if entries[0].get("label"):
                short += f" ({entries[0]['label']})"
            print(f"| {short} | {middle('real_time'):.4g} {entries[0]['time_unit']} | {', '.join(rates)} | "
                  f"{', '.join(ratios)} |")
        print()


if __name__ == "__main__":
    main()
