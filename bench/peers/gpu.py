#!/usr/bin/env python3
"""One GPT trained on a GPU by Reef and by PyTorch, eager and compiled, in turns; a row of JSON for bench/gpu_report.py.

bench/gpu.sh starts it. Both sides begin with one file of weights and read the same tokens; a row whose first ten
losses differ by more than 1e-3 in fp32, or 1e-2 in bf16, is void. Tokens/s are of the median step, the figures
medians over rounds. Where there is no PyTorch, or no GPU, the row says why there is nothing.
"""

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
LOSSES = 10


def why_not(python):
    """What PyTorch lacks here, or nothing."""
    probe = "import torch; print(torch.__version__ if torch.cuda.is_available() else '')"
    found = subprocess.run([python, "-c", probe], capture_output=True, text=True, check=False)
    if found.returncode:
        return None, "there is no PyTorch: " + (found.stderr.strip().splitlines() or ["?"])[-1]
    return found.stdout.strip(), "" if found.stdout.strip() else "PyTorch sees no GPU"


def run(command):
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)} ended with {done.returncode}: {done.stderr.strip()[-600:]}")
    return json.loads(done.stdout.splitlines()[-1])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--config", required=True)
    parser.add_argument("--precision", choices=["fp32", "bf16"], required=True)
    parser.add_argument("--build", type=Path, required=True, help="where peers_gpt_reef_cuda_bench is")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=30)
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()

    row = {"configuration": options.config, "precision": options.precision}
    torch, reason = why_not(sys.executable)
    if not reason:
        row["torch"] = torch
        with tempfile.TemporaryDirectory() as folder:
            measure(options, row, str(Path(folder) / "weights.safetensors"))
    else:
        row["skipped"] = reason
        print(f"skipped: {reason}")
    options.out.write_text(json.dumps(row, indent=1) + "\n")
    return 1 if row.get("void") else 0


def measure(options, row, weights):
    common = ["--configuration", options.config, "--precision", options.precision, "--weights", weights]
    peer = [sys.executable, str(HERE / "gpt_torch.py"), "--device", "cuda", *common]
    sides = {"reef": [str(options.build / "peers_gpt_reef_cuda_bench"), *common],
             "torch_eager": peer, "torch_compiled": [*peer, "--compile"]}
    run([*sides["reef"], "--steps", "0", "--warmup", "0"])  # writes the weights
    rounds = []
    for number in range(options.rounds):
        names = list(sides)
        names = names[number % 3:] + names[:number % 3]
        one = {}
        for name in names:
            if name in row.get("failed", {}):
                continue
            try:
                one[name] = run([*sides[name], "--steps", str(options.steps), "--warmup", str(LOSSES)])
            except RuntimeError as error:
                if name != "torch_compiled":
                    raise
                row.setdefault("failed", {})[name] = str(error)
        rounds.append(one)
        print({name: round(side["tokens"] / statistics.median(side["seconds"])) for name, side in one.items()}, flush=True)
    first = rounds[0]
    row["loss_difference"] = max(abs(a - b) for a, b in zip(first["reef"]["losses"][:LOSSES], first["torch_eager"]["losses"]))
    row["void"] = not row["loss_difference"] <= (1e-3 if options.precision == "fp32" else 1e-2)
    for name in sides:
        speeds = [one[name]["tokens"] / statistics.median(one[name]["seconds"]) for one in rounds if name in one]
        if speeds:
            row[name] = statistics.median(speeds)


if __name__ == "__main__":
    sys.exit(main())
