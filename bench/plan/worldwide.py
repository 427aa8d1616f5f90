#!/usr/bin/env python3
"""What placement, codecs and recipes are worth on 64 GPUs in eight regions, simulated: bench/results/worldwide_simulated.md.

    bench/plan/worldwide.py build/release/examples/reef-plan tests/data/allocate_case5.json

The model of DT-FM (arXiv 2206.01288, section 4): GPT-3 of 1.3 billion parameters, 1024 sequences of 2048 tokens a step, 8 pipelines of 8
stages, a sequence a micro-batch. Speed is assumed: --flops of each GPU for the model's operations.
"""
import argparse
import json
import random
import resource
import subprocess
import tempfile
import time


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("reef_plan")
    parser.add_argument("case")
    parser.add_argument("--flops", type=float, default=5e13)
    parser.add_argument("--micro-batches", type=int, default=128)
    parser.add_argument("--random", type=int, default=5)
    parser.add_argument("--planned", type=int, default=128, help="micro-batches of the job in the step that is planned")
    options = parser.parse_args()
    with open(options.case) as file:
        network = json.load(file)
    case = {"recipe": "dtfm", "pipeline": "1f1b", "stages": 8, "micro_batches": options.micro_batches,
            "model": {"shape": "24x16x2048", "context": 2048, "batch": 1, "vocabulary": 50257},
            "device": {"flops": options.flops, "memory_gbps": 800},
            "network": {"ranks": 64, "latency_ms": network["latency_ms"], "bandwidth_gbps": network["bandwidth_gbps"]}}

    def answer(command, test, *more):
        with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
            json.dump(test, file)
            file.flush()
            return json.loads(subprocess.run([options.reef_plan, command, file.name, *more], check=True, capture_output=True,
                                             text=True).stdout)

    sigma = answer("allocate", network, "--budget", "5")["sigma"]
    placed = [rank for pipeline in sigma for rank in pipeline]
    by_link = {"compress": {"activations": "top-k:10"}, "one_mask": True, "adapt_ratios": True}
    eight_bits = {"compress": {"activations": "blockwise8", "activation-gradients": "blockwise8"}}
    print("| 8 pipelines of 8 stages | step, s | of the slowest rank's time it computes | sent, GB |\n|---|--:|--:|--:|")

    def row(name, **changes):
        found = answer("simulate", {**case, **changes})
        print(f"| {name} | {found['step_s']:.2f} | {100 * found['utilisation']:.1f} % | {found['wire_bytes'] / 1e9:.1f} |", flush=True)
        return found["step_s"]

    row("in the order of the case", rank_at=list(range(64)))
    row("placed (`reef-plan allocate`)", rank_at=placed)
    row("placed, GPipe", rank_at=placed, pipeline="gpipe")
    row("placed, activations in 8 bits", rank_at=placed, **eight_bits)
    row("placed, top-k by link (AdaTopK, 10)", rank_at=placed, **by_link)
    steps = []
    for seed in range(options.random):
        ranks = list(range(64))
        random.Random(seed).shuffle(ranks)
        steps.append(answer("simulate", {**case, "rank_at": ranks})["step_s"])
    print(f"| at random, mean of {len(steps)} | {sum(steps) / len(steps):.2f} | | |")
    print(f"\nPlacement is worth {sum(steps) / len(steps) / answer('simulate', {**case, 'rank_at': placed})['step_s']:.2f} times.")

    test = {key: case[key] for key in ("model", "device", "network")}
    test["micro_batches"] = options.planned
    test["model"] = {**case["model"]}
    test["allow"] = ["lossy", "late", "local"]
    begin, used = time.monotonic(), resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
    plan = answer("plan", test)
    used = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - used
    print(f"\n`reef-plan plan` of the same machines and model, {options.planned} micro-batches a step, with all that may be allowed, takes "
          f"{time.monotonic() - begin:.0f} s ({used:.0f} s of processors) for {len(plan['candidates'])} candidates; the best of each sort:\n")
    print("| recipe | step, s | sent, GB | memory, GB |\n|---|--:|--:|--:|")
    seen = set()
    for one in plan["candidates"]:
        sort = (one["recipe"], one["stages"])
        if "step_s" not in one or sort in seen:
            continue
        seen.add(sort)
        print(f"| {one['name']} | {one['step_s']:.2f} | {one['wire_bytes'] / 1e9:.1f} | {one['peak_device_bytes'] / 1e9:.1f} |")


main()
