#!/usr/bin/env python3
"""The recipes of reef-train side by side on a network of eight cities: the same time for each, and what it learns in it.

    cmake --build build/release --target reef-train reef-plan
    python3 bench/trainer/worldwide.py tests/data/allocate_case5.json --out bench/results/worldwide_run

Written are NAME.json, NAME.md and NAME.svg, for --out NAME; what NAME.json has already does not run again.

The links are those between one device of each region of DT-FM's case 5 (arXiv 2206.01288), thinner by the factor by which
messages are smaller, so that a transfer takes as long beside computation as it does of the paper's model: there a stage of 3 of 24 layers of
GPT-3 1.3B takes 12.4 ms of a GPU's time at 5e13 operations a second, for a sequence of 2048 tokens, and sends 16.8 MB. Here 2 of 8 layers take
6.3 ms at the speed of --device-flops and send 32.8 kB, 1/512 of it in half the time: bandwidth is 1/256 of the case's, latency 1/2.
Operators sleep out what they would take at that speed, so ranks may share cores.
"""

import argparse
import json
import math
import os
import random
import statistics
import subprocess
import sys
import tempfile
from datetime import date
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "optim"))
from convergence import corpus, processor, write_page  # noqa: E402

RANKS, STAGES = 8, 4
MODEL = {"shape": "8x4x64", "context": 32, "batch": 4, "vocabulary": 256}
FLOPS = 4e9
THINNER, NEARER = 256, 2
MICRO_BATCHES = 32  # of the whole job in a step
SYNC_EVERY = 20
COLOURS = ["#1f6fb4", "#111827", "#c0392b", "#d98c00", "#2f8f4e", "#7b4fa3", "#0891b2", "#be185d", "#65a30d", "#6b7280", "#f59e0b", "#1f6fb4",
           "#c0392b"]


def network_of(case):
    """Between the first device of each region."""
    per_region = len(case["regions"]) // RANKS
    ranks = range(0, len(case["regions"]), per_region)
    return {"latency_ms": [[case["latency_ms"][a][b] / NEARER for b in ranks] for a in ranks],
            "bandwidth_gbps": [[case["bandwidth_gbps"][a][b] / THINNER for b in ranks] for a in ranks]}


class Bench:
    def __init__(self, options, case, folder):
        self.programs = options.build / "examples"
        self.folder = Path(folder)
        self.network = network_of(case)
        self.cities = case["regions"][:: len(case["regions"]) // RANKS]
        self.network_file = self.folder / "network.json"
        self.network_file.write_text(json.dumps(self.network))
        self.seed = options.seed

    def plan(self, command, case, *more):
        path = self.folder / "case.json"
        path.write_text(json.dumps(case))
        done = subprocess.run([str(self.programs / "reef-plan"), command, str(path), *more], stdout=subprocess.PIPE, text=True)
        if done.returncode:
            sys.exit(f"worldwide.py: reef-plan {command} failed")
        return json.loads(done.stdout)

    def places(self):
        """By name, the ranks by pipeline and stage."""
        tokens = MODEL["context"] * MODEL["batch"]
        channels = int(MODEL["shape"].split("x")[2])
        layers = int(MODEL["shape"].split("x")[0])
        case = {"D_PP": STAGES, "D_DP": RANKS // STAGES, "c_pp_bytes": 4 * tokens * channels * MICRO_BATCHES * STAGES // RANKS,
                "c_dp_bytes": 4 * 12 * channels * channels * layers // STAGES, **self.network}
        flat = lambda method: sum(self.plan("allocate", case, "--method", method, "--seed", str(self.seed))["sigma"], [])
        shuffled = list(range(RANKS))
        random.Random(self.seed).shuffle(shuffled)
        return {"random": shuffled, "published": flat("genetic"), "ours": flat("reef")}

    def simulated(self, recipe, per_replica, extra):
        case = {"recipe": recipe, "model": MODEL, "device": {"flops": FLOPS}, "network": {"ranks": RANKS, **self.network},
                "micro_batches": per_replica, **extra}
        return self.plan("simulate", case)

    def planned(self, allow):
        """What reef-plan plan chooses: a file for reef-train, and the answer."""
        path = self.folder / "plan.json"
        answer = self.plan("plan", {"model": MODEL, "device": {"flops": FLOPS}, "network": {"ranks": RANKS, **self.network},
                                    "micro_batches": MICRO_BATCHES, "allow": allow}, "--plan", str(path))
        return ["--plan", str(path)], answer["best"]

    def exchange(self, text):
        """Under ddp all ranks end a step at once, and what is left of the time to the next one is that exchange."""
        lines = self.trained(["--recipe", "ddp", "--micro-batches", str(MICRO_BATCHES // RANKS)], 8, text, every=8)
        return statistics.median(gap - own for gap, own in gaps(lines[:-1]))

    def trained(self, arguments, steps, text, every=None):
        metrics = self.folder / "metrics.jsonl"
        shape = ["--model", MODEL["shape"], "--context", str(MODEL["context"]), "--batch", str(MODEL["batch"])]
        command = ["mpiexec", "--allow-run-as-root", "--oversubscribe", "--bind-to", "none", "-n", str(RANKS), str(self.programs / "reef-train"),
                   "--data", str(text), *([] if "--plan" in arguments else shape), "--device-flops", f"{FLOPS / 1e9:g}", "--network", str(self.network_file), "--threads", "1", "--seed", str(self.seed),
                   "--lr", "3e-3", "--steps", str(steps), "--eval-every", str(every or max(1, steps // 10)), "--eval-tokens", "8192",
                   "--metrics", str(metrics), *arguments]
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace",
                              env={**os.environ, "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"})
        if done.returncode:
            sys.exit(f"worldwide.py: failed: {' '.join(command)}\n{done.stdout[-2000:]}")
        return [json.loads(line) for line in metrics.read_text().splitlines()]


def rows(places):
    """(name, recipe, options of reef-train, micro-batches of a replica in a step, keys of reef-plan simulate)"""
    each = MICRO_BATCHES // RANKS
    of_replica = MICRO_BATCHES * STAGES // RANKS
    place = lambda name: ",".join(map(str, places[name]))
    stages = ["--stages", str(STAGES), "--pipeline", "1f1b", "--micro-batches", str(of_replica)]
    in_stages = {"stages": STAGES, "pipeline": "1f1b"}
    by_link = ["--compress", "activations=top-k:10", "--compress", "gradients=ef+top-k:100", "--one-mask", "--adapt-ratios"]
    as_by_link = {"compress": {"activations": "top-k:10", "gradients": "ef+top-k:100"}, "one_mask": True, "adapt_ratios": True}
    found = [("ddp", "ddp", ["--micro-batches", str(each)], each, {}),
             ("zero1", "zero1", ["--micro-batches", str(each)], each, {})]
    found += [(f"dtfm, {name}", "dtfm", [*stages, "--place", place(name)], of_replica, {**in_stages, "rank_at": places[name]})
              for name in places]
    found += [("fusion", "fusion", [*stages, "--place", place("ours"), *by_link], of_replica,
               {**in_stages, "rank_at": places["ours"], **as_by_link}),
              ("acco", "acco", ["--accumulate", f"fixed:{each // 2}"], each, {}),
              ("acco, adaptive", "acco", ["--micro-batches", str(each // 2)], each, {"accumulate": "adaptive"}),
              ("diloco", "diloco", ["--micro-batches", str(each), "--sync-every", str(SYNC_EVERY)], each, {"sync_every": SYNC_EVERY}),
              ("sparse", "sparse", ["--micro-batches", str(each), "--sync-every", str(SYNC_EVERY)], each, {"sync_every": SYNC_EVERY}),
              ("reef", "reef", ["--stages", str(STAGES), "--pipeline", "1f1b", "--micro-batches", str(of_replica // 2), "--place", place("ours"), *by_link],
               of_replica, {**in_stages, "rank_at": places["ours"], **as_by_link})]
    # What reef-plan chooses: the recipe is a list of what it may allow.
    found += [("planned, exact", [], [], None, {}), ("planned, lossy", ["lossy"], [], None, {})]
    return found


def gaps(lines):
    """From one step's line to the next, in seconds, and those of them that rank 0 was in the step; nothing where a held-out loss came between."""
    before, found = None, []
    for line in lines:
        if before is not None and "validation_loss" not in before:
            found.append((line["seconds"] - before["seconds"], (line["tokens"] - before["tokens"]) / line["tokens_per_s"]))
        elif before is not None:
            found.append(None)
        before = line
    return found


def learnt(lines, exchange):
    """What a training came to: seconds and held-out losses, of its steps alone, without `exchange`: the seconds in which ranks tell each other
    after each step what it came to."""
    summary, lines = lines[-1], lines[:-1]
    each = [gap[0] - exchange for gap in gaps(lines) if gap]
    later = each[len(each) // 5:]
    mean = statistics.mean(later)
    seconds, curve = mean, []
    for line, gap in zip(lines, [*gaps(lines), None]):
        if "validation_loss" in line:
            curve.append((seconds, line["validation_loss"]))
        seconds += gap[0] - exchange if gap else mean
    seconds -= mean  # behind the last step is none
    curve.append((seconds, summary["validation_loss"]))
    # What a held-out loss sends is told with the step behind it.
    steps = [line for before, line in zip([{}, *lines], lines) if "validation_loss" not in before]
    sent = sum(link["wire_bytes"] for line in steps for link in line.get("links", {}).values()) * len(lines) // len(steps)
    return {"steps": len(lines), "seconds": seconds, "tokens": lines[-1]["tokens"], "mean_step_s": mean, "wire_bytes": sent,
            "micro_batches": summary["micro_batches"], "curve": curve}


def time_to(curve, loss):
    """When a curve comes to a loss, on the straight line between two that were taken."""
    before = None
    for seconds, value in curve:
        if value <= loss:
            if before is None:
                return seconds
            share = (before[1] - loss) / (before[1] - value)
            return before[0] + share * (seconds - before[0])
        before = (seconds, value)
    return None


def plot(report):
    """Held-out loss over seconds, as SVG."""
    width, height, left, top = 620, 340, 56, 34
    runs = report["runs"]
    longest = max(run["seconds"] for run in runs.values())
    losses = [loss for run in runs.values() for seconds, loss in run["curve"] if seconds > longest / 20]
    low, high = min(losses) - 0.05, max(losses)
    x_of = lambda seconds: left + width * seconds / longest
    y_of = lambda loss: top + height * (high - min(max(loss, low), high)) / (high - low)
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {left + width + 150} {top + height + 50}" font-family="sans-serif" font-size="12" '
           'fill="#374151">', '<rect width="100%" height="100%" fill="#fff"/>',
           f'<text x="{left}" y="20" font-size="14" font-weight="600">Held-out loss (nats a byte) in eight cities</text>']
    for seconds in range(0, int(longest) + 1, 30):
        out.append(f'<text x="{x_of(seconds):.1f}" y="{top + height + 18}" text-anchor="middle">{seconds}</text>')
    for tenth in range(math.ceil(10 * low), math.floor(10 * high) + 1, 4):
        loss = tenth / 10
        out.append(f'<line x1="{left}" x2="{left + width}" y1="{y_of(loss):.1f}" y2="{y_of(loss):.1f}" stroke="#e5e7eb"/>'
                   f'<text x="{left - 6}" y="{y_of(loss) + 4:.1f}" text-anchor="end">{loss:.1f}</text>')
    out.append(f'<text x="{left + width / 2}" y="{top + height + 38}" text-anchor="middle">seconds</text>')
    for i, (name, run) in enumerate(runs.items()):
        colour = COLOURS[i % len(COLOURS)]
        points = " ".join(f"{x_of(seconds):.1f},{y_of(loss):.1f}" for seconds, loss in run["curve"])
        dash = ' stroke-dasharray="5 3"' if name.startswith("planned") else ""
        out.append(f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="1.8"{dash}/>')
        y = top + 14 + 20 * i
        out.append(f'<line x1="{left + width + 12}" x2="{left + width + 34}" y1="{y - 4}" y2="{y - 4}" stroke-width="3" stroke="{colour}"{dash}/>'
                   f'<text x="{left + width + 40}" y="{y}">{name}</text>')
    return "\n".join(out) + "\n</svg>\n"


def page(report, name):
    runs = report["runs"]
    goal = report["goal"]
    text_bytes = report["text_bytes"]
    lines = ["# Eight cities, every recipe", "", "    python3 bench/trainer/worldwide.py tests/data/allocate_case5.json --out bench/results/worldwide_run", "",
             f"{report['date']}, {report['machine']}, which all ranks share. " + report["about"], "",
             f"![held-out loss over seconds]({name}.svg)", "",
             f"| recipe | s to {goal:.2f} nats | held-out loss after {report['budget']:.0f} s | steps | reads the text, times | s a step | simulated | tokens/s | MB sent a step |",
             "|---|--:|--:|--:|--:|--:|--:|--:|--:|"]
    # Those that have it first, then those that are nearest.
    order = sorted(runs.items(), key=lambda item: (time_to(item[1]["curve"], goal) or 1e9, item[1]["curve"][-1][1]))
    for row, run in order:
        reached = time_to(run["curve"], goal)
        simulated = run.get("simulated", {}).get("step_s")
        off = f"{simulated:.2f} ({100 * (simulated / run['mean_step_s'] - 1):+.1f} %)" if simulated else "-"
        chosen = run["simulated"].get("name")
        lines.append(f"| {row}{f' ({chosen})' if chosen else ''} | {f'{reached:.0f}' if reached else 'not reached'} | {run['curve'][-1][1]:.3f} | {run['steps']} | {run['tokens'] / text_bytes:.1f} | {run['mean_step_s']:.2f} | {off} "
                     f"| {run['tokens'] / run['seconds']:.0f} | {run['wire_bytes'] / run['steps'] / 1e6:.2f} |")
    first, fastest = order[0]
    ddp, dtfm, acco = runs["ddp"], runs["dtfm, ours"], runs["acco, adaptive"]
    lines += ["", WHY.format(
        first=first, sparse=runs["sparse"]["tokens"] / text_bytes, again=runs["diloco"]["tokens"] / text_bytes, once=ddp["tokens"] / text_bytes,
        kilobytes=text_bytes / 900, more=ddp["mean_step_s"] / fastest["mean_step_s"],
        busy=100 * ddp["simulated"]["utilisation"], placed=runs["dtfm, random"]["mean_step_s"] / dtfm["mean_step_s"],
        stages=dtfm["mean_step_s"] / ddp["mean_step_s"], reef=runs["reef"]["mean_step_s"], reef_steps=runs["reef"]["steps"],
        batch=acco["tokens"] / acco["steps"] / (ddp["tokens"] / ddp["steps"]), acco_steps=acco["steps"])]
    # What was chosen beside the fastest of those that it was chosen from: the same gradients, or any that are exchanged in every step.
    exact, lossy = (next(run for row, run in runs.items() if row.startswith(f"planned, {kind}")) for kind in ("exact", "lossy"))
    rivals = [row for row in runs if not row.startswith("planned") and row not in ("diloco", "sparse", "acco, adaptive")]
    of = {"exact": [row for row in rivals if row in ("ddp", "zero1") or row.startswith("dtfm")], "lossy": rivals}
    verdict = [(kind.capitalize(), run["mean_step_s"], min((runs[row]["mean_step_s"], row) for row in of[kind])) for kind, run in (("exact", exact), ("lossy", lossy))]
    lines += ["**What was planned.** " + "; ".join(f"{kind}, {own:.2f} s a step, where the fastest other, `{row}`, takes {other:.2f}: {own / other:.2f} of that"
                                                  for kind, own, (other, row) in verdict)
              + ". Steps that exchange nothing, as those of `diloco` and `sparse`, were not among what it could choose."]
    return "\n".join(lines) + "\n"


WHY = """**What these figures are not.** One seed, one learning rate for all recipes, and {kilobytes:.0f} kB of licences, of which nine tenths are trained on: in its time `ddp` reads them {once:.1f} times, `diloco`
{again:.1f} and `sparse` {sparse:.1f} times. A recipe that takes more steps learns from the same text again, and licences repeat each other, held-out parts too, so that how much sooner one is than another is of
this run alone. Seconds a step, bytes and what the simulation is off do not depend on that.

**Which wins, and why.** `{first}` has that loss first: it takes {more:.0f} steps in the time of one of `ddp`, of which {busy:.0f} % is computation and the
rest the exchange of gradients, and ranks that step on their own learn between two exchanges. Placing stages is worth {placed:.2f} times to `dtfm`, but four stages take {stages:.2f}
times as long as `ddp`: their messages go over few links, one after another, where an exchange of gradients uses all 56 at once; of eight ranks the published search finds the placement of ours. `reef` exchanges twice in
{reef:.2f} s, less than any other that exchanges in every step but what `reef-plan` chose, and its {reef_steps} steps teach less than those of `ddp`: one gradient in 100 and one
activation in 10 is sent, of so few steps that what error feedback keeps has hardly come back. `acco, adaptive` fills the exchange with {batch:.0f} times as many samples a step, and has time for
{acco_steps} steps.
"""

ABOUT = """One rank in each of {cities}. A GPT of 8 layers, 4 heads and 64 channels (0.4 million
weights, bytes of the licences of Debian 12) is trained by AdamW, {micro_batches} micro-batches of {tokens} tokens a step in all. Each rank computes at {gflops:g} GFLOP/s: what its core does faster
waits for the rest of its time. Bandwidth of the links is 1/{thinner} of those of DT-FM's case 5, latency 1/{nearer}, so that transfers take as long beside
computation as they do there of GPT-3 1.3B (bench/trainer/worldwide.py says how). Every recipe has the same time, and as many steps as `reef-plan simulate` foresees for it; its learning rate
warms up and falls within them. The loss that all are compared at is that of `ddp` at its end. Seconds are those of steps, without evaluations; s a step is the mean of
the last four fifths, without the {exchange:.2f} s in which ranks tell each other of it for the metrics, and in brackets is what the simulation is off. `acco, adaptive` takes more micro-batches the longer messages take."""


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("case", type=Path)
    parser.add_argument("--out", type=Path, required=True, help="writes OUT.json, OUT.md and OUT.svg")
    parser.add_argument("--build", type=Path, default=Path("build/release"))
    parser.add_argument("--budget", type=float, default=240, help="seconds of steps of each recipe")
    parser.add_argument("--only", nargs="*", help="recipes to run now")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--corpus", type=Path, help="text instead of the licences")
    options = parser.parse_args()
    saved = options.out.with_suffix(".json")
    report = json.loads(saved.read_text()) if saved.exists() else {"runs": {}}
    text, _ = corpus(options.corpus)
    case = json.loads(options.case.read_text())
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(options, case, folder)
        data = Path(folder) / "corpus.txt"
        data.write_bytes(text)
        places = report.setdefault("places", bench.places())
        report |= {"date": str(date.today()), "machine": processor(), "budget": options.budget,
                   "text_bytes": len(text) * 9 // 10,  # a tenth is held out
                   "about": ABOUT.format(cities=", ".join(bench.cities), micro_batches=MICRO_BATCHES, tokens=MODEL["context"] * MODEL["batch"],
                                         gflops=FLOPS / 1e9, thinner=THINNER, nearer=NEARER, exchange=report.get("exchange_s", 0))}
        all_rows = rows(places)
        for name, recipe, arguments, count, extra in all_rows:
            if name in report["runs"] or (options.only and name not in options.only):
                continue
            if count:
                foreseen = bench.simulated(recipe, count, extra)
                arguments = ["--recipe", recipe, *arguments]
            else:
                arguments, foreseen = bench.planned(recipe)
            step = foreseen["step_s"]
            steps = max(10, round(options.budget / step))
            if "exchange_s" not in report:
                report["exchange_s"] = bench.exchange(data)
            print(f"{name}: {steps} steps of {step:.2f} s", flush=True)
            run = learnt(bench.trained(arguments, steps, data), report["exchange_s"])
            run["simulated"] = foreseen
            report["runs"][name] = run
            print(f"  {run['mean_step_s']:.2f} s a step, held-out loss {run['curve'][-1][1]:.3f}", flush=True)
            report["runs"] = {row[0]: report["runs"][row[0]] for row in all_rows if row[0] in report["runs"]}
            if "ddp" in report["runs"]:
                report["goal"] = report["runs"]["ddp"]["curve"][-1][1]
            saved.write_text(json.dumps(report, indent=1) + "\n")
    options.out.with_suffix(".svg").write_text(plot(report))
    write_page(options.out.with_suffix(".md"), page(report, options.out.name))


if __name__ == "__main__":
    main()
