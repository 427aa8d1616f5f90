#!/usr/bin/env python3
"""Steps of models that are swapped through a small emulated device, measured beside models that stay, and foreseen.

    cmake --preset release -DREEF_BUILD_BENCH=ON
    cmake --build build/release --target swap_step_bench
    python3 bench/swap/measured.py --out bench/results/swap_measured.md

Every cell is a policy, a number of micro-batches C and a link. The profile is measured and saved by one process and read
by the next; what is foreseen is the simulation of the very program, with the times of that profile.

    resident     the model stays; "as atom": with the cuts of atom, and what atom recomputes is recomputed
    atom         swap::Atom<>: cuts, slots, order, and what each segment keeps, recomputes or stashes, as planned
    paper        two lanes, as published: what leaves, weights too, takes the compute lane's time
    streaming    each micro-batch by itself through all segments
    utilisation  time in which a kernel of the model or of the update runs, over the step
    checked      the norm of all gradients is clipped, so the update comes after the backward; ignored: it is not, and
                 where the model is swapped the update runs beside the backward
    to resident  atom over resident as atom; others over resident, recomputed if they recompute most segments
    load, F      of all weights, and forwards of a step: where load <= F, swapping can be hidden
"""

import argparse
import json
import shlex
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]


def read(options, model, link, checks, profile):
    subprocess.run([options.program, "profile", model, str(link), profile], check=True)
    command = [options.program, "run", model, str(link), profile, str(options.share), checks, str(options.rounds)]
    done = subprocess.run(command + [str(c) for c in options.counts], stdout=subprocess.PIPE, text=True, check=True)
    return [json.loads(line) for line in done.stdout.splitlines()]


def table(rows, profile, options):
    """One line for each C and policy."""
    load = sum(o["load_s"] for o in profile["operators"])
    forward = sum(o["forward_s"] for o in profile["operators"])
    lines = ["| C | load / F | policy | segments | slots | stay | what is between forward and backward | device MB | step s | foreseen s | error | to resident | utilisation |",
             "|---|---|---|---|---|---|---|---|---|---|---|---|---|"]
    errors, ratios = [], []
    for c in options.counts:
        mine = [row for row in rows if row.get("C") == c]
        plans = {row["policy"]: row for row in mine if "predicted_s" in row}
        steps = {name: [row["step_s"] for row in mine if row.get("policy") == name and "step_s" in row] for name in plans}
        busy = {name: [row["busy_s"] / row["step_s"] for row in mine if row.get("policy") == name and "step_s" in row]
                for name in plans}
        for name, plan in plans.items():
            step = statistics.median(steps[name])
            error = plan["predicted_s"] / step - 1
            errors.append((abs(error), c, name))
            again = plan["recomputed"] + plan["recomputed_and_stashed"]
            beside = ("resident as atom" if name == "atom" else
                      "resident, recomputed" if 2 * again > plan["segments"] else "resident")
            if name.startswith("resident"):
                beside = "resident"
            # Ratios of readings of one round, since a machine's speed changes from minute to minute.
            ratio = statistics.median(a / b for a, b in zip(steps[name], steps[beside]))
            use = statistics.median(busy[name])
            left = plan["segments"] - again - plan["stashed"]
            kept = ", ".join(f"{n} {what}" for n, what in ((left, "kept"), (plan["stashed"], "stashed"), (plan["recomputed"], "again"),
                             (plan["recomputed_and_stashed"], "again from stash")) if n)
            slots, stay = ("", "") if name.startswith("resident") else (plan["slots"], plan["stays"])
            kept += "; streamed" if plan["streams"] and name == "atom" else ""
            lines.append(f"| {c} | {load / (c * forward):.2f} | {name} | {plan['segments']} | {slots} | {stay} | {kept} | "
                         f"{plan['device_bytes'] / 1e6:.0f} | {step:.3f} | {plan['predicted_s']:.3f} | {100 * error:+.1f} % | "
                         f"{ratio:.3f} | {100 * use:.1f} % |")
            if name == "atom":
                streaming = statistics.median(a / b for a, b in zip(steps[name], steps["streaming"]))
                ratios.append((c, load / (c * forward), ratio, use, streaming))
    return lines, errors, ratios


def machine():
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.split(":")[1].strip()
    return "unknown"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", default=str(ROOT / "build/release/bench/swap_step_bench"))
    parser.add_argument("--models", nargs="+", default=["8x6x384,2048,128,2"],
                        help="LAYERSxHEADSxCHANNELS,VOCABULARY,CONTEXT,BATCH")
    parser.add_argument("--links", nargs="+", default=["1", "0.25", "1:checked"],
                        help="GB/s each way, and whether the norm is looked at")
    parser.add_argument("--share", type=float, default=0.4, help="the device's memory over what a model that stays needs")
    parser.add_argument("--counts", nargs="+", type=int, default=[1, 2, 4, 8], help="C")
    parser.add_argument("--rounds", type=int, default=11)
    parser.add_argument("--note", help="what else is to be known of these readings: a paragraph above the tables")
    parser.add_argument("--out", help="a file for the tables, which are printed too")
    options = parser.parse_args()

    text = ["# Swapping, measured", "",
            f"`{shlex.join(['python3', 'bench/swap/measured.py', *sys.argv[1:]])}`: one thread of {machine()}, fp32, AdamW, the update included. Medians of "
            f"{options.rounds} readings, each of a second or a step, policies taking turns; ratios are of the same round. The device has {options.share:g} "
            "of the memory that the model needs to stay there, recomputed.", ""]
    text += [line for line in __doc__.splitlines()[9:] if line.startswith("    ")] + [""]
    if options.note:
        text += [options.note, ""]
    for model in options.models:
        for link in options.links:
            rate, _, checks = link.partition(":")
            checks = checks or "ignored"
            with tempfile.TemporaryDirectory() as folder:
                file = str(Path(folder) / "profile.json")
                rows = read(options, model, float(rate), checks, file)
                profile = json.loads(Path(file).read_text())
            lines, errors, ratios = table(rows, profile, options)
            text += [f"## {model} behind {rate} GB/s, {checks}", ""] + lines + [""]
            within = sum(error <= 0.05 for error, _, _ in errors)
            worst = max(errors)
            text += [f"Foreseen within 5 % in {within} of {len(errors)} cells; worst {100 * worst[0]:.1f} % "
                     f"(C = {worst[1]}, {worst[2]}).", ""]
            for c, share, ratio, use, streaming in ratios:
                text.append(f"- C = {c}: load / F {share:.2f}, atom {ratio:.3f} of resident, utilisation {100 * use:.1f} %, "
                            f"{streaming:.3f} of streaming")
            text.append("")
    if options.out:
        Path(options.out).write_text("\n".join(text))
    print("\n".join(text))


if __name__ == "__main__":
    main()
