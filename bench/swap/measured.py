#!/usr/bin/env python3
"""Steps of models that are swapped through a small device, emulated or a GPU, measured beside models that stay, and foreseen.

    cmake --preset release -DREEF_BUILD_BENCH=ON
    cmake --build build/release --target swap_step_bench
    python3 bench/swap/measured.py --out bench/results/swap_measured.md

and on a GPU, with the target swap_cuda_step_bench, `measured.py --cuda`.

Every cell is a policy, a number of micro-batches C and a link, in a process of its own. Before those of a C the profile is
measured and saved by another process, and they read it; what is foreseen is the simulation of the very program, with the
times of that profile.

    resident     the model stays; "as atom": with the cuts of atom, and what atom recomputes is recomputed
    atom         swap::Atom<>: cuts, slots, order, and what each segment keeps, recomputes or stashes, as planned
    paper        two lanes, as published: what leaves, weights too, takes the compute lane's time
    streaming    each micro-batch by itself through all segments
    compute lane the time in which a kernel runs there, over the step; "and update": or one on the update's lane
    checked      the norm of all gradients is clipped, so the update comes after the backward; ignored: it is not, and
                 where the model is swapped the update runs beside the backward, on a lane of its own
    slots        for segments, + for what is stashed, on its way out and as many back
    to resident  atom over resident as atom; others over resident, recomputed if they recompute most segments
    load, F      of all weights, and forwards of a step: where load <= F, swapping can be hidden
"""

import argparse
import contextlib
import itertools
import json
import random
import shlex
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path.insert(0, str(HERE.parent))
from page import write_page  # noqa: E402


POLICIES = ["atom", "paper", "streaming", "resident", "resident, recomputed", "resident as atom"]


class Steps:
    """A policy's process: it lives through all rounds, and stands still while others take their steps."""

    def __init__(self, command):
        self.command = command
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.plan = self.line()
        self.line()  # it has taken its first step
        self.readings = []

    def line(self):
        line = self.process.stdout.readline()
        if not line:
            raise SystemExit(f"measured.py: '{shlex.join(self.command)}' ended with {self.process.wait()}")
        return json.loads(line)

    def step(self):
        with contextlib.suppress(BrokenPipeError):  # then there is no line
            self.process.stdin.write("\n")
            self.process.stdin.flush()
        self.readings.append(self.line())

    def end(self):
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.close()
        self.process.wait()

    def seconds(self):
        return [reading["step_s"] for reading in self.readings]

    def utilisation(self, what):
        """Per cent of a step."""
        return 100 * statistics.median(reading[what] / reading["step_s"] for reading in self.readings)


def measure(options, model, link, checks, profile, c):
    """The steps of all policies, which take turns in every round, in an order that is drawn: who comes behind one that
    has left a core idle may find it faster."""
    draw = random.Random(1)
    start = [options.program, "steps", model, str(link), profile, str(options.share), checks, str(c)]
    policies = {}
    try:
        for name in POLICIES:
            policies[name] = Steps(start + [name])
        begin = time.monotonic()
        for turn in itertools.count():
            spent = time.monotonic() - begin
            print(f"{model} behind {link} GB/s, {checks}, C = {c}: {turn} rounds in {spent:.0f} s", end="\r",
                  file=sys.stderr, flush=True)
            if turn >= options.rounds and spent >= options.seconds:
                break
            for name in draw.sample(POLICIES, len(POLICIES)):
                policies[name].step()
        print(file=sys.stderr)
    finally:
        for policy in policies.values():
            policy.end()
    return policies


def ratio(of, to):
    """Of readings of one round, since a machine's speed changes from second to second: their median, and between which
    of them that of many more would lie, nineteen times of twenty, were they independent (order statistics)."""
    ratios = sorted(a / b for a, b in zip(of.seconds(), to.seconds()))
    n = len(ratios)
    away = 0.98 * n**0.5
    if n < 6:
        return statistics.median(ratios), None
    return statistics.median(ratios), (ratios[max(0, round(n / 2 - away) - 1)], ratios[min(n - 1, round(n / 2 + away))])


def said(value):
    median, between = value
    return f"{median:.3f}" + (" ({:.3f} to {:.3f})".format(*between) if between else "")


def digits(seconds):
    return f"{seconds:.3f}" if seconds >= 0.1 else f"{seconds:.5f}"


def table(measured):
    """One line for each C and policy."""
    lines = ["| C | load / F | policy | segments | slots | stay | what is between forward and backward | device MB | step s | foreseen s | error | to resident | compute lane | and update |",
             "|---|---|---|---|---|---|---|---|---|---|---|---|---|---|"]
    errors, ratios = [], []
    for c, (profile, policies) in measured.items():
        load = sum(o["load_s"] for o in profile["operators"])
        forward = sum(o["forward_s"] for o in profile["operators"])
        for name, policy in policies.items():
            plan = policy.plan
            step = statistics.median(policy.seconds())
            error = plan["predicted_s"] / step - 1
            errors.append((abs(error), c, name))
            again = plan["recomputed"] + plan["recomputed_and_stashed"]
            beside = ("resident as atom" if name == "atom" else
                      "resident, recomputed" if 2 * again > plan["segments"] else "resident")
            if name.startswith("resident"):
                beside = "resident"
            to_resident = ratio(policy, policies[beside])
            left = plan["segments"] - again - plan["stashed"]
            kept = ", ".join(f"{n} {what}" for n, what in ((left, "kept"), (plan["stashed"], "stashed"), (plan["recomputed"], "again"),
                             (plan["recomputed_and_stashed"], "again from stash")) if n)
            slots, stay = ("", "") if name.startswith("resident") else (plan["slots"], plan["stays"])
            if slots and plan["stashed"] + plan["recomputed_and_stashed"]:
                slots = f"{slots} + {plan['stash_slots']}"
            kept += "; streamed" if plan["streams"] and name == "atom" else ""
            lines.append(f"| {c} | {load / (c * forward):.2f} | {name} | {plan['segments']} | {slots} | {stay} | {kept} | "
                         f"{plan['device_bytes'] / 1e6:.0f} | {digits(step)} | {digits(plan['predicted_s'])} | {100 * error:+.1f} % | "
                         f"{to_resident[0]:.3f} | {policy.utilisation('compute_s'):.1f} % | {policy.utilisation('busy_s'):.1f} % |")
        atom = policies["atom"]
        ratios.append(f"- C = {c}: {len(atom.readings)} readings, load / F {load / (c * forward):.2f}, utilisation {atom.utilisation('compute_s'):.1f} % of the compute lane, "
                      f"{atom.utilisation('busy_s'):.1f} % with the update's; atom "
                      f"{said(ratio(atom, policies['resident as atom']))} of resident, foreseen "
                      f"{atom.plan['predicted_s'] / policies['resident as atom'].plan['predicted_s']:.3f}, "
                      f"{said(ratio(atom, policies['streaming']))} of streaming; a resident step as atom computes it is "
                      f"{said(ratio(policies['resident as atom'], policies['resident']))} of one that keeps everything")
    return lines, errors, ratios


def machine(cuda):
    if cuda:
        query = ["nvidia-smi", "--query-gpu=name", "--format=csv,noheader"]
        return subprocess.run(query, check=True, capture_output=True, text=True).stdout.splitlines()[0]
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return "one thread of " + line.split(":")[1].strip()
    return "one thread"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cuda", action="store_true", help="on a GPU, behind its own link")
    parser.add_argument("--program", help="that of the build release, unless given")
    parser.add_argument("--models", nargs="+", help="LAYERSxHEADSxCHANNELS,VOCABULARY,CONTEXT,BATCH; a small one, or with --cuda "
                        "GPT-3's of 125 and 350 million parameters (three that stay are on the device at once)")
    parser.add_argument("--links", nargs="+", help="GB/s each way, 0 for a GPU's own, and whether the norm is looked at, as 1:checked")
    parser.add_argument("--share", type=float, default=0.4, help="the device's memory over what a model that stays needs")
    parser.add_argument("--counts", nargs="+", type=int, default=[1, 2, 4, 8], help="C")
    parser.add_argument("--rounds", type=int, default=11, help="steps of each policy at least, for a C")
    parser.add_argument("--seconds", type=float, default=180, help="of the steps of all policies at least, for a C")
    parser.add_argument("--note", help="what else is to be known of these readings: a paragraph above the tables")
    parser.add_argument("--out", help="a file for the tables, which are printed too")
    options = parser.parse_args()
    name = "swap_cuda_step_bench" if options.cuda else "swap_step_bench"
    options.program = options.program or str(ROOT / "build/release/bench" / name)
    options.links = options.links or (["0", "0:checked"] if options.cuda else ["1", "0.25", "1:checked"])
    options.models = options.models or ([f"{shape},50257,2048,1" for shape in ("12x12x768", "24x16x1024")]
                                        if options.cuda else ["8x6x384,2048,128,2"])

    text = ["# Swapping, measured", "",
            f"`{shlex.join(['python3', 'bench/swap/measured.py', *sys.argv[1:]])}`: {machine(options.cuda)}, fp32, AdamW, the update included. Medians of at least "
            f"{options.rounds} readings, each of one step, policies taking turns; ratios are medians of those of one round, in brackets where that of "
            f"many more would lie, nineteen times of twenty, were they independent. The device has {options.share:g} of the memory that the model needs to stay there, recomputed.", ""]
    text += [line for line in __doc__.splitlines()[12:] if line.startswith("    ")] + [""]
    if options.note:
        text += [options.note, ""]
    for model in options.models:
        for link in options.links:
            rate, _, checks = link.partition(":")
            checks = checks or "ignored"
            with tempfile.TemporaryDirectory() as folder:
                file = Path(folder) / "profile.json"
                measured = {}
                for c in options.counts:
                    subprocess.run([options.program, "profile", model, rate, str(file)], check=True)
                    profile = json.loads(file.read_text())
                    measured[c] = profile, measure(options, model, rate, checks, str(file), c)
            lines, errors, ratios = table(measured)
            behind = "its own link" if options.cuda else f"{rate} GB/s"
            text += [f"## {model} behind {behind}, {checks}", ""] + lines + [""]
            for which, cells in (("that swap", [e for e in errors if not e[2].startswith("resident")]),
                                 ("that stay", [e for e in errors if e[2].startswith("resident")])):
                within = sum(error <= 0.05 for error, _, _ in cells)
                worst = max(cells)
                text += [f"Foreseen within 5 % in {within} of {len(cells)} cells {which}; worst {100 * worst[0]:.1f} % "
                         f"(C = {worst[1]}, {worst[2]}).", ""]
            text += ratios
            text.append("")
            if options.out:
                write_page(options.out, "\n".join(text))
    print("\n".join(text))


if __name__ == "__main__":
    main()
