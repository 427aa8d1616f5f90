"""What the scripts beside it share: weights that are drawn, files of them, and what a model makes of tokens. Nothing but Python."""

import json
import math
import pathlib
import random
import struct
import sys

HERE = pathlib.Path(__file__).parent


def softmax_sum(scores, values):
    """Of (positions,) and (positions, D): the values, weighted."""
    top = max(scores)
    e = [math.exp(s - top) for s in scores]
    return [sum(a * v[i] for a, v in zip(e, values)) / sum(e) for i in range(len(values[0]))]


def added(*parts):
    """The sum of matrices of one shape."""
    return [[sum(a) for a in zip(*rows)] for rows in zip(*parts)]


def matrix(w, shapes, name):
    flat, columns = w[name + ".weight"], shapes[name + ".weight"][1]
    return [flat[i:i + columns] for i in range(0, len(flat), columns)]


def linear(w, shapes, x, name):
    """x (rows, in) by a weight (out, in), and its bias if there is one."""
    bias, rows = w.get(name + ".bias"), matrix(w, shapes, name)
    return [[sum(a * b for a, b in zip(x_row, m)) + (bias[i] if bias else 0) for i, m in enumerate(rows)] for x_row in x]


def turned(part, t, f):
    """The first 2 len(f) of a head's columns, as pairs of halves, by the angles t f; the others stay."""
    half = len(f)
    return ([part[i] * math.cos(t * f[i]) - part[i + half] * math.sin(t * f[i]) for i in range(half)] +
            [part[i + half] * math.cos(t * f[i]) + part[i] * math.sin(t * f[i]) for i in range(half)] + list(part[2 * half:]))


def continued(logits_of, c, w, tokens, count):
    greedy, margin = [], math.inf
    for _ in range(count):
        last = logits_of(c, w, tokens + greedy)[-1]
        order = sorted(range(len(last)), key=lambda i: -last[i])
        margin = min(margin, last[order[0]] - last[order[1]])
        greedy.append(order[0])
    return greedy, margin


def encoded(values, dtype):
    """The bytes, and the numbers that they are."""
    if dtype == "F16":
        raw = struct.pack(f"<{len(values)}e", *values)
        return raw, list(struct.unpack(f"<{len(values)}e", raw))
    bits = struct.unpack(f"<{len(values)}I", struct.pack(f"<{len(values)}f", *values))
    if dtype == "BF16":
        bits = [(b + 0x7FFF + (b >> 16 & 1)) & 0xFFFF0000 for b in bits]
        raw = struct.pack(f"<{len(bits)}H", *(b >> 16 for b in bits))
    else:
        raw = struct.pack(f"<{len(bits)}I", *bits)
    return raw, list(struct.unpack(f"<{len(bits)}f", struct.pack(f"<{len(bits)}I", *bits)))


def write_tensors(path, tensors, dtype):
    header, blob = {"__metadata__": {"format": "pt"}}, b""
    for name, (shape, raw) in tensors.items():
        header[name] = {"dtype": dtype, "shape": list(shape), "data_offsets": [len(blob), len(blob) + len(raw)]}
        blob += raw
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(struct.pack("<Q", len(text)) + text + blob)


def write_case(shapes, logits_of, name, c, dtype, files):
    draw = random.Random(name)
    w, tensors = {}, {}
    for tensor, shape in sorted(shapes(c).items()):
        near = 1 if "norm" in tensor else 0
        deviation = 1.0 if "embed" in tensor or "lm_head" in tensor else 0.4
        raw, w[tensor] = encoded([near + deviation * draw.gauss(0, 1) for _ in range(math.prod(shape))], dtype)
        tensors[tensor] = (shape, raw)
    folder = HERE / name
    folder.mkdir(exist_ok=True)
    (folder / "config.json").write_text(json.dumps(c, indent=1) + "\n")
    if files == 1:
        write_tensors(folder / "model.safetensors", tensors, dtype)
    else:
        weight_map = {}
        for part in range(files):
            file = f"model-{part + 1:05d}-of-{files:05d}.safetensors"
            own = {t: tensors[t] for i, t in enumerate(tensors) if i % files == part}
            weight_map |= {t: file for t in own}
            write_tensors(folder / file, own, dtype)
        index = {"metadata": {"total_size": sum(len(raw) for _, raw in tensors.values())}, "weight_map": weight_map}
        (folder / "model.safetensors.index.json").write_text(json.dumps(index, indent=1) + "\n")
    tokens = [draw.randrange(c["vocab_size"]) for _ in range(19)]
    greedy, margin = continued(logits_of, c, w, tokens, 8)
    expected = {"about": "logits of every position of tokens, and the tokens that greedy decoding adds; fp64",
                "tokens": tokens, "greedy": greedy, "least_margin": margin,
                "logits": [[round(x, 9) for x in row] for row in logits_of(c, w, tokens)]}
    (folder / "expected.json").write_text(json.dumps(expected) + "\n")
    print(name, greedy, margin)


def check(logits_of, folder):
    """Of fp32 in one file."""
    folder = pathlib.Path(folder)
    c = json.loads((folder / "config.json").read_text())
    data = (folder / "model.safetensors").read_bytes()
    length = struct.unpack("<Q", data[:8])[0]
    w = {}
    for name, tensor in json.loads(data[8:8 + length]).items():
        if name != "__metadata__":
            begin, end = (8 + length + offset for offset in tensor["data_offsets"])
            w[name] = list(struct.unpack(f"<{(end - begin) // 4}f", data[begin:end]))
    expected = json.loads((folder / "expected.json").read_text())
    found = logits_of(c, w, expected["tokens"])
    off = max(abs(a - b) for rows in zip(found, expected["logits"]) for a, b in zip(*rows))
    print(folder.name, "is off by", off, continued(logits_of, c, w, expected["tokens"], len(expected["greedy"]))[0] == expected["greedy"])


def main(shapes, logits_of, base, cases):
    """Writes the cases, or checks the folders of the command line. A case: its settings, the dtype of weights, how many files."""
    for given in sys.argv[1:]:
        check(logits_of, given)
    if len(sys.argv) == 1:
        for name, (settings, dtype, files) in cases.items():
            write_case(shapes, logits_of, name, base | settings, dtype, files)
