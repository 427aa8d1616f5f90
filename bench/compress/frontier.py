#!/usr/bin/env python3
"""Held-out loss against bytes on the wire: one small model, each codec on activations, gradients and pseudo-gradients.

    cmake --preset release -DREEF_BUILD_BENCH=ON
    cmake --build build/release --target compress_frontier_bench
    python3 bench/compress/frontier.py --out bench/results/compress_frontier

Written are NAME.md, NAME.svg and NAME.json, for --out NAME. frontier_bench.cpp says what the channels are, and
optim/convergence_bench.cpp what the model, the data and the learning rate are.

    equal steps   every codec makes --steps steps; bytes are those that rank 0 has sent in them, headers included
    equal time    links of --bytes-per-second, and a device that sleeps until it is --slowdown times as slow: a step's time is
                  measured, and each codec makes as many steps as fit into the time of what is sent as it is; its learning
                  rate falls over that many
    uneven        stages of which the last link is ten times slower: a ratio for all, and ratios by link (AdaTopK)

With --keep runs at equal steps that OUT.json has, of the same text and steps, are not made again.
"""

import argparse
import hashlib
import json
import math
import platform
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "optim"))
from convergence import corpus, processor, write_page  # noqa: E402

SMALL = "chunk-top-k:64/4096+two-bit"
CODECS = {
    "activations": ["none", "bf16", "blockwise8", "nf4", "top-k:4", "top-k:10", "top-k:100", "one-mask+top-k:4",
                    "one-mask+top-k:10", "one-mask+top-k:100", "one-mask+top-k:10+blockwise8"],
    "gradients": ["none", "bf16", "ef+blockwise8", "ef+nf4", "ef+top-k:10", "ef+top-k:100", "ef+" + SMALL],
    "pseudo-gradients": ["none", "bf16", "ef:0.9+blockwise8", "ef:0.9+nf4", "ef:0.9+top-k:10", "ef:0.9+top-k:100",
                         "ef:0.9+" + SMALL],
}
COLOURS = {"activations": "#2563eb", "gradients": "#0b7a3b", "pseudo-gradients": "#dc2626"}
UNEVEN = [("uneven", "none"), *((channel, codec) for codec in ("top-k:10", "one-mask+top-k:10", "one-mask+top-k:30")
                                for channel in ("uneven", "adapted"))]


class Bench:
    def __init__(self, options, path):
        self.options, self.path = options, path

    def train(self, channel, codec, seed, steps, ranks, *links):
        command = ["mpiexec", "--allow-run-as-root", "--oversubscribe", "--bind-to", "none", "-n", str(ranks),
                   str(self.options.build / "compress_frontier_bench"), self.path, channel, codec, str(seed), str(steps),
                   *map(str, links)]
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True)
        if done.returncode:
            sys.exit(f"frontier.py: failed: {' '.join(command)}")
        lines = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
        curve = [[line["step"], line["held_out"]] for line in lines if "step" in line]
        result = {"steps": steps, "loss": curve[-1][1], "curve": curve, **lines[-1]}
        print(f"  {channel} {codec}, seed {seed}, {steps} steps: {result['loss']:.4f}, {result['sent_bytes']:,} bytes, "
              f"{1e3 * result['mean_s']:.2f} ms a step", flush=True)
        return result


def mean(runs, key):
    return sum(run[key] for run in runs.values()) / len(runs)


def table(report):
    lines = ["# Held-out loss against bytes on the wire", "", f"    {report['command']}", "",
             f"Machine: {report['processor']}; {report['system']}. Corpus: {report['corpus']['what']}; SHA-256",
             f"`{report['corpus']['sha256']}`. Model: {report['parameters']} parameters, as in "
             f"[optim_convergence.md](optim_convergence.md); {report['ranks']} ranks.",
             f"Losses are held out, in nats; the codec's row without one is what is sent as it is. {report['steps']} steps of "
             "1024 tokens; seeds: " + ", ".join(map(str, report["seeds"])) + ".", "",
             f"![losses and bytes]({report['plot']})", ""]
    for channel, codecs in report["equal_steps"].items():
        plain = codecs["none"]
        lines += [f"## {channel}", "",
                  "| codec | held-out loss | gap | bytes a step and rank | of as it is | steps in its time | loss at equal time |",
                  "|---|--:|--:|--:|--:|--:|--:|"]
        for codec, runs in codecs.items():
            sent = mean(runs, "sent_bytes") / report["steps"]
            share = mean(plain, "sent_bytes") / mean(runs, "sent_bytes")
            timed = report.get("equal_time", {}).get(channel, {}).get(codec)
            lines.append(f"| {codec} | {mean(runs, 'loss'):.4f} | {mean(runs, 'loss') - mean(plain, 'loss'):+.4f} | "
                         f"{sent:,.0f} | 1 / {share:.3g} | "
                         + (f"{timed['steps']} | {timed['loss']:.4f} |" if timed else "| |"))
        lines.append("")
    if report.get("uneven"):
        lines += [f"## Stages with a link ten times slower: {report['stages']} ranks", "",
                  "| ratios | codec | held-out loss | bytes a step of rank 0 | ms a step |", "|---|---|--:|--:|--:|"]
        for channel, codec, run in report["uneven"]:
            how = "" if codec == "none" else "by link (AdaTopK)" if channel == "adapted" else "one for all"
            lines.append(f"| {how} | {codec} | {run['loss']:.4f} | {run['sent_bytes'] / run['steps']:,.0f} | "
                         f"{1e3 * run['mean_s']:.2f} |")
        lines.append("")
    return "\n".join(lines)


def plot(report):
    """Loss over bytes a step, on a scale of decades; through what no other codec of a channel betters a line."""
    points = {channel: sorted((mean(runs, "sent_bytes") / report["steps"], mean(runs, "loss"), codec)
                              for codec, runs in codecs.items())
              for channel, codecs in report["equal_steps"].items()}
    every = [point for of in points.values() for point in of]
    low, high = math.floor(math.log10(min(p[0] for p in every))), math.ceil(math.log10(max(p[0] for p in every)))
    least, most = math.floor(10 * min(p[1] for p in every)) / 10, math.ceil(10 * max(p[1] for p in every)) / 10
    left, top, width, height = 60, 40, 760, 380
    x = lambda sent: left + width * (math.log10(sent) - low) / max(1, high - low)
    y = lambda loss: top + height * (most - loss) / (most - least)
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 1020 480" font-family="sans-serif" font-size="12" '
           'fill="#374151">', '<rect width="1020" height="480" fill="#fff"/>',
           f'<text x="{left}" y="22" font-size="14" font-weight="600">Held-out loss, nats, over bytes a step and rank</text>']
    for power in range(low, high + 1):
        out.append(f'<text x="{x(10 ** power):.1f}" y="{top + height + 20}" text-anchor="middle">1e{power}</text>')
    ticks = 6
    for i in range(ticks + 1):
        loss = least + (most - least) * i / ticks
        out.append(f'<line x1="{left}" x2="{left + width}" y1="{y(loss):.1f}" y2="{y(loss):.1f}" stroke="#e5e7eb"/>'
                   f'<text x="{left - 6}" y="{y(loss) + 4:.1f}" text-anchor="end">{loss:.2f}</text>')
    taken = []  # by labels: left, top, right, bottom

    def label(sent, loss, text, colour):
        """Beside its point, where no other label is; at worst above it."""
        wide, high = 5.6 * len(text), 11
        for dx, dy in [(7, 4), (7, -8), (7, 15), (-7 - wide, 4), (-7 - wide, -8), (-7 - wide, 15), (7, 26), (7, -19), (7, 37)]:
            box = (x(sent) + dx, y(loss) + dy - high, x(sent) + dx + wide, y(loss) + dy)
            if all(box[0] > o[2] or box[2] < o[0] or box[1] > o[3] or box[3] < o[1] for o in taken):
                break
        taken.append(box)
        return f'<text x="{box[0]:.1f}" y="{box[3]:.1f}" font-size="10" fill="{colour}">{text}</text>'

    for row, (channel, of) in enumerate(points.items()):
        colour = COLOURS[channel]
        best = [p for p in of if not any(q[0] <= p[0] and q[1] <= p[1] and q != p for q in of)]
        out.append(f'<polyline fill="none" stroke="{colour}" stroke-opacity="0.5" points="'
                   + " ".join(f"{x(sent):.1f},{y(loss):.1f}" for sent, loss, _ in best) + '"/>')
        for sent, loss, codec in of:
            out.append(f'<circle cx="{x(sent):.1f}" cy="{y(loss):.1f}" r="4" fill="{colour}"><title>{channel} {codec}: '
                       f'{loss:.4f}, {sent:,.0f} bytes</title></circle>')
            taken.append((x(sent) - 4, y(loss) - 4, x(sent) + 4, y(loss) + 4))
        out.append(f'<circle cx="850" cy="{top + 20 + 22 * row}" r="4" fill="{colour}"/>'
                   f'<text x="862" y="{top + 24 + 22 * row}">{channel}</text>')
    for channel, of in points.items():
        out += [label(sent, loss, codec, COLOURS[channel]) for sent, loss, codec in sorted(of, key=lambda p: p[1])]
    return "\n".join(out) + "\n</svg>\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True, help="writes OUT.md, OUT.svg and OUT.json")
    parser.add_argument("--steps", type=int, default=1000)
    parser.add_argument("--seeds", type=int, nargs="+", default=[1])
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--stages", type=int, default=4, help="of the uneven pipeline; 0: none")
    parser.add_argument("--bytes-per-second", type=float, default=2e6, help="of each link at equal time; 0: no equal time")
    parser.add_argument("--slowdown", type=float, default=10, help="of the device, at equal time")
    parser.add_argument("--channels", nargs="+", default=list(CODECS), choices=list(CODECS))
    parser.add_argument("--keep", action="store_true", help="runs at equal steps that OUT.json has")
    parser.add_argument("--corpus", type=Path, help="another text than the licences")
    parser.add_argument("--build", type=Path, default=HERE.parent.parent / "build/release/bench")
    options = parser.parse_args()
    text, what = corpus(options.corpus)
    report = {"command": " ".join(["python3 bench/compress/frontier.py", *sys.argv[1:]]), "processor": processor(),
              "system": platform.platform(), "corpus": {"what": what, "sha256": hashlib.sha256(text).hexdigest()},
              "ranks": options.ranks, "stages": options.stages, "steps": options.steps, "seeds": options.seeds,
              "plot": options.out.with_suffix(".svg").name, "equal_steps": {}, "equal_time": {}, "uneven": []}

    earlier = options.out.with_suffix(".json")
    if options.keep and earlier.exists():
        before = json.loads(earlier.read_text())
        if all(before[key] == report[key] for key in ("corpus", "steps", "ranks")):
            report["equal_steps"], report["parameters"] = before["equal_steps"], before["parameters"]

    def write():
        options.out.with_suffix(".json").write_text(json.dumps(report, separators=(",", ":")) + "\n")
        if all("none" in of for of in report["equal_steps"].values()):
            write_page(options.out.with_suffix(".md"), table(report))
            options.out.with_suffix(".svg").write_text(plot(report))

    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder) / "corpus")
        Path(path).write_bytes(text)
        bench = Bench(options, path)
        for channel in options.channels:
            for codec in CODECS[channel]:
                runs = report["equal_steps"].setdefault(channel, {}).setdefault(codec, {})
                for seed in options.seeds:
                    if str(seed) not in runs:
                        runs[str(seed)] = bench.train(channel, codec, seed, options.steps, options.ranks)
                report["parameters"] = runs[str(options.seeds[0])]["parameters"]
                write()
        seed = options.seeds[0]
        for channel in options.channels:
            if options.bytes_per_second <= 0:
                break
            links = (options.bytes_per_second, options.slowdown)
            seconds = {codec: bench.train(channel, codec, seed, 60, options.ranks, *links)["mean_s"]
                       for codec in CODECS[channel]}
            for codec in CODECS[channel]:
                steps = max(20, round(options.steps * seconds["none"] / seconds[codec]))
                same = steps == options.steps
                run = (report["equal_steps"][channel][codec][str(seed)] if same
                       else bench.train(channel, codec, seed, steps, options.ranks))
                report["equal_time"].setdefault(channel, {})[codec] = {"steps": steps, "loss": run["loss"],
                                                                      "step_s": seconds[codec]}
                write()
        for channel, codec in UNEVEN if options.stages > 2 else []:  # times of 40 steps, one run after the other
            timed = bench.train(channel, codec, seed, 40, options.stages, options.bytes_per_second, options.slowdown)
            # Ratios follow links, which are emulated in the long run too, of a faster kind: bits do not know of time.
            run = bench.train(channel, codec, seed, options.steps, options.stages, 1e3 * options.bytes_per_second, 1)
            report["uneven"].append([channel, codec, {**run, "mean_s": timed["mean_s"], "median_s": timed["median_s"]}])
            write()
    print(table(report))


if __name__ == "__main__":
    main()
