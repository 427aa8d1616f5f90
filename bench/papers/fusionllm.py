#!/usr/bin/env python3
"""FusionLLM's figures 10 and 11 (arXiv 2410.12707, section 7) in virtual time: layouts by compression, 24 and 48 devices.

    cmake --build build/release --target reef-plan
    python3 bench/papers/fusionllm.py

Nothing is measured: `reef-plan op-fence` says which device runs which operators, `reef-plan adatopk` what each link is compressed
by, and `reef-plan schedule` what GPipe's step of two micro-batches takes on that, forwards and backwards. Networks are drawn:

    model        GPT-2 XL: 48 layers of 1600 channels, each as two operators, embedding and head; 3 sequences of 1024 tokens
                 a micro-batch, 2 micro-batches a step, fp32. A message between stages is 19.7 MB, as the paper's
    devices      24: three machines of eight, two of them at one site; 48: six, at three sites. The devices of a machine all
                 have 5, 10 or 20 TFLOP/s (what they reach, not their peak)
    memory       11 GB of each device; or tight: what equal operators take on the device that has most, and 5 % more, so that many
                 devices are needed
    links        10 Gbit/s and 0.1 ms inside a machine, 1 Gbit/s and 0.5 ms between machines of a site, 8 to 100 Mbit/s, by a
                 seed, and 20 ms between sites

    equal operators, equal compute   as many operators, or operations, on each device. Devices are numbered at random, or,
                                     "listed", machine by machine
    OP-Fence order                   clusters by bandwidth, put in an order, and an exact split over them
    OP-Fence                         order and split together, as `reef-plan op-fence` does where nothing else is asked
                                     for. Both may leave devices out, and plan for the bytes that are sent
    dense        4 bytes a number
    uniform      top-k by one ratio for all links, 1 / 100 of the bytes: with 8 bytes an index 1 in 300 numbers is kept
    AdaTopK      each link is as quick as the slowest one at 1 / 100 (Eq. 7); what is quick enough is sent as it is

Written are papers_fusionllm.md and papers_fusionllm.svg.
"""

import random
import statistics

from support import ReefPlan, parser_of, table, write

LAYERS, CHANNELS, VOCABULARY, TOKENS, MICRO_BATCHES = 48, 1600, 50257, 3 * 1024, 2
MESSAGE = 4 * TOKENS * CHANNELS
SPEEDS = (5e12, 10e12, 20e12)
# The method of reef-plan, and whether devices are listed machine by machine.
LAYOUTS = {"equal operators": ("equal-operators", False), "equal operators, listed": ("equal-operators", True),
           "equal compute": ("equal-compute", False), "equal compute, listed": ("equal-compute", True),
           "OP-Fence order": ("clusters", False), "OP-Fence": ("search", False)}
KINDS = ("dense", "uniform", "AdaTopK")
MANY = 1e12  # a ratio at which a message has no bytes


def operators():
    """Forward operations and bytes of each operator: weights, gradients and moments, and what a step keeps."""
    c, n = CHANNELS, TOKENS
    flops, memory = [1e6], [16 * (VOCABULARY + 1024) * c]
    for _ in range(LAYERS):
        flops += [n * (8 * c * c + 4 * 1024 * c), 16 * n * c * c]
        memory += [16 * 4 * c * c + MICRO_BATCHES * 6 * MESSAGE, 16 * 8 * c * c + MICRO_BATCHES * 10 * MESSAGE]
    return flops + [2 * n * c * VOCABULARY], memory + [16 * VOCABULARY * c + MICRO_BATCHES * 4 * n * VOCABULARY]


def network(devices, seed, tight=False, listed=False):
    """A case of op-fence."""
    draw = random.Random(f"{devices} {seed}")
    machines = devices // 8
    speed = [draw.choice(SPEEDS) for _ in range(machines)]
    between_sites = {(a, b): 8e6 * 12.5 ** draw.random() for a in range(3) for b in range(a)}
    device = list(range(devices))
    if not listed:
        draw.shuffle(device)

    def link(a, b):
        if a // 8 == b // 8:
            return 1e-4, 8 / 1e10
        one, other = sorted((a // 16, b // 16), reverse=True)
        return (5e-4, 8 / 1e9) if one == other else (2e-2, 8 / between_sites[one, other])

    flops, memory = operators()
    of = [[link(a, b) for b in device] for a in device]
    room = 11e9
    if tight:
        bounds = [round(number * len(memory) / devices) for number in range(devices + 1)]
        room = 1.05 * max(sum(memory[a:b]) for a, b in zip(bounds, bounds[1:]))
    return {"flops": flops, "mem": memory, "cut": [0] + [MESSAGE] * (len(flops) - 1) + [0], "speed": [speed[d // 8] for d in device],
            "cap": [room] * devices, "alpha": [[pair[0] for pair in row] for row in of], "beta": [[pair[1] for pair in row] for row in of],
            "n_b": MICRO_BATCHES}


class Tables:
    def __init__(self, plan):
        self.plan = plan

    def stages(self, case, method, ratio):
        """Stages that are planned for messages of that much less; None where they do not fit."""
        effort = ("--effort", "2") if method == "search" else ()
        found = self.plan("op-fence", {**case, "cut": [bytes / ratio for bytes in case["cut"]]}, "--method", method, *effort)
        return found and found["plan"]

    def step(self, case, stages, kind, ratio):
        """Seconds of a step, forwards and backwards; the mean share of numbers that links keep; stages."""
        forward = [sum(case["flops"][first:end]) / case["speed"][device] for device, first, end in stages]
        pairs = [(a[0], b[0]) for a, b in zip(stages, stages[1:])]
        alpha = [case["alpha"][a][b] for a, b in pairs]
        beta = [case["beta"][a][b] for a, b in pairs]
        sent = [1 / ratio if kind == "uniform" else 1.0] * len(pairs)
        if kind == "AdaTopK" and pairs:
            ratios = self.plan("adatopk", {"alpha": alpha, "beta": beta, "bytes": MESSAGE, "r": ratio})["ratios"]
            sent = [min(1, 3 / each) if each > 1 else 1.0 for each in ratios]  # 12 bytes of a number that is kept, 4 of one that is not
        micro = [1e6 * seconds for seconds in forward]
        links = []
        for number, (latency, per_byte, share) in enumerate(zip(alpha, beta, sent)):
            wire = {"wire_us": 1e6 * per_byte * MESSAGE * share, "latency_us": 1e6 * latency}
            links += [{"from": number, "to": number + 1, **wire}, {"from": number + 1, "to": number, **wire}]
        asked = {"p": len(stages), "m": MICRO_BATCHES, "t_f": micro, "t_b": micro, "t_w": micro, "links": links}
        kept = statistics.mean(share if share == 1 else share / 3 for share in sent) if sent else 1
        return self.plan("schedule", asked, "--schedule", "gpipe")["makespan_us"] / 1e6, kept, len(stages)

    def best(self, case, method, kind, ratio=100):
        """Of AdaTopK the quicker of the plans for what is sent as it is, and for the smallest messages; None where nothing fits."""
        planned_for = {"dense": (1,), "uniform": (ratio,), "AdaTopK": (1, ratio)}[kind]
        if method.startswith("equal"):
            planned_for = (1,)
        plans = [stages for stages in (self.stages(case, method, less) for less in planned_for) if stages]
        return min((self.step(case, stages, kind, ratio) for stages in plans), default=None)


def figure_10(tables, seeds):
    rows, quicker, facts = [], [], {}
    for devices in (24, 48):
        for memory in ("11 GB", "tight"):
            found = {(layout, kind): [tables.best(network(devices, seed, memory == "tight", listed), method, kind) for seed in seeds]
                     for layout, (method, listed) in LAYOUTS.items() for kind in KINDS}
            best = found["OP-Fence", "AdaTopK"]
            for layout in LAYOUTS:
                cells = []
                for kind in KINDS:
                    times = [one[0] / ours[0] for one, ours in zip(found[layout, kind], best) if one]
                    quicker += times if layout in ("equal operators, listed", "equal compute, listed") and kind == "dense" else []
                    fitting = f", {len(times)} of {len(best)} fit" if len(times) < len(best) else ""
                    mean = statistics.mean(one[0] for one in found[layout, kind] if one) if times else 0
                    cells.append(f"{mean:.2f} ({statistics.mean(times):.2f}{fitting})" if times else "none fits")
                rows.append([devices, memory, layout, *cells])
                print(*rows[-1], flush=True)
            for kind in KINDS:
                facts[devices, memory, kind] = [
                    *(statistics.mean(each[part] for each in found["OP-Fence", kind]) for part in (1, 2)),
                    statistics.mean(each[0] / ours[0] for each, ours in zip(found["OP-Fence", kind], best))]
    return rows, quicker, facts


def figure_11(tables, seeds):
    ratios = (1, 10, 100, 1000)
    rows, curves = [], {}
    for devices in (24, 48):
        cases = [network(devices, seed, True) for seed in seeds]
        panel = curves[devices] = {}
        for kind in KINDS[1:]:
            panel[kind] = {ratio: statistics.mean(tables.best(case, "search", kind if ratio > 1 else "dense", ratio)[0] for case in cases)
                           for ratio in ratios}
            rows.append([f"{devices}, {kind}", *(f"{panel[kind][ratio]:.2f}" for ratio in ratios)])
        least = statistics.mean(tables.step(case, tables.stages(case, "search", MANY), "uniform", MANY)[0] for case in cases)
        rows.append([f"{devices}, messages of no bytes", "", "", "", f"{least:.2f}"])
        print(*rows[-3:], sep="\n", flush=True)
    return table(["devices, kind", *(f"r = {ratio}" if ratio > 1 else "dense" for ratio in ratios)], rows), curves


def main():
    parser = parser_of(__doc__, "papers_fusionllm")
    parser.add_argument("--seeds", type=int, default=3)
    options = parser.parse_args()
    tables = Tables(ReefPlan(options.program))
    seeds = range(options.seeds)
    explanation = __doc__.split("\n\n")
    rows, quicker, facts = figure_10(tables, seeds)
    ratios, curves = figure_11(tables, seeds)
    uses = "; ".join(f"{devices} devices, {memory}: " + ", ".join(f"{facts[devices, memory, kind][1]:.0f} {kind}" for kind in KINDS)
                     for devices in (24, 48) for memory in ("11 GB", "tight"))
    saved = [100 * (1 - panel[kind][1000] / panel[kind][100]) for panel in curves.values() for kind in KINDS[1:]]
    before = [100 * (1 - panel[kind][10] / panel[kind][1]) for panel in curves.values() for kind in KINDS[1:]]
    uniform = [facts[devices, "tight", "uniform"][2] for devices in (24, 48)]
    kept = [100 * facts[devices, "tight", "AdaTopK"][0] for devices in (24, 48)]
    lines = ["# FusionLLM's figures 10 and 11, simulated", "", "    python3 bench/papers/fusionllm.py", "", *"\n\n".join(explanation[2:5]).splitlines(), "",
             "## Figure 10: layouts by compression", "",
             f"Seconds of a step, means of {options.seeds} networks; in brackets, times OP-Fence with AdaTopK on the same network.", "",
             *table(["devices", "memory", "layout", *KINDS], rows), "",
             "The paper's two together are 1.45 to 9.39 times as quick as its baselines, over its models and testbeds, whose links "
             "it says only in part. Here OP-Fence with AdaTopK is "
             f"{min(quicker):.2f} to {max(quicker):.2f} times as quick as equal operators or equal compute of dense messages, devices listed machine by machine.", "",
             f"Devices that OP-Fence uses, on average: {uses}. Where memory allows it, it takes a few quick ones at one site: two "
             "micro-batches keep no more busy. So compression, which is for "
             "links between sites, is worth little there, and much where all machines are needed.", "",
             f"Where memory is tight AdaTopK keeps {kept[0]:.0f} % of the numbers of a message on average on 24 devices, "
             f"{kept[1]:.0f} % on 48. One ratio for all keeps 0.33 % and takes "
             f"{uniform[0]:.2f} and {uniform[1]:.2f} of the time: a message that is not the slowest still adds to how long a pipeline fills and drains.", "",
             "## Figure 11: ratios", "", "OP-Fence, tight memory, seconds of a step.", "", *ratios, "",
             f"As in the paper it saturates: r = 10 saves {min(before):.0f} to {max(before):.0f} % of a dense step, 1000 instead of "
             f"100 another {min(saved):.0f} to {max(saved):.0f} %. "
             "What is left is latency and computation; the last row of each is what no ratio gets below.", "",
             "![Seconds of a step by ratio](papers_fusionllm.svg)"]
    write(options.out, lines, [(f"s of a step, {devices} devices, tight", "r, 1 is dense", panel) for devices, panel in curves.items()])


if __name__ == "__main__":
    main()
