#!/usr/bin/env python3
"""FusionLLM's figure of convergence at a small size, run: a residual network over three ranks, one of another engine.

    cmake --build build/release --target torch-residual
    python3 bench/papers/fusionllm_run.py

`torch-residual` (examples/torch_residual.cpp) learns ten classes of images that it makes, 3 x 32 x 32. Ranks share the cores
of one machine: devices are emulated, and wait where the cores are quicker (`--gflops`), links too.

    rank 0, 1    convolutions, batch norm and pooling of libtorch; a message between them is 512 KiB of a micro-batch
    rank 2       native operators, behind the slow link; 64 KiB a micro-batch
    a step       4 micro-batches of 8 images, 1F1B, AdamW
    devices      1 GFLOP/s
    links        10 Gbit/s, and 0.5 Mbit/s between ranks 1 and 2; 1 ms

    dense        4 bytes a number
    uniform r    top-k by one ratio for both links: 1 in 1.5 r numbers is kept, which with 2 bytes an index is 1 / r of the bytes
    AdaTopK r    each link is as quick as the slow one at 1 / r (Eq. 7), planned so; what is quick enough is sent as it is
    on the wire  indices take less than 2 bytes, so both carry fewer than 1 / r of the bytes: see the table
    anew         what goes back between ranks is selected by its own size, as the paper does; in the other rows it has the zeros
                 of what went forward, and no indices

Evaluations send as steps do. Bits do not depend on time: what is learnt is of runs
without emulated devices, and a step's seconds are measured apart, as means of four, one way after the other in each round.
"""

import json
import os
import re
import statistics
import subprocess
from pathlib import Path

from support import ROOT, machine, parser_of, table, write

WAYS = {"dense": ("dense", 1), "uniform 10": ("uniform", 10), "AdaTopK 10": ("adaptive", 10), "uniform 100": ("uniform", 100),
        "AdaTopK 100": ("adaptive", 100)}
WAYS |= {f"{way}, anew": (*words, "--anew") for way, words in WAYS.items() if way != "dense"}
LOSS = 0.5
SLOW, QUICK = ("--slow", 0.5), ("--slow", 10_000)


def run(options, way, *words):
    compress, ratio, *anew = WAYS[way]
    command = ["mpiexec", "--oversubscribe", "--bind-to", "none", "-n", "3", options.example, "--compress", compress, "--ratio", ratio, *anew, *words]
    environment = {**os.environ, "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1", "OMP_NUM_THREADS": "1"}
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, env=environment, timeout=3600)
    if done.returncode != 0:
        raise SystemExit(done.stderr + done.stdout)
    return done.stdout


def learn(options, way, seed):
    """[step, held-out loss, percent of right answers] of each evaluation; the last two in one process; what links carry in a step."""
    links = SLOW if way.startswith("AdaTopK") else QUICK  # whose ratios alone follow them
    text = run(options, way, "--seed", seed, "--steps", options.steps, "--every", 5, *links)
    curve = re.findall(r"step +(\d+)  loss \S+  held out (\S+) +(\S+) % right", text)
    return {"curve": [[int(step), float(loss), float(right)] for step, loss, right in curve],
            "alone": [float(number) for number in re.findall(r"in one process.* held out (\S+) +(\S+) % right", text)[0]],
            "links": {link: int(sent) for link, sent in re.findall(r"a step sends (\d -> \d) (\d+) bytes", text)}}


def seconds_of_step(options, way):
    text = run(options, way, "--gflops", 1, "--steps", 5, "--every", 5, "--held-out", 1, *SLOW)
    first, last = map(float, re.findall(r"after (\S+) s", text))
    return round((last - first) / 4, 4)


def steps_to(curve, loss):
    """Between evaluations by a straight line; none if the loss is not reached."""
    for (begin, before, _), (end, after, _) in zip(curve, curve[1:]):
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


def verdict(learnt, needed, sooner):
    end = {way: [statistics.median(each["curve"][-1][number] for each in of) for number in (1, 2)] for way, of in learnt.items()}
    end = {way: f"{loss:.2f} with {right:.0f} % right" for way, (loss, right) in end.items()}
    alone = {way: f"{statistics.median(each['alone'][1] for each in of):.0f}" for way, of in learnt.items()}
    middle = lambda of, form: {way: f"{statistics.median(found):{form}}" if (found := [value for value in each if value]) else "no"
                               for way, each in of.items()}
    factor, steps = middle(sooner, ".1f"), middle(needed, ".0f")
    return [f"AdaTopK 10 ends at {end['AdaTopK 10']}, dense at {end['dense']}, one ratio of 10 for all at {end['uniform 10']}; at a loss of {LOSS} they are "
            f"after {steps['AdaTopK 10']}, {steps['dense']} and {steps['uniform 10']} steps, and in seconds {factor['AdaTopK 10']} and {factor['uniform 10']} times "
            f"sooner than dense. At r = 100 AdaTopK ends at {end['AdaTopK 100']}, one ratio for all at {end['uniform 100']}.", "",
            f"With what goes back selected anew, as the paper does, AdaTopK ends at {end['AdaTopK 10, anew']}, and at a loss of {LOSS} after {steps['AdaTopK 10, anew']} steps, "
            f"{factor['AdaTopK 10, anew']} times sooner than dense; at r = 100 at {end['AdaTopK 100, anew']}. One ratio for all ends at "
            f"{end['uniform 10, anew']} and {end['uniform 100, anew']}. In one process the weights of AdaTopK 10 have {alone['AdaTopK 10']} % right, selected anew "
            f"{alone['AdaTopK 10, anew']} %; at r = 100 {alone['AdaTopK 100']} % and {alone['AdaTopK 100, anew']} %.", "",
            "The paper trains ResNet-101 and GPT-2 on up to 48 GPUs, links of 8 Mbit/s to 10 Gbit/s, and claims to be 1.45 to 9.39 times as quick as its "
            "baselines while what is learnt stays; one ratio for all harms its residual networks. Its network and data are larger. Here the fast link is quick "
            "enough as it is, so all that AdaTopK loses is on the slow one."]


def main():
    parser = parser_of(__doc__, "papers_fusionllm_run")
    parser.add_argument("--example", type=Path, default=ROOT / "build/release/examples/torch-residual")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=80)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    kept = options.out.with_suffix(".json")  # what is there is not made again
    made = json.loads(kept.read_text()) if kept.exists() else {}

    def once(name, make):
        if name not in made:
            made[name] = make()
            kept.write_text(json.dumps(made, separators=(",", ":")) + "\n")
            print(name, made[name], flush=True)
        return made[name]

    seeds, rounds = range(1, options.seeds + 1), range(1, options.rounds + 1)
    learnt = {way: [] for way in WAYS}
    for seed in seeds:
        for way in WAYS:
            learnt[way].append(once(f"{way}, seed {seed}, {options.steps} steps", lambda: learn(options, way, seed)))
    taken = {way: [] for way in WAYS}
    for number in rounds:
        for way in WAYS:
            taken[way].append(once(f"{way}, round {number}", lambda: seconds_of_step(options, way)))

    rows, losses, rights, seconds, sooner = [], {}, {}, {}, {}
    needed = {way: [steps_to(each["curve"], LOSS) for each in learnt[way]] for way in WAYS}
    for way in WAYS:
        step = seconds[way] = statistics.median(taken[way])
        quicker = statistics.median(dense / mine for dense, mine in zip(taken["dense"], taken[way]))
        times = [quicker * dense / mine if dense and mine else None for dense, mine in zip(needed["dense"], needed[way])]
        sooner[way] = times
        carried = {link: statistics.mean(each["links"][link] for each in learnt[way]) / 1024 for link in learnt[way][0]["links"]}
        ends = [[each["curve"][-1][number] for each in learnt[way]] for number in (1, 2)] + [[each["alone"][1] for each in learnt[way]]]
        rows.append([way, *(median_of(end, form) for end, form in zip(ends, (".3f", ".1f", ".1f"))), f"{carried['0 -> 1'] + carried['1 -> 0']:,.0f}",
                     f"{carried['1 -> 2'] + carried['2 -> 1']:,.1f}", f"{step:.2f} ({quicker:.2f})", median_of(needed[way], ".0f"),
                     median_of([count and count * step for count in needed[way]], ".0f"), median_of(times, ".2f")])
        points = list(zip(*(each["curve"] for each in learnt[way])))[1:]
        losses[way] = {at[0][0]: statistics.median(loss for _, loss, _ in at) for at in points}
        rights[way] = {at[0][0]: statistics.median(right for _, _, right in at) for at in points}
    timed = lambda curves: {way: {round(count * seconds[way]): value for count, value in curve.items()} for way, curve in curves.items()}
    percent = (0, 100, 20)
    explanation = __doc__.split("\n\n")
    lines = ["# FusionLLM's figure of convergence at a small size, run", "", "    python3 bench/papers/fusionllm_run.py", "",
             *"\n\n".join(explanation[2:]).splitlines(), "",
             f"Machine: {once('machine', machine)}, which three ranks and other programs shared.", "",
             "Losses and right answers are of 256 images that no step has; a guess has 2.303 and 10 %. In one process: of the last weights, which rank 0 has "
             f"gathered, where nothing is compressed. {options.steps} steps, {options.seeds} seeds: medians, [least, most]. Of a step "
             f"the median of {options.rounds} rounds, in brackets of the rounds' ratios of dense to it. To a loss of {LOSS}: steps, between evaluations by a "
             "straight line; seconds; and how many times sooner than dense with the same seed.", "",
             *table(["", "held-out loss", "right, %", "in one process, %", "KiB a step, ranks 0 and 1", "KiB a step, ranks 1 and 2", "s a step",
                     f"steps to {LOSS}", f"s to {LOSS}", "times sooner"], rows), "",
             f"![Held-out loss and right answers]({options.out.with_suffix('.svg').name})", "",
             *verdict(learnt, needed, sooner)]
    write(options.out, lines, [("held-out loss", "steps", losses), ("held-out loss", "seconds of steps", timed(losses)),
                               ("right answers, %", "steps", rights, percent), ("right answers, %", "seconds of steps", timed(rights), percent)])


if __name__ == "__main__":
    main()
