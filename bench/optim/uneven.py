#!/usr/bin/env python3
"""Two ranks, of which one computes several times as slowly: whom it delays, and whose text is learnt.

    cmake --preset release -DREEF_BUILD_BENCH=ON
    cmake --build build/release --target optim_uneven_bench
    python3 bench/optim/uneven.py --out bench/results/optim_uneven

Written are NAME.md and NAME.json, for --out NAME. uneven_bench.cpp says what is measured, convergence.py what
the corpus is. The slow rank sleeps after each kernel, so that neither takes the other's core.

    idle    the share of the wall time in which a rank's lane `compute` waits, from its trace
    B       micro-batches of a step on each rank; 2+: one a phase and as many more as it takes while a phase
            communicates, which it does until the slow rank has given its own
    own     each rank draws from its own half of the text; whole: both from all of it
    shared  each sample is the next of all, for whichever rank asks
"""

import argparse
import hashlib
import json
import platform
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from convergence import HERE, corpus, processor, write_page

ROWS = ["ddp:4", "zero1:4", "acco:4", "acco:2:adaptive", "acco:2:shared"]
# (what it is called, whose text, row)
LEARNT = [("ddp", "whole", "ddp:8"), ("ddp", "own", "ddp:8"), ("acco, fixed", "own", "acco:8"),
          ("acco, adaptive", "own", "acco:2:adaptive"), ("acco, adaptive, shared", "whole", "acco:2:shared")]


def run(options, *arguments):
    command = ["mpiexec", "--allow-run-as-root", "--bind-to", "core", "-n", "2",
               str(options.build / "optim_uneven_bench"), *map(str, arguments)]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True)
    if done.returncode:
        sys.exit(f"uneven.py: failed: {' '.join(command)}")
    lines = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    return sorted(lines, key=lambda line: line["rank"])


def time_all(options):
    """By row: of each round the shares of idle time, the micro-batches a step, and samples/s of both."""
    found = {row: [] for row in ROWS}
    for _ in range(options.rounds):
        lines = run(options, "time", options.slowdown, options.steps, *ROWS)
        for row in ROWS:
            recipe, count, mode = (row.split(":") + [""])[:3]
            ranks = [line for line in lines if (line["recipe"], str(line["micro_batches"]), line["mode"])
                     == (recipe, count, mode)]
            found[row].append({"idle": [1 - rank["compute_s"] / rank["seconds"] for rank in ranks],
                               "taken": [rank["taken"] / rank["steps"] for rank in ranks],
                               "rate": sum(rank["taken"] for rank in ranks) / ranks[0]["seconds"]})
        print("  idle of the fast rank: " + ", ".join(f"{row} {100 * found[row][-1]['idle'][0]:.1f} %" for row in ROWS),
              flush=True)
    return found


def train_all(options, path):
    found = []
    for name, parts, row in LEARNT:
        runs = []
        for seed in range(1, options.seeds + 1):
            lines = run(options, "train", path, options.slowdown, options.samples, seed, parts, row)
            runs.append({"held_out": lines[0]["held_out"], "taken": [line["taken"] for line in lines],
                         "steps": lines[0]["steps"]})
            print(f"  {name}, {parts}, seed {seed}: {runs[-1]}", flush=True)
        found.append({"name": name, "parts": parts, "row": row, "runs": runs})
    return found


def mean_of(runs, value):
    return statistics.mean(value(run) for run in runs)


def table(report):
    lines = [f"# A rank that is {report['slowdown']:g} times slower", "", f"    {report['command']}", "",
             f"Machine: {report['processor']}; {report['system']}. fp32, one thread a rank, a core each.", "",
             *__doc__.split("\n\n")[3].splitlines(), "",
             "## Whom it delays", "",
             f"Medians over {report['rounds']} rounds of {report['steps']} steps, after five that are not counted. Links "
             "without a shape.", "",
             "| recipe | B | fast rank idle | slow rank idle | micro-batches a step, fast and slow | micro-batches/s "
             "| of Ddp |", "|---|--:|--:|--:|--:|--:|--:|"]
    middle = lambda rounds, value: statistics.median(value(one) for one in rounds)
    for row, rounds in report["timed"].items():
        recipe, count, mode = (row.split(":") + [""])[:3]
        of_ddp = statistics.median(mine["rate"] / ddp["rate"] for mine, ddp in zip(rounds, report["timed"][ROWS[0]]))
        lines.append(f"| {recipe}{', shared' if mode == 'shared' else ''} | {count}{'+' if mode else ''} | "
                     + " | ".join(f"{100 * middle(rounds, lambda one, rank=rank: one['idle'][rank]):.1f} %"
                                  for rank in (0, 1))
                     + f" | {middle(rounds, lambda one: one['taken'][0]):.2f}, "
                       f"{middle(rounds, lambda one: one['taken'][1]):.2f} | "
                       f"{middle(rounds, lambda one: one['rate']):.1f} | {of_ddp:.2f} |")
    if report["learnt"]:
        lines += ["", "## Whose text is learnt", "",
                  f"The small model of convergence.py, a constant rate of 3e-3, until {report['samples']} sequences are "
                  f"learnt; held-out loss of each half of {report['corpus']} (SHA-256 {report['sha256']}). Means over "
                  f"{report['seeds']} seeds. The slow rank has the second half.", "",
                  "| recipe | text | share of the samples from the slow rank | steps | fast rank's half | slow rank's half "
                  "| mean |", "|---|---|--:|--:|--:|--:|--:|"]
        for one in report["learnt"]:
            runs = one["runs"]
            lines.append(
                f"| {one['name']} | {one['parts']} | "
                f"{100 * mean_of(runs, lambda run: run['taken'][1] / sum(run['taken'])):.1f} % | "
                f"{mean_of(runs, lambda run: run['steps']):.0f} | {mean_of(runs, lambda run: run['held_out'][0]):.3f} | "
                f"{mean_of(runs, lambda run: run['held_out'][1]):.3f} | "
                f"{mean_of(runs, lambda run: statistics.mean(run['held_out'])):.3f} |")
    return "\n".join([*lines, ""])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--slowdown", type=float, default=4)
    parser.add_argument("--steps", type=int, default=10, help="of which the time is measured")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seeds", type=int, default=3, help="0: learn nothing")
    parser.add_argument("--samples", type=int, default=32000)
    parser.add_argument("--corpus", type=Path)
    parser.add_argument("--build", type=Path, default=HERE.parent.parent / "build/release/bench",
                        help="where the program is")
    parser.add_argument("--out", type=Path, required=True, help="writes OUT.md and OUT.json")
    options = parser.parse_args()
    text, what = corpus(options.corpus)
    report = {"command": " ".join(["python3 bench/optim/uneven.py", *sys.argv[1:]]), "processor": processor(),
              "system": platform.platform(), "slowdown": options.slowdown, "rounds": options.rounds,
              "steps": options.steps, "seeds": options.seeds, "samples": options.samples, "corpus": what,
              "sha256": hashlib.sha256(text).hexdigest(), "timed": time_all(options), "learnt": []}
    with tempfile.NamedTemporaryFile() as file:
        file.write(text)
        file.flush()
        report["learnt"] = train_all(options, file.name) if options.seeds else []
    options.out.with_suffix(".json").write_text(json.dumps(report, separators=(",", ":")) + "\n")
    write_page(options.out.with_suffix(".md"), table(report))
    print(table(report))


if __name__ == "__main__":
    main()
