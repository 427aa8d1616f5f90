#!/usr/bin/env python3
"""ACCO's table 3 (arXiv 2406.02613) at a small size: fine-tuning of trained weights with padded samples and a loss mask.

    cmake --preset release -DREEF_BUILD_BENCH=ON
    cmake --build build/release --target reef-train papers_finetune_bench
    python3 bench/papers/acco.py

    base         a GPT of 2 layers, 4 heads and 64 channels, a token a byte, context 128, trained on the sources of tests/ and
                 examples/ by `reef-train`, 1000 steps of 2048 tokens, and written by --export
    task         the first sentence of a comment, after the declaration that it stands above: all headers in include/reef of which
                 both fit the context, and of ten of these one held out. No header is among what the base was trained on
    a sample     declaration, line feed, sentence, line feed, and 0 up to the context. Only the sentence counts: targets of the rest
                 are -1, and a micro-batch weighs as much as it has targets. Shapes are fixed, so every micro-batch takes as long;
                 the paper pads to the longest of a batch, and explains a part of its gain by that
    the text     base and task are of the sources of the checkout: other commits have other pairs and other losses
    a step       16 samples on 2 ranks, the same for every recipe; AdamW, peak 1e-3, 10 steps of warm-up, a cosine to 0,
                 gradients clipped at norm 1
    time         of a step, over emulated links on which an exchange of the model takes half of a step's micro-batches or
                 all of them, on emulated devices of 1 GFLOP/s

Written is papers_acco.md.
"""

import json
import os
import random
import re
import statistics
import subprocess
import tempfile
from pathlib import Path

from support import ROOT, parser_of, table, write

RECIPES = ("ddp", "acco", "dpu")
TIMED = (*RECIPES, "ddp-each")
SHARES = (0.5, 1.0)
CONTEXT = 128


def pairs():
    """Declarations and the first sentences of their comments, without tabs, in an order of their own."""
    found = set()
    for path in sorted((ROOT / "include/reef").rglob("*.hpp")):
        lines = path.read_text().split("\n")
        for number, line in enumerate(lines[1:], 1):
            previous = lines[number - 1].strip()
            if not previous.startswith("///") or line.strip().startswith("//") or not line.strip():
                continue
            first = number - 1
            while first > 0 and lines[first - 1].strip().startswith("///"):
                first -= 1
            comment = " ".join(each.strip().lstrip("/").strip() for each in lines[first:number])
            sentence = re.match(r"[^\\|]*?\.(?= |$)", comment)
            if sentence and len(line.strip()) + len(sentence[0]) + 1 <= CONTEXT:
                found.add(line.strip() + "\t" + sentence[0])
    result = sorted(each for each in found if each.isascii())
    random.Random(1).shuffle(result)
    return result


class Programs:
    def __init__(self, options, folder):
        self.build, self.folder, self.bench = options.build, folder, options.bench or options.build / "bench/papers_finetune_bench"
        self.environment = {**os.environ, "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}

    def run(self, *words):
        done = subprocess.run(["mpiexec", "--oversubscribe", "-n", "2", *map(str, words)], capture_output=True, text=True,
                              env=self.environment)
        if done.returncode != 0:
            raise SystemExit(done.stderr)
        return done.stdout

    def base(self):
        sources = [path for folder in ("tests", "examples") for path in sorted((ROOT / folder).rglob("*.cpp"))]
        file = self.folder / "base.safetensors"
        if not file.exists():
            self.run(self.build / "examples/reef-train", "--recipe", "ddp", "--model", "2x4x64", "--context", CONTEXT,
                     "--steps", 1000, "--lr", "3e-3", "--threads", 1, "--export", file, "--data", *sources)
        return file

    def lines(self, *words):
        return [json.loads(line) for line in self.run(self.bench, *words).splitlines() if line.startswith("{")]


def main():
    parser = parser_of(__doc__, "papers_acco")
    parser.add_argument("--build", type=Path, default=ROOT / "build/release")
    parser.add_argument("--bench", type=Path, help="papers_finetune_bench, where it is not in the build")
    parser.add_argument("--folder", type=Path, help="where the base, the pairs and what was learnt are kept")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    temporary = tempfile.TemporaryDirectory()
    folder = options.folder or Path(temporary.name)
    folder.mkdir(exist_ok=True)
    programs = Programs(options, folder)
    base, text = programs.base(), folder / "pairs.txt"
    if not text.exists():
        text.write_text("\n".join(pairs()) + "\n")
    all_pairs = text.read_text().splitlines()
    print(len(all_pairs), "pairs", flush=True)

    learnt = folder / "learnt.json"  # of an earlier run with this --folder, whose timings alone are made again
    if not learnt.exists():
        runs = {recipe: [programs.lines("train", text, base, recipe, seed, options.steps)
                         for seed in range(1, options.seeds + 1)] for recipe in RECIPES}
        learnt.write_text(json.dumps({"begin": runs["ddp"][0][0]["held_out"],
                                      "ends": {recipe: [run[-1]["held_out"] for run in runs[recipe]] for recipe in RECIPES}}))
    begin, all_ends = json.loads(learnt.read_text()).values()
    print(begin, all_ends, flush=True)
    seconds = {}
    for share in SHARES:
        for line in programs.lines("time", text, base, options.rounds, 1e9, share, *TIMED):
            seconds.setdefault((share, line["recipe"], line["round"]), line["step_s"])

    ratio = lambda recipe, share: statistics.median(seconds[share, recipe, number] / seconds[share, "acco", number] for number in range(options.rounds))
    saved = lambda recipe, share: f"{100 * (1 - 1 / ratio(recipe, share)):.0f} %"
    rows = []
    for recipe in TIMED:
        learns_as = "ddp" if recipe == "ddp-each" else recipe
        ends = all_ends[learns_as]
        gaps = [end - ddp for end, ddp in zip(ends, all_ends["ddp"])]
        gap = "" if learns_as == "ddp" else f"{statistics.mean(gaps):+.4f} [{min(gaps):+.4f}, {max(gaps):+.4f}]"
        cells = []
        for share in SHARES:
            step = statistics.median(seconds[share, recipe, number] for number in range(options.rounds))
            cells.append(f"{1e3 * step:.0f} ({ratio(recipe, share):.2f})")
        rows.append([recipe, f"{statistics.mean(ends):.4f}", gap, *cells])
    explanation = __doc__.split("\n\n")
    held_out = len(all_pairs) // 10
    letters = [len(pair.split("\t")[1]) + 1 for pair in all_pairs]
    lines = ["# ACCO's table 3 at a small size: fine-tuning", "", "    python3 bench/papers/acco.py", "", *explanation[2].splitlines(), "",
             f"{len(all_pairs)} pairs, {held_out} held out; {100 * statistics.mean(letters) / CONTEXT:.0f} % of the positions "
             f"count. {options.steps} steps, {options.seeds} seeds; "
             f"medians of {options.rounds} interleaved rounds of ten steps. Losses are held out, nats a byte that counts; the base begins at {begin:.3f}.", "",
             "Milliseconds of a step; in brackets the median of the rounds' ratios to acco. ddp-each exchanges gradients after every micro-batch, and learns what ddp learns.", "",
             *table(["recipe", "held-out loss", "gap to ddp", *(f"an exchange takes {share:g} of a step's micro-batches" for share in SHARES)], rows), "",
             "The paper's table has the time that ACCO saves: 42 and 87 % of Ddp's in fine-tuning, 6 and 26 % in pre-training, which is not here. "
             f"In that unit ACCO saves {saved('ddp', SHARES[0])} of ddp's time where an exchange takes half of a step's micro-batches, and "
             f"{saved('ddp', SHARES[1])} where it takes all; of that of ddp-each {saved('ddp-each', SHARES[0])} and {saved('ddp-each', SHARES[1])}. "
             "The paper's public code accumulates without telling its Ddp so, which then exchanges after every micro-batch, as ddp-each here. "
             "A Ddp that exchanges once a step, beside its last backward, is the better rival: of links on which an exchange takes "
             "half of a step ACCO hides all, and where it takes as long as a step, half, since it "
             "exchanges the model twice."]
    write(options.out, lines)


if __name__ == "__main__":
    main()
