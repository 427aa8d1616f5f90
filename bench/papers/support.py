"""What the scripts beside this file share: asking reef-plan, and writing a page."""

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
import textwrap
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "bench"))
from log_plot import log_plot  # noqa: E402, F401
from page import write_page  # noqa: E402

RESULTS = ROOT / "bench/results"


class ReefPlan:
    """The program: ReefPlan(path)("simulate", case) is its answer to `reef-plan simulate`, and None where there is none."""

    def __init__(self, program):
        self.program = program

    def __call__(self, command, case, *options):
        with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
            json.dump(case, file)
            file.flush()
            done = subprocess.run([self.program, command, file.name, *options], capture_output=True, text=True)
        if done.returncode != 0:
            raise SystemExit(f"reef-plan {command}: {done.stderr}")
        answer = json.loads(done.stdout)
        return answer if answer.get("feasible", True) else None


def machine():
    models = [line.split(":", 1)[1].strip() for line in Path("/proc/cpuinfo").read_text().splitlines() if line.startswith("model name")]
    return f"{os.cpu_count()} cores of {models[0] if models else platform.machine()}"


def parser_of(explanation, name):
    """Options of a script that writes bench/results/NAME.md."""
    parser = argparse.ArgumentParser(description=explanation, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", default=ROOT / "build/release/examples/reef-plan")
    parser.add_argument("--out", type=Path, default=RESULTS / f"{name}.md")
    return parser


def table(head, rows):
    """Lines of a table, its first column of text."""
    lines = ["| " + " | ".join(head) + " |", "|---" + "|--:" * (len(head) - 1) + "|"]
    return lines + ["| " + " | ".join(str(cell) for cell in row) + " |" for row in rows]


def filled(line):
    """Prose in lines of a page's width; tables, code, headings and images as they are."""
    return line if line[:1] in "|#! " else textwrap.fill(line, 150, break_long_words=False, break_on_hyphens=False)


def write(out, lines, panels=None):
    """The page, and beside it the plot of `panels`, if there are any."""
    write_page(out, "\n".join(map(filled, lines)))
    if panels:
        out.with_suffix(".svg").write_text(log_plot(panels))
    print(out)
