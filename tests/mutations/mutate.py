"""Breaks the library on purpose and says which tests notice: see tests/mutate.sh, which starts it."""

import argparse
import concurrent.futures
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
INCLUDE = ROOT / "include" / "reef"
FOLDER = ROOT / "build" / "mutate"
SOURCE = FOLDER / "source"
BUILD = FOLDER / "build"
WANTED = 0.95  # of all mutations are noticed

SWITCH = """#pragma once

#include <cstdlib>
#include <type_traits>

namespace reef_mutation {

inline int chosen() {
  static const int number = [] {
    const char* const text = std::getenv("REEF_MUTATION");
    return text == nullptr ? 0 : std::atoi(text);
  }();
  return number;
}

constexpr bool is(int number) { return !std::is_constant_evaluated() && chosen() == number; }

}  // namespace reef_mutation
"""


def say(text):
    print(f"mutate: {text}", flush=True)


class Problem(Exception):
    """Ends the script with its text."""


class Mutation:
    """An entry of a list."""

    def __init__(self, where, lines):
        head = lines[0].split()
        if len(head) < 3 or not head[0].isdigit() or len(lines) < 3:
            raise Problem(f"{where}: an entry begins with a number, a file and ctest entries, then says what is wrong")
        self.number = int(head[0])
        self.file = head[1]
        self.entries = head[2:]
        self.wrong = lines[1]
        self.old = "\n".join(line[1:].strip() for line in lines[2:] if line.startswith("-"))
        self.new = "\n".join(line[1:].strip() for line in lines[2:] if line.startswith("+"))
        if not self.old or any(line[0] not in "-+" for line in lines[2:]):
            raise Problem(f"{where}: mutation {self.number} has no text to change, or lines that begin with neither - nor +")
        self.line = 0

    def find(self, text):
        """Where the old text is in the file's: once, or not at all."""
        pattern = r"\s+".join(re.escape(word) for word in self.old.split())
        found = list(re.finditer(pattern, text))
        if len(found) != 1:
            raise Problem(
                f"mutation {self.number}: {self.file} has {'no' if not found else len(found)} text\n  {self.old}\n"
                "  fix: write the entry for the file as it is now, with as much text as makes it the only one."
            )
        self.line = text.count("\n", 0, found[0].start()) + 1
        return found[0].start(), found[0].end()

    def text(self, old):
        """What takes the old text's place: both, and a choice between them."""
        chosen = f"::reef_mutation::is({self.number})"
        if "MUTATED" in self.new:
            return re.sub(r"\bMUTATED\b", chosen, self.new)
        if old.endswith((";", "}")):
            return f"if ({chosen}) {{ {self.new} }} else {{ {old} }}"
        return f"({chosen} ? ({self.new}) : ({old}))"


def read_lists():
    mutations = []
    for path in sorted(pathlib.Path(__file__).parent.glob("*.txt")):
        lines = [line for line in path.read_text().splitlines() if not line.startswith("#")]
        for block in "\n".join(lines).split("\n\n"):
            if block.strip():
                mutations.append(Mutation(path.name, block.strip("\n").splitlines()))
    numbers = [mutation.number for mutation in mutations]
    for number in set(numbers):
        if numbers.count(number) > 1:
            raise Problem(f"{numbers.count(number)} mutations have the number {number}")
    return sorted(mutations, key=lambda mutation: mutation.number)


def mutated_text(path, mutations):
    """The file's text with a choice at each place; mutations of one place exclude each other."""
    text = path.read_text()
    edits = sorted((mutation.find(text), mutation) for mutation in mutations) if mutations else []
    for (span, one), (next_span, other) in zip(edits, edits[1:]):
        if next_span[0] < span[1]:
            raise Problem(f"mutations {one.number} and {other.number} change the same text of {one.file}")
    for (begin, end), mutation in reversed(edits):
        text = text[:begin] + mutation.text(text[begin:end]) + text[end:]
    return text.replace("#pragma once\n", "#pragma once\n\n#include <reef/mutation.hpp>\n", 1) if edits else text


def write_if_changed(path, text):
    """Keeps what is there if it is the same, so that nothing is compiled again for it."""
    if path.exists() and path.read_text() == text:
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def write_tree(mutations):
    """The project as it is, but for its headers."""
    by_file = {}
    for mutation in mutations:
        by_file.setdefault(mutation.file, []).append(mutation)
    problems = []
    for name in by_file:
        if not (INCLUDE / name).is_file():
            problems.append(f"mutation {by_file[name][0].number}: there is no include/reef/{name}")
    texts = {}
    for path in sorted(INCLUDE.rglob("*")) + sorted(INCLUDE.parent.glob("*.*")):
        if not path.is_file():
            continue
        name = path.relative_to(INCLUDE).as_posix() if path.is_relative_to(INCLUDE) else path.name
        try:
            texts[path.relative_to(ROOT)] = mutated_text(path, by_file.get(name, []))
        except Problem as problem:
            problems.append(str(problem))
    if problems:
        raise Problem("\n".join(problems))
    texts[pathlib.Path("include/reef/mutation.hpp")] = SWITCH
    for name, text in texts.items():
        write_if_changed(SOURCE / name, text)
    for path in (SOURCE / "include").rglob("*"):
        if path.is_file() and path.relative_to(SOURCE) not in texts:
            path.unlink()
    for path in ROOT.iterdir():
        link = SOURCE / path.name
        if path.name not in ("include", "build") and not path.name.startswith(".") and not link.exists():
            link.symlink_to(path)


def call(command, log):
    with open(log, "w") as out:
        if subprocess.run(command, stdout=out, stderr=subprocess.STDOUT).returncode != 0:
            text = pathlib.Path(log).read_text()
            errors = re.findall(r"^.*error.*$", text, re.MULTILINE)
            raise Problem("\n".join(errors[:20] or text.splitlines()[-20:]) + f"\n{log} has all of it")


def configure():
    call(
        ["cmake", "-S", SOURCE, "-B", BUILD, "-G", "Ninja", "-DCMAKE_BUILD_TYPE=Debug",
         "-DCMAKE_CXX_FLAGS_DEBUG=-O1 -DNDEBUG -w", "-DREEF_BUILD_TESTS=ON", "-DREEF_BUILD_EXAMPLES=ON",
         "-DREEF_BUILD_BENCH=OFF", "-DREEF_ENABLE_CUDA=OFF", "-DREEF_CHECK_HEADERS=OFF", "-DREEF_CCACHE=ON"],
        FOLDER / "configure.log",
    )


def known_entries():
    """Each entry of ctest, with its program. (ctest itself names no program that is not built.)"""
    entries = {}
    for path in BUILD.rglob("CTestTestfile.cmake"):
        for name, command in re.findall(r'^add_test\((?:\[=\[)?"?(.+?)"?(?:\]=\])? (".*")\)$', path.read_text(), re.MULTILINE):
            programs = [word for word in re.findall(r'"([^"]*)"', command) if word.startswith(f"{BUILD}/")]
            entries[name] = pathlib.Path(programs[0]).name if programs else None
    return entries


def choose_entries(mutations, known):
    """Replaces `comm.wire` by all entries that it stands for."""
    for mutation in mutations:
        chosen = []
        for wanted in mutation.entries:
            here = [name for name in known if re.fullmatch(re.escape(wanted) + r"(\.p\d+)?", name)]
            if not here:
                raise Problem(f"mutation {mutation.number}: ctest has no entry {wanted}")
            chosen += sorted(here)
        mutation.entries = chosen


def commands_of(names):
    """How ctest would start them."""
    out = subprocess.run(["ctest", "--test-dir", BUILD, "--show-only=json-v1"], capture_output=True, text=True, check=True)
    commands = {}
    for test in json.loads(out.stdout)["tests"]:
        if test["name"] in names:
            properties = {one["name"]: one["value"] for one in test["properties"]}
            commands[test["name"]] = (test["command"], properties)
    return commands


def run_entry(command, properties, number, limit):
    """Returns whether it passed, and what it printed."""
    environment = dict(os.environ, REEF_MUTATION=str(number))
    environment.update(one.split("=", 1) for one in properties.get("ENVIRONMENT", []))
    process = subprocess.Popen(
        command, env=environment, cwd=properties["WORKING_DIRECTORY"], stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace", start_new_session=True,
    )
    try:
        out, _ = process.communicate(timeout=limit)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        return False, f"it has not ended after {limit:.0f} s"
    return process.returncode == 0, out


def message_of(out):
    """The first failure: the test's name, and what it says."""
    lines = [line.strip() for line in out.splitlines()]
    test = ""
    for i, line in enumerate(lines):
        if line.startswith("[ RUN      ]"):
            test = line[12:].strip() + ": "
        if line.endswith(": Failure") or ": Failure" in line:
            said = [one for one in lines[i + 1 : i + 8] if one and not one.startswith(("[", "Google Test trace"))]
            return test + "; ".join(said[:6])
    for line in lines:
        if re.search(r"what\(\)|terminate|rror:|reef::|signal|fault", line):
            return test + line
    return test + (lines[-1] if lines else "it ends without a word")


def judge(mutation, commands, limits):
    """The entry that fails and its message, or nothing."""
    for name in mutation.entries:
        passed, out = run_entry(*commands[name], mutation.number, limits[name])
        if not passed:
            return name, message_of(out)
    return None


def table(mutations, verdicts):
    for killed in (True, False):
        for mutation in mutations:
            verdict = verdicts[mutation.number]
            if (verdict is not None) != killed:
                continue
            print(f"{mutation.number:4}  {mutation.file}:{mutation.line}  {mutation.wrong}")
            if killed:
                print(f"      {verdict[0]}: {verdict[1][:300]}")
            else:
                print(f"      SURVIVES {', '.join(mutation.entries)}")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--only", default="")
    parser.add_argument("--list", action="store_true")
    options = parser.parse_args()
    mutations = read_lists()
    write_tree(mutations)  # all of them: another choice compiles nothing anew
    if options.only:
        wanted = [int(number) for number in options.only.split(",")]
        missing = set(wanted) - {mutation.number for mutation in mutations}
        if missing:
            raise Problem(f"no list has the mutation {min(missing)}")
        mutations = [mutation for mutation in mutations if mutation.number in wanted]
    if options.list:
        for mutation in mutations:
            print(f"{mutation.number:4}  {mutation.file}:{mutation.line}  {mutation.wrong}")
        return 0

    begun = time.monotonic()
    configure()
    known = known_entries()
    choose_entries(mutations, known)
    names = sorted({name for mutation in mutations for name in mutation.entries})
    targets = sorted({known[name] for name in names})
    say(f"building {len(targets)} programs with {len(mutations)} mutations")
    call(["cmake", "--build", BUILD, "-j", str(options.jobs), "--target", *targets], FOLDER / "build.log")
    say(f"built after {time.monotonic() - begun:.0f} s; running {len(names)} tests where nothing is broken")
    commands = commands_of(names)
    limits = {}
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        def of_none(name):
            start = time.monotonic()
            passed, out = run_entry(*commands[name], 0, 4 * commands[name][1].get("TIMEOUT", 60))  # code is slower here
            limits[name] = 30 + 4 * (time.monotonic() - start)
            return None if passed else f"{name} fails where nothing is broken: {message_of(out)}"
        failed = [text for text in pool.map(of_none, names) if text]
        if failed:
            raise Problem("\n".join(failed))
        say(f"running mutations after {time.monotonic() - begun:.0f} s")
        verdicts = {}
        def of_mutation(mutation):
            verdict = judge(mutation, commands, limits)
            verdicts[mutation.number] = verdict
            said = f"noticed by {verdict[0]}" if verdict else "SURVIVES"
            say(f"{len(verdicts)} of {len(mutations)}: mutation {mutation.number} {said}")
        list(pool.map(of_mutation, mutations))
    table(mutations, verdicts)
    killed = sum(verdict is not None for verdict in verdicts.values())
    say(f"{killed} of {len(mutations)} are noticed, after {time.monotonic() - begun:.0f} s")
    return 0 if killed >= WANTED * len(mutations) else 1


if __name__ == "__main__":
    try:
        sys.exit(main())
    except Problem as problem:
        say(str(problem))
        sys.exit(2)
