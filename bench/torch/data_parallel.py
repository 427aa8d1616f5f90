#!/usr/bin/env python3
"""Trains the same modules by reef::torch::data_parallel and by PyTorch's DistributedDataParallel over gloo, and compares steps.

    apt-get install -y --no-install-recommends python3-torch    # of the same libtorch as libtorch-dev
    cmake --preset release -DREEF_BUILD_BENCH=ON -DREEF_ENABLE_TORCH=ON
    cmake --build build/release --target torch_data_parallel_bench
    /usr/bin/python3 bench/torch/data_parallel.py --out bench/results/torch_data_parallel

Written are NAME.md and NAME.json, for --out NAME. Both sides have 2 ranks of one thread, fp32, AdamW, batches and first weights
of the same bits. In each round all take turns, and ratios are medians of the rounds' ratios. PyTorch's AdamW has its default, one tensor after another, and `foreach`; its DDP has
gradients in buckets (gradient_as_bucket_view). `plain` is one process without any distribution, in C++ and in Python.

Debian's libtorch takes whichever libblas.so.3 there is: with the reference BLAS (libblas3) products take so long that nothing else
counts. With OpenBLAS beside it, unpacked to a folder: LD_LIBRARY_PATH=FOLDER/usr/lib/x86_64-linux-gnu/openblas-pthread and
OPENBLAS_NUM_THREADS=1; OPENBLAS_CORETYPE names the processor where OpenBLAS does not know it.
"""

import argparse
import json
import os
import platform
import shlex
import socket
import statistics
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
from page import write_page  # noqa: E402
MODULES = {"mlp": "4 linear layers, 2.4 M parameters, batch 32", "conv": "3 convolutions, 0.11 M, batch 16 of 32 x 32",
           "gpt": "2 layers of 128 channels, 0.53 M, batch 4 of 64 tokens"}
WAYS = {"plain C++": None, "plain Python": None, "reef Ddp": "ddp", "reef Zero1": "zero1", "DDP": [], "DDP, foreach": ["--foreach"],
        "DDP, ZeroRedundancyOptimizer": ["--zero"]}


def processor():
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return platform.processor()


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def reef(options, what, module, ranks):
    command = [str(options.program), what, module, str(options.steps), str(options.warmup)]
    if ranks > 1:
        command = options.mpiexec.split() + ["-n", str(ranks)] + command
    environment = dict(os.environ, OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1", OMP_NUM_THREADS="1")
    out = subprocess.run(command, env=environment, check=True, capture_output=True, text=True, timeout=500).stdout
    return json.loads(out.strip().splitlines()[-1])


def pytorch(options, arguments, module, ranks):
    port = free_port()
    command = [sys.executable, str(HERE / "ddp_torch.py"), "--module", module, "--steps", str(options.steps), "--warmup",
               str(options.warmup)] + arguments
    started = []
    for rank in range(ranks):
        environment = dict(os.environ, RANK=str(rank), WORLD_SIZE=str(ranks), MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port),
                           OMP_NUM_THREADS="1")
        started.append(subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True))
    outputs = [process.communicate(timeout=500)[0] for process in started]
    if any(process.returncode for process in started):
        sys.exit("data_parallel.py: a rank of PyTorch has failed")
    return json.loads(outputs[0].strip().splitlines()[-1])


def run(options, way, module):
    how = WAYS[way]
    if way.startswith("plain"):
        return reef(options, "plain", module, 1) if way == "plain C++" else pytorch(options, [], module, 1)
    if isinstance(how, str):
        return reef(options, how, module, options.ranks)
    return pytorch(options, how, module, options.ranks)


def figures(report, module, way, figure):
    return [round_[figure] for round_ in report["runs"][module][way]]


def ratio(report, module, way, other, figure):
    """The median over rounds of other's time by way's, with the least and the most."""
    ratios = [b / a for a, b in zip(figures(report, module, way, figure), figures(report, module, other, figure))]
    return f"{statistics.median(ratios):.2f} [{min(ratios):.2f}, {max(ratios):.2f}]"


def table(report):
    lines = ["# data_parallel beside PyTorch's DistributedDataParallel", "", f"    {report['command']}", "",
             f"Machine: {report['processor']}, {report['cores']} cores, which others used too: load {report['load'][0]:.1f} at the begin, "
             f"{report['load'][1]:.1f} at the end; {report['system']}; PyTorch",
             f"{report['torch']} and libtorch of the same package. {report['ranks']} ranks of one thread, fp32, AdamW, {report['rounds']} rounds in "
             f"turn of {report['steps']} steps each after {report['warmup']}. Of a run: its median step, its fastest one, and the time that a",
             "rank's processors took a step, waits that spin included, which says more than a step where others use the cores too. Medians over",
             "rounds, of ratios [least, most]. Losses after the last step.", ""]
    for module, runs in report["runs"].items():
        rivals = [way for way in runs if way.startswith("DDP") and "Zero" not in way]
        rival = min(rivals, key=lambda way: statistics.median(figures(report, module, way, "seconds")))
        lines += [f"## {module}: {MODULES[module]}", "",
                  f"| | median step, ms | times as fast as {rival} | fastest step, ms | times as fast | processor, ms a step | times less | "
                  "optimizer's state, MB a rank | loss |", "|---|--:|--:|--:|--:|--:|--:|--:|--:|"]
        for way, rounds in runs.items():
            cells = []
            for figure in ("seconds", "fastest", "cpu_seconds"):
                cells += [f"{1e3 * statistics.median(figures(report, module, way, figure)):.2f}", ratio(report, module, way, rival, figure)]
            state = f"{max(r['optimizer_bytes'] for r in rounds) / 1e6:.2f}" if rounds[0]["optimizer_bytes"] else ""
            lines.append(f"| {way} | " + " | ".join(cells) + f" | {state} | {rounds[-1]['loss']:.6f} |")
        lines.append("")
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", type=Path, default=HERE.parent.parent / "build/release/bench/torch_data_parallel_bench")
    parser.add_argument("--mpiexec", default="mpiexec --oversubscribe --bind-to none")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--modules", nargs="+", default=list(MODULES), choices=list(MODULES))
    parser.add_argument("--ways", nargs="+", default=list(WAYS), choices=list(WAYS))
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--warmup", type=int, default=10)
    options = parser.parse_args()
    load = [os.getloadavg()[0]]
    runs = {module: {way: [] for way in options.ways} for module in options.modules}
    environment = "".join(f"{name}={os.environ[name]} " for name in ("OPENBLAS_CORETYPE",) if name in os.environ)
    for round_ in range(options.rounds):
        for module in options.modules:
            ways = options.ways
            for way in ways[round_ % len(ways):] + ways[:round_ % len(ways)]:
                runs[module][way].append(run(options, way, module))
        # What there is by now: a round may be the last that there is time for.
        report = {"command": environment + "/usr/bin/python3 bench/torch/data_parallel.py " + shlex.join(sys.argv[1:]),
                  "processor": processor(), "cores": os.cpu_count(), "system": platform.platform(),
                  "load": load + [os.getloadavg()[0]], "ranks": options.ranks, "rounds": round_ + 1, "steps": options.steps,
                  "warmup": options.warmup, "torch": next(run_["torch"] for of_way in runs[options.modules[0]].values() for run_ in of_way if "torch" in run_), "runs": runs}
        write_page(options.out.with_suffix(".md"), table(report))
        options.out.with_suffix(".json").write_text(json.dumps(report, indent=1) + "\n")
    print(table(report))


if __name__ == "__main__":
    main()
