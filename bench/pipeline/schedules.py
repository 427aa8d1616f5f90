#!/usr/bin/env python3
"""Steps of pipelines by schedule, stages, micro-batches and delay of links: simulated, measured, the formula, the bound.

    cmake --preset release -DREEF_BUILD_BENCH=ON
    cmake --build build/release --target pipeline_schedules_bench
    python3 bench/pipeline/schedules.py --out bench/results/pipeline

Written are NAME.md, NAME.json and NAME.svg, for --out NAME. schedules_bench.cpp says what is measured: a Trainer over
stages whose operators sleep for the time that their profile has, forward, gradient of the input and gradient of the weights f
each, so that more ranks than cores behave as if each had a device of its own.

    delay      of a hop, in f of a stage: a tenth of it is the wire, the rest latency. 0: messages take what they take
    formula    of the makespan, where there is one for such a pipeline (bench/pipeline/closed_forms.hpp)
    bound      no order with chunks at these places takes less, however much memory it has
    makespan   of the order in the asynchronous model (plan::estimate)
    simulated  the programs of a step, with the update and what decides on it (schedule::simulate)
    measured   median of the steps, each of the slowest rank; a row whose steps differ by more than 5 % among themselves
               is measured again (--retries), and its steadiest steps count
    bubble     of a step: in the model, and what operators did not take of the measured one
    held       activations on the rank that has most, in micro-batches of a stage; and what its device counts, in KiB
    of GPipe   measured, over what that takes in the same row's setting; of 1F1B likewise

searched: the best order that a search finds for these links, with the memory of 1F1B; searched-free: with any memory;
searched-halves: with that of ZB-H1, and backwards in halves.
"""

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path += [str(ROOT / "bench"), str(ROOT / "bench/optim")]
from convergence import processor  # noqa: E402
from log_plot import COLOURS, text  # noqa: E402
from page import write_page  # noqa: E402

DELAYS = [0, 0.5, 2]
MICRO_BATCHES = {2: [4], 4: [8, 16], 8: [16]}     # by stages; the last is drawn
STEADY = 0.05                                     # what a row's steps may differ by
LARGE = [16384, 262144]                           # bytes of a tensor, on the most stages


def measure(options, stages, size, schedules, settings):
    """Rows, of which those that were not steady are measured again."""
    rows = run(options, stages, size, schedules, settings)
    for row in rows:
        for _ in range(options.retries):
            if spread(row) <= STEADY:
                break
            again = run(options, stages, size, row["schedule"], [(row["micro_batches"], row["delay"])])[0]
            if spread(again) < spread(row):
                row.update(again)
            row["again"] = row.get("again", 0) + 1
    for row in rows:
        if "steps" not in row:
            continue
        row["measured"] = statistics.median(row["steps"])
        row["of_simulated"] = row["measured"] / row["simulated"]
        row["of_makespan"] = statistics.median(row["spans"]) / row["makespan"]
        print(f"  {name_of(row)}: {1e3 * row['measured']:.1f} ms, {row['of_simulated']:.3f} of simulated", flush=True)
    return rows


def spread(row):
    return (max(row["steps"]) - min(row["steps"])) / statistics.median(row["steps"]) if "steps" in row else 0


def run(options, stages, size, schedules, settings):
    command = ["mpiexec", "--allow-run-as-root", "--oversubscribe", "--bind-to", "none", "-n", str(stages),
               str(options.build / "pipeline_schedules_bench"), str(options.f), str(options.steps), str(size), schedules,
               *(f"{m}:{delay}" for m, delay in settings)]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True)
    if done.returncode:
        sys.exit(f"schedules.py: failed: {' '.join(command)}")
    return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]


def name_of(row):
    return f"{row['schedule']} p{row['stages']} m{row['micro_batches']} delay {row['delay']:g}"


def rival(rows, row, name):
    """What that schedule takes in the same setting."""
    key = lambda r: (r["stages"], r["micro_batches"], r["delay"])
    return next((r["measured"] for r in rows if r["schedule"] == name and key(r) == key(row) and "measured" in r), None)


def milliseconds(seconds):
    return "" if seconds is None else f"{1e3 * seconds:.1f}"


def over(a, b):
    return "" if b is None else f"{a / b:.3f}"


def table_of(rows, stages, count):
    lines = ["| delay | schedule | formula ms | bound ms | makespan ms | simulated ms | measured ms | measured / simulated "
             "| bubble: model | measured | held | KiB | of GPipe | of 1F1B |",
             "|--:|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|"]
    for row in rows:
        if (row["stages"], row["micro_batches"]) != (stages, count):
            continue
        known = (f"| {row['delay']:g} | {row['schedule']} | {milliseconds(row.get('closed'))} | {milliseconds(row['bound'])} | "
                 f"{milliseconds(row['makespan'])} | ")
        if "measured" not in row:
            lines.append(known + f"| not run | | {row['bubble']:.3f} | | {row['activations']:g} | | | |")
            continue
        lines.append(known + f"{milliseconds(row['simulated'])} | {milliseconds(row['measured'])} | {row['of_simulated']:.3f} | "
                     f"{row['bubble']:.3f} | {1 - row['busy'] / row['measured']:.3f} | {row['activations']:g} | "
                     f"{row['bytes'] / 1024:.0f} | {over(row['measured'], rival(rows, row, 'gpipe'))} | "
                     f"{over(row['measured'], rival(rows, row, '1f1b'))} |")
    return lines


def summary_of(rows):
    """Medians and the worst over all rows on links that are emulated, and over those on links that are not."""
    lines = ["| links | rows | measured / simulated: median | least | most | within 5 % | operators' span / makespan: median |",
             "|---|--:|--:|--:|--:|--:|--:|"]
    for name, chosen in (("emulated, delay 0.5 and 2", [r for r in rows if r["delay"] > 0]),
                         ("as they are, delay 0", [r for r in rows if r["delay"] == 0])):
        chosen = sorted((r for r in chosen if "measured" in r), key=lambda r: r["of_simulated"])
        if not chosen:
            continue
        ends = [f"{r['of_simulated']:.3f} ({name_of(r)})" for r in (chosen[0], chosen[-1])]
        within = sum(abs(r["of_simulated"] - 1) <= 0.05 for r in chosen)
        lines.append(f"| {name} | {len(chosen)} | {statistics.median(r['of_simulated'] for r in chosen):.3f} | {ends[0]} | "
                     f"{ends[1]} | {within} | {statistics.median(r['of_makespan'] for r in chosen):.3f} |")
    closed = [r for r in rows if "closed" in r]
    worst = max((abs(r["closed"] / r["makespan"] - 1) for r in closed), default=0)
    lines += ["", f"{len(closed)} of {len(rows)} rows have a formula: it is the makespan of the model "
              + ("in all of them." if worst < 1e-5 else f"within {100 * worst:.2f} %.")]
    return lines


def rivals_of(rows):
    """What is fastest in each setting, and how 1F1B and GPipe compare with it."""
    lines = ["| stages | micro-batches | delay | fastest | ms | over its bound | of GPipe | of 1F1B |", "|--:|--:|--:|---|--:|--:|--:|--:|"]
    for setting in dict.fromkeys((r["stages"], r["micro_batches"], r["delay"]) for r in rows):
        here = [r for r in rows if (r["stages"], r["micro_batches"], r["delay"]) == setting and "measured" in r]
        best = min(here, key=lambda r: r["measured"])
        lines.append(f"| {setting[0]} | {setting[1]} | {setting[2]:g} | {best['schedule']} | {milliseconds(best['measured'])} | "
                     f"{over(best['measured'], best['bound'])} | {over(best['measured'], rival(rows, best, 'gpipe'))} | "
                     f"{over(best['measured'], rival(rows, best, '1f1b'))} |")
    return lines


def halves_of(rows):
    """ZB-H1 beside 1F1B, which holds as many activations on the first stage."""
    lines = ["| stages | micro-batches | delay | 1F1B ms | ZB-H1 ms | ZB-H1 / 1F1B: measured | in the model |",
             "|--:|--:|--:|--:|--:|--:|--:|"]
    for row in rows:
        rival_ms = rival(rows, row, "1f1b")
        if row["schedule"] != "zb-h1" or "measured" not in row or rival_ms is None:
            continue
        other = next(r for r in rows if r["schedule"] == "1f1b" and all(r[k] == row[k] for k in ("stages", "micro_batches", "delay")))
        lines.append(f"| {row['stages']} | {row['micro_batches']} | {row['delay']:g} | {milliseconds(rival_ms)} | "
                     f"{milliseconds(row['measured'])} | {row['measured'] / rival_ms:.3f} | {row['makespan'] / other['makespan']:.3f} |")
    return lines if len(lines) > 2 else []


def document(report):
    rows = report["rows"]
    refused = {}
    for row in rows:
        if "why" in row:
            refused.setdefault(row["why"].splitlines()[0].split(": ", 1)[-1].split(",")[0], {})[row["schedule"]] = True
    lines = ["# Steps of pipelines, simulated and measured", "", f"    {report['command']}", "",
             f"Machine: {report['processor']}, virtual; {report['compiler']}; all ranks on it, not bound"
             f"{', with a real-time priority (chrt -r 1), since others used it too' if report['real_time'] else ''}. f = {report['f']:g} ms; tensors "
             f"of {report['size']} bytes; {report['steps']} steps after one that does not count.", "",
             *__doc__.split("\n\n", 3)[3].rstrip().splitlines(), "",
             f"![Steps by schedule and delay]({report['name']}.svg)", "", "## How near", "",
             "The goal: a measured step within 5 % of the simulated one on emulated links, in the median over the table.", "",
             *summary_of(rows), "", "## What is fastest", "", *rivals_of(rows), ""]
    halves = halves_of(rows)
    if halves:
        lines += ["## Backwards in halves", "", "The goal: ZB-H1 is measured to be faster than 1F1B.", "", *halves, ""]
    if refused:
        lines += [f"Not run, since {why}: {', '.join(names)}." for why, names in refused.items()] + [""]
    if report["large"]:
        lines += ["## Larger messages", "", "The same links, with bandwidths that move any message in the same time.", "",
                  "| bytes | schedule | delay | simulated ms | measured ms | measured / simulated |", "|--:|---|--:|--:|--:|--:|"]
        lines += [f"| {r['message']:.0f} | {r['schedule']} | {r['delay']:g} | {milliseconds(r['simulated'])} | "
                  f"{milliseconds(r['measured'])} | {r['of_simulated']:.3f} |" for r in report["large"] if "measured" in r] + [""]
    for stages, count in dict.fromkeys((r["stages"], r["micro_batches"]) for r in rows):
        lines += [f"## {stages} stages, {count} micro-batches", "", *table_of(rows, stages, count), ""]
    return "\n".join(lines)


def plot(rows):
    """A panel for each pipeline: a row for each schedule, in it a bar for each delay. Bars are simulated; a dot is what was
    measured, a line the bound. In times of a stage's whole work, so that 1 is a step without a bubble."""
    panels = list({r["stages"]: (r["stages"], r["micro_batches"]) for r in rows}.values())
    names = [name for name in dict.fromkeys(r["schedule"] for r in rows)
             if any(r["schedule"] == name and "measured" in r for r in rows)]
    delays = sorted({r["delay"] for r in rows})
    bar, gap, width, left, top = 9, 9, 300, 110, 64
    tall = bar * len(delays) + gap
    below = top + tall * len(names)
    colours = [COLOURS[0], COLOURS[1], COLOURS[3], COLOURS[4]]
    unit = lambda r: r["micro_batches"] * 3 * r["f"]
    chosen = [r for r in rows if "measured" in r and (r["stages"], r["micro_batches"]) in panels]
    most = 1.05 * max(max(r["measured"], r["simulated"]) / unit(r) for r in chosen)
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{left + (width + 30) * len(panels)}" height="{below + 48}" '
           'font-family="sans-serif" font-size="12">', '<rect width="100%" height="100%" fill="white"/>']
    for i, delay in enumerate(delays):
        out += [f'<rect x="{left + 180 * i}" y="10" width="22" height="{bar}" fill="{colours[i % 4]}" fill-opacity="0.6"/>',
                text(left + 180 * i + 28, 19, "start", f"simulated, delay {delay:g} f")]
    at = left + 180 * len(delays)
    out += [f'<circle cx="{at + 6}" cy="15" r="3.2"/>', text(at + 14, 19, "start", "measured"),
            f'<path d="M{at + 96} 8v14" stroke="{COLOURS[2]}" stroke-width="2.5"/>', text(at + 104, 19, "start", "bound of any order")]
    for i, name in enumerate(names):
        out.append(text(left - 6, top + tall * i + tall / 2 + 2, "end", name))
    for place, (stages, count) in enumerate(panels):
        begin = left + (width + 30) * place
        across = lambda x, begin=begin: begin + width * x / most
        out.append(text(begin, top - 16, "start", f"{stages} stages, {count} micro-batches"))
        for tick in range(int(most) + 1):
            out += [f'<path d="M{across(tick):.1f} {top - 4}V{below}" stroke="{"#999" if tick == 1 else "#ddd"}"/>',
                    text(across(tick), below + 15, "middle", tick)]
        out.append(text(begin + width / 2, below + 34, "middle", "step, over one without a bubble"))
        for row in chosen:
            if (row["stages"], row["micro_batches"]) != (stages, count):
                continue
            i = delays.index(row["delay"])
            y = top + tall * names.index(row["schedule"]) + bar * i + gap / 2
            end, dot, bound = (across(row[key] / unit(row)) for key in ("simulated", "measured", "bound"))
            out += [f'<rect x="{begin}" y="{y:.1f}" width="{end - begin:.1f}" height="{bar - 1}" fill="{colours[i % 4]}" '
                    'fill-opacity="0.6"/>', f'<path d="M{bound:.1f} {y - 0.5:.1f}v{bar}" stroke="{COLOURS[2]}" stroke-width="2.5"/>',
                    f'<circle cx="{dot:.1f}" cy="{y + bar / 2 - 0.5:.1f}" r="3.2"/>']
    return "\n".join(out) + "\n</svg>\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    numbers = lambda kind: lambda words: [kind(word) for word in words.split(",")]
    parser.add_argument("--stages", type=numbers(int), default=list(MICRO_BATCHES))
    parser.add_argument("--delays", type=numbers(float), default=DELAYS)
    parser.add_argument("--schedules", default="all", help="with commas between them")
    parser.add_argument("--f", type=float, default=5, help="milliseconds of a stage's forward")
    parser.add_argument("--steps", type=int, default=5, help="measured, behind one that is not")
    parser.add_argument("--bytes", type=int, default=2048, help="of the tensors between chunks")
    parser.add_argument("--retries", type=int, default=2, help="of a row whose steps differ by more than 5 % among themselves")
    parser.add_argument("--quick", action="store_true", help="2 and 4 stages, the least micro-batches, no large messages")
    parser.add_argument("--build", type=Path, default=ROOT / "build/release/bench", help="where the program is")
    parser.add_argument("--out", type=Path, required=True, help="writes OUT.md, OUT.json and OUT.svg")
    options = parser.parse_args()
    stages = [p for p in options.stages if p <= 4] if options.quick else options.stages
    compiler = subprocess.run(["c++", "--version"], capture_output=True, text=True).stdout.splitlines()[0]
    report = {"command": " ".join(["python3 bench/pipeline/schedules.py", *sys.argv[1:]]), "processor": processor(),
              "system": platform.platform(), "compiler": compiler, "f": options.f, "steps": options.steps,
              "size": options.bytes, "name": options.out.name,
              "real_time": os.sched_getscheduler(0) in (os.SCHED_FIFO, os.SCHED_RR), "rows": [], "large": []}
    for p in stages:
        counts = MICRO_BATCHES.get(p, [2 * p])
        report["rows"] += measure(options, p, options.bytes, options.schedules,
                                  [(m, delay) for m in (counts[:1] if options.quick else counts) for delay in options.delays])
        write(options.out, report)
    for size in [] if options.quick else LARGE:
        report["large"] += measure(options, max(stages), size, "gpipe,1f1b", [(16, delay) for delay in (0, 0.5)])
    write(options.out, report)


def write(out, report):
    out.with_suffix(".json").write_text(json.dumps(report, separators=(",", ":")) + "\n")
    write_page(out.with_suffix(".md"), document(report))
    out.with_suffix(".svg").write_text(plot(report["rows"]))


if __name__ == "__main__":
    main()
