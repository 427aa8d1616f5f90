#!/usr/bin/env python3
"""How near the steps of every optimizer come to max(compute, communication), on links that are slow.

    cmake --preset release -DREEF_BUILD_BENCH=ON
    cmake --build build/release --target optim_overlap_bench
    python3 bench/optim/overlap.py --out bench/results/optim_overlap

Written are NAME.md and NAME.json, for --out NAME. overlap_bench.cpp says what is measured:

    c       one micro-batch on one thread, while all ranks compute and none communicates
    m       one exchange of the model, reduce-scatter and all-gather, while no rank computes; ACCO makes
            two in a step, DiLoCo one in 20, at once or (mix) in halves beside steps, all others one
    B       micro-batches of a step on each rank; those of ACCO are shared out over two phases. 2+: adaptive,
            one a phase and as many more as it takes while it communicates
    ideal   max(B c, exchanges m)
    exposed seconds of a step in which a rank communicates and computes nothing

On 2 ranks each has a core of its own. 4 ranks on 2 cores take turns, so that c is about two times as long;
there steps are compared with those of the same 4 processes that do not communicate.
"""

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
from pathlib import Path

from convergence import HERE, processor, write_page

RIVALS = ["ddp", "zero1"]
COUNTS = [1, 2, 4, 8]    # B, over which the rivals are tuned
LARGEST = COUNTS[-1]
# The recipes that overlap, with their B; a new one has its row here.
OVERLAPPING = {"dpu": [4, 8], "dpu-predicted": [4, 8], "acco-wp": [4, 8], "acco": [2, 4, 8]}
# Those that communicate now and then, as recipe_diloco.cpp says: not beside the others at equal batch, since they learn less.
PERIODIC = {"diloco": [8], "diloco-mix": [8]}
EXCHANGES = {"acco": 2, "diloco": 1 / 20, "diloco-mix": 1 / 20}  # of the model in a step; 1 of all others


def rows_of(ranks):
    """What is measured on so many ranks: (recipe, B, mode), as the program takes them."""
    if ranks > os.cpu_count():
        return [(recipe, LARGEST, mode) for recipe in [*RIVALS, *OVERLAPPING] for mode in ("", "alone")]
    return ([(recipe, count, "") for recipe in RIVALS for count in COUNTS]
            + [(recipe, count, "") for recipe, counts in {**OVERLAPPING, **PERIODIC}.items() for count in counts]
            + [("acco", 2, "adaptive"), ("ddp", LARGEST, "alone"), ("acco", 2, "alone"), ("acco", LARGEST, "alone")])


def measure(options, ranks, ratio):
    """All readings on so many ranks with that m / c, by row."""
    bind = "core:overload-allowed" if ranks > os.cpu_count() else "core"
    command = ["mpiexec", "--allow-run-as-root", "--oversubscribe", "--map-by", "core", "--bind-to", bind,
               "-n", str(ranks), str(options.build / "optim_overlap_bench"), str(ratio), str(options.rounds),
               *(f"{recipe}:{count}{mode and ':' + mode}" for recipe, count, mode in rows_of(ranks))]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True)
    if done.returncode:
        sys.exit(f"overlap.py: failed: {' '.join(command)}")
    lines = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    units = {line["round"]: line for line in lines if "c" in line}
    rows = []
    for recipe, count, mode in rows_of(ranks):
        found = [line for line in lines if line.get("recipe") == recipe
                 and line["micro_batches"] == count and line["mode"] == mode]
        alone = mode == "alone"
        # Ranks that go in step have the slowest one's seconds; those that do not, the clock's over all steps.
        step = [line["wall"] if mode or recipe in PERIODIC else statistics.median(line["seconds"]) for line in found]
        ideal = [max(count * units[line["round"]]["c"],
                     0 if alone else EXCHANGES.get(recipe, 1) * units[line["round"]]["m"]) for line in found]
        rows.append({"recipe": recipe, "micro_batches": count, "mode": mode,
                     "step_s": statistics.median(step), "walls": [line["wall"] for line in found],
                     "rates": [line["samples"] / s for line, s in zip(found, step)],
                     "of_ideal": statistics.median(a / b for a, b in zip(step, ideal)),
                     "exposed_s": statistics.median(line["exposed_s"] for line in found),
                     "samples_per_s": statistics.median(line["samples"] / s for line, s in zip(found, step)),
                     "bytes_per_sample": found[0]["sent"] * (1 if alone else ranks) / found[0]["samples"]})
    middle = lambda key: statistics.median(unit[key] for unit in units.values())
    result = {"ranks": ranks, "ratio": ratio, "c": middle("c"), "m": middle("m"),
              "bytes_per_s": middle("bytes_per_s"), "command": " ".join(command).replace(str(options.build), "build/release/bench"),
              "units": list(units.values()), "rows": rows}
    print(f"  {ranks} ranks, m = {ratio} c: c {1e3 * result['c']:.2f} ms, m {1e3 * result['m']:.2f} ms; of ideal: "
          + ", ".join(f"{row['recipe']}:{row['micro_batches']}{row['mode'] and ' ' + row['mode']} "
                      f"{row['of_ideal']:.3f}" for row in rows), flush=True)
    return result


def row_of(measured, recipe, count, mode=""):
    return next((row for row in measured["rows"]
                 if (row["recipe"], row["micro_batches"], row["mode"]) == (recipe, count, mode)), None)


def ratio_of(mine, other):
    """Samples/s of a row by those of another: the median of the rounds' own."""
    if not mine or not other:
        return None
    return statistics.median(a / b for a, b in zip(mine["rates"], other["rates"]))


def faster(measured, recipe, rival, count, rival_count=None, mode=""):
    return ratio_of(row_of(measured, recipe, count, mode), row_of(measured, rival, rival_count or count))


def figure(value, form="{:.2f}"):
    return "" if value is None else form.format(value)


def of_ideal(row):
    return f"{row['of_ideal']:.3f}"


def ideal_of(row):
    return f"{1e3 * row['step_s'] / row['of_ideal']:.1f}"


def adaptive_of(measured):
    """Samples/s of adaptive phases by those of the same ranks without any communication, and what is exposed."""
    lines = ["| m / c | micro-batches a step | of samples/s without communication: B = 2 | B = 8 | communication exposed, of a step |",
             "|--:|--:|--:|--:|--:|"]
    for one in measured:
        row, alone = row_of(one, "acco", 2, "adaptive"), row_of(one, "acco", LARGEST, "alone")
        # alone is one rank's; all of them compute at once there.
        share = {count: ratio_of(row, row_of(one, "acco", count, "alone")) / one["ranks"] for count in (2, LARGEST)}
        rate = row["samples_per_s"] * row["step_s"] / one["ranks"]
        batch = alone["samples_per_s"] * alone["step_s"] / LARGEST
        exposed = row["exposed_s"] / row["step_s"]
        lines.append(f"| {one['m'] / one['c']:.2f} | {rate / batch:.1f} | {share[2]:.3f} | "
                     f"{share[LARGEST]:.3f}{'' if share[LARGEST] >= 0.95 else ' (missed)'} | "
                     f"{100 * exposed:.1f} %{' (missed)' if one['m'] <= one['c'] and exposed > 0.03 else ''} |")
    return lines


def table_of(measured, two_ranks):
    lines = ["| m / c | recipe | B | ms a step | ideal ms | step / ideal | exposed ms | samples/s | bytes a sample "
             "| of Ddp | " + ("of Zero1 |" if two_ranks else "step / step that does not communicate |"),
             "|--:|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|"]
    for one in measured:
        for row in one["rows"]:
            if row["mode"] == "alone":
                continue
            recipe, count, mode = row["recipe"], row["micro_batches"], row["mode"]
            alone = row_of(one, recipe, count, "alone")
            last = (figure(faster(one, recipe, "zero1", count, mode=mode)) if two_ranks else
                    figure(alone and statistics.median(a / b for a, b in zip(row["walls"], alone["walls"])), "{:.3f}"))
            lines.append(
                f"| {one['m'] / one['c']:.2f} | {recipe} | {count}{'+' if mode else ''} | "
                f"{1e3 * row['step_s']:.1f} | {'' if mode else ideal_of(row)} | {'' if mode else of_ideal(row)} | "
                f"{1e3 * row['exposed_s']:.1f} | "
                f"{row['samples_per_s']:.0f} | {row['bytes_per_sample']:.0f} | "
                f"{figure(faster(one, recipe, 'ddp', count, mode=mode))} | {last} |")
    return lines


def rivals_of(measured):
    """The factors over the better of the rivals: at equal batch, tuned over B, and not tuned at all."""
    lines = ["| m / c | recipe | B | at equal batch | rival tuned | rival that communicates after every micro-batch |",
             "|--:|---|--:|--:|--:|--:|"]
    for one in measured:
        best = {rival: max(COUNTS, key=lambda count, rival=rival: row_of(one, rival, count)["samples_per_s"])
                for rival in RIVALS}
        tuned = max(RIVALS, key=lambda rival: row_of(one, rival, best[rival])["samples_per_s"])
        for recipe, counts in OVERLAPPING.items():
            for count in counts:
                equal = min(faster(one, recipe, rival, count) for rival in RIVALS)
                lines.append(f"| {one['m'] / one['c']:.2f} | {recipe} | {count} | {equal:.2f} | "
                             f"{faster(one, recipe, tuned, count, best[tuned]):.2f} ({tuned}, B = {best[tuned]}) | "
                             f"{min(faster(one, recipe, rival, count, 1) for rival in RIVALS):.2f} |")
    return lines


def table(report):
    two = [one for one in report["measured"] if one["ranks"] <= report["cores"]]
    more = [one for one in report["measured"] if one["ranks"] > report["cores"]]
    lines = ["# Steps on slow links beside max(compute, communication)", "",
             f"    {report['command']}", "",
             f"Machine: {report['processor']}; {report['system']}; {report['compiler']}. fp32, on the wire too; one "
             "thread a rank, bound to a core.",
             f"Medians over {report['rounds']} interleaved rounds of 4 steps (of 12 where ranks do not go in step: adaptive and "
             "without communication; 20 of DiLoCo); ratios are medians of the rounds' own. "
             "c and m are read anew in each round.", "", *__doc__.split("\n\n")[3].splitlines(), ""]
    if two:
        lines += [f"## {two[0]['ranks']} ranks, a core each", "", *table_of(two, True), "",
                  "of Ddp, of Zero1: samples/s by theirs at the same B.", "",
                  "### Beside the better of Ddp and Zero1", "",
                  "Samples/s by theirs. Tuned: B of 1, 2, 4, 8, whichever gives most samples/s.", "",
                  *rivals_of(two), "",
                  "### The law: step <= 1.05 max(2 k c, 2 m), ACCO with k micro-batches a phase", "",
                  "| m / c | " + " | ".join(f"k = {count // 2}" for count in OVERLAPPING["acco"]) + " |",
                  "|--:|" + "--:|" * len(OVERLAPPING["acco"])]
        for one in two:
            found = [row_of(one, "acco", count)["of_ideal"] for count in OVERLAPPING["acco"]]
            lines.append(f"| {one['m'] / one['c']:.2f} | " + " | ".join(
                f"{of_ideal:.3f}{'' if of_ideal <= 1.05 else ' (missed)'}" for of_ideal in found) + " |")
        lines += ["", "Without communication ACCO's steps take, of B c: " + ", ".join(
            f"{row_of(one, 'acco', LARGEST, 'alone')['of_ideal']:.3f}" for one in two)
            + "; Ddp's " + ", ".join(
                f"{row_of(one, 'ddp', LARGEST, 'alone')['of_ideal']:.3f}" for one in two) + ".", "",
            "### Adaptive phases: at least 0.95 of the samples/s without communication; at m <= c, 3 % exposed at most",
            "", *adaptive_of(two), ""]
    if more:
        lines += [f"## {more[0]['ranks']} ranks on {report['cores']} cores", "", *table_of(more, False), "",
                  "The last column, by the clock, is the law here: at most 1.10 for ACCO, where its communication takes no longer than "
                  "its micro-batches.", ""]
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    numbers = lambda kind: lambda text: [kind(word) for word in text.split(",")]
    parser.add_argument("--ratios", type=numbers(float), default=[0.25, 0.5, 1, 2, 4], help="of m to c")
    parser.add_argument("--ranks", type=numbers(int), default=[2, 4])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--build", type=Path, default=HERE.parent.parent / "build/release/bench",
                        help="where the program is")
    parser.add_argument("--out", type=Path, required=True, help="writes OUT.md and OUT.json")
    options = parser.parse_args()
    compiler = subprocess.run(["c++", "--version"], capture_output=True, text=True).stdout.splitlines()[0]
    report = {"command": " ".join(["python3 bench/optim/overlap.py", *sys.argv[1:]]), "processor": processor(),
              "cores": os.cpu_count(), "system": platform.platform(), "compiler": compiler,
              "rounds": options.rounds, "measured": []}
    for ranks in options.ranks:
        for ratio in options.ratios:
            report["measured"].append(measure(options, ranks, ratio))
            # After each: a long run that is cut off has kept something.
            options.out.with_suffix(".json").write_text(json.dumps(report, separators=(",", ":")) + "\n")
            write_page(options.out.with_suffix(".md"), table(report))
    print(table(report))


if __name__ == "__main__":
    main()
