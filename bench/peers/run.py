#!/usr/bin/env python3
"""Compares the training of a GPT in Reef and in tuned PyTorch, in interleaved rounds.

    cmake --preset release -DREEF_BUILD_BENCH=ON
    cmake --build build/release --target peers_gpt_reef_bench peers_gemm_ceiling_bench
    python3 bench/peers/run.py --config a,b256,b50k --precision fp32,bf16 --layout 2t,2x1 --rounds 7

Each combination is a row: in every round Reef, tuned PyTorch and, for 2t, oneDNN's matrix products run
once, as processes of their own, each round starting with another. All begin with one safetensors file and
take the same tokens; a row whose first 10 losses differ by more than 1e-3 is void. Of bf16 it is said too how
far each side's losses are from its own in fp32: both round, in places of their own.

    2t     one process with 2 threads
    2x1    2 processes with 1 thread each: Ddp under mpiexec, DistributedDataParallel over gloo

PyTorch is tuned for this processor before the first round: the OpenBLAS builds and core types that it can
run are tried on b256, the fastest is taken and recorded. The system's alternatives stay as they are:
LD_LIBRARY_PATH names the BLAS. Reef runs with no environment variable set.

Tokens/s are of the median step; what is printed are medians over rounds, and ratios of the same round. Steps
are as many as --row-seconds allow, at least 3, after a warm-up of 1; losses of 10 steps are compared once,
before the rounds. Written are NAME.json with every round's figures, and NAME.md, for --out NAME.
"""

import argparse
import json
import math
import os
import platform
import resource
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
from page import write_page  # noqa: E402
BLAS = Path("/usr/lib/x86_64-linux-gnu")
MPIEXEC = ["mpiexec", "--allow-run-as-root", "--bind-to", "none", "-n", "2"]
TOLERANCE = 1e-3
LOSSES = 10


def busy_seconds():
    """Seconds that the cores of this machine have worked, for whomever."""
    with open("/proc/stat") as file:
        user, nice, system, idle, waiting, irq, softirq = map(int, file.readline().split()[1:8])
    return (user + nice + system + irq + softirq) / os.sysconf("SC_CLK_TCK")


def own_seconds():
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def processor():
    with open("/proc/cpuinfo") as file:
        lines = dict(line.split(":", 1) for line in file if ":" in line)
    fields = {key.strip(): value.strip() for key, value in lines.items()}
    wanted = {"avx2", "avx512f", "avx512_bf16", "amx_bf16"}
    return (f"{os.cpu_count()} x {fields.get('model name', platform.machine())} (family "
            f"{fields.get('cpu family')}, model {fields.get('model')})",
            sorted(wanted & set(fields.get("flags", "").split())))


def blas_choices(flags):
    """OpenBLAS builds that are installed, with the core types that this processor can run."""
    cores = ["", "Haswell", "Zen"]
    if "avx512f" in flags:
        cores += ["SkylakeX"]
    if "avx512_bf16" in flags:
        cores += ["Cooperlake"]
    for build in ("openblas-openmp", "openblas-pthread"):
        if (BLAS / build).is_dir():
            for core in cores if build == "openblas-openmp" else [""]:
                environment = {"LD_LIBRARY_PATH": str(BLAS / build)}
                yield environment | ({"OPENBLAS_CORETYPE": core} if core else {})


class Peers:
    """Runs one side once, for one configuration and precision."""

    def __init__(self, options, configuration, precision, weights):
        self.options = options
        self.configuration = configuration
        self.arguments = ["--configuration", configuration, "--weights", str(weights),
                          "--clip", str(options.clip), "--precision", precision]
        self.reef = str(options.build / "peers_gpt_reef_bench")
        self.torch = [options.python, str(HERE / "gpt_torch.py")]
        self.tuned = {}

    def command(self, side, layout, steps, warmup):
        if side == "ceiling":
            return [str(self.options.build / "peers_gemm_ceiling_bench"), "--configuration",
                    self.configuration, "--threads", "2"]
        split = [*self.arguments, "--steps", str(steps), "--warmup", str(warmup),
                 "--threads", "2" if layout == "2t" else "1"]
        if side == "torch":
            return [*self.torch, *split]
        return [*(MPIEXEC if layout == "2x1" else []), self.reef, *split]

    def run(self, side, layout, steps, warmup):
        """The line of JSON, with tokens_per_s and, in `others`, what other processes took of the cores."""
        environment = dict(os.environ) | (self.tuned if side == "torch" else {})
        copies = [environment]
        if side == "torch" and layout == "2x1":
            with socket.socket() as free:
                free.bind(("127.0.0.1", 0))
                port = free.getsockname()[1]
            copies = [environment | {"RANK": str(rank), "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1",
                                     "MASTER_PORT": str(port)} for rank in range(2)]
        command = self.command(side, layout, steps, warmup)
        begin, busy, own = time.monotonic(), busy_seconds(), own_seconds()
        processes = [subprocess.Popen(command, env=copy, stdout=subprocess.PIPE, text=True)
                     for copy in copies]
        outputs = [process.communicate()[0] for process in processes]
        if any(process.returncode for process in processes):
            sys.exit(f"{side} failed: {' '.join(command)}")
        result = json.loads(outputs[0].splitlines()[-1])
        others = busy_seconds() - busy - (own_seconds() - own)
        result["others"] = max(0.0, others / (time.monotonic() - begin) / os.cpu_count())
        seconds = result["seconds"]
        result["tokens_per_s"] = result["tokens"] / (
            statistics.median(seconds) if isinstance(seconds, list) else seconds)
        return result


def calibrate(options, flags, weights):
    """The fastest environment for PyTorch, and the tokens/s of all that were tried."""
    tried = []
    for environment in blas_choices(flags):
        peers = Peers(options, "b256", "fp32", weights)
        peers.tuned = environment
        speeds = [peers.run("torch", "2t", 4, 1)["tokens_per_s"] for _ in range(2)]
        tried.append({"environment": environment, "tokens_per_s": max(speeds)})
        print(f"  torch with {environment}: {max(speeds):.0f} tokens/s", flush=True)
    if not any("openmp" in one["environment"]["LD_LIBRARY_PATH"] for one in tried):
        sys.exit("no OpenMP build of OpenBLAS: apt-get install libopenblas0-openmp")
    return max(tried, key=lambda one: one["tokens_per_s"])["environment"], tried


def from_fp32(options, configuration, layout, weights, tuned, first):
    """By side: how far its losses are at most from those that it comes to in fp32."""
    peers = Peers(options, configuration, "fp32", weights)
    peers.tuned = tuned
    result = {}
    for side in first:
        wide = peers.run(side, layout, LOSSES, 1)["losses"]
        result[side] = max(abs(a - b) for a, b in zip(first[side]["losses"], wide))
    return result


def compare(options, configuration, precision, layout, weights, tuned):
    peers = Peers(options, configuration, precision, weights)
    peers.tuned = tuned
    sides = ["reef", "torch"] + (["ceiling"] if layout == "2t" else [])

    # The losses, and with them how long a step takes on either side.
    first = {side: peers.run(side, layout, LOSSES, 1) for side in ("reef", "torch")}
    pairs = list(zip(first["reef"]["losses"], first["torch"]["losses"]))
    finite = len(pairs) == LOSSES and all(math.isfinite(a) and math.isfinite(b) for a, b in pairs)
    difference = max(abs(a - b) for a, b in pairs) if finite else math.inf
    step = sum(statistics.median(first[side]["seconds"]) for side in first)
    steps = max(3, min(10, int(options.row_seconds / options.rounds / step - 1)))

    rounds = []
    for number in range(options.rounds):
        at = number % len(sides)
        rounds.append({side: peers.run(side, layout, steps + 1, 1) for side in sides[at:] + sides[:at]})
        print(f"  {configuration} {precision} {layout} round {number + 1}: " + ", ".join(
            f"{side} {rounds[-1][side]['tokens_per_s']:.0f} ({rounds[-1][side]['others']:.0%})"
            for side in sides), flush=True)
    middle = lambda of: statistics.median(of(one) for one in rounds)
    speed = lambda one, side: one[side]["tokens_per_s"]
    row = {"configuration": configuration, "precision": precision, "layout": layout, "steps": steps,
           "loss_difference": difference, "void": not difference <= TOLERANCE,
           "ratio": middle(lambda one: speed(one, "reef") / speed(one, "torch")),
           "ratios": [speed(one, "reef") / speed(one, "torch") for one in rounds],
           "commands": {side: " ".join(peers.command(side, layout, steps + 1, 1)) for side in sides},
           "rounds": rounds}
    if precision == "bf16":
        row["from_fp32"] = from_fp32(options, configuration, layout, weights, tuned, first)
    row |= {side: middle(lambda one, side=side: speed(one, side)) for side in sides}
    if "ceiling" in sides:
        row["of_ceiling"] = middle(lambda one: speed(one, "reef") / speed(one, "ceiling"))
        row["torch_of_ceiling"] = middle(lambda one: speed(one, "torch") / speed(one, "ceiling"))
    return row


def table(report):
    """The report as Markdown."""
    lines = ["# Training a GPT beside tuned PyTorch", "",
             f"    {report['command']}", "",
             f"Machine: {report['processor']}, {', '.join(report['flags'])}; {report['system']}.",
             f"{report['compiler']}; PyTorch {report['torch']}, tuned: "
             + ", ".join(f"{key}={value}" for key, value in report["tuned"].items()) + ".",
             "Medians over rounds in tokens/s; ratios are medians of the rounds' own, in brackets the "
             "smallest and largest.",
             "The ceiling is oneDNN's time for the products of the linear layers alone, in fp32, on 2 threads.",
             "Others: the largest share of the cores that other processes took in a run.", "",
             "| configuration | precision | layout | Reef | PyTorch | ratio | Reef of ceiling | PyTorch of "
             "ceiling | steps x rounds | 10 losses within | others |",
             "|---|---|---|--:|--:|--:|--:|--:|--:|--:|--:|"]
    for row in report["rows"]:
        share = lambda key: f"{row[key]:.2f}" if key in row else ""
        ratio = f"**{row['ratio']:.2f}** ({min(row['ratios']):.2f} to {max(row['ratios']):.2f})"
        others = max(run["others"] for one in row["rounds"] for run in one.values())
        lines.append(
            f"| {row['configuration']} | {row['precision']} | {row['layout']} | {row['reef']:.0f} | "
            f"{row['torch']:.0f} | {'VOID' if row['void'] else ratio} | {share('of_ceiling')} | "
            f"{share('torch_of_ceiling')} | {row['steps']} x {len(row['rounds'])} | "
            f"{row['loss_difference']:.0e} | {others:.0%} |")
    if any("from_fp32" in row for row in report["rows"]):
        lines += ["", "How far ten losses in bf16 are at most from those of the same program in fp32:", ""]
        lines += [f"- {row['configuration']} {row['layout']}: Reef {row['from_fp32']['reef']:.0e}, PyTorch "
                  f"{row['from_fp32']['torch']:.0e}" for row in report["rows"] if "from_fp32" in row]
    lines += ["", "PyTorch's settings that were tried, on b256 with 2 threads:", ""]
    lines += [f"- {one['tokens_per_s']:.0f} tokens/s: "
              + ", ".join(f"{key}={value}" for key, value in one["environment"].items())
              for one in report["calibration"]]
    lines += ["", "Tokens/s of Reef / PyTorch by round:", ""]
    lines += [f"- {row['configuration']} {row['precision']} {row['layout']}: " + ", ".join(
        f"{one['reef']['tokens_per_s']:.0f} / {one['torch']['tokens_per_s']:.0f}" for one in row["rounds"])
        for row in report["rows"]]
    return "\n".join(lines) + "\n"


def output_of(command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    choice = lambda allowed: lambda text: [
        word if word in allowed else parser.error(f"{word} is none of {', '.join(allowed)}")
        for word in text.split(",")]
    parser.add_argument("--config", type=choice(["a", "b256", "b50k"]), default=["b256"])
    parser.add_argument("--precision", type=choice(["fp32", "bf16"]), default=["fp32"])
    parser.add_argument("--layout", type=choice(["2t", "2x1"]), default=["2t", "2x1"])
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--row-seconds", type=float, default=200, help="of timed steps in a row, about")
    parser.add_argument("--clip", type=float, default=1.0, help="largest gradient norm, 0 for none")
    parser.add_argument("--build", type=Path, default=HERE.parent.parent / "build/release/bench",
                        help="where the two programs are")
    parser.add_argument("--python", default="/usr/bin/python3", help="the one that has Debian's python3-torch")
    parser.add_argument("--out", type=Path, help="writes OUT.json and OUT.md")
    options = parser.parse_args()

    name, flags = processor()
    report = {"command": " ".join(["python3 bench/peers/run.py", *sys.argv[1:]]), "processor": name,
              "flags": flags, "system": platform.platform(),
              "compiler": output_of(["c++", "--version"]).splitlines()[0],
              "torch": output_of([options.python, "-c", "import torch; print(torch.__version__)"]),
              "rows": []}
    with tempfile.TemporaryDirectory() as folder:
        weights = {one: Path(folder) / f"{one}.safetensors" for one in {*options.config, "b256"}}
        for configuration, path in weights.items():
            subprocess.run([str(options.build / "peers_gpt_reef_bench"), "--configuration", configuration,
                            "--weights", str(path), "--steps", "0", "--warmup", "0"],
                           check=True, stdout=subprocess.DEVNULL)
        report["tuned"], report["calibration"] = calibrate(options, flags, weights["b256"])
        for configuration in options.config:
            for precision in options.precision:
                for layout in options.layout:
                    report["rows"].append(compare(options, configuration, precision, layout,
                                                  weights[configuration], report["tuned"]))
                    if options.out:  # after each row: a long run that is cut off has kept something
                        options.out.with_suffix(".json").write_text(json.dumps(report, indent=1) + "\n")
                        write_page(options.out.with_suffix(".md"), table(report))
    print(table(report))
    return 1 if any(row["void"] for row in report["rows"]) else 0


if __name__ == "__main__":
    sys.exit(main())
