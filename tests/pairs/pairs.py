#!/usr/bin/env python3
"""Writes docs/pairs.md and docs/pairs.html: which policies were checked with which, by what law, on how many ranks.

    for p in 2 3 4; do
      REEF_PAIRS=all REEF_PAIRS_LOG=build/pairs.p$p.jsonl mpiexec -n $p build/release/tests/pairs/pairs_pairs_test
    done
    python3 tests/pairs/pairs.py build/pairs.p*.jsonl

A line of a log is a cell that the test checked; a later one, on as many ranks, is in its place. It is an error if a pair of
policies has none, or one that failed.
"""

import argparse
import collections
import html
import json
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
AXES = ["swap", "pipeline", "compress", "optim"]
RUN = "tests/pairs/pairs.py build/pairs.p*.jsonl"

# By the law's text in the log: its letter, and what it says.
LAWS = {
    "the bits of one process": ("P", "the bits of one process that stands for all replicas, holds the whole model, swaps "
                               "nothing, sends nothing, and runs one instruction at a time"),
    "the bits of one process that stands for all ranks": ("V", "the bits of one process with the same codec that stands for "
                                                          "all ranks (`virtual_ranks`)"),
    "the bits of one micro-batch after another": ("M", "the bits of stages that hold the same chunks, have the same codec, swap "
                                                  "nothing, and take one micro-batch after another forward and back"),
    "the bits of as many whole replicas": ("W", "the bits of as many ranks as there are replicas, each with the whole model"),
    "the bits of a model that stays": ("S", "the bits of the same ranks under `swap::Resident` and `pipeline::Single`; where that is "
                                        "the pair itself, of another run"),
    "the bits of Zero1, whose serial definition is tested": ("D", "the bits of `swap::Resident` and `optim::Zero1` under the same "
                                                             "pipeline, which is its serial definition "
                                                             "(`Asynchronous.pipedream_is_its_serial_definition`, "
                                                             "`Asynchronous.two_buffered_weights_are_their_serial_definition`); where "
                                                             "that is the pair itself, of another run"),
    "the bits of Zero1": ("Z", "the bits of `swap::Resident` and `optim::Zero1` with the same codec under the same pipeline; where "
                          "that is the pair itself, of another run"),
}
RESUMED = ", and behind a resume"

ELSEWHERE = [
    "Elsewhere: `AllAxes.have_the_bits_of_stages_that_stay_on_their_devices` and the tests beside it are of Atom, OneFOneB, AdaTopK and "
    "Acco, all four at once: memory, wire bytes, resumes on one process, steps that are skipped. "
    "`AllAxesInAnyOrder.have_the_bits_of_one_process_and_with_ratios_those_of_segments_that_stay` is that over random models, cuts and "
    "orders. Precisions and update rules: `tests/trainer/bf16_laws_test.cpp`, `tests/trainer/fp64_laws_test.cpp`, "
    "`SwapPolicies.gradients_that_are_rounded_after_each_micro_batch`, `tests/trainer/muon_test.cpp`, "
    "`tests/trainer/per_group_test.cpp`. On CUDA: `tests/trainer/cuda_policies_test.cu`, `tests/trainer/cuda_pipelines_test.cu`, "
    "`tests/trainer/cuda_channels_test.cu`. Accumulation that adapts: `tests/trainer/adaptive_test.cpp`; on stages `tests/pipeline/adaptive_test.cpp`, and of all four "
    "axes `AllAxes.adapt_together_and_have_the_bits_of_stages_that_stay_and_of_one_stage`. That a codec does what it is "
    "to do no comparison of two runs with it says: `Channels.that_lose_nothing_change_no_bit_of_replicas_of_stages`, "
    "`SparseLoCo.follows_the_equations_with_either_divisor_with_or_without_the_clip`, `tests/codec`.",
]


class Cell:
    """What the logs have of one recipe."""

    def __init__(self):
        self.ranks, self.laws, self.refused, self.rule, self.resumed = [], set(), "", "", True

    def add(self, line):
        self.ranks.append(line["ranks"])
        self.refused, self.rule = line["refused"], line["rule"]
        law = line["law"]
        if not self.refused:
            self.resumed = self.resumed and law.endswith(RESUMED)
            self.laws.add(LAWS[law.removesuffix(RESUMED)][0])

    def text(self):
        return "refused" if self.refused else " ".join(sorted(self.laws))


def read(paths):
    lines = {}
    for path in paths:
        for text in pathlib.Path(path).read_text().splitlines():
            line = json.loads(text)
            lines[tuple(line[axis] for axis in AXES), line["ranks"]] = line
    cells = collections.defaultdict(Cell)
    failed = [f"{' x '.join(filter(None, key))} on {ranks} ranks" for (key, ranks), line in lines.items() if line["result"] != "passed"]
    for (key, _), line in lines.items():
        if line["result"] == "passed":
            cells[key].add(line)
    return cells, failed, sum(line["seconds"] for line in lines.values()), sorted({ranks for _, ranks in lines})


def policies_of(cells):
    """By axis, in the order of the test."""
    named = {axis: [] for axis in AXES}
    for key in cells:
        for axis, name in zip(AXES, key):
            if name and name not in named[axis]:
                named[axis].append(name)
    return named


def missing_pairs(cells, named, ranks):
    missing = []
    for i, first in enumerate(AXES):
        for second in AXES[i + 1:]:
            for a in named[first]:
                for b in named[second]:
                    key = tuple(a if axis == first else b if axis == second else "" for axis in AXES)
                    got = sorted(cells[key].ranks) if key in cells else []
                    if got != ranks:
                        missing.append(f"{a} x {b}: on {got} of {ranks} ranks")
    return missing


def tables(cells, named):
    """Title, names of rows, of columns, and cells by (row, column)."""
    for i, first in enumerate(AXES):
        for second in AXES[i + 1:]:
            rows, columns = named[first], named[second]
            if len(rows) < len(columns):
                first_axis, second_axis = second, first
                rows, columns = columns, rows
            else:
                first_axis, second_axis = first, second

            def at(a, b, x=first_axis, y=second_axis):
                return cells[tuple(a if axis == x else b if axis == y else "" for axis in AXES)]

            yield f"{first_axis} x {second_axis}", rows, columns, {(a, b): at(a, b) for a in rows for b in columns}


def sample_tables(cells):
    triples = [key for key in cells if not key[0] and all(key[1:])]
    rows = list(dict.fromkeys(key[1] for key in triples))
    columns = list(dict.fromkeys((key[3], key[2]) for key in triples))
    yield ("Schedules x optimizers x codecs", rows, [f"{optim}, {codec}" for optim, codec in columns],
           {(row, f"{o}, {c}"): cells[("", row, c, o)] for row in rows for o, c in columns})
    quadruples = [key for key in cells if all(key)]
    optims = list(dict.fromkeys(key[3] for key in quadruples))
    rows = list(dict.fromkeys(key[1] for key in quadruples))
    at = {(row, optim): cells["", row, "", optim] for row in rows for optim in optims}  # of a refused pair there is no more
    at |= {(key[1], key[3]): (cells[key], f"{key[0]}, {key[2]}") for key in quadruples}
    yield "All four axes", rows, optims, at


def split(value):
    return value if isinstance(value, tuple) else (value, "")


def counts_of(cells):
    count = collections.Counter()
    for key, cell in cells.items():
        kind = {2: "pairs", 3: "triples", 4: "quadruples"}[sum(1 for name in key if name)]
        count[kind + (" refused" if cell.refused else " run")] += 1
    return count


def introduction(cells, ranks, seconds):
    count = counts_of(cells)
    said = ", ".join(map(str, ranks[:-1])) + f" and {ranks[-1]}" if len(ranks) > 1 else str(ranks[0])
    return [
        f"Every policy of an axis with every policy of each other axis: {count['pairs run']} pairs run, "
        f"{count['pairs refused']} are refused. Beside these {count['triples run']} triples and {count['quadruples run']} of all "
        f"four axes. Each on {said} ranks, a GPT of three layers with dropout, four steps; each once more from a checkpoint of its "
        f"second step, to the same bits. {seconds:.0f} s in all.",
        "The axes that a cell does not name have their neutral policies, or where these would leave nothing to see OneFOneB, Zero1 "
        "or DiLoCo. A pipeline is of as many stages as there are ranks, in one replica; on 4 ranks it is of two replicas of two "
        "stages, but for PipeDream and TwoBw. So codecs of gradients and weights under a pipeline have something to send on 4 ranks. "
        "The Trainers of the test choose pipeline, codec and swap schedule when they are made, and call the policies' own functions "
        "(`tests/pairs/any_policies.hpp`).",
    ]


def markdown(cells, named, ranks, seconds):
    out = ["# Pairs of policies", "", f"    python3 {RUN}", ""]
    for paragraph in introduction(cells, ranks, seconds):
        out += [paragraph, ""]
    out += ["| law | what a run is to leave behind, bit for bit: losses, norms, weights |", "|---|---|"]
    out += [f"| {letter} | {text} |" for letter, text in LAWS.values()]
    out += ["", "A refused pair says why: by the compiler for rules R1 and R5, else when a Trainer is made."]

    def table(title, rows, columns, at):
        out.extend(["", f"## {title}", "", "| | " + " | ".join(f"`{c}`" if "," not in c else c for c in columns) + " |",
                    "|---|" + "---|" * len(columns)])
        for row in rows:
            said = []
            for column in columns:
                cell, more = split(at[row, column])
                text = f"[refused](rules.md#{cell.rule})" if cell.refused else cell.text()
                said.append(f"{text}: {more}" if more else text)
            out.append(f"| `{row}` | " + " | ".join(said) + " |")

    for one in [*tables(cells, named), *sample_tables(cells)]:
        table(*one)
    out += ["", "## Refused", "", "| pairs | the error says | |", "|---|---|---|"]
    refused = collections.defaultdict(list)
    for key, cell in cells.items():
        if cell.refused:
            refused[cell.refused, cell.rule].append(" x ".join(f"`{name}`" for name in key if name))
    for (sentence, rule), pairs in refused.items():
        out.append(f"| {', '.join(pairs)} | \"{sentence}\" | [why](rules.md#{rule}) |")
    out += ["", "What would break is shown by `tests/pairs/refusals_test.cpp` and the tests that "
            "[rules.md](rules.md#at-run-time) names.", "", *ELSEWHERE, ""]
    return "\n".join(out)


STYLE = """body{font:15px/1.5 sans-serif;max-width:75em;margin:2em auto;padding:0 1em;color:#222}
table{border-collapse:collapse;font-size:12px;margin:1em 0}td,th{border:1px solid #ccc;padding:3px 6px;text-align:center}
th:first-child,td:first-child{text-align:left;font-family:monospace}.run{background:#dff0d8}.no{background:#f7dcd9}
.wide{overflow-x:auto}"""


def page(cells, named, ranks, seconds):
    out = ["<!doctype html><html lang='en'><meta charset='utf-8'><title>Pairs of policies</title>", f"<style>{STYLE}</style>",
           "<h1>Pairs of policies</h1>"]
    out += [f"<p>{html.escape(paragraph)}</p>" for paragraph in introduction(cells, ranks, seconds)]
    out += ["<table>"] + [f"<tr><th>{letter}</th><td>{html.escape(text)}</td></tr>" for letter, text in LAWS.values()] + ["</table>"]
    for title, rows, columns, at in [*tables(cells, named), *sample_tables(cells)]:
        out.append(f"<h2>{html.escape(title)}</h2><div class='wide'><table><tr><th></th>")
        out += [f"<th>{html.escape(c)}</th>" for c in columns]
        out.append("</tr>")
        for row in rows:
            out.append(f"<tr><td>{html.escape(row)}</td>")
            for column in columns:
                cell, more = split(at[row, column])
                if cell.refused:
                    link = f"<a href='rules.md#{cell.rule}'>refused</a>"
                    out.append(f"<td class='no' title='{html.escape(cell.refused, quote=True)}'>{link}</td>")
                else:
                    on = ", ".join(map(str, sorted(cell.ranks)))
                    out.append(f"<td class='run' title='on {on} ranks'>{cell.text()} {html.escape(more)}</td>")
            out.append("</tr>")
        out.append("</table></div>")
    return "\n".join(out) + "</html>\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("logs", nargs="+", help="that the test wrote, one for each number of ranks")
    parser.add_argument("--out", default=ROOT / "docs", type=pathlib.Path)
    args = parser.parse_args()
    cells, failed, seconds, ranks = read(args.logs)
    named = policies_of(cells)
    wrong = [f"failed: {what}" for what in failed] + [f"unknown: {what}" for what in missing_pairs(cells, named, ranks)]
    wrong += [f"not behind a resume: {' x '.join(filter(None, key))}" for key, cell in cells.items() if not cell.resumed]
    if wrong:
        sys.exit("\n".join([*wrong[:20], f"{len(wrong)} in all"]))
    (args.out / "pairs.md").write_text(markdown(cells, named, ranks, seconds))
    (args.out / "pairs.html").write_text(page(cells, named, ranks, seconds))
    print(f"{len(cells)} cells on {ranks} ranks: {args.out / 'pairs.md'}, {args.out / 'pairs.html'}")


if __name__ == "__main__":
    main()
