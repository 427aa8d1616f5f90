#!/usr/bin/env python3
"""Trains one small model by every optimizer on exactly the same samples, and compares held-out losses.

    cmake --preset release -DREEF_BUILD_BENCH=ON
    cmake --build build/release --target optim_convergence_bench
    python3 bench/optim/convergence.py --out bench/results/optim_convergence

Written are NAME.md, NAME.svg and NAME.json, for --out NAME. convergence_bench.cpp says what the model, the
data and the learning rate are. Runs of one seed begin with the same weights; a gap is the held-out loss less
that of Ddp with the same seed. The noise floor is Ddp once more, from weights to which noise of deviation
1e-4 was added. Zero1 has the bits of Ddp, as the laws of every Trainer test; dpu-500 begins with 500 steps of
Ddp. DiLoCo takes an outer step of every weight once in 20 steps: diloco all at once, diloco-mix in two fragments, each
beside a step.

    equal samples   every recipe makes --steps steps
    equal time      every recipe makes as many steps as fit into the time of Ddp's, and its learning rate falls
                    over that many. A step's time is measured in this run, in interleaved rounds on slow links and
                    a device that sleeps until it is --slowdown times as slow: without, a micro-batch is too short
    time to loss    of that time, the share after which the held-out loss is what Ddp's is at its end

The corpus is the licences of Debian 12 in /usr/share/common-licenses, in the order of their names; a text of
another SHA-256 is refused unless it is given by --corpus.
"""

import argparse
import hashlib
import json
import math
import os
import platform
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
from page import write_page  # noqa: E402
LICENCES = Path("/usr/share/common-licenses")
SHA256 = "e702fc128a22ec5f42b88d701ba068de1515b336f5af4e0d6e144a3795587db2"
NOISE = 1e-4
FLOOR = "ddp + noise"
# By name of the program, and how they are drawn.
RECIPES = {"ddp": "#1f2937", "acco": "#0b7a3b", "acco-wp": "#2563eb", "dpu-predicted": "#9333ea",
           "dpu-500": "#d97706", "dpu": "#dc2626", "diloco": "#0e7490", "diloco-mix": "#be185d"}
TIMED = [recipe for recipe in RECIPES if recipe != "dpu-500"]  # half of whose steps are Ddp's


def corpus(given):
    """The text, and a sentence on what it is."""
    if given:
        return given.read_bytes(), str(given)
    files = sorted(path for path in LICENCES.iterdir() if path.is_file() and not path.is_symlink())
    text = b"".join(path.read_bytes() for path in files)
    found = hashlib.sha256(text).hexdigest()
    if found != SHA256:
        sys.exit(f"convergence.py: the licences in {LICENCES} have SHA-256 {found}, not {SHA256}.\n"
                 "  why: figures on another text cannot be compared.\n"
                 "  fix: Debian 12's base-files, or --corpus FILE to go on with a text of your own.")
    return text, f"{len(files)} licences in {LICENCES}, in the order of their names"


def processor():
    with open("/proc/cpuinfo") as file:
        models = [line.split(":", 1)[1].strip() for line in file if line.startswith("model name")]
    return f"{os.cpu_count()} x {models[0] if models else platform.machine()}"


class Bench:
    def __init__(self, options, path):
        self.program = [str(options.build / "optim_convergence_bench")]
        self.ranks = options.ranks
        self.path = str(path)
        self.init = options.init

    def run(self, binding, *arguments):
        command = ["mpiexec", "--allow-run-as-root", "--bind-to", binding, "-n", str(self.ranks),
                   *self.program, *map(str, arguments)]
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True)
        if done.returncode:
            sys.exit(f"convergence.py: failed: {' '.join(command)}")
        return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]

    def train(self, recipe, seed, steps):
        """The curve as [step, training loss, held-out loss], and facts about the run."""
        name, noise = ("ddp", NOISE) if recipe == FLOOR else (recipe, 0)
        lines = self.run("none", "train", self.path, name, seed, steps, self.init, noise)
        curve = [[line["step"], line["loss"], line["held_out"]] for line in lines if "step" in line]
        print(f"  {recipe}, seed {seed}, {steps} steps: {curve[-1][2]:.4f}", flush=True)
        return curve, lines[-1]

    def times(self, rounds, slowdown, recipes):
        lines = self.run("core", "time", self.path, rounds, slowdown, *recipes)
        middle = lambda key, of: statistics.median(line[key] for line in lines if key in line and of(line))
        result = {key: middle(key, lambda line: True) for key in ("c", "m", "bytes_per_s")}
        result["step_s"] = {recipe: middle("step_s", lambda line: line["recipe"] == recipe)
                            for recipe in recipes}
        print("  ms a step: " + ", ".join(f"{recipe} {1e3 * seconds:.2f}"
                                          for recipe, seconds in result["step_s"].items()), flush=True)
        return result


def gaps(runs, recipe):
    """Of each seed: the gap at the end, the mean gap of the run, and the largest."""
    found = []
    for seed, curve in runs[recipe].items():
        apart = [mine[2] - ddp[2] for mine, ddp in zip(curve, runs["ddp"][seed])]
        found.append((apart[-1], statistics.mean(apart), max(apart)))
    return found


def share_to_loss(curve, loss):
    """The share of its steps after which a run is at that loss; None if it never is."""
    return next((point[0] / curve[-1][0] for point in curve if point[2] <= loss), None)


def spread(values):
    return f"{statistics.mean(values):+.4f} [{min(values):+.4f}, {max(values):+.4f}]"


def table(report):
    runs, seeds, steps = report["runs"], report["seeds"], report["steps"]
    end = {recipe: [curve[-1][2] for curve in of.values()] for recipe, of in runs.items()}
    gap = {recipe: gaps(runs, recipe) for recipe in runs}
    final = {recipe: statistics.mean(one[0] for one in of) for recipe, of in gap.items()}
    lines = ["# What is learnt at equal samples" + (", and at equal time" if "times" in report else ""), "",
             f"    {report['command']}", "",
             f"Machine: {report['processor']}; {report['system']}; {report['compiler']}.",
             f"Corpus: {report['corpus']['what']}; {report['corpus']['bytes']} bytes, SHA-256",
             f"`{report['corpus']['sha256']}`; {report['facts']['training_bytes']} to train on, "
             f"{report['facts']['held_out_bytes']} held out, {report['facts']['vocabulary']} different.",
             f"Model: {report['facts']['parameters']} parameters, 2 layers, context 32, a token a byte; fp32, on the "
             f"wire too. A step has 1024 tokens, the same for every recipe; AdamW (0.9, 0.95, decay 0.1),",
             f"lr 3e-3, 20 steps of warm-up, a cosine to 0; initialised as {report['init']}. Losses are held out, in "
             f"nats; means over {len(seeds)} seeds, [least, most].", "",
             f"## Equal samples: {steps} steps on {report['ranks']} ranks", "",
             f"![losses and gaps]({report['plot']})", "",
             "| recipe | held-out loss | gap to Ddp | mean gap of the run | largest gap |",
             "|---|--:|--:|--:|--:|"]
    for recipe in runs:
        apart = ["", "", ""] if recipe == "ddp" else [spread(column) for column in zip(*gap[recipe])]
        cut = "" if len(end[recipe]) == len(seeds) else f" (only {len(end[recipe])} seeds)"
        lines.append(f"| {recipe}{cut} | {statistics.mean(end[recipe]):.4f} | " + " | ".join(apart) + " |")
    lines += ["", "dpu-500 begins with 500 steps of Ddp, whose bits Zero1 has.", "", "| expected | seen |", "|---|---|"]
    floor = max(abs(one) for seed in gap[FLOOR] for one in seed[:2])
    verdicts = [
        ("gap of ACCO below 0.01", f"{final['acco']:+.4f}, each seed "
         + ", ".join(f"{one[0]:+.4f}" for one in gap["acco"])),
        ("ACCO < AccoWp < Dpu, mean of the gaps", " < ".join(
            f"{recipe} {final[recipe]:+.4f}" for recipe in sorted(("acco", "acco-wp", "dpu"), key=final.get))),
        ("the same over the mean of the run", " < ".join(
            f"{recipe} {value:+.4f}" for value, recipe in sorted(
                (statistics.mean(one[1] for one in gap[recipe]), recipe)
                for recipe in ("acco", "acco-wp", "dpu")))),
        ("Dpu without warm-up is clearly worse", f"{final['dpu']:+.4f}, {final['dpu'] / floor:.0f} times the noise floor"),
        ("noise floor: Ddp from weights with noise of 1e-4, at most", f"{floor:.4f}"),
    ]
    lines += [f"| {what} | {seen} |" for what, seen in verdicts]
    if "times" in report:
        times, ended = report["times"], report["equal_time"]
        lines += ["", "## Equal time: that of Ddp's steps, over slow links", "",
                  f"A micro-batch takes c = {1e3 * times['c']:.2f} ms, on a device {report['slowdown']:g} times as "
                  "slow as this one, which sleeps for the rest; an exchange",
                  f"of the model m = {1e3 * times['m']:.2f} ms, over links of {times['bytes_per_s'] / 1e6:.1f} MB/s "
                  "each way: half of a step's micro-batches, the longest",
                  "that ACCO hides with this batch. Steps: medians of interleaved rounds. Time to loss: the share of "
                  "the time after which a run",
                  "is where Ddp ends, its learning rate falling over all of it; of how many seeds, if not all.", "",
                  "| recipe | ms a step | steps in the time | held-out loss | gap to Ddp | time to loss |",
                  "|---|--:|--:|--:|--:|--:|"]
        for recipe, of in ended.items():
            losses = {seed: run["curve"][-1][2] for seed, run in of.items()}
            last = {seed: ended["ddp"][seed]["curve"][-1][2] for seed in losses}
            apart = [losses[seed] - last[seed] for seed in losses]
            shares = [share_to_loss(run["curve"], last[seed]) for seed, run in of.items()]
            reached = [share for share in shares if share is not None]
            to_loss = (f"{statistics.mean(reached):.2f} [{min(reached):.2f}, {max(reached):.2f}]" if reached else "")
            if len(reached) < len(shares):
                to_loss = f"{to_loss} {len(reached)} of {len(shares)}".strip()
            lines.append(f"| {recipe} | {1e3 * times['step_s'][recipe]:.2f} | "
                         f"{next(iter(of.values()))['steps']} | {statistics.mean(losses.values()):.4f} | "
                         f"{'' if recipe == 'ddp' else spread(apart)} | {to_loss} |")
    return "\n".join(lines) + "\n"


def plot(report):
    """Two panels as SVG: held-out loss, and its gap to Ddp on a scale of decades; means over seeds."""
    runs = report["runs"]
    width, height, left, top, apart = 420, 300, 56, 34, 520
    mean = {recipe: [(points[0][0], statistics.mean(point[2] for point in points))
                     for points in zip(*of.values())] for recipe, of in runs.items()}
    away = {recipe: [(step, loss - ddp) for (step, loss), (_, ddp) in zip(curve, mean["ddp"])]
            for recipe, curve in mean.items() if recipe != "ddp"}
    steps = report["steps"]
    losses = [loss for curve in mean.values() for step, loss in curve if step >= steps / 10]
    low, high = math.floor(10 * min(losses)) / 10, math.ceil(10 * max(losses)) / 10
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 1130 390" font-family="sans-serif" '
           'font-size="12" fill="#374151">', '<rect width="1130" height="390" fill="#fff"/>']

    def panel(x0, title, ticks, y_of, curves):
        x_of = lambda step: x0 + left + width * step / steps
        out.append(f'<text x="{x0 + left}" y="20" font-size="14" font-weight="600">{title}</text>')
        for value, label in ticks:
            out.append(f'<line x1="{x0 + left}" x2="{x0 + left + width}" y1="{y_of(value):.1f}" '
                       f'y2="{y_of(value):.1f}" stroke="#e5e7eb"/>'
                       f'<text x="{x0 + left - 6}" y="{y_of(value) + 4:.1f}" text-anchor="end">{label}</text>')
        for step in range(0, steps + 1, max(1, steps // 5)):
            out.append(f'<text x="{x_of(step):.1f}" y="{top + height + 18}" text-anchor="middle">{step}</text>')
        out.append(f'<text x="{x0 + left + width / 2}" y="{top + height + 38}" text-anchor="middle">'
                   'steps of 1024 tokens</text>')
        for recipe, curve in curves.items():
            points = " ".join(f"{x_of(step):.1f},{y_of(value):.1f}" for step, value in curve)
            dash = ' stroke-dasharray="3 3"' if recipe == FLOOR else ""
            out.append(f'<polyline points="{points}" fill="none" stroke="{RECIPES.get(recipe, "#9ca3af")}" '
                       f'stroke-width="1.6"{dash}/>')

    def loss_y(loss):
        return top + height * (1 - (min(max(loss, low), high) - low) / (high - low))

    def gap_y(gap):
        return top + height * (1 - (math.log10(min(max(abs(gap), 1e-5), 1)) + 5) / 5)

    count = round((high - low) * 10)
    ticks = [(low + i / 10, f"{low + i / 10:.1f}") for i in range(0, count + 1, max(1, count // 6))]
    panel(0, "Held-out loss, nats", ticks, loss_y,
          {recipe: [point for point in curve if point[1] <= high] for recipe, curve in mean.items()})
    panel(apart, "Distance from Ddp, |nats|", [(10.0 ** e, f"1e{e}") for e in range(-5, 1)], gap_y,
          {recipe: curve[1:] for recipe, curve in away.items()})
    for i, recipe in enumerate(mean):
        y = top + 14 + 20 * i
        out.append(f'<line x1="1010" x2="1034" y1="{y - 4}" y2="{y - 4}" stroke-width="3" '
                   f'stroke="{RECIPES.get(recipe, "#9ca3af")}"/><text x="1040" y="{y}">{recipe}</text>')
    return "\n".join(out) + "\n</svg>\n"


def keep(options, report):
    """After each run: a long one that is cut off goes on with --resume."""
    options.out.with_suffix(".json").write_text(json.dumps(report, separators=(",", ":")) + "\n")


def write(options, report):
    report["plot"] = options.out.with_suffix(".svg").name
    keep(options, report)
    write_page(options.out.with_suffix(".md"), table(report))
    options.out.with_suffix(".svg").write_text(plot(report))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=1000)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--ranks", type=int, default=2, help="1, 2, 4 or 8")
    parser.add_argument("--rounds", type=int, default=5, help="of the steps that are timed; 0: no equal time")
    parser.add_argument("--slowdown", type=float, default=10, help="of the device on which steps are timed")
    parser.add_argument("--init", choices=["fan-in", "gpt2"], default="fan-in", help="the first weights")
    parser.add_argument("--resume", action="store_true", help="with the runs that OUT.json has")
    parser.add_argument("--corpus", type=Path, help="another text than the licences")
    parser.add_argument("--build", type=Path, default=HERE.parent.parent / "build/release/bench",
                        help="where the program is")
    parser.add_argument("--out", type=Path, required=True, help="writes OUT.md, OUT.svg and OUT.json")
    options = parser.parse_args()

    text, what = corpus(options.corpus)
    seeds = [str(seed) for seed in range(1, options.seeds + 1)]
    compiler = subprocess.run(["c++", "--version"], capture_output=True, text=True).stdout.splitlines()[0]
    asked = [argument for argument in sys.argv[1:] if argument != "--resume"]
    report = {"command": " ".join(["python3 bench/optim/convergence.py", *asked]),
              "processor": processor(), "system": platform.platform(), "compiler": compiler,
              "corpus": {"what": what, "bytes": len(text), "sha256": hashlib.sha256(text).hexdigest()},
              "init": options.init, "slowdown": options.slowdown, "ranks": options.ranks, "steps": options.steps,
              "seeds": seeds, "runs": {}}
    if options.resume and options.out.with_suffix(".json").exists():
        before = json.loads(options.out.with_suffix(".json").read_text())
        if [key for key in report if key != "runs" and report[key] != before.get(key)]:
            sys.exit(f"convergence.py: {options.out}.json is of another command, machine or text.\n"
                     "  fix: the same, or without --resume.")
        report = before
    runs = report["runs"]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "corpus"
        path.write_bytes(text)
        bench = Bench(options, path)
        for recipe in [*RECIPES, FLOOR]:
            for seed in seeds:
                if seed not in runs.setdefault(recipe, {}):
                    runs[recipe][seed], report["facts"] = bench.train(recipe, seed, options.steps)
                    keep(options, report)
        write(options, report)
        if options.rounds:
            if "times" not in report:
                report["times"] = bench.times(options.rounds, options.slowdown, TIMED)
            times = report["times"]["step_s"]
            ended = report.setdefault("equal_time", {})
            for recipe in TIMED:
                steps = round(options.steps * times["ddp"] / times[recipe])
                for seed in seeds:
                    if seed in ended.setdefault(recipe, {}):
                        continue
                    curve = (runs[recipe][seed] if steps == options.steps
                             else bench.train(recipe, seed, steps)[0])
                    ended[recipe][seed] = {"steps": steps, "curve": curve}
                    keep(options, report)
            write(options, report)
    print(table(report))


if __name__ == "__main__":
    main()
