#!/usr/bin/env python3
"""Compares reading a prompt and continuing it in Reef and in llama.cpp, on the same weights, in interleaved rounds.

    cmake --preset release -DREEF_BUILD_BENCH=ON && cmake --build build/release --target peers_generate_reef_bench
    npm i -E node-llama-cpp@3.21.1 --ignore-scripts          in the folder that --llama names
    python3 bench/peers/generate.py --llama FOLDER --work FOLDER --out bench/results/generate

Models have random weights: a Llama of 110M and a GPT-2 of 124M, written once into --work. Each row is a model, a form of
weights, threads and a batch; in each round Reef and, where it has that form, llama.cpp run once. Said are medians over
rounds; `of roof` is decoding beside the bytes of a pass (weights and cache) over the rate at which as many threads read
memory, measured in the same process. Python needs NumPy, for the models.
"""

import argparse
import json
import statistics
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
from page import write_page  # noqa: E402

MODELS = {
    "llama-110m": ["--random", "llama", "--layers", "12", "--heads", "12", "--channels", "768", "--ffn", "2048", "--vocab", "32000", "--context", "1024"],
    "gpt2-124m": ["--random", "gpt2", "--layers", "12", "--heads", "12", "--channels", "768", "--vocab", "50257", "--context", "1024"],
}
RIVAL = {"fp32": "f32", "bf16": "f16"}  # the form of llama.cpp of as many bits


def run(command, **options):
    return subprocess.run(command, check=True, capture_output=True, text=True, **options).stdout


def make(work, name):
    folder = work / name
    gguf = [sys.executable, str(HERE / "gguf.py")]
    if not (folder / "model.safetensors").exists():
        run(gguf + [*MODELS[name][:2], str(folder), *MODELS[name][2:]])
    for kind in RIVAL.values():
        if not (work / f"{name}.{kind}.gguf").exists():
            run(gguf + [str(folder), str(work / f"{name}.{kind}.gguf"), "--type", kind])
    return folder


def reef(options, folder, form, threads, batch):
    return json.loads(run([options.reef, str(folder), form, str(threads), str(batch), str(options.prompt), str(options.new)]))


def llama(options, name, form, threads, batch, flash):
    vocabulary = 32000 if name.startswith("llama") else 50257
    tokens = [(i * 7919 + 17) % vocabulary for i in range(options.prompt)]
    asked = {"tokens": tokens, "new": options.new, "threads": threads, "batch": batch, "flash": flash}
    script = HERE / "llama_cpp.mjs"
    return json.loads(run(["node", str(script), str(options.work / f"{name}.{RIVAL[form]}.gguf"), json.dumps(asked)], cwd=options.llama))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--reef", default="build/release/bench/peers_generate_reef_bench", help="the program of generate_reef.cpp")
    parser.add_argument("--llama", type=Path, help="a folder that has node-llama-cpp; without it Reef runs alone")
    parser.add_argument("--work", type=Path, required=True, help="where models are written")
    parser.add_argument("--models", default=",".join(MODELS))
    parser.add_argument("--forms", default="fp32,bf16,int8,blockwise8,nf4")
    parser.add_argument("--threads", default="1,2")
    parser.add_argument("--batches", default="1,4,16")
    parser.add_argument("--prompt", type=int, default=256)
    parser.add_argument("--new", type=int, default=32)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--out", help="writes OUT.json and OUT.md")
    options = parser.parse_args()
    options.reef = str(Path(options.reef).resolve())
    options.work = options.work.resolve()
    options.work.mkdir(parents=True, exist_ok=True)

    rows = []
    head = ("| model | weights | threads | batch | prefill, tokens/s | llama.cpp | decode, tokens/s | llama.cpp | times llama.cpp | of roof |\n"
            "|---|---|---|---|---|---|---|---|---|---|")
    print(head, flush=True)
    build = ""
    for name in options.models.split(","):
        folder = make(options.work, name)
        for form in options.forms.split(","):
            for threads in map(int, options.threads.split(",")):
                for batch in map(int, options.batches.split(",")):
                    ours, theirs = [], []
                    for _ in range(options.rounds):
                        ours.append(reef(options, folder, form, threads, batch))
                        if options.llama and form in RIVAL:
                            # Its better way of the two.
                            both = [llama(options, name, form, threads, batch, flash) for flash in (False, True)]
                            build = both[0]["build"]
                            theirs.append({key: max(one[key] for one in both) for key in ("prefill_tps", "decode_tps")} | {"greedy": both[0]["greedy"]})
                    middle = lambda runs, key: statistics.median(one[key] for one in runs)
                    roof = [one["decode_tps"] / batch * (one["weight_bytes"] + one["cache_bytes"]) * 1e-9 / one["read_gbps"] for one in ours]
                    row = {"model": name, "form": form, "threads": threads, "batch": batch, "reef": ours, "llama_cpp": theirs, "of_roof": statistics.median(roof)}
                    rows.append(row)
                    rival = [f"{middle(theirs, key):.0f}" if theirs else "-" for key in ("prefill_tps", "decode_tps")]
                    times = f"{statistics.median(a['decode_tps'] / b['decode_tps'] for a, b in zip(ours, theirs)):.2f}" if theirs else "-"
                    line = (f"| {name} | {form} | {threads} | {batch} | {middle(ours, 'prefill_tps'):.0f} | {rival[0]} | "
                            f"{middle(ours, 'decode_tps'):.1f} | {rival[1]} | {times} | {row['of_roof']:.2f} |")
                    print(line, flush=True)
                    head += "\n" + line
    if options.out:
        Path(options.out + ".json").write_text(json.dumps({"rows": rows, "llama_cpp": build}, indent=1))
        write_page(options.out + ".md", f"# Generation beside llama.cpp\n\n{__doc__}\n\n{head}\n\nllama.cpp: {build}\n")


if __name__ == "__main__":
    main()
