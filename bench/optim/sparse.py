#!/usr/bin/env python3
"""Trains the small model of convergence.py by DiLoCo and by SparseLoCo on the same samples, and compares held-out losses and bytes.

    cmake --preset release -DREEF_BUILD_BENCH=ON
    cmake --build build/release --target optim_convergence_bench
    python3 bench/optim/sparse.py --out bench/results/optim_sparse

Written are NAME.md and NAME.json, for --out NAME. Both take an outer step of every weight once in 20 steps: diloco by
Nesterov's momentum 0.9 and a rate of 0.7, of weights in fp32; sparse by a plain step of rate 1, of 64 of 4096 differences in
two bits each, by the number of ranks that have sent one, with a residual that decays by 0.9; sparse-peers by the number of all
ranks, as papers write it, and 0.95. Bytes are those that rank 0 has sent in steps, headers included.
"""

import argparse
import hashlib
import json
import platform
import statistics
import sys
import tempfile
from pathlib import Path

from convergence import HERE, Bench, corpus, processor, spread, write_page

RECIPES = ["ddp", "diloco", "sparse", "sparse-peers"]


def table(report):
    end = {recipe: {seed: run["curve"][-1][2] for seed, run in of.items()} for recipe, of in report["runs"].items()}
    sent = {recipe: statistics.mean(run["sent_bytes"] for run in of.values()) for recipe, of in report["runs"].items()}
    seeds = report["seeds"]
    lines = ["# SparseLoCo beside DiLoCo", "", f"    {report['command']}", "",
             f"Machine: {report['processor']}; {report['system']}.",
             f"Corpus and model as in [optim_convergence.md](optim_convergence.md): {report['parameters']} parameters, "
             f"{report['steps']} steps of 1024 tokens on",
             f"{report['ranks']} ranks, an outer step every 20. Held-out losses in nats, means over {len(seeds)} seeds, "
             "[least, most].", "",
             "| recipe | held-out loss | gap to diloco | bytes sent by a rank | of diloco's |", "|---|--:|--:|--:|--:|"]
    for recipe in report["runs"]:
        gaps = [end[recipe][seed] - end["diloco"][seed] for seed in end[recipe]]
        lines.append(f"| {recipe} | {statistics.mean(end[recipe].values()):.4f} | "
                     f"{'' if recipe == 'diloco' else spread(gaps)} | {sent[recipe]:,.0f} | "
                     f"1 / {sent['diloco'] / sent[recipe]:.3g} |")
    return "\n".join(lines) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=Path, default=HERE.parent.parent / "build" / "release" / "bench")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--corpus", type=Path)
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--steps", type=int, default=1000)
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    parser.add_argument("--init", choices=["fan-in", "gpt2"], default="fan-in")
    options = parser.parse_args()
    text, what = corpus(options.corpus)
    with tempfile.NamedTemporaryFile(suffix=".txt") as file:
        file.write(text)
        file.flush()
        bench = Bench(options, file.name)
        runs = {recipe: {} for recipe in RECIPES}
        for seed in options.seeds:
            for recipe in RECIPES:
                curve, facts = bench.train(recipe, seed, options.steps)
                runs[recipe][str(seed)] = {"curve": curve, "sent_bytes": facts["sent_bytes"]}
    report = {"command": "python3 bench/optim/sparse.py " + " ".join(sys.argv[1:]), "processor": processor(),
              "system": platform.platform(), "seeds": options.seeds, "steps": options.steps, "ranks": options.ranks,
              "corpus": {"what": what, "sha256": hashlib.sha256(text).hexdigest()}, "parameters": facts["parameters"],
              "runs": runs}
    write_page(options.out.with_suffix(".md"), table(report))
    options.out.with_suffix(".json").write_text(json.dumps(report, indent=1) + "\n")
    print(table(report))


if __name__ == "__main__":
    main()
