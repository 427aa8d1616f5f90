#!/usr/bin/env python3
"""Makes bench/results/gpu_*.md of what bench/gpu.sh has left so far. Steps that are not there yet are not mentioned."""

import argparse
import json
import re
import shutil
from pathlib import Path

from page import write_page


def steps_of(build):
    """By name: whether a step that is done succeeded."""
    return {path.name: path.read_text().strip() == "0" for path in sorted((build / "done").glob("*"))}


def head(title, build, command="sh bench/gpu.sh"):
    return [f"# {title}", "", f"    {command}", "", f"GPU, driver: {(build / 'card').read_text().strip()}.", ""]


def log_of(build, step):
    path = build / f"{step}.log"
    return path.read_text(errors="replace") if path.exists() else ""


def reasons_of(log):
    """Why tests were skipped: what each of them printed behind its `Skipped`, or an entry that ran none said, each once."""
    said = re.findall(r"^[^\n]*: Skipped\n([^\n]+)", log, re.M)
    said += re.findall(r"(no CUDA device answers[^\n]*|the CUDA driver answers, but[^\n]*|libtorch finds no GPU)", log)
    return list(dict.fromkeys(reason.strip().replace("|", "/") for reason in said))


def tests(build):
    lines = head("CUDA tests on a GPU", build) + ["| entry | outcome | tests passed | skipped | why |", "|---|---|--:|--:|---|"]
    rows = 0
    for step, succeeded in steps_of(build).items():
        if not step.startswith("test_"):
            continue
        log = re.sub(r"\x1b\[[0-9;]*m", "", log_of(build, step))
        count = lambda word: sum(int(n) for n in re.findall(rf"\[  {word}  ?\] (\d+) tests?", log))
        lines.append(f"| {step[5:]} | {'passed' if succeeded else '**failed**'} | {count('PASSED')} | {count('SKIPPED')} | "
                     f"{'; '.join(reasons_of(log))} |")
        rows += 1
    return lines if rows else []


def google(build, name, title, note):
    """A table of what Google Benchmark wrote, with each figure's rival."""
    path = build / f"{name}.json"
    log = log_of(build, f"bench_{name}")
    if not path.exists() or not path.read_text().strip():
        skipped = re.search(r"skipped: [^\n]*", log)
        return [*head(title, build), skipped.group(0)] if skipped else []
    lines = head(title, build) + [note, "", "| what | microseconds | rate | rival | rival's time over ours |", "|---|--:|--:|---|--:|"]
    for entry in json.loads(path.read_text())["benchmarks"]:
        rate = f"{entry['flops'] / 1e12:.2f} TFLOP/s" if "flops" in entry else f"{entry.get('bytes', 0) / 1e9:.1f} GB/s"
        name = re.sub(r"/iterations:.*", "", entry["name"])
        lines.append(f"| {name} | {entry['real_time']:.1f} | {rate} | {entry.get('label', '')} | {entry['of_rival']:.2f} |")
    return lines


def peers(build):
    lines = head("Training a GPT on a GPU beside PyTorch", build)
    rows = [json.loads(path.read_text()) for path in sorted(build.glob("peers_*.json"))]
    if not rows:
        return []
    version = next((row["torch"] for row in rows if "torch" in row and isinstance(row["torch"], str)), "none")
    lines += ["Tokens/s, of the median step; medians over rounds. PyTorch runs eager, with scaled_dot_product_attention and a",
              "fused AdamW, and by torch.compile.", "",
              "| configuration | precision | Reef | PyTorch | compiled | Reef over PyTorch | over compiled | 10 losses within |",
              "|---|---|--:|--:|--:|--:|--:|--:|"]
    for row in rows:
        name = f"| {row['configuration']} | {row['precision']} "
        if "skipped" in row:
            lines.append(name + f"| skipped: {row['skipped']} | | | | | |")
            continue
        number = lambda key: f"{row[key]:.0f}" if key in row else ""
        ratio = lambda key: ("VOID" if row["void"] else f"**{row['reef'] / row[key]:.2f}**") if key in row else ""
        lines.append(name + f"| {number('reef')} | {number('torch_eager')} | {number('torch_compiled')} | {ratio('torch_eager')} | "
                     f"{ratio('torch_compiled')} | {row['loss_difference']:.0e} |")
    return [*lines, "", f"PyTorch {version}."]


def torch(build):
    path = build / "torch.json"
    rows = [line for line in path.read_text().splitlines() if line] if path.exists() else []
    if not rows:
        return []
    lines = head("libtorch modules on a GPU", build) + [
        "reef::torch::data_parallel under Zero1 on one rank, beside the loop of libtorch's own with torch::optim::AdamW, in one process,",
        "in turns; medians. Ours refuses operations that are not deterministic, theirs does not.", ""]
    if rows[0].startswith("skipped"):
        return lines + [rows[0]]
    lines += ["| module | Reef, ms a step | libtorch, ms a step | libtorch's time over ours | losses after the last step |", "|---|--:|--:|--:|---|"]
    for row in map(json.loads, rows):
        alike = abs(row["reef_loss"] - row["libtorch_loss"]) <= 0.02 * abs(row["libtorch_loss"])
        ratio = f"**{row['libtorch_s'] / row['reef_s']:.2f}**" if alike else "VOID"
        lines.append(f"| {row['module']} | {1e3 * row['reef_s']:.2f} | {1e3 * row['libtorch_s']:.2f} | {ratio} | "
                     f"{row['reef_loss']:.4f}, {row['libtorch_loss']:.4f} |")
    return lines


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", type=Path, required=True)
    parser.add_argument("--results", type=Path, required=True)
    options = parser.parse_args()
    build = options.build
    if not (build / "card").exists():
        return
    tables = {
        "gpu_tests": tests(build),
        "gpu_device": google(build, "device_cuda", "Memory, link and products of a GPU",
                             "Through a lane, beside the runtime's copies, CUB and cuBLAS in the same run: 1 is equal, more is faster."),
        "gpu_kernels": google(build, "nn_cuda_kernels", "Kernels on a GPU",
                              "Beside matrix products by cuBLASLt of as many operations, or a copy on the device of as many bytes."),
        "gpu_rows": google(build, "nn_cuda_rows", "Products with coded weights on a GPU",
                           "Bytes of the packed matrix, beside a copy on the device that moves as many: 1 is the roof of the memory."),
        "gpu_codecs": google(build, "compress_cuda_codecs", "Codecs on a GPU",
                             "Bytes of the numbers, beside a copy of them over the link; top-k beside CUB's sort of all."),
        "gpu_top_k": google(build, "compress_cuda_top_k", "Top-k on a GPU beside PyTorch",
                            "Bytes of the numbers. One process after the other: both end with what was selected on the host."),
        "gpu_peers": peers(build),
        "gpu_torch": torch(build),
    }
    options.results.mkdir(parents=True, exist_ok=True)
    for name, lines in tables.items():
        if lines:
            write_page(options.results / f"{name}.md", "\n".join(lines))
    if (build / "gpu_swap.md").exists() and (build / "gpu_swap.md").read_text().strip():
        shutil.copy(build / "gpu_swap.md", options.results / "gpu_swap.md")


if __name__ == "__main__":
    main()
