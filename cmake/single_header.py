#!/usr/bin/env python3
"""Writes all of reef::core, or what some headers need, as one header.

    python3 cmake/single_header.py [HEADER...] [--output reef_core.hpp]

HEADER is named as it is included, such as reef/schedule/simulate.hpp; without one, all that need neither MPI nor CUDA nor
libtorch are in it. Bodies come with their headers. What the result includes is the standard library and, where it has
what needs them, nlohmann/json.hpp, boost/hana and oneDNN. It is for trying things, as on a web page that compiles: a
program has the headers themselves, of which it parses what it needs.
"""

import argparse
import functools
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
INCLUDE = ROOT / "include"
OF_REEF = re.compile(r"#include <(reef/[^>]+)>")


@functools.cache
def lines_of(name):
    """A header's lines, without those that are for the compiled library."""
    path = INCLUDE / name
    if not path.is_file():
        sys.exit(f"single_header.py: there is no header <{name}> in {INCLUDE}.\n  fix: a name as it is included, such as reef/core/shape.hpp.")
    lines = []
    open_conditions = []  # each with the part of it that is open: "library", its "else", or nothing of the kind
    for line in path.read_text().splitlines():
        if re.match(r" *# *if", line):
            open_conditions.append("library" if line == "#ifdef REEF_COMPILED" else None)
            if open_conditions[-1]:
                continue
        elif line == "#else" and open_conditions[-1]:
            open_conditions[-1] = "else"
            continue
        elif re.match(r" *# *endif", line) and open_conditions.pop():
            continue
        if "library" not in open_conditions:
            lines.append(line)
    return lines


def includes_of(name, of_bodies=True):
    """The headers of Reef that a header includes, each with whether a condition stands before it."""
    depth = 0
    for line in lines_of(name):
        if re.match(r" *# *if", line):
            depth += 1
        elif re.match(r" *# *endif", line):
            depth -= 1
        found = OF_REEF.match(line)
        if found and (of_bodies or not found[1].endswith(".ipp")):
            yield found[1], depth > 0 and not found[1].endswith(".ipp")


class Single:
    """Collects the text of headers, each once, behind that of what it includes."""

    def __init__(self):
        self.seen = set()
        self.lines = []

    def add(self, name):
        if name in self.seen:
            return
        self.seen.add(name)
        for other, conditional in includes_of(name, of_bodies=False):
            if conditional:  # what it needs stands before the condition
                for needed, _ in includes_of(other):
                    self.add(needed)
        lines = lines_of(name)
        i = 0
        while i < len(lines):
            line = lines[i]
            found = OF_REEF.match(line)
            if line == "#ifndef REEF_COMPILED" and i + 2 < len(lines) and OF_REEF.match(lines[i + 1]) and lines[i + 2] == "#endif":
                self.add(OF_REEF.match(lines[i + 1])[1])
                i += 2
            elif found:
                self.add(found[1])
            elif line != "#pragma once":
                self.lines.append(line)
            i += 1


def needs(name, kept, reached=None):
    """Whether a header includes one that `kept` refuses, be it by way of others."""
    reached = set() if reached is None else reached
    if name in reached:
        return False
    reached.add(name)
    return kept(name) or any(needs(other, kept, reached) for other, _ in includes_of(name))


def of_core():
    """The public headers that need neither MPI nor CUDA nor libtorch."""
    other = re.compile(r"#include <(mpi[.]h|cuda|cub/|torch/|ATen/|cublas|nvtx)")

    def is_of_others(name):
        return name.endswith(".cuh") or any(other.match(line) for line in lines_of(name))

    for path in sorted((INCLUDE / "reef").glob("*/*.hpp")):
        name = path.relative_to(INCLUDE).as_posix()
        if not needs(name, is_of_others):
            yield name


def version():
    text = (INCLUDE / "reef/core/version.hpp").read_text()
    return ".".join(re.search(rf"REEF_VERSION_{part} (\d+)", text)[1] for part in ("MAJOR", "MINOR", "PATCH"))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("headers", nargs="*", metavar="HEADER")
    parser.add_argument("--output", default="-", help="the file to write (default: standard output)")
    options = parser.parse_args()
    single = Single()
    for name in options.headers or of_core():
        single.add(name)
    licence = [f"// {line}".rstrip() for line in (ROOT / "LICENSE").read_text().splitlines()]
    text = "\n".join(
        [f"// Reef {version()} in one header, written by cmake/single_header.py.", "//", *licence, "#pragma once", "",
         "#ifdef REEF_COMPILED", '#error "this header has the bodies of Reef; fix: without -DREEF_COMPILED."', "#endif", "", *single.lines])
    text = re.sub(r"\n{3,}", "\n\n", text) + "\n"
    if options.output == "-":
        sys.stdout.write(text)
    else:
        try:
            pathlib.Path(options.output).write_text(text)
        except OSError as error:
            sys.exit(f"single_header.py: cannot write '{options.output}': {error.strerror}.\n  fix: a file in a folder that is there and writable.")


if __name__ == "__main__":
    main()
