#!/usr/bin/env python3
"""What rules of choosing blocks make of a swarm whose servers come and go: appendix E of Petals (arXiv 2312.08361), simulated.

    cmake --preset release -DREEF_BUILD_BENCH=ON
    cmake --build build/release --target plan_swarm_day_bench
    python3 bench/plan/swarm_day.py --out bench/results/swarm_day

Nothing is measured but moves and throughputs in virtual time: 206 servers, requests per second uniform in [0, 100], room for 1 to 10
of 70 blocks, of which from 20 to 105 are there by a cosine, drawn by a seed and equal for all rules.

    none        a server holds blocks anywhere, and stays
    join        where they are needed most when it comes, and stays
    published   that, and once a minute each decides by the published rule at p = 20 %
    code        as that, with the public code's 0.75 and its guard
    ours        reef::plan::balance, once a minute for all
    bound       of every minute: reef::plan::throughput_bound, the linear relaxation of contiguous placement, more than any placement
                serves; with rooms as here it is the sum of throughput * room / 70 in each
    found       of every tenth minute: the best of 60 restarts that climb by best responses, of which the best six climb further by
                plans without a price, and of all that any rule had there

Written are NAME.md, NAME.svg and NAME.json, for --out NAME.
"""

import argparse
import concurrent.futures
import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "bench"))
from page import write_page  # noqa: E402
DAY = ("a day", 1440, 1440)
FAST = ("two cycles of six hours", 720, 360)
COLOURS = {"join": "#999", "published": "#c40", "ours": "#06c"}


def rows(seeds):
    """(day, rule, delay, loading, seed) of every row of the tables. What takes minutes is of the first seed alone."""
    first = seeds[0]
    for seed in seeds:
        for rule in ("none", "join", "ours"):
            yield DAY, rule, 0, 0, seed
    for seed in seeds:
        for delay in (5, 30):
            for rule in ("none", "join", "ours"):
                yield DAY, rule, delay, 0, seed
    for delay in (0, 5, 30):
        yield DAY, "published", delay, 0, first
    for delay in (0, 5, 30):
        for rule in ("ours", "published"):
            yield FAST, rule, delay, 0, first
    for rule in ("ours", "published"):
        yield DAY, rule, 0, 180, first
    yield DAY, "code", 0, 0, first


def run(options, arguments):
    cache = options.rows / ("_".join(arguments).replace("--", "") + ".json") if options.rows else None
    if cache and cache.exists():
        return json.loads(cache.read_text())
    done = subprocess.run([options.program, *arguments], stdout=subprocess.PIPE, text=True, check=True)
    if cache:
        cache.write_text(done.stdout)
    return json.loads(done.stdout)


def of_day(day, seed):
    return ["--minutes", str(day[1]), "--period", str(day[2]), "--seed", str(seed)]


def figures(row, found):
    hours = sum(row["there"]) / 60
    tens = range(0, len(row["served"]), 10)

    def share(values, best, wanted=lambda n: True):
        minutes = [m for m in values if wanted(row["there"][m])]
        return sum(row["served"][m] for m in minutes) / max(1e-9, sum(best[m] for m in minutes))

    return {"bound": share(range(len(row["served"])), row["bound"]),
            "found": share(tens, found),
            "peak": share(tens, found, lambda n: n >= 80),
            "trough": share(tens, found, lambda n: n <= 40),
            "worst": min(row["served"][m] / found[m] for m in tens if found[m] > 0),
            "zero": sum(value <= 0 for value in row["served"]) / len(row["served"]),
            "seconds": row["disconnected_s"] / (60 * len(row["served"])),
            "moves": row["moves"] / hours,
            "differing": row["differing_rounds"]}


def table(results, wanted):
    lines = ["| rule | seeds | announced late by | of bound | of found | peak | trough | worst minute | disconnected minutes | "
             "seconds | moves per server-hour |", "|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|"]
    keys = sorted({key[:4] for key in results if wanted(key)},
                  key=lambda key: (["none", "join", "published", "code", "ours"].index(key[1]), key[2]))
    for key in keys:
        of_seeds = [figure for other, figure in results.items() if other[:4] == key]
        mean = {name: sum(figure[name] for figure in of_seeds) / len(of_seeds) for name in of_seeds[0]}
        mean["worst"] = min(figure["worst"] for figure in of_seeds)
        lines.append(f"| {key[1]} | {len(of_seeds)} | {key[2]} s | {mean['bound']:.3f} | {mean['found']:.3f} | {mean['peak']:.3f} | "
                     f"{mean['trough']:.3f} | {mean['worst']:.3f} | {100 * mean['zero']:.2f} % | {100 * mean['seconds']:.2f} % | "
                     f"{mean['moves']:.3f} |")
    return lines


def plot(served, bound, found):
    """What one day's rules serve, by the hour."""
    width, height, left, top = 900, 330, 60, 20
    most = 1.05 * max(bound)
    x = lambda minute: left + (width - left - 130) * minute / len(bound)
    y = lambda value: top + (height - top - 40) * (1 - value / most)
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-family="sans-serif" font-size="12">',
           f'<rect width="{width}" height="{height}" fill="white"/>']
    for hour in range(0, len(bound) // 60 + 1, 4):
        out.append(f'<text x="{x(60 * hour):.0f}" y="{height - 18}" text-anchor="middle">{hour} h</text>')
    for value in range(0, int(most), 100):
        out.append(f'<path d="M{left} {y(value):.1f}H{width - 130}" stroke="#eee"/>'
                   f'<text x="{left - 6}" y="{y(value) + 4:.1f}" text-anchor="end">{value}</text>')
    out.append(f'<text x="{left}" y="{height - 3}">requests per second through all 70 blocks, one day, seed 1</text>')
    lines = [("bound", bound, "#bbb", "4 3")] + [(rule, values, COLOURS[rule], "") for rule, values in served.items()]
    lines.append(("found", {m: v for m, v in enumerate(found) if v > 0}, "#080", "1 3"))
    for place, (name, values, colour, dashes) in enumerate(lines):
        points = values.items() if isinstance(values, dict) else list(enumerate(values))[::2]
        path = "L".join(f"{x(minute):.1f} {y(value):.1f}" for minute, value in points)
        out.append(f'<path d="M{path}" fill="none" stroke="{colour}" stroke-width="1.2" stroke-dasharray="{dashes}"/>')
        label = top + 20 + 18 * place
        out.append(f'<path d="M{width - 120} {label - 4}h22" stroke="{colour}" stroke-width="2" stroke-dasharray="{dashes}"/>'
                   f'<text x="{width - 92}" y="{label}">{name}</text>')
    return "\n".join(out) + "\n</svg>\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", default=str(ROOT / "build/release/bench/plan_swarm_day_bench"))
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--rows", type=Path, help="a folder that keeps rows: those that are there are not run again")
    options = parser.parse_args()
    wanted = list(rows(options.seeds))
    days = sorted({(key[0], key[4]) for key in wanted})
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        searches = {key: pool.submit(run, options, ["found", *of_day(*key)]) for key in days}
        runs = {key: pool.submit(run, options, [key[1], *of_day(key[0], key[4]), "--delay", str(key[2]), "--loading", str(key[3])])
                for key in wanted}
        found = {key: search.result()["found"] for key, search in searches.items()}
        done = {key: one.result() for key, one in runs.items()}
    for (day, _, _, _, seed), row in done.items():
        best = found[day, seed]
        for minute in range(0, len(best), 10):
            best[minute] = max(best[minute], row["served"][minute])
    results = {key: figures(row, found[key[0], key[4]]) for key, row in done.items()}
    first = options.seeds[0]
    text = ["# A swarm whose servers come and go, simulated", "", "    python3 bench/plan/swarm_day.py --out bench/results/swarm_day", "",
            *__doc__.split("\n\n", 2)[2].rsplit("\n\n", 1)[0].splitlines(), "",
            f"Seeds {', '.join(map(str, options.seeds))}: means, of the worst minute the least. A swarm is disconnected where a block has no "
            "server: of minutes, at their ends; of seconds, all. Servers leave without a word, so who was a block's only one leaves a gap "
            "until the news has come.", "",
            f"![What is served]({options.out.name}.svg)", "",
            "## A day of 1440 minutes, moves at once", "", *table(results, lambda key: key[0] == DAY and key[3] == 0), "",
            "## Two cycles of 360 minutes, moves at once", "", *table(results, lambda key: key[0] == FAST), "",
            "## A day, with three minutes to load blocks", "",
            "Who moves by the published rule serves nothing while it loads; by ours it serves its old blocks until then, and drops them "
            "when others have loaded them.", "",
            *table(results, lambda key: key[0] == DAY and key[3] > 0), "",
            f"Rounds of ours in which two servers made different plans: {sum(figure['differing'] for figure in results.values())} of "
            f"{sum(key[0][1] for key in results if key[1] == 'ours')}.", ""]
    write_page(options.out.with_suffix(".md"), "\n".join(text))
    options.out.with_suffix(".json").write_text(json.dumps(
        [{"day": key[0][0], "rule": key[1], "delay_s": key[2], "loading_s": key[3], "seed": key[4], **figure}
         for key, figure in results.items()], indent=1) + "\n")
    options.out.with_suffix(".svg").write_text(plot(
        {rule: done[DAY, rule, 0, 0, first]["served"] for rule in COLOURS}, done[DAY, "ours", 0, 0, first]["bound"], found[DAY, first]))


if __name__ == "__main__":
    main()
