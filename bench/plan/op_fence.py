#!/usr/bin/env python3
"""What orders and splits of pipelines over uneven devices come to: op-fence beside its baselines and its bound.

    cmake --preset release -DREEF_BUILD_EXAMPLES=ON
    cmake --build build/release --target reef-plan
    python3 bench/plan/op_fence.py --out bench/results/op_fence.md

Nothing is trained: T is the model's time of all micro-batches, sum(C + R) + (n_b - 1) max(C, R). Devices are generated
in clusters, with links of 0.5 to 10 Gbit/s inside and 8 to 200 Mbit/s across, and numbered at random; the chain's
operators have 1 to 3 TFLOP, devices 20 to 75 TFLOP/s. Where memory is tight, all devices, or as many as
a third of the operators, have 1.3 times what these need.

    equal operators, equal compute   as many operators, or operations, on each device, in the order of the case
    given order                      split exactly over the devices in the order of the case, which may be left out
    clusters                         split exactly over OP-Fence's order of clusters
    op-fence                         order and split together
    gap                              T over the lower bound, less 1

Written are NAME.md and NAME.svg, for --out NAME.md.
"""

import argparse
import json
import random
import resource
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
from log_plot import log_plot  # noqa: E402
from page import write_page  # noqa: E402

METHODS = {"equal operators": "equal-operators", "equal compute": "equal-compute", "given order": "given",
           "clusters": "clusters", "op-fence": "search"}
EXACT = ("given order", "clusters")  # of a thousand devices they take minutes, and are left out
MOST_STATES = 4e8
# Devices, operators, micro-batches, instances.
SIZES = [(6, 14, 5, 12), (9, 20, 16, 6), (12, 24, 16, 6), (16, 32, 16, 4), (24, 48, 16, 3), (64, 96, 32, 2),
         (256, 384, 64, 1), (1024, 1024, 64, 1)]


def instance(draw, devices, operators, micro_batches, tight):
    memory = [draw.uniform(5e8, 1.5e9) // 1 for _ in range(operators)]
    clusters = max(2, devices // 8)
    cluster = [draw.randrange(clusters) for _ in range(devices)]
    alpha = [[0.0] * devices for _ in range(devices)]
    beta = [[0.0] * devices for _ in range(devices)]
    for a in range(devices):
        for b in range(a):
            inside = cluster[a] == cluster[b]
            alpha[a][b] = alpha[b][a] = draw.uniform(2e-4, 1e-3) if inside else draw.uniform(5e-3, 4e-2)
            rate = draw.uniform(0.5e9, 1e10) if inside else draw.uniform(8e6, 2e8)
            beta[a][b] = beta[b][a] = 8 / rate
    share = [draw.uniform(0.6, 1.4) for _ in range(devices)]
    room = 1.3 * sum(memory) / sum(share) * devices / min(devices, operators / 3) if tight else 0
    capacity = [room * s // 1 if tight else draw.uniform(0.3, 1.2) * sum(memory) // 1 for s in share]
    cut = [0] + [draw.uniform(4e6, 2e7) // 1 for _ in range(operators - 1)] + [0]
    return {"flops": [draw.uniform(1e12, 3e12) for _ in range(operators)], "mem": memory, "cut": cut,
            "speed": [draw.uniform(2e13, 7.5e13) for _ in range(devices)], "cap": capacity, "alpha": alpha,
            "beta": beta, "n_b": micro_batches}


def answer(program, case, method, effort):
    """The answer, and the seconds of processor time that it took."""
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        json.dump(case, file)
        file.flush()
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        out = subprocess.run([program, "op-fence", file.name, "--method", method, "--effort", str(effort)],
                             check=True, capture_output=True, text=True, timeout=600).stdout
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return json.loads(out), after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def row(program, effort, devices, operators, micro_batches, instances, tight):
    draw = random.Random(f"{devices} {tight}")
    ratios = {name: [] for name in METHODS}
    gaps, seconds, proven, feasible = [], [], 0, 0
    for _ in range(instances):
        case = instance(draw, devices, operators, micro_batches, tight)
        found = {}
        for name, method in METHODS.items():
            if name in EXACT and devices * devices * operators > MOST_STATES:
                found[name] = {"feasible": False}
            else:
                found[name], taken = answer(program, case, method, effort)
        seconds.append(taken)  # of op-fence, which is the last
        best = found["op-fence"]
        proven += best["optimal"]
        if not best["feasible"]:
            continue
        feasible += 1
        gaps.append(best["T"] / best["lower_bound_s"] - 1)
        for name in METHODS:
            if found[name]["feasible"]:
                ratios[name].append(found[name]["T"] / best["T"])
    cells = []
    for name in list(METHODS)[:-1]:
        part = f"{statistics.median(ratios[name]):.2f}" if ratios[name] else "-"
        cells.append(part if len(ratios[name]) == feasible else f"{part} ({len(ratios[name])})")
    gap = f"{100 * statistics.median(gaps):.1f} / {100 * max(gaps):.1f}" if gaps else "-"
    figures = {name: statistics.median(ratios[name]) for name in ratios if ratios[name]}
    figures.update(seconds=statistics.median(seconds), bound=1 / (1 + statistics.median(gaps)) if gaps else 0)
    return figures, (
        f"| {devices} | {operators} | {micro_batches} | {'tight' if tight else 'loose'} | {feasible} of {instances} | "
        + " | ".join(cells) + f" | {proven} | {gap} | {statistics.median(seconds):.2f} / {max(seconds):.2f} |")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--program", default=HERE.parents[1] / "build/release/examples/reef-plan")
    parser.add_argument("--effort", type=int, default=4)
    parser.add_argument("--most", type=int, default=1024, help="devices")
    arguments = parser.parse_args()
    explanation = __doc__.split("\n\n", 2)[2].strip()
    lines = ["# Pipelines over uneven devices", "", "    python3 bench/plan/op_fence.py --out bench/results/op_fence.md", "",
             explanation.split("\n\n")[0], "", "\n".join("    " + line.strip() for line in explanation.split("\n\n")[1].splitlines()),
             "", f"Medians over instances of T over op-fence's; in brackets how many of the feasible ones a plan fits where it is not all. Effort {arguments.effort}; "
             "proven is how many answers are proven to be the best, or that there is none; the gap in %, and processor seconds of one core: median / most. "
             "Of 1024 devices given order and clusters would take minutes, and are left out.", "",
             "| devices | operators | n_b | memory | feasible | equal operators | equal compute | given order | clusters | proven | gap | s |",
             "|--:|--:|--:|---|--:|--:|--:|--:|--:|--:|--:|--:|"]
    panels = {tight: {} for tight in (False, True)}
    times = {}
    for devices, operators, micro_batches, instances in SIZES:
        if devices > arguments.most:
            continue
        for tight in (False, True):
            figures, line = row(arguments.program, arguments.effort, devices, operators, micro_batches, instances, tight)
            times.setdefault("tight" if tight else "loose", {})[devices] = figures.pop("seconds")
            for name, value in figures.items():
                panels[tight].setdefault(name, {})[devices] = value
            lines.append(line)
            print(line, flush=True)
    lines += ["", f"![T over op-fence's, and the seconds of the search]({arguments.out.stem}.svg)"]
    write_page(arguments.out, "\n".join(lines))
    drawn = [("T over op-fence's, memory " + ("tight" if tight else "loose"), "devices",
              {"op-fence" if name == "search" else name: line for name, line in panel.items()}) for tight, panel in panels.items()]
    arguments.out.with_suffix(".svg").write_text(log_plot(drawn + [("seconds of a core", "devices", times)]))


if __name__ == "__main__":
    main()
