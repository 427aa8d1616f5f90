#!/usr/bin/env python3
"""Peers that come and go beside one MPI job of as many ranks, and beside themselves when peers are killed.

    cmake --build build/release --target reef-swarm reef-train
    python3 bench/swarm/peers.py --out bench/results/swarm_peers

Written are NAME.json and NAME.md, for --out NAME.

undisturbed  the samples a second of `reef-swarm train` with --peers processes and of `reef-train --recipe ddp` with as many
             ranks, of the same model, micro-batches and global batch, a thread each, in turn. The rival is the MPI job.
churn        peers that compute and then rest, so that all together take less than the cores: undisturbed; and with one of
             them killed by kill -9 every --kill-every seconds, of which the next one of its name comes --away seconds later.
             To compare with: (n - 1) / n of the undisturbed samples a second while one is away, and all of them otherwise.
             That is no roof, since those who stay take what is open, and wait less for each other.
join         how long a peer that starts takes from its start to the first round that it contributes to, and the seconds of
             a round.
"""

import argparse
import json
import os
import platform
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from datetime import date
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "bench"))
from page import commit, write_page  # noqa: E402

MODEL = {"layers": 4, "heads": 4, "channels": 128, "context": 64, "batch": 4}


def processor():
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return platform.processor()


class Swarm:
    """A log server and peers on loopback, in a folder of their own."""

    def __init__(self, options, folder, name, members, pace, rounds):
        self.program = options.build / "examples" / "reef-swarm"
        self.folder = Path(folder) / name
        self.folder.mkdir()
        self.members, self.pace, self.rounds, self.global_batch = members, pace, rounds, options.global_batch
        self.started, self.count = {}, 0
        port = self.folder / "port"
        with open(port, "w") as out, open(self.folder / "log.log", "w") as err:
            self.log = subprocess.Popen([self.program, "log-server", "--listen", "127.0.0.1:0", "--dir", self.folder / "log"],
                                        stdout=out, stderr=err)
        while not port.read_text().strip():
            if self.log.poll() is not None:
                sys.exit("the log server has ended: " + (self.folder / "log.log").read_text())
            time.sleep(0.05)
        self.url = f"http://127.0.0.1:{port.read_text().strip()}"

    def start(self, name):
        """Starts a peer. Returns the file of its metrics."""
        self.count += 1
        metrics = self.folder / f"{name}.{self.count}.jsonl"
        command = [self.program, "train", "--log", self.url, "--plain-loopback", "--job", "bench", "--members", self.members,
                   "--rounds", self.rounds, "--global-batch", self.global_batch, "--threads", 1, "--pace", self.pace,
                   "--name", name, "--metrics", metrics, "--data", ROOT / "README.md"]
        for key, value in MODEL.items():
            command += [f"--{key}", value]
        with open(self.folder / f"{name}.{self.count}.log", "w") as err:
            self.started[name] = subprocess.Popen([str(word) for word in command], stderr=err)
        return metrics

    def kill(self, name):
        self.started[name].send_signal(signal.SIGKILL)
        self.started[name].wait()

    def wait(self, names):
        for name in names:
            if self.started[name].wait() != 0:
                sys.exit(f"{name} has ended with an error: " + (self.folder / f"{name}.{self.count}.log").read_text()[-2000:])

    def close(self):
        for process in [*self.started.values(), self.log]:
            if process.poll() is None:
                process.terminate()
                process.wait()


def rounds_of(metrics):
    if not metrics.exists():
        return []
    lines = metrics.read_text().split("\n")[:-1]
    return [json.loads(line) for line in lines]


def samples_per_second(rounds):
    """Of all rounds but the first tenth, in which peers find each other and caches fill."""
    rounds = rounds[len(rounds) // 10:]
    micro_batches = sum(round["micro_batches"] for round in rounds[1:])
    return micro_batches * MODEL["batch"] / (rounds[-1]["seconds"] - rounds[0]["seconds"])


def undisturbed(options, folder, turn, members, pace, rounds):
    swarm = Swarm(options, folder, f"undisturbed{turn}_{members}_{pace}", members, pace, rounds)
    try:
        names = [f"p{i}" for i in range(members)]
        files = [swarm.start(name) for name in names]
        swarm.wait(names)
        return statistics.median(samples_per_second(rounds_of(file)) for file in files)
    finally:
        swarm.close()


def mpi_job(options, folder, turn, ranks, rounds):
    metrics = Path(folder) / f"mpi{turn}.jsonl"
    environment = dict(os.environ, OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1",
                       OMPI_MCA_rmaps_base_oversubscribe="1", OMPI_MCA_hwloc_base_binding_policy="none", OMP_NUM_THREADS="1")
    command = ["mpiexec", "-n", ranks, options.build / "examples" / "reef-train", "--recipe", "ddp", "--model",
               f"{MODEL['layers']}x{MODEL['heads']}x{MODEL['channels']}", "--context", MODEL["context"], "--batch", MODEL["batch"],
               "--micro-batches", options.global_batch // ranks, "--steps", rounds, "--threads", 1, "--data", ROOT / "README.md",
               "--metrics", metrics]
    subprocess.run([str(word) for word in command], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                   env=environment)
    steps = [step for step in rounds_of(metrics) if "step" in step]
    steps = steps[len(steps) // 10:]
    return (steps[-1]["tokens"] - steps[0]["tokens"]) / MODEL["context"] / (steps[-1]["seconds"] - steps[0]["seconds"])


def churn(options, folder, members, pace, seconds):
    """Returns (samples a second, the part of the time in which one was away, seconds from starts to first contributions)."""
    swarm = Swarm(options, folder, "churn", members, pace, 1_000_000)
    try:
        first = swarm.start("p0")
        for i in range(1, members):
            swarm.start(f"p{i}")
        while len(rounds_of(first)) < 5:
            time.sleep(0.1)
        begin_rounds, began, away, joins = len(rounds_of(first)), time.monotonic(), 0.0, []
        victim = 1
        while time.monotonic() - began < seconds:
            time.sleep(options.kill_every - options.away)
            swarm.kill(f"p{victim}")
            time.sleep(options.away)
            away += options.away
            started = time.monotonic()
            file = swarm.start(f"p{victim}")
            while not any(f"p{victim}" in round["contributors"] for round in rounds_of(file)):
                time.sleep(0.02)
            joins.append(time.monotonic() - started)
            away += joins[-1]
            victim = victim % (members - 1) + 1
        rounds = rounds_of(first)[begin_rounds:]
        samples = sum(round["micro_batches"] for round in rounds[1:]) * MODEL["batch"]
        span = rounds[-1]["seconds"] - rounds[0]["seconds"]
        return samples / span, away / (time.monotonic() - began), joins, span / (len(rounds) - 1)
    finally:
        swarm.close()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=Path, default=ROOT / "build" / "release")
    parser.add_argument("--out", default="swarm_peers")
    parser.add_argument("--peers", type=int, default=2)
    parser.add_argument("--global-batch", type=int, default=16, help="micro-batches of a round, of all peers")
    parser.add_argument("--rounds", type=int, default=150)
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--churn-peers", type=int, default=4)
    parser.add_argument("--pace", type=float, default=0.1, help="seconds that a peer of `churn` rests in a micro-batch")
    parser.add_argument("--churn-seconds", type=float, default=180)
    parser.add_argument("--kill-every", type=float, default=30)
    parser.add_argument("--away", type=float, default=5)
    options = parser.parse_args()
    if options.global_batch % options.peers != 0:
        parser.error("--global-batch is no multiple of --peers, so ranks would compute more than peers")

    with tempfile.TemporaryDirectory(prefix="reef-swarm-bench.") as folder:
        pairs = []
        for turn in range(options.turns):
            pairs.append((undisturbed(options, folder, turn, options.peers, 0, options.rounds),
                          mpi_job(options, folder, turn, options.peers, options.rounds)))
            print(f"turn {turn + 1}: swarm {pairs[-1][0]:.1f}, MPI job {pairs[-1][1]:.1f} samples/s", flush=True)
        n = options.churn_peers
        quiet = undisturbed(options, folder, 0, n, options.pace, 60)
        busy, away, joins, round_seconds = churn(options, folder, n, options.pace, options.churn_seconds)
        present = quiet * (1 - away / n)
        print(f"churn: {busy:.1f} of {quiet:.1f} samples/s, {present:.1f} by who was there; joins {[round(j, 2) for j in joins]} s", flush=True)

    swarm, job = (statistics.median(pair[i] for pair in pairs) for i in (0, 1))
    ratio = statistics.median(pair[0] / pair[1] for pair in pairs)
    result = {"date": str(date.today()), "commit": commit(), "processor": processor(), "cores": os.cpu_count(), "model": MODEL,
              "pairs": pairs, "churn": {"peers": n, "quiet": quiet, "busy": busy, "away": away, "joins": joins,
                                        "round_seconds": round_seconds, "by_presence": present}}
    Path(options.out + ".json").write_text(json.dumps(result, indent=1) + "\n")
    shape = f"{MODEL['layers']}x{MODEL['heads']}x{MODEL['channels']}, context {MODEL['context']}, {MODEL['batch']} samples a micro-batch"
    write_page(options.out + ".md", f"""# Peers that come and go, beside one MPI job

{result['date']}, {os.cpu_count()} cores of {result['processor']}. GPT {shape}; {options.global_batch} micro-batches a round or step.
By `python3 bench/swarm/peers.py`.

| samples/s, median of {options.turns} turns | `reef-swarm train` | `reef-train --recipe ddp` | ratio, of pairs |
|---|---|---|---|
| {options.peers} processes of a thread, undisturbed | {swarm:.1f} | {job:.1f} | {ratio:.2f} ({min(a / b for a, b in pairs):.2f} to {max(a / b for a, b in pairs):.2f}) |

| {n} peers that rest {options.pace} s in each micro-batch | samples/s |
|---|---|
| undisturbed | {quiet:.1f} |
| one killed every {options.kill_every:.0f} s, its next incarnation {options.away:.0f} s later, for {options.churn_seconds:.0f} s | {busy:.1f} |
| undisturbed, less the share of one of {n} for the {away:.0%} of the time until its next one contributes | {present:.1f} |

From its start to the end of the first round with it, a peer that joins takes {statistics.median(joins):.2f} s (median of {len(joins)}; {min(joins):.2f} to
{max(joins):.2f}); a round takes {round_seconds:.2f} s.
""")


if __name__ == "__main__":
    main()
