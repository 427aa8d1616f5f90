#!/usr/bin/env python3
"""Compares the training of a GPT in Reef and in PyTorch as Debian ships it, in interleaved rounds.

    cmake --preset release -DREEF_BUILD_BENCH=ON
    cmake --build build/release --target peers_gpt_reef_bench peers_gemm_ceiling_bench
    python3 bench/peers/run.py --configuration b256 --rounds 7 --json bench/results/peers_b256.json

Every round starts every row once, as processes of their own. All begin with the same safetensors file
and take the same tokens; a row whose first 10 losses differ from Reef's by more than 1e-3 is void.
Tokens/s are of the median step; what is printed are medians over rounds, and ratios of the same round.

The shares in brackets are what other processes took of the cores meanwhile.

    reef           one process, 2 threads, no environment variable set
    torch          the same, with the BLAS that Debian's alternatives choose
    torch-tuned    with OpenBLAS's OpenMP build, which shares PyTorch's threads, and its AVX-512 kernels
    reef-2x1       2 processes with 1 thread each under mpiexec
    torch-2x1      the same with DistributedDataParallel over gloo, tuned as above
    ceiling        oneDNN's time for the matrix products of the linear layers, and nothing else
"""

import argparse
import json
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
OPENMP_BLAS = "/usr/lib/x86_64-linux-gnu/openblas-openmp"
TUNED = {"OPENBLAS_CORETYPE": "SkylakeX", "LD_LIBRARY_PATH": OPENMP_BLAS}
MPIEXEC = ["mpiexec", "--allow-run-as-root", "--bind-to", "none", "-n", "2"]
ROWS = ["reef", "torch", "torch-tuned", "reef-2x1", "torch-2x1", "ceiling"]


def busy_seconds():
    """Seconds that the cores of this machine have worked, for whomever."""
    with open("/proc/stat") as file:
        user, nice, system, idle, waiting, irq, softirq = map(int, file.readline().split()[1:8])
    return (user + nice + system + irq + softirq) / os.sysconf("SC_CLK_TCK")


def own_seconds():
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def wait_for_quiet(limit):
    """Returns when others have left the cores alone for a second, or after `limit` seconds."""
    end = time.monotonic() + limit
    while time.monotonic() < end:
        busy = busy_seconds()
        time.sleep(1)
        if busy_seconds() - busy < 0.05 * os.cpu_count():
            return


class Peers:
    def __init__(self, options, configuration, weights):
        self.options = options
        steps = [f"--steps={options.steps + 3}", "--warmup=3", f"--clip={options.clip}"]
        common = [f"--configuration={configuration}", f"--weights={weights}"]
        split = [word for argument in common + steps for word in argument.split("=", 1)]
        reef = str(options.build / "peers_gpt_reef_bench")
        torch = [options.python, str(HERE / "gpt_torch.py"), *split]
        self.commands = {
            "reef": [reef, *split, "--threads", "2"],
            "torch": [*torch, "--threads", "2"],
            "torch-tuned": [*torch, "--threads", "2"],
            "reef-2x1": [*MPIEXEC, reef, *split, "--threads", "1"],
            "torch-2x1": [*torch, "--threads", "1"],
            "ceiling": [str(options.build / "peers_gemm_ceiling_bench"), "--configuration",
                        configuration, "--threads", "2"],
        }

    def run(self, row):
        """The least disturbed of at most --attempts runs; the first that is not disturbed is enough."""
        runs = []
        for _ in range(self.options.attempts):
            wait_for_quiet(self.options.quiet)
            runs.append(self.run_once(row))
            if runs[-1]["others"] <= self.options.others:
                break
        return min(runs, key=lambda run: run["others"])

    def run_once(self, row):
        """The row's line of JSON, and in `others` the share of the cores that other processes took."""
        environment = dict(os.environ)
        if row in ("torch-tuned", "torch-2x1"):
            environment |= TUNED
        copies = [environment]
        if row == "torch-2x1":
            with socket.socket() as free:
                free.bind(("127.0.0.1", 0))
                port = free.getsockname()[1]
            copies = [environment | {"RANK": str(rank), "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1",
                                     "MASTER_PORT": str(port)} for rank in range(2)]
        begin, busy, own = time.monotonic(), busy_seconds(), own_seconds()
        processes = [subprocess.Popen(self.commands[row], env=copy, stdout=subprocess.PIPE, text=True)
                     for copy in copies]
        outputs = [process.communicate()[0] for process in processes]
        if any(process.returncode for process in processes):
            sys.exit(f"{row} failed: {' '.join(self.commands[row])}")
        others = busy_seconds() - busy - (own_seconds() - own)
        result = json.loads(outputs[0].splitlines()[-1])
        result["others"] = max(0.0, others / (time.monotonic() - begin) / os.cpu_count())
        if row == "ceiling":
            result["tokens_per_s"] = result["tokens"] / result["seconds"]
        else:
            result["tokens_per_s"] = result["tokens"] / statistics.median(result["seconds"])
        return result


def processor():
    with open("/proc/cpuinfo") as file:
        names = [line.split(":", 1)[1].strip() for line in file if line.startswith("model name")]
    return f"{len(names)} x {names[0]}" if names else platform.machine()


def compare(options, configuration):
    with tempfile.TemporaryDirectory() as folder:
        peers = Peers(options, configuration, Path(folder) / "weights.safetensors")
        subprocess.run([*peers.commands["reef"][:-2], "--steps", "1"], check=True, stdout=subprocess.DEVNULL)
        rounds = []
        for number in range(options.rounds):
            order = options.rows[number % len(options.rows):] + options.rows[:number % len(options.rows)]
            rounds.append({row: peers.run(row) for row in order})
            print(f"  round {number + 1}: " + ", ".join(
                f"{row} {rounds[-1][row]['tokens_per_s']:.0f} ({rounds[-1][row]['others']:.0%})"
                for row in options.rows), flush=True)

    summary = {}
    for row in options.rows:
        runs = [one[row] for one in rounds]
        entry = {"tokens_per_s": statistics.median(run["tokens_per_s"] for run in runs)}
        for other in ("torch", "torch-tuned", "torch-2x1", "ceiling"):
            if other in options.rows and other != row:
                entry[f"of_{other}"] = statistics.median(
                    one[row]["tokens_per_s"] / one[other]["tokens_per_s"] for one in rounds)
        if row != "ceiling":
            steps = len(runs[0]["seconds"])
            entry["cpu_seconds_per_step"] = statistics.median(run["cpu_seconds"] / steps for run in runs)
            entry["loss_difference"] = max(
                abs(a - b) for run in runs for a, b in zip(run["losses"][:10], rounds[0]["reef"]["losses"]))
            entry["void"] = not entry["loss_difference"] <= 1e-3
        summary[row] = entry
    return {"configuration": configuration, "summary": summary, "rounds": rounds}


def show(result):
    print(f"{result['configuration']:12} {'tokens/s':>9} {'of torch':>9} {'of tuned':>9} {'of ceiling':>10} "
          f"{'CPU s/step':>10} {'losses':>8}")
    for row, entry in result["summary"].items():
        ratio = lambda name: f"{entry[name]:.2f}" if name in entry else "-"
        cpu = f"{entry['cpu_seconds_per_step']:.3f}" if "cpu_seconds_per_step" in entry else "-"
        losses = "VOID" if entry.get("void") else f"{entry.get('loss_difference', 0):.0e}"
        print(f"{row:12} {entry['tokens_per_s']:9.0f} {ratio('of_torch'):>9} {ratio('of_torch-tuned'):>9} "
              f"{ratio('of_ceiling'):>10} {cpu:>10} {losses:>8}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=Path, default=HERE.parent.parent / "build/release/bench",
                        help="where the two programs are")
    parser.add_argument("--configuration", nargs="+", default=["b256"], choices=["a", "b256", "b50k"])
    parser.add_argument("--rows", nargs="+", default=ROWS, choices=ROWS)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--steps", type=int, default=10, help="that are timed, after 3 that are not")
    parser.add_argument("--clip", type=float, default=1.0, help="largest gradient norm, 0 for none")
    parser.add_argument("--quiet", type=float, default=60, help="how long to wait for idle cores before a run")
    parser.add_argument("--others", type=float, default=0.05,
                        help="the share of the cores that others may take before a run counts as disturbed")
    parser.add_argument("--attempts", type=int, default=3, help="at an undisturbed run")
    parser.add_argument("--python", default="/usr/bin/python3", help="the one that has Debian's python3-torch")
    parser.add_argument("--json", type=Path, help="keeps everything here")
    options = parser.parse_args()
    if "reef" not in options.rows:
        parser.error("--rows needs reef: the others' losses are compared with its losses")
    if {"torch-tuned", "torch-2x1"} & set(options.rows) and not Path(OPENMP_BLAS).is_dir():
        parser.error(f"no {OPENMP_BLAS}: apt-get install libopenblas0-openmp, or leave the tuned rows out")

    results = []
    for configuration in options.configuration:
        results.append(compare(options, configuration))
        show(results[-1])
    if options.json:
        blas = os.path.realpath("/usr/lib/x86_64-linux-gnu/libblas.so.3")
        version = subprocess.run([options.python, "-c", "import torch; print(torch.__version__)"],
                                 check=True, capture_output=True, text=True).stdout.strip()
        report = {"command": " ".join(["run.py", *sys.argv[1:]]), "processor": processor(),
                  "torch": version, "blas": blas, "results": results}
        options.json.write_text(json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    main()
