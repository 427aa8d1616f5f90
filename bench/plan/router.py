#!/usr/bin/env python3
"""What a change of one server costs the router, beside routers made anew: a table and a drawing of plan_router_bench.

    cmake --preset release -DREEF_BUILD_BENCH=ON
    cmake --build build/release --target plan_router_bench
    python3 bench/plan/router.py --out bench/results/router.md

70 blocks, servers with room for 1 to 10, of each ten measured round trips to others. Medians over 9 rounds of 200 changes;
one thread.

    ways      from a server to another that were looked at for a change, and how many times as many for all servers anew
    scratch   a router made anew with all servers, over ours
    dijkstra  Dijkstra's algorithm over (server, block), the graph that the public code builds for every route, over ours

Written are NAME.md and NAME.svg, for --out NAME.md.
"""

import argparse
import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "bench"))
from log_plot import log_plot  # noqa: E402
from page import write_page  # noqa: E402


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", default=str(ROOT / "build/release/bench/plan_router_bench"))
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    out = subprocess.run([options.program, "--benchmark_format=json"], stdout=subprocess.PIPE, text=True, check=True).stdout
    result = json.loads(out)
    lines = ["# Routes after a change of one server", "", "    python3 bench/plan/router.py --out bench/results/router.md", "",
             *__doc__.split("\n\n", 2)[2].rsplit("\n\n", 1)[0].splitlines(), "",
             "| servers | us for a change and its route | ways | of ways | of scratch | of dijkstra |", "|--:|--:|--:|--:|--:|--:|"]
    drawn = {"ours": {}, "scratch": {}, "dijkstra": {}}
    for entry in result["benchmarks"]:
        servers = int(entry["name"].split("servers:")[1].split("/")[0])
        ours = entry["real_time"]
        lines.append(f"| {servers} | {ours:.1f} | {entry['ways']:.0f} | {entry['of_ways']:.0f} | {entry['of_scratch']:.0f} | "
                     f"{entry['of_dijkstra']:.0f} |")
        drawn["ours"][servers] = ours
        for rival in ("scratch", "dijkstra"):
            drawn[rival][servers] = ours * entry["of_" + rival]
    lines += ["", f"![Microseconds for a change and its route]({options.out.stem}.svg)", "",
              "Routes and their costs are those of a router made anew, to the last picosecond: `tests/plan/router_test.cpp`, on 10 000 "
              "changes.", ""]
    write_page(options.out, "\n".join(lines))
    options.out.with_suffix(".svg").write_text(log_plot([("us for a change and its route", "servers", drawn)]))


if __name__ == "__main__":
    main()
