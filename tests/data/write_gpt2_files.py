#!/usr/bin/env python3
"""Writes the tiny GPT-2 files of this folder, and the loss that PyTorch computes from each.

    python3 tests/data/write_gpt2_files.py

Nothing here is Reef's: files are written with struct and json, and the model is GPT-2's forward pass as
Hugging Face writes it, with Conv1D projections (in, out). Needs torch and numpy.

    gpt2_hub.safetensors     GPT2Model's names, without a prefix, fp32, with the masks of older files
    gpt2_head.safetensors    GPT2LMHeadModel's names with its head, fp16
    gpt2_bf16.safetensors    the same without the head, bf16
    gpt2_losses.json         shape, tokens, and for each file the mean cross-entropy in fp64; and the
                             likeliest continuation of [3, 14, 15] by the first
"""

import json
import math
import pathlib
import struct

import torch
from torch.nn import functional

LAYERS, HEADS, CHANNELS, VOCABULARY, CONTEXT = 2, 2, 12, 37, 10
BATCH, SEQUENCE = 3, 8
FOLDER = pathlib.Path(__file__).parent
DTYPES = {torch.float32: "F32", torch.float16: "F16", torch.bfloat16: "BF16", torch.uint8: "BOOL"}


def parameters():
    C = CHANNELS
    shapes = {"wte.weight": (VOCABULARY, C), "wpe.weight": (CONTEXT, C)}
    for i in range(LAYERS):
        h = f"h.{i}."
        for norm in ("ln_1", "ln_2"):
            shapes[h + norm + ".weight"] = shapes[h + norm + ".bias"] = (C,)
        for name, rows, columns in (("attn.c_attn", C, 3 * C), ("attn.c_proj", C, C),
                                    ("mlp.c_fc", C, 4 * C), ("mlp.c_proj", 4 * C, C)):
            shapes[h + name + ".weight"] = (rows, columns)
            shapes[h + name + ".bias"] = (columns,)
    shapes["ln_f.weight"] = shapes["ln_f.bias"] = (C,)
    generator = torch.Generator().manual_seed(7)
    values = {name: 0.3 * torch.randn(shape, generator=generator) for name, shape in shapes.items()}
    for name in values:
        if ".ln_" in "." + name and name.endswith("weight"):
            values[name] += 1
    return values


def logits_of(w, tokens):
    """GPT2LMHeadModel.forward, in fp64."""
    w = {name: value.double() for name, value in w.items()}
    B, T, C = *tokens.shape, CHANNELS

    def conv1d(x, name):
        return x @ w[name + ".weight"] + w[name + ".bias"]

    def norm(x, name):
        return functional.layer_norm(x, (C,), w[name + ".weight"], w[name + ".bias"], 1e-5)

    def gelu_new(x):
        return 0.5 * x * (1 + torch.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))

    mask = torch.ones(T, T, dtype=torch.bool).tril()
    x = w["wte.weight"][tokens] + w["wpe.weight"][torch.arange(T)]
    for i in range(LAYERS):
        h = f"h.{i}."
        query, key, value = conv1d(norm(x, h + "ln_1"), h + "attn.c_attn").split(C, dim=2)
        heads = [y.view(B, T, HEADS, C // HEADS).transpose(1, 2) for y in (query, key, value)]
        scores = heads[0] @ heads[1].transpose(-1, -2) / math.sqrt(C // HEADS)
        scores = scores.masked_fill(~mask, float("-inf"))
        y = (scores.softmax(-1) @ heads[2]).transpose(1, 2).reshape(B, T, C)
        x = x + conv1d(y, h + "attn.c_proj")
        x = x + conv1d(gelu_new(conv1d(norm(x, h + "ln_2"), h + "mlp.c_fc")), h + "mlp.c_proj")
    return norm(x, "ln_f") @ w["wte.weight"].T


def loss_of(w, tokens, targets):
    logits = logits_of(w, tokens)
    return functional.cross_entropy(logits.reshape(-1, VOCABULARY), targets.reshape(-1)).item()


def continued(w, tokens, count):
    """The likeliest token after the last CONTEXT ones, again and again."""
    for _ in range(count):
        logits = logits_of(w, torch.tensor([tokens[-CONTEXT:]]))
        tokens = tokens + [logits[0, -1].argmax().item()]
    return tokens


def write(path, tensors, metadata):
    header, data = {"__metadata__": metadata}, b""
    for name, value in tensors.items():
        raw = value.contiguous().view(torch.uint8).numpy().tobytes()
        header[name] = {"dtype": DTYPES[value.dtype], "shape": list(value.shape),
                        "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)


def main():
    weights = parameters()
    generator = torch.Generator().manual_seed(11)
    tokens = torch.randint(VOCABULARY, (BATCH, SEQUENCE + 1), generator=generator)
    tokens, targets = tokens[:, :-1], tokens[:, 1:]

    masks = {}
    for i in range(LAYERS):
        masks[f"h.{i}.attn.bias"] = torch.ones(CONTEXT, CONTEXT).tril().view(1, 1, CONTEXT, CONTEXT)
        masks[f"h.{i}.attn.masked_bias"] = torch.tensor([-1e4])
    half = {name: value.half() for name, value in weights.items()}
    brain = {name: value.bfloat16() for name, value in weights.items()}

    def prefixed(tensors):
        return {"transformer." + name: value for name, value in tensors.items()}

    pt = {"format": "pt"}
    write(FOLDER / "gpt2_hub.safetensors", {**weights, **masks}, pt)
    write(FOLDER / "gpt2_head.safetensors",
          {**prefixed(half), "lm_head.weight": half["wte.weight"]}, pt)
    write(FOLDER / "gpt2_bf16.safetensors", prefixed(brain), pt)
    losses = {
        "layers": LAYERS, "heads": HEADS, "channels": CHANNELS, "vocabulary": VOCABULARY,
        "context": CONTEXT, "batch": BATCH, "sequence": SEQUENCE,
        "tokens": tokens.flatten().tolist(), "targets": targets.flatten().tolist(),
        "continued": continued(weights, [3, 14, 15], 17),
        "losses": {"gpt2_hub.safetensors": loss_of(weights, tokens, targets),
                   "gpt2_head.safetensors": loss_of(half, tokens, targets),
                   "gpt2_bf16.safetensors": loss_of(brain, tokens, targets)},
    }
    (FOLDER / "gpt2_losses.json").write_text(json.dumps(losses) + "\n")


if __name__ == "__main__":
    main()
