#!/usr/bin/env python3
"""ATOM's figures 14 and 15 at a small size, run: swapping on each of four ranks, or one pipeline over all four.

    cmake --build build/release --target reef-train reef-plan
    python3 bench/papers/atom_run.py

Ranks share the cores of one machine: devices are emulated, and wait where the cores are quicker (`--device-flops`), links too. Both are as
much slower as the model is smaller than GPT-3 125M on a V100, so that a message and a load take the same share of a micro-batch as there:

    model        4 layers, 4 heads, 128 channels, contexts of 128, 8 sequences a micro-batch; 1 GFLOP/s
    links        1.5 and 3 Mbit/s stand for 400 and 800, and 0.3 Gbit/s for one host
    host         2.6 MB/s between a device and its host stand for 12 GB/s; a device of 20 MB, where 53 MB would do without swapping

    atom         4 micro-batches a step on each rank, and then the exchange of gradients
    GPipe        4 stages, 4 micro-batches a step
    PipeDream    4 stages, 8 micro-batches a step, between which nothing is flushed; foreseen as 1F1B, whose order it is

Written is papers_atom_run.md: seconds of a step, of the second of two, and what `reef-plan simulate` foresaw. A way that takes a tenth
longer than that, as where others use the cores, is run again (--retries), and the least counts.
"""

import json
import os
import subprocess
import tempfile
from pathlib import Path

from support import ROOT, ReefPlan, parser_of, table, write

RANKS, GFLOPS, LINK, STEPS = 4, 1, 0.0026, 2
NETWORKS = {"as 400 Mbit/s": 0.0015, "as 800 Mbit/s": 0.003, "as one host": 0.3}
WAYS = {"atom": ("atom", None, 4), "GPipe, 4": ("dtfm", "gpipe", 4), "PipeDream, 8": ("dtfm", "pipedream", 8)}


def foreseen(plan, way, rate):
    recipe, schedule, micro_batches = WAYS[way]
    case = {"recipe": recipe, "micro_batches": micro_batches, "device": {"flops": 1e9 * GFLOPS},
            "model": {"shape": "4x4x128", "context": 128, "batch": 8, "vocabulary": 256},
            "network": {"ranks": RANKS, "latency_ms": 1, "bandwidth_gbps": rate}}
    if recipe == "atom":
        case["device"].update(memory_bytes=20_000_000, link_gbps=LINK)
    else:
        case.update(stages=RANKS, pipeline="1f1b" if schedule == "pipedream" else schedule)  # its order; it waits for nothing in the end
    return plan("simulate", case)


def measured(options, way, rate, folder):
    recipe, schedule, micro_batches = WAYS[way]
    network, metrics = folder / "network.json", folder / "metrics.jsonl"
    matrix = lambda value: [[value] * RANKS for _ in range(RANKS)]
    network.write_text(json.dumps({"latency_ms": matrix(1), "bandwidth_gbps": matrix(rate)}))
    metrics.unlink(missing_ok=True)
    words = [options.train, "--recipe", recipe, "--model", "4x4x128", "--context", 128, "--batch", 8,
             "--micro-batches", micro_batches, "--steps", STEPS, "--threads", 1, "--data", ROOT / "LICENSE",
             "--device-flops", GFLOPS, "--network", network, "--metrics", metrics]
    if recipe == "atom":
        words += ["--device-memory", 20_000_000, "--device-link", LINK]
    else:
        words += ["--stages", RANKS, "--pipeline", schedule]
    if schedule == "pipedream":
        words += ["--non-finite", "ignore", "--clip", 0]
    environment = {**os.environ, "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    done = subprocess.run(["mpiexec", "--oversubscribe", "--bind-to", "none", "-n", str(RANKS), *map(str, words)],
                          capture_output=True, text=True, errors="replace", env=environment)
    if done.returncode != 0:
        raise SystemExit(done.stderr + done.stdout)
    steps = [line for line in map(json.loads, metrics.read_text().splitlines()) if "step" in line]
    return (steps[-1]["seconds"] - steps[0]["seconds"]) / (len(steps) - 1)


def main():
    parser = parser_of(__doc__, "papers_atom_run")
    parser.add_argument("--retries", type=int, default=1)
    parser.add_argument("--train", default=ROOT / "build/release/examples/reef-train")
    options = parser.parse_args()
    plan = ReefPlan(options.program)
    rows, rates = [], {}
    with tempfile.TemporaryDirectory() as temporary:
        for network, rate in NETWORKS.items():
            for way, (recipe, _, micro_batches) in WAYS.items():
                answer = foreseen(plan, way, rate)
                seconds = measured(options, way, rate, Path(temporary))
                for _ in range(options.retries):
                    if seconds > 1.1 * answer["step_s"]:
                        seconds = min(seconds, measured(options, way, rate, Path(temporary)))
                count = micro_batches * (RANKS if recipe == "atom" else 1)
                rates[network, way] = count / seconds
                rows.append([network, way, f"{answer['step_s']:.1f}", f"{seconds:.1f}", f"{seconds / answer['step_s']:.3f}",
                             f"{100 * answer['utilisation']:.0f} %", f"{count / seconds:.3f}", f"{rates[network, 'atom'] / rates[network, way]:.2f}"])
                print(*rows[-1], flush=True)
    explanation = __doc__.split("\n\n")
    lines = ["# ATOM's figures 14 and 15 at a small size, run", "", "    python3 bench/papers/atom_run.py", "",
             *"\n\n".join(explanation[2:5]).splitlines(), "",
             *table(["network", "way", "foreseen, s", "a step, s", "of foreseen", "busy, foreseen", "micro-batches/s of all ranks",
                     "atom has times"], rows), "",
             "atom's exchange of gradients is not hidden, and comes after 16 micro-batches already; papers_atom.md has it after a "
             "batch of GPT-3's size."]
    write(options.out, lines)


if __name__ == "__main__":
    main()
