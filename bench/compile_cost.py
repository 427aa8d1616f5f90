#!/usr/bin/env python3
"""Compile time and peak memory of every umbrella header and every example program.

    python3 bench/compile_cost.py [--build build/release] [--compiler g++] [--output docs/compile_cost.md]
        [--match REGEX] [--before TREE]

One translation unit at a time, as the release preset compiles it (its flags are read from
compile_commands.json), without ccache; the least of three runs, in user + system seconds: from headers alone, as
reef::reef is, and for reef::compiled, whose library is there. An umbrella header is one that does nothing but
include: reef/reef.hpp and reef/FOLDER.hpp. Writes a table in Markdown: of all, or of the names that REGEX matches.
With --before each is compiled with the headers of another tree of the project too, in turn with these.
"""

import argparse
import datetime
import json
import os
import re
import resource
import shlex
import subprocess
import sys
import tempfile


def usage(command, directory):
    """User seconds, system seconds and the peak resident MiB of the largest process, of a command and what it starts."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        done = subprocess.run(command, cwd=directory, capture_output=True, text=True)
        of_children = resource.getrusage(resource.RUSAGE_CHILDREN)
        line = f"{of_children.ru_utime} {of_children.ru_stime} {of_children.ru_maxrss / 1024} {done.returncode}"
        os.write(write, line.encode())
        if done.returncode:
            sys.stderr.write(done.stderr[:4000])
        os._exit(0)
    os.close(write)
    user, system, peak, status = os.read(read, 200).decode().split()
    os.close(read)
    os.waitpid(child, 0)
    if status != "0":
        sys.exit(f"{os.path.basename(sys.argv[0])}: failed: {shlex.join(command)}")
    return float(user), float(system), float(peak)


def cost(command, directory):
    """User + system seconds, and the peak."""
    user, system, peak = usage(command, directory)
    return user + system, peak


def best(command, directory, runs):
    measured = [cost(command, directory) for _ in range(runs)]
    return min(m[0] for m in measured), max(m[1] for m in measured)


def both(command, directory, runs, before=None):
    """From headers alone, and for the compiled library; ahead of them, if asked, from another tree's headers."""
    compiled = [command[0], "-DREEF_COMPILED", *command[1:]]
    if not before:
        return best(command, directory, runs) + best(compiled, directory, runs)
    root, tree = before
    old = [word.replace(root + "/", tree + "/") for word in command]
    is_there = all(os.path.exists(word) for word in old if word.startswith(tree) and word.endswith(".cpp"))
    measured = []
    for _ in range(runs):
        measured.append([cost(line, directory) if line else None
                         for line in (old if is_there else None, command, compiled)])
    result = ()
    for column in zip(*measured):
        result += (min(m[0] for m in column), max(m[1] for m in column)) if column[0] else (None, None)
    return result


def plain(entry, compiler):
    """The compile command without ccache, the -O1 and the late garbage collection that save our own build time."""
    words = [word for word in shlex.split(entry["command"]) if word != "-O1" and not word.startswith("--param=ggc")]
    while "ccache" in words[0]:
        words = words[1:]
    if compiler:
        words[0] = compiler
    words[words.index("-o") + 1] = "/dev/null"
    return words


# What a file adds that uses a Trainer which another file instantiates.
EXTERN = "extern template class reef::Trainer<optim::Ddp<optim::AdamW>>;"


def precompiled(command, entry, scratch, runs):
    """With <reef/trainer.hpp> parsed before, as by reef_precompile: that, and what is left."""
    made, left = (), ()
    for mode in ([], ["-DREEF_COMPILED"]):
        header = os.path.join(scratch, "precompiled%d.hpp" % len(mode))
        with open(header, "w") as file:
            file.write("#include <reef/trainer.hpp>\n")
        words = [command[0], *mode, *command[1:]]
        make = ["-xc++-header" if word == "-c" else header if word == entry["file"] else word for word in words]
        make[make.index("-o") + 1] = header + ".gch"
        made += best(make, scratch, runs)
        left += best([words[0], "-include", header, *words[1:]], entry["directory"], runs)
    return [("the same, with `<reef/trainer.hpp>` precompiled", *left), ("to precompile it", *made)]


def processor():
    with open("/proc/cpuinfo") as file:
        return next(line.split(":", 1)[1].strip() for line in file if line.startswith("model name"))


def umbrellas(include):
    for name in sorted(os.listdir(os.path.join(include, "reef"))):
        if name.endswith(".hpp"):
            yield "reef/" + name


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--build", default="build/release")
    parser.add_argument("--compiler", default="")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--output", default="docs/compile_cost.md")
    parser.add_argument("--match", default="", help="only names that this regular expression finds")
    parser.add_argument("--before", default="", help="another tree of the project")
    options = parser.parse_args()

    root = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    with open(os.path.join(root, options.build, "compile_commands.json")) as file:
        entries = json.load(file)

    before = (root, os.path.abspath(options.before)) if options.before else None
    rows = []
    with tempfile.TemporaryDirectory() as scratch:
        # The flags of a user of reef::reef: those with which the headers are checked, optimised.
        sample = next(e for e in entries if "/headers/" in e["file"] and e["file"].endswith("first.cpp"))
        for name in umbrellas(os.path.join(root, "include")):
            if not re.search(options.match, name):
                continue
            source = os.path.join(scratch, "unit.cpp")
            with open(source, "w") as file:
                file.write(f"#include <{name}>\n")
            command = [source if word == sample["file"] else word for word in plain(sample, options.compiler)]
            command = [word for word in command if word not in ("-O0", "-g0")]
            rows.append((f"`<{name}>`", *both(command, scratch, options.runs, before)))
        for entry in entries:
            match = re.match(re.escape(root) + r"/examples/(.+\.cpp)$", entry["file"])
            if match and re.search(options.match, "examples/" + match[1]):
                command = plain(entry, options.compiler)
                rows.append((f"`examples/{match[1]}`", *both(command, entry["directory"], options.runs, before)))
                if match[1] == "smallest_trainer.cpp":
                    elsewhere = os.path.join(scratch, match[1])
                    with open(entry["file"]) as file, open(elsewhere, "w") as copy:
                        copy.write(re.sub(r"^using MyTrainer.*$", r"\g<0>\n" + EXTERN, file.read(), flags=re.M))
                    command = [elsewhere if word == entry["file"] else word for word in command]
                    rows.append(("the same, with its Trainer compiled in another file",
                                 *(None, None) * bool(before), *both(command, entry["directory"], options.runs)))
                    rows += [(name, *(None, None) * bool(before), *measured) for name, *measured in
                             precompiled(plain(entry, options.compiler), entry, scratch, options.runs)]

    compiler = options.compiler or plain(sample, "")[0]
    version = subprocess.run([compiler, "--version"], capture_output=True, text=True).stdout.splitlines()[0]
    table = [
        "# What including Reef costs",
        "",
        f"{version}, release preset, {processor()}, {datetime.date.today()}; one translation unit at a time, the "
        f"least of {options.runs} runs.",
        "Made by `python3 bench/compile_cost.py`.",
        "",
        "Several files that use one Trainer pay for it once: one of them says",
        "`template class reef::Trainer<...>;`, the others `extern template class reef::Trainer<...>;`.",
        "",
        "Where a program links `reef::compiled` in place of `reef::reef`, functions that no policy changes come from a",
        "static library ([decision 023](decisions/023-the-compiled-library.md)): the last two columns. It is built once.",
        "`reef_precompile(TARGET)` in CMake parses `<reef/trainer.hpp>` once for all sources of a target.",
        "",
    ]
    if before:
        table += ["The first two columns are of an earlier tree of the project, from headers alone, compiled in turn with these.", ""]
    head = ["seconds", "peak MiB"]
    columns = ["before: seconds", "peak MiB"] * bool(before) + head + ["`reef::compiled`: seconds", "peak MiB"]
    table += [f"| translation unit | {' | '.join(columns)} |", "|---" + "|---:" * len(columns) + "|"]
    for name, *numbers in rows:
        cells = ["-" if number is None else f"{number:.{1 - at % 2}f}" for at, number in enumerate(numbers)]
        table.append(f"| {name} | {' | '.join(cells)} |")
    text = "\n".join(table) + "\n"
    with open(os.path.join(root, options.output), "w") as file:
        file.write(text)
    print(text, end="")


if __name__ == "__main__":
    main()
