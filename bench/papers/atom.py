#!/usr/bin/env python3
"""ATOM's figures 14 to 16 (arXiv 2403.10504) in virtual time: swapping on each of four GPUs, or one pipeline over all four.

    cmake --build build/release --target reef-plan
    python3 bench/papers/atom.py

Nothing is measured: `reef-plan simulate` runs ATOM's schedule, `reef-plan schedule` those of pipelines. What the paper leaves out
is stated here:

    models       GPT-3 of its table II; 175B* is two blocks of the largest. fp32, a sequence of 2048 tokens a micro-batch, a
                 backward of two forwards
    GPUs         four of 7.85 TFLOP/s (half of a V100's) and 12 GB/s to the host each way, as in swap_simulated.md
    networks     400 and 800 Mbit/s and 1 ms between GPUs; one host: 12 GB/s, 10 us
    batch        GPT-3's own: 256 sequences up to 760M, 512 up to 2.7B, 1600 of 175B*

    atom         each GPU swaps a model of its own, four micro-batches through each sub-model; after each batch they
                 exchange gradients, 4 bytes of each parameter around a ring, while all wait
    beside       the same, and the exchange runs beside the next batch's computation, as ACCO's or Hivemind's
    alone        the same without an exchange, as peers that have nothing to say to each other
    GPipe        a pipeline of four stages, cut so that the longest is shortest; 4, or 32 micro-batches, then a flush
    PipeDream    as that, 1F1B without a flush: what one more micro-batch takes, in the long run
    one by one   as that, one micro-batch at a time, as a client of a swarm of servers would have it

Written are papers_atom.md and papers_atom.svg.
"""

import importlib.util

from support import ROOT, ReefPlan, parser_of, table, write

_spec = importlib.util.spec_from_file_location("simulated", ROOT / "bench/swap/simulated.py")
simulated = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(simulated)

GPUS, ACCUMULATION = 4, 4
SEQUENCES = {"125M": 256, "350M": 256, "760M": 256, "1.3B": 512, "2.7B": 512, "175B*": 1600}
NETWORKS = {"400 Mbit/s": (400e6 / 8, 1e-3), "800 Mbit/s": (800e6 / 8, 1e-3), "one host": (12e9, 1e-5)}
PIPELINES = {"GPipe, 4": ("gpipe", 4), "GPipe, 32": ("gpipe", 32), "PipeDream": ("pipedream", None), "one by one": ("gpipe", 1)}


def parameters(layers, channels):
    c, v = channels, simulated.VOCABULARY
    return (v + simulated.CONTEXT) * c + layers * (12 * c * c + 13 * c) + v * c


def even_stages(times, stages):
    """The sums of the cut into so many whose longest is shortest."""
    if stages == 1:
        return [sum(times)]
    return min(([sum(times[:first])] + even_stages(times[first:], stages - 1) for first in range(1, len(times) - stages + 2)), key=max)


class Tables:
    def __init__(self, plan):
        self.plan = plan

    def swapped(self, model, variant, naive=False):
        """Seconds of an iteration of ACCUMULATION sequences on one GPU, and how busy it is."""
        layers, channels = simulated.MODELS[model]
        found = self.plan("simulate", {"variant": variant, "opts": {}, "C": ACCUMULATION, "cuts": list(range(2, layers + 1)),
                                       "chain": simulated.chain(layers, channels, False, naive)})
        return found["iter_us"] / 1e6, found["utilisation"]

    def atom(self, model, network, exchange):
        """Sequences a second of all GPUs."""
        seconds, _ = self.swapped(model, "atom2", naive=True)
        batch = SEQUENCES[model]
        computing = batch / GPUS / ACCUMULATION * seconds
        rate, latency = NETWORKS[network]
        sent = 2 * (GPUS - 1) * (4 * parameters(*simulated.MODELS[model]) / GPUS / rate + latency)
        return batch / {"atom": computing + sent, "beside": max(computing, sent), "alone": computing}[exchange]

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
    for model in SEQUENCES:
        panel = {}
        for network, (rate, _) in NETWORKS.items():
            atom = {exchange: tables.atom(model, network, exchange) for exchange in ("atom", "beside", "alone")}
            others = {name: tables.pipeline(model, network, name)[0] for name in PIPELINES}
            gains[model, network] = {name: atom["beside"] / others[name] for name in PIPELINES}
            rows.append([model, network, *(f"{value:.3f}" for value in atom.values()),
                         *(f"{others[name]:.3f} ({gains[model, network][name]:.1f})" for name in PIPELINES)])
            print(*rows[-1], flush=True)
            for name, value in {"atom, beside": atom["beside"], **others}.items():
                panel.setdefault(name, {})[round(rate * 8 / 1e6)] = value
        panels.append((f"{model}: sequences a second", "Mbit/s; the last is one host", panel))

    busy = [["atom, its two lanes", "", "", f"{100 * tables.swapped('175B*', 'atom2', naive=True)[1]:.1f} %", "91.9 %"],
            ["atom with a third lane (swap::Atom)", "", "", f"{100 * tables.swapped('175B*', 'atom3')[1]:.1f} %", ""]]
    for name, paper in (("GPipe, 4", "18.3 %"), ("GPipe, 32", ""), ("PipeDream", "46.3 %"), ("one by one", "")):
        busy.append([name, *(f"{100 * tables.pipeline('175B*', network, name)[1]:.1f} %" for network in NETWORKS), paper])

    def most(name, network):
        model = max(SEQUENCES, key=lambda each: gains[each, network][name])
        return f"{gains[model, network][name]:.1f} ({model})"

    explanation = __doc__.split("\n\n")
    lines = ["# ATOM's figures 14 to 16, simulated", "", "    python3 bench/papers/atom.py", "", *"\n\n".join(explanation[2:5]).splitlines(), "",
             "## How much quicker than a pipeline", "", "The most of all models, of atom with its exchange beside. The paper says up to 20 times, of slow networks.", "",
             *table(["against", *NETWORKS], [[name, *(most(name, network) for network in NETWORKS)] for name in PIPELINES]), "",
             "![Sequences a second by network](papers_atom.svg)", "", "## How busy a GPU is: two blocks of 175B", "",
             *table(["", *NETWORKS, "paper"], busy), "",
             "The paper does not say of which network, nor how many micro-batches, its figures of pipelines are. A pipeline cannot "
             "cut two blocks and a head into four even stages, so that "
             "PipeDream stays below 60 % on one host too; and GPipe is as idle as it has few micro-batches. A GPU that swaps has no network to wait for until the batch ends.", "",
             "## Sequences a second of four GPUs", "", "In brackets, how many times as many atom has, beside.", "",
             *table(["model", "network", "atom", "beside", "alone", *PIPELINES], rows), "",
             "What a batch ends with is where swapping pays: every GPU has the whole model to exchange, which over 400 Mbit/s takes "
             "longer than the batch of a small one. A pipeline sends "
             "activations alone, and is the better choice where they are small beside its stages' time."]
    write(options.out, lines, panels)


if __name__ == "__main__":
    main()
