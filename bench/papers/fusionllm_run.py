#!/usr/bin/env python3
"""FusionLLM's figure of convergence at a small size, run: a residual network over three ranks, one of another engine.

    cmake --build build/release --target torch-residual
    python3 bench/papers/fusionllm_run.py

`torch-residual` (examples/torch_residual.cpp) trains 100,000 weights or so on images that it makes: ten classes, 3 x 32 x 32. Ranks share
the cores of one machine: devices are emulated, and wait where the cores are quicker (`--gflops`), links too.

    rank 0, 1    convolutions, batch norm and pooling of libtorch; a message between them is 512 KiB of a micro-batch
    rank 2       native operators, behind the slow link; 64 KiB a micro-batch
    a step       4 micro-batches of 8 images, 1F1B, AdamW
    devices      4 GFLOP/s
    links        10 Gbit/s, and 2 Mbit/s between ranks 1 and 2; 1 ms

    dense        4 bytes a number
    uniform r    top-k by one ratio for both links, 1 / r of the bytes: with 2 bytes an index 1 in 1.5 r numbers is kept
    AdaTopK r    each link is as quick as the slow one at 1 / r (Eq. 7); what is quick enough is sent as it is

What goes back has the zeros of what went forward. Evaluations send as steps do. Seconds are those of steps, as measured.
"""

import json
import os
import re
import statistics
import subprocess
from pathlib import Path

from support import ROOT, parser_of, table, write

WAYS = {"dense": ("dense", 1), "uniform 10": ("uniform", 10), "AdaTopK 10": ("adaptive", 10), "uniform 100": ("uniform", 100),
        "AdaTopK 100": ("adaptive", 100)}
LOSS = 0.5


def run(options, way, seed):
    compress, ratio = WAYS[way]
    command = ["mpiexec", "--oversubscribe", "--bind-to", "none", "-n", "3", str(options.example), "--compress", compress, "--ratio", str(ratio),
               "--seed", str(seed), "--gflops", "4", "--steps", str(options.steps), "--every", "10"]
    environment = {**os.environ, "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1", "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    if done.returncode != 0:
        raise SystemExit(done.stderr + done.stdout)
    curve = [[int(step), float(loss), float(held_out), float(seconds)] for step, loss, held_out, seconds in
             re.findall(r"step +(\d+)  loss (\S+)  held out (\S+)  after (\S+) s", done.stdout)]
    links = {link: int(sent) for link, sent in re.findall(r"a step sends (\d -> \d) (\d+) bytes", done.stdout)}
    return {"curve": curve, "links": links}


def seconds_to(curve, loss):
    """Between evaluations by a straight line; none if the loss is not reached."""
    for (_, _, before, begin), (_, _, after, end) in zip(curve, curve[1:]):
        if after <= loss < before:
            return begin + (end - begin) * (before - loss) / (before - after)
    return None


def median_of(values, form):
    """With the least and the most; "never" where no seed has one."""
    found = sorted(value for value in values if value is not None)
    if not found:
        return "never"
    text = f"{statistics.median(found):{form}} [{found[0]:{form}}, {found[-1]:{form}}]"
    return text if len(found) == len(values) else f"{text}, {len(found)} of {len(values)}"


def main():
    parser = parser_of(__doc__, "papers_fusionllm_run")
    parser.add_argument("--example", type=Path, default=ROOT / "build/release/examples/torch-residual")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=80)
    options = parser.parse_args()
    kept = options.out.with_suffix(".json")  # runs that are there are not made again
    runs = json.loads(kept.read_text()) if kept.exists() else {}
    for seed in range(1, options.seeds + 1):
        for way in WAYS:
            name = f"{way}, seed {seed}, {options.steps} steps"
            if name not in runs:
                runs[name] = run(options, way, seed)
                kept.write_text(json.dumps(runs, separators=(",", ":")) + "\n")
                print(name, runs[name]["curve"][-1], flush=True)
    of = {way: [runs[f"{way}, seed {seed}, {options.steps} steps"] for seed in range(1, options.seeds + 1)] for way in WAYS}

    rows, by_step, by_seconds = [], {}, {}
    for way, made in of.items():
        ends = [each["curve"][-1] for each in made]
        steps = [each["curve"][-1][3] / options.steps for each in made]
        reached = [seconds_to(each["curve"], LOSS) for each in made]
        dense = [seconds_to(each["curve"], LOSS) for each in of["dense"]]
        times = [one / other if one and other else None for one, other in zip(dense, reached)]
        carried = {link: sum(each["links"][link] for each in made) / len(made) for link in made[0]["links"]}
        rows.append([way, median_of([end[2] for end in ends], ".3f"), f"{(carried['0 -> 1'] + carried['1 -> 0']) / 1024:,.0f}",
                     f"{(carried['1 -> 2'] + carried['2 -> 1']) / 1024:,.1f}", median_of(steps, ".2f"), median_of(reached, ".1f"),
                     median_of(times, ".2f")])
        points = list(zip(*(each["curve"] for each in made)))
        by_step[way] = {at[0][0]: statistics.median(point[2] for point in at) for at in points}
        by_seconds[way] = {round(statistics.median(point[3] for point in at), 1): statistics.median(point[2] for point in at) for at in points}
    explanation = __doc__.split("\n\n")
    lines = ["# FusionLLM's figure of convergence at a small size, run", "", "    python3 bench/papers/fusionllm_run.py", "",
             *"\n\n".join(explanation[2:]).splitlines(), "",
             f"{options.steps} steps of {options.seeds} seeds, one way after the other of each seed. Medians, [least, most]; losses are of 128 images that no step "
             f"has, a guess is 2.303. Of a loss of {LOSS}: seconds, between evaluations by a straight line, and how many times as quick as dense with the same seed.", "",
             *table(["", "held-out loss", "KiB a step, ranks 0 and 1", "KiB a step, ranks 1 and 2", "s a step", f"s to {LOSS}", "times dense"], rows), "",
             f"![Held-out loss]({options.out.with_suffix('.svg').name})"]
    write(options.out, lines, [("held-out loss", "steps", by_step), ("held-out loss", "seconds of steps", by_seconds)])


if __name__ == "__main__":
    main()
