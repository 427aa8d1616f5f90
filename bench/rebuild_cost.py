#!/usr/bin/env python3
"""What a change of one file costs: g++ and clang++, -O0 and -O2, headers or the compiled library, precompiled or not.

    python3 bench/rebuild_cost.py [--build build/release] [--compilers g++,clang++] [--levels O0,O2] [--runs 1]
        [--ranks 2] [--output FILE]

Of each a rebuild of examples/smallest_trainer.cpp, compiled and linked by a command line: user seconds and the peak
memory of the largest process (what `/usr/bin/time` calls maximum resident set size), and the user seconds that 200
steps on --ranks ranks take, of all ranks together. Seconds are of a processor, so that a loaded machine shows about
the same; the least of --runs. The compiled library is the one in --build, of the compiler and the level that it was
built with: the model's kernels are in it. Writes a table in Markdown, a line
when it is there.
"""

import argparse
import json
import os
import shlex
import tempfile

import compile_cost


def least(command, directory, runs):
    """User seconds, the least of the runs, and their peak resident MiB."""
    measured = [compile_cost.usage(command, directory) for _ in range(runs)]
    return min(user for user, _, _ in measured), max(peak for _, _, peak in measured)


class Program:
    """smallest-trainer, with what its compiler and linker are told in the build folder."""

    def __init__(self, build):
        with open(os.path.join(build, "compile_commands.json")) as file:
            entry = next(e for e in json.load(file) if e["file"].endswith("/examples/smallest_trainer.cpp"))
        words = compile_cost.plain(entry, "")
        # Without what makes our own builds quicker or stricter, and what this measures itself.
        mine = ("-o", "/dev/null", "-c", entry["file"], "-DREEF_COMPILED")
        self.source = entry["file"]
        self.flags = [word for word in words[1:] if word not in mine and not word.startswith(("-O", "-g", "-W"))]
        self.libraries = [os.path.join(build, f"libreef_{name}.a") for name in ("compiled", "compiled_core")]
        with open(os.path.join(build, "reef-mpi.pc")) as file:
            libs = next(line for line in file if line.startswith("Libs:"))
        self.links = shlex.split(libs[len("Libs:"):]) + ["-pthread"]


def measure(program, compiler, level, mode, options, scratch):
    compiled = mode in ("compiled", "both")
    flags = [*program.flags, f"-{level}", "-DNDEBUG", *["-DREEF_COMPILED"] * compiled]
    include = []
    made = "-"
    if mode in ("precompiled", "both"):
        header = os.path.join(scratch, "trainer.hpp")
        with open(header, "w") as file:
            file.write("#include <reef/trainer.hpp>\n")
        output = header + (".pch" if "clang" in compiler else ".gch")
        made = f"{compile_cost.usage([compiler, *flags, '-xc++-header', header, '-o', output], scratch)[0]:.1f}"
        include = ["-include-pch", output] if "clang" in compiler else ["-include", header]
    target = os.path.join(scratch, "smallest-trainer")
    compile_it = [compiler, *flags, *include, "-c", program.source, "-o", target + ".o"]
    link_it = [compiler, target + ".o", *program.libraries * compiled, *program.links, "-o", target]
    seconds, peak = least(compile_it, scratch, options.runs)
    linking, _ = least(link_it, scratch, options.runs)
    text = os.path.join(os.path.dirname(program.source), "..", "LICENSE")
    run = ["mpiexec", "-n", str(options.ranks), target, text]
    steps, _ = least(run, scratch, options.runs)
    return f"| {compiler} | -{level} | {mode} | {seconds + linking:.1f} | {made} | {peak:.0f} | {steps:.1f} |"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--build", default="build/release")
    parser.add_argument("--compilers", default="g++,clang++")
    parser.add_argument("--levels", default="O0,O2")
    parser.add_argument("--modes", default="headers,precompiled,compiled,both")
    parser.add_argument("--runs", type=int, default=1)
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--output", default="")
    options = parser.parse_args()
    program = Program(os.path.abspath(options.build))
    lines = ["| compiler | level | mode | rebuild: user s | to precompile, once | peak MiB | 200 steps: user s |",
             "|---|---|---|---:|---:|---:|---:|"]
    print("\n".join(lines), flush=True)
    for compiler in options.compilers.split(","):
        for level in options.levels.split(","):
            for mode in options.modes.split(","):
                with tempfile.TemporaryDirectory() as scratch:
                    lines.append(measure(program, compiler, level, mode, options, scratch))
                print(lines[-1], flush=True)
    if options.output:
        with open(options.output, "w") as file:
            file.write("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
