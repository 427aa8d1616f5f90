#!/usr/bin/env python3
"""ATOM's figures 14 and 15 (arXiv 2403.10504) in virtual time: swapping on each of four GPUs, or one pipeline over all four.

    cmake --build build/release --target reef-plan
    python3 bench/papers/atom.py

Nothing is measured: `reef-plan simulate` runs ATOM's schedule, `reef-plan schedule` those of pipelines. Of the paper are models,
networks and the batch; what it leaves out is stated here:

    models       GPT-3 of its table II; 175B* is two blocks of the largest. fp32, a sequence of 2048 tokens a micro-batch, a
                 backward of two forwards
    GPUs         four of one of its three kinds: 7.85 TFLOP/s (half of a V100's) and 12 GB/s to the host each way, as in
                 swap_simulated.md
    networks     400 and 800 Mbit/s and 1 ms between GPUs; localhost: 12 GB/s, 10 us
    batch        256 sequences, of all models, as in its section on global batches

    atom         each GPU swaps a model of its own by the published schedule, four micro-batches through each sub-model; after
                 each batch they exchange gradients, 4 bytes of each parameter around a ring, while all wait, as in the paper
    beside       the same, and the exchange runs beside the next batch's computation, as ACCO's: not in the paper
    alone        the same without an exchange, which the paper's figure 14 leaves out
    GPipe        a pipeline of four stages, cut so that the longest is shortest; 4, or 32 micro-batches, then a flush
    PipeDream    as that, 1F1B without a flush: what one more micro-batch takes, in the long run
    one by one   as that, one micro-batch at a time, as a client of a swarm of servers would have it

Written are papers_atom.md and papers_atom.svg.
"""

import functools
import importlib.util

from support import ROOT, ReefPlan, parser_of, table, write

_spec = importlib.util.spec_from_file_location("simulated", ROOT / "bench/swap/simulated.py")
simulated = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(simulated)

GPUS, ACCUMULATION = 4, 4
MODELS = [model for model in simulated.MODELS if model != "175B"]
BATCH = 256  # sequences
NETWORKS = {"400 Mbit/s": (400e6 / 8, 1e-3), "800 Mbit/s": (800e6 / 8, 1e-3), "localhost": (12e9, 1e-5)}
PIPELINES = {"GPipe, 4": ("gpipe", 4), "GPipe, 32": ("gpipe", 32), "PipeDream": ("pipedream", None), "one by one": ("gpipe", 1)}


def parameters(layers, channels):
    c, v = channels, simulated.VOCABULARY
    return (v + simulated.CONTEXT) * c + layers * (12 * c * c + 13 * c) + v * c


@functools.cache
def even_stages(times, stages):
    """The sums of the cut into so many whose longest is shortest."""
    if stages == 1:
        return [sum(times)]
    return min(([sum(times[:first])] + even_stages(times[first:], stages - 1) for first in range(1, len(times) - stages + 2)), key=max)


class Tables:
    def __init__(self, plan):
        self.plan = plan

    def swapped(self, model, variant, published=False):
        """Seconds of an iteration of ACCUMULATION sequences on one GPU, and how busy it is."""
        layers, channels = simulated.MODELS[model]
        found = self.plan("simulate", {"variant": variant, "opts": {}, "C": ACCUMULATION, "cuts": list(range(2, layers + 1)),
                                       "chain": simulated.chain(layers, channels, False, published)})
        return found["iter_us"] / 1e6, found["utilisation"]

    def atom(self, model, network, exchange):
        """Sequences a second of all GPUs."""
        seconds, _ = self.swapped(model, "atom2", published=True)
        computing = BATCH / GPUS / ACCUMULATION * seconds
        rate, latency = NETWORKS[network]
        sent = 2 * (GPUS - 1) * (4 * parameters(*simulated.MODELS[model]) / GPUS / rate + latency)
        return BATCH / {"atom": computing + sent, "beside": max(computing, sent), "alone": computing}[exchange]

    def pipeline(self, model, network, name):
        """Sequences a second, and how busy the GPUs are on average."""
        layers, channels = simulated.MODELS[model]
        forward = even_stages(tuple(simulated.chain(layers, channels, False, False)["tf"]), GPUS)
        rate, latency = NETWORKS[network]
        wire = {"wire_us": 1e6 * 4 * simulated.CONTEXT * channels / rate, "latency_us": 1e6 * latency}
        case = {"p": GPUS, "t_f": forward, "t_b": forward, "t_w": forward,
                "links": [{"from": a, "to": a + step, **wire} for a in range(GPUS) for step in (1, -1) if 0 <= a + step < GPUS]}
        schedule, count = PIPELINES[name]
        makespan = lambda m: self.plan("schedule", {**case, "m": m}, "--schedule", schedule)["makespan_us"] / 1e6
        seconds = makespan(count) / count if count else (makespan(128) - makespan(64)) / 64
        return 1 / seconds, 3 * sum(forward) / 1e6 / GPUS / seconds


def main():
    parser = parser_of(__doc__, "papers_atom")
    options = parser.parse_args()
    tables = Tables(ReefPlan(options.program))
    rows, panels, gains = [], [], {}
    for model in MODELS:
        panel = {}
        for network, (rate, _) in NETWORKS.items():
            atom = {exchange: tables.atom(model, network, exchange) for exchange in ("atom", "beside", "alone")}
            others = {name: tables.pipeline(model, network, name)[0] for name in PIPELINES}
            for exchange, value in atom.items():
                gains[model, network, exchange] = {name: value / others[name] for name in PIPELINES}
            rows.append([model, network, *(f"{value:.3f}" for value in atom.values()),
                         *(f"{others[name]:.3f} ({gains[model, network, 'atom'][name]:.1f})" for name in PIPELINES)])
            print(*rows[-1], flush=True)
            for name, value in {"atom": atom["atom"], "atom, beside": atom["beside"], **others}.items():
                panel.setdefault(name, {})[round(rate * 8 / 1e6)] = value
        panels.append((f"{model}: sequences a second", "Mbit/s; the last is localhost", panel))

    busy = [["atom, as published", "", "", f"{100 * tables.swapped('175B*', 'atom2', published=True)[1]:.1f} %", "91.9 %", ""],
            ["atom with a third lane (swap::Atom)", "", "", f"{100 * tables.swapped('175B*', 'atom3')[1]:.1f} %", "", ""]]
    for name, paper in (("GPipe, 4", 18.3), ("GPipe, 32", None), ("PipeDream", 46.3), ("one by one", None)):
        found = [100 * tables.pipeline("175B*", network, name)[1] for network in NETWORKS]
        busy.append([name, *(f"{each:.1f} %" for each in found), *((f"{paper} %", f"{round(found[-1], 1) / paper:.2f}") if paper else ("", ""))])

    def most(name, network, exchange):
        model = max(MODELS, key=lambda each: gains[each, network, exchange][name])
        return f"{gains[model, network, exchange][name]:.1f} ({model})"

    explanation = __doc__.split("\n\n")
    lines = ["# ATOM's figures 14 and 15, simulated", "", "    python3 bench/papers/atom.py", "",
             *"\n\n".join(explanation[2:5]).splitlines(), "",
             "## How much quicker than a pipeline", "",
             "The most of all models. The paper says up to 20 times, of slow networks; like for like are atom's rows against GPipe and "
             "PipeDream, or, as its figure 14 counts no exchange, those of alone.", "",
             *table(["atom's exchange", "against", *NETWORKS],
                    [[{"atom": "waited for, as in the paper", "beside": "beside computation", "alone": "not counted"}[exchange], name,
                      *(most(name, network, exchange) for network in NETWORKS)] for exchange in ("atom", "alone", "beside") for name in PIPELINES]), "",
             "![Sequences a second by network](papers_atom.svg)", "", "## How busy a GPU is: two blocks of 175B", "",
             *table(["", *NETWORKS, "paper, localhost", "localhost / paper"], busy), "",
             "The paper's figures of pipelines are their highest, those of its localhost network. Reef's pipelines are busier there: GPipe "
             "with four micro-batches more than twice, so the paper's gain over them is one over slower pipelines too. A pipeline cannot "
             "cut two blocks and a head into four even stages, so that "
             "PipeDream stays below 60 % on localhost too; and GPipe is as idle as it has few micro-batches. A GPU that swaps has "
             "no network to wait for until the batch ends.", "",
             "Not here: the other two kinds of GPU of figure 14, and figure 16, which has two and three pipelines over three servers.", "",
             "## Sequences a second of four GPUs", "", "In brackets, how many times as many atom has, its exchange waited for.", "",
             *table(["model", "network", "atom", "beside", "alone", *PIPELINES], rows), "",
             "What a batch ends with is where swapping pays: every GPU has the whole model to exchange, which over 400 Mbit/s takes "
             "longer than the batch of a small one. A pipeline sends "
             "activations alone, and is the better choice where they are small beside its stages' time."]
    write(options.out, lines, panels)


if __name__ == "__main__":
    main()
