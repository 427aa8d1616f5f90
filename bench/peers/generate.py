#!/usr/bin/env python3
"""Compares reading a prompt and continuing it in Reef and in llama.cpp, on the same weights, in interleaved rounds.

    cmake --preset release -DREEF_BUILD_BENCH=ON && cmake --build build/release --target peers_generate_reef_bench
    npm i -E node-llama-cpp@3.21.1 --ignore-scripts          in the folder that --llama names
    python3 bench/peers/generate.py --llama FOLDER --work FOLDER --out bench/results/generate

Models have random weights: a Llama of 110M and a GPT-2 of 124M, written once into --work. Each row is a model, a form of
weights, threads and a batch. In each round all rows run once, each by Reef and, where it has that form, by llama.cpp, one
beside the other; one process runs all batches. Before the rounds, which is not counted, llama.cpp runs with and without
flash attention: the faster one in decoding is its way. A round is not begun if the last one was longer than what is left of
--seconds; there is one at least. The second table has the perplexity of a text that the model has drawn with its weights in fp32,
with each form of weights: bits are those of all weights of ours, of a matrix of llama.cpp's, and of all tensors where its form has
several kinds of matrices (q4_K_M, made by its library). Said are medians over rounds; `of roof` is decoding beside the bytes of a pass (weights
and cache) over the rate at which as many threads read memory, measured in the same process. Python needs NumPy, for models.
"""

import argparse
import json
import statistics
import subprocess
import sys
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
from page import write_page  # noqa: E402

MODELS = {
    "llama-110m": ["--random", "llama", "--layers", "12", "--heads", "12", "--channels", "768", "--ffn", "2048", "--vocab", "32000", "--context", "1024"],
    "gpt2-124m": ["--random", "gpt2", "--layers", "12", "--heads", "12", "--channels", "768", "--vocab", "50257", "--context", "1024"],
}
# The forms of llama.cpp of about as many bits.
RIVALS = {"fp32": ["f32"], "bf16": ["f16"], "int8": ["q8_0"], "blockwise8": ["q8_0"], "nf4": ["q4_0", "q4_K_M"]}
BITS = {"f32": 32, "f16": 16, "q8_0": 8.5, "q4_0": 4.5}  # of a matrix; the file of a form of several says its own


def run(command, **options):
    return subprocess.run(command, check=True, capture_output=True, text=True, **options).stdout


def rivals(options, form):
    """Yields the forms of llama.cpp that a form is measured beside; an empty one where there is no llama.cpp."""
    yield from RIVALS[form] if options.llama else [""]


def bits_of(options, name, kind):
    return BITS.get(kind) or float((options.work / f"{name}.{kind}.gguf.bits").read_text())


def make(options, name):
    work, folder = options.work, options.work / name
    gguf = [sys.executable, str(HERE / "gguf.py")]
    if not (folder / "model.safetensors").exists():
        run(gguf + [*MODELS[name][:2], str(folder), *MODELS[name][2:]])
    for kind in dict.fromkeys(kind for form in options.forms.split(",") for kind in rivals(options, form) if kind):
        file = work / f"{name}.{kind}.gguf"
        if not file.exists() and kind in BITS:
            run(gguf + [str(folder), str(file), "--type", kind])
        elif not Path(f"{file}.bits").exists() and kind not in BITS:
            f32 = work / f"{name}.f32.gguf"
            if not f32.exists():
                run(gguf + [str(folder), str(f32), "--type", "f32"])
            run([sys.executable, str(HERE / "llama_quantize.py"), str(options.llama), str(f32), str(file), kind])
    return folder


def reef(options, folder, form, threads):
    answer = json.loads(run([options.reef, str(folder), form, str(threads), options.batches, str(options.prompt), str(options.new)]))
    for one in answer["batches"]:
        one["of_roof"] = one["decode_tps"] / one["batch"] * one["pass_bytes"] * 1e-9 / answer["read_gbps"]
    return answer


def llama(options, name, kind, threads, flash, new=None):
    vocabulary = 32000 if name.startswith("llama") else 50257
    tokens = [(i * 7919 + 17) % vocabulary for i in range(options.prompt)]
    batches = list(map(int, options.batches.split(",")))
    asked = {"tokens": tokens, "new": new or options.new, "threads": threads, "batches": batches if new is None else batches[:1], "flash": flash}
    script = HERE / "llama_cpp.mjs"
    return json.loads(run(["node", str(script), str(options.work / f"{name}.{kind}.gguf"), json.dumps(asked)], cwd=options.llama))


def perplexities(options, name, folder, forms):
    """Yields lines: how likely each form of weights finds a text that the model itself has drawn with its weights in fp32."""
    score = lambda form, text: json.loads(run([options.reef, str(folder), form, "2", text]))
    drawn = score("fp32", str(options.text))["text"]
    for form in forms:
        ours = score(form, ",".join(map(str, drawn)))
        for kind in rivals(options, form):
            theirs = "- | - | -"
            if kind:
                asked = {"text": drawn, "threads": 2}
                said = json.loads(run(["node", str(HERE / "llama_cpp.mjs"), str(options.work / f"{name}.{kind}.gguf"), json.dumps(asked)], cwd=options.llama))
                theirs = f"{kind} | {bits_of(options, name, kind)} | {said['perplexity']:.2f}"
            yield f"| {name} | {form} | {ours['bits']:.2f} | {ours['perplexity']:.2f} | {theirs} |"


def better_way(options, name, kind, threads):
    """Returns whether llama.cpp decodes the first batch faster with flash attention."""
    rates = [max(llama(options, name, kind, threads, flash, new=8)["decode_tps"].values()) for flash in (False, True)]
    return rates[1] > rates[0]


def lines_of(cases, options):
    middle = statistics.median
    for case in cases:
        ours, theirs = case["reef"], case["llama_cpp"]
        for i, batch in enumerate(map(int, options.batches.split(","))):
            decode = [one["batches"][i]["decode_tps"] for one in ours]
            rival = [one["decode_tps"][str(batch)] for one in theirs]
            prefill = f"{middle(one['prefill_tps'] for one in theirs):.0f}" if theirs else "-"
            times = f"{middle(a / b for a, b in zip(decode, rival)):.2f}" if theirs else "-"
            yield (f"| {case['model']} | {case['form']} | {case['kind'] or '-'} | {case['threads']} | {batch} | {middle(one['prefill_tps'] for one in ours):.0f} | {prefill} | "
                   f"{middle(decode):.1f} | {f'{middle(rival):.1f}' if theirs else '-'} | {times} | {middle(one['batches'][i]['of_roof'] for one in ours):.2f} |")


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
    parser.add_argument("--text", type=int, default=257, help="the tokens of the text whose perplexity is measured")
    parser.add_argument("--rounds", type=int, default=3, help="the most rounds")
    parser.add_argument("--seconds", type=float, default=1e9, help="how long the rounds may take")
    parser.add_argument("--out", help="writes OUT.json and OUT.md")
    options = parser.parse_args()
    options.reef = str(Path(options.reef).resolve())
    options.work = options.work.resolve()
    options.work.mkdir(parents=True, exist_ok=True)

    begin = time.monotonic()
    cases, quality = [], ["| model | weights | bits | perplexity | llama.cpp | bits | perplexity |", "|---|---|---|---|---|---|---|"]
    for name in options.models.split(","):
        folder = make(options, name)
        quality += perplexities(options, name, folder, options.forms.split(","))
        for form in options.forms.split(","):
            for kind in rivals(options, form):
                for threads in map(int, options.threads.split(",")):
                    flash = kind and better_way(options, name, kind, threads)
                    cases.append({"model": name, "folder": str(folder), "form": form, "kind": kind, "threads": threads,
                                  "flash": flash, "reef": [], "llama_cpp": []})
    build, rounds, longest = "", 0, 0.0
    while rounds < options.rounds and (rounds == 0 or time.monotonic() - begin + longest < options.seconds):
        started = time.monotonic()
        for case in cases:
            case["reef"].append(reef(options, case["folder"], case["form"], case["threads"]))
            if case["kind"]:
                case["llama_cpp"].append(llama(options, case["model"], case["kind"], case["threads"], case["flash"]))
                build = case["llama_cpp"][-1]["build"]
        longest = max(longest, time.monotonic() - started)
        rounds += 1
    table = "\n".join([
        "| model | weights | of llama.cpp | threads | batch | prefill, tokens/s | llama.cpp | decode, tokens/s | llama.cpp | times llama.cpp | of roof |",
        "|---|---|---|---|---|---|---|---|---|---|---|", *lines_of(cases, options)])
    table += "\n\n" + "\n".join(quality)
    print(f"{table}\n\n{rounds} rounds, the longest of {longest:.0f} s")
    if options.out:
        Path(options.out + ".json").write_text(json.dumps({"cases": cases, "rounds": rounds, "llama_cpp": build}, indent=1))
        write_page(options.out + ".md", f"# Generation beside llama.cpp\n\n{__doc__}\n\n{table}\n\n{rounds} rounds. llama.cpp: {build}\n")


if __name__ == "__main__":
    main()
