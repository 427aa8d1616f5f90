#!/usr/bin/env python3
"""Writes a GGUF file of a GPT-2 or Llama of Hugging Face's form, so that llama.cpp reads the same weights.

    gguf.py FOLDER OUT.gguf [--type f32|f16|q8_0|q4_0]     FOLDER has config.json and model.safetensors
    gguf.py --random llama|gpt2 FOLDER [--layers L --heads H --kv-heads K --channels C --ffn F --vocab V --context T]
                                                 makes such a FOLDER with random weights

Needs NumPy alone. The tokens of the vocabulary are made up (bytes, then words, without merges): runs are by number.
"""

import argparse
import json
import struct
import sys
from pathlib import Path

import numpy as np

U32, I32, F32, BOOL, TEXT, LIST = 4, 5, 6, 7, 8, 9  # types of a GGUF file's facts
KINDS = {"F32": np.float32, "F16": np.float16}


def read_safetensors(path):
    data = Path(path).read_bytes()
    (length,) = struct.unpack("<Q", data[:8])
    head, base, tensors = json.loads(data[8 : 8 + length]), 8 + length, {}
    for name, one in head.items():
        if name == "__metadata__":
            continue
        begin, end = (base + offset for offset in one["data_offsets"])
        if one["dtype"] == "BF16":
            values = (np.frombuffer(data[begin:end], np.uint16).astype(np.uint32) << 16).view(np.float32)
        else:
            values = np.frombuffer(data[begin:end], KINDS[one["dtype"]])
        tensors[name] = values.reshape(one["shape"])
    return tensors


def write_safetensors(path, tensors):
    head, at = {}, 0
    for name, values in tensors.items():
        head[name] = {"dtype": "F32", "shape": list(values.shape), "data_offsets": [at, at + values.nbytes]}
        at += values.nbytes
    text = json.dumps(head).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for values in tensors.values():
            file.write(np.ascontiguousarray(values, np.float32).tobytes())


def encoded(kind, fact):
    if kind == TEXT:
        return struct.pack("<Q", len(fact.encode())) + fact.encode()
    if kind == LIST:
        inner, items = fact
        return struct.pack("<IQ", inner, len(items)) + b"".join(encoded(inner, item) for item in items)
    return struct.pack({U32: "<I", I32: "<i", F32: "<f", BOOL: "<?"}[kind], fact)


def q8_0(values):
    """Returns blocks of 32 numbers: their largest magnitude / 127 in half precision, and 32 bytes of whole numbers."""
    blocks = np.ascontiguousarray(values, np.float32).reshape(-1, 32)
    scale = np.abs(blocks).max(axis=1) / 127
    whole = np.round(blocks * np.divide(1, scale, out=np.zeros_like(scale), where=scale != 0)[:, None])
    return np.concatenate([scale.astype(np.float16).view(np.uint8).reshape(-1, 2), whole.astype(np.int8).view(np.uint8)], axis=1).tobytes()


def q4_0(values):
    """Returns blocks of 32 numbers: the one of largest magnitude / -8 in half precision, and 16 bytes of two numbers from 0 to
    15, of which 8 is zero."""
    blocks = np.ascontiguousarray(values, np.float32).reshape(-1, 32)
    scale = np.take_along_axis(blocks, np.abs(blocks).argmax(axis=1)[:, None], axis=1)[:, 0] / -8
    inverse = np.divide(1, scale, out=np.zeros_like(scale), where=scale != 0)
    whole = np.minimum(15, (blocks * inverse[:, None] + 8.5).astype(np.int32)).astype(np.uint8)
    return np.concatenate([scale.astype(np.float16).view(np.uint8).reshape(-1, 2), whole[:, :16] | whole[:, 16:] << 4], axis=1).tobytes()


# The types of a GGUF file's matrices: their numbers there, and what encodes one. Of the rest all numbers are F32.
TYPES = {
    "f32": (0, lambda values: np.ascontiguousarray(values, np.float32).tobytes()),
    "f16": (1, lambda values: np.ascontiguousarray(values, np.float16).tobytes()),
    "q4_0": (2, q4_0),
    "q8_0": (8, q8_0),
}


def write_gguf(path, facts, tensors, kind):
    code, encode = TYPES[kind]
    with open(path, "wb") as file:
        file.write(b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(facts)))
        for name, (fact_kind, fact) in facts.items():
            file.write(encoded(TEXT, name) + struct.pack("<I", fact_kind) + encoded(fact_kind, fact))
        blobs, at = [], 0
        for name, values in tensors.items():
            narrow = values.ndim > 1
            extents = b"".join(struct.pack("<Q", extent) for extent in reversed(values.shape))
            file.write(encoded(TEXT, name) + struct.pack("<I", values.ndim) + extents)
            file.write(struct.pack("<IQ", code if narrow else 0, at))
            blobs.append(encode(values) if narrow else TYPES["f32"][1](values))
            at += (len(blobs[-1]) + 31) // 32 * 32
        file.write(b"\0" * (-file.tell() % 32))
        for blob in blobs:
            file.write(blob + b"\0" * (-len(blob) % 32))


def vocabulary(size):
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    letters, others = {}, 0
    for byte in range(256):
        letters[byte] = chr(byte) if byte in printable else chr(256 + others)
        others += byte not in printable
    words = [letters[byte] for byte in range(min(size, 256))] + [f"w{i}" for i in range(256, size)]
    return {
        "tokenizer.ggml.model": (TEXT, "gpt2"),
        "tokenizer.ggml.pre": (TEXT, "gpt-2"),
        "tokenizer.ggml.tokens": (LIST, (TEXT, words)),
        "tokenizer.ggml.token_type": (LIST, (I32, [1] * size)),
        "tokenizer.ggml.merges": (LIST, (TEXT, [letters[97] + " " + letters[98]])),
        "tokenizer.ggml.bos_token_id": (U32, 0),
        "tokenizer.ggml.eos_token_id": (U32, 0),
        "tokenizer.ggml.add_bos_token": (BOOL, False),
    }


def llama(config, weights):
    heads, channels = config["num_attention_heads"], config["hidden_size"]
    keys = config.get("num_key_value_heads", heads)
    size = config.get("head_dim") or channels // heads
    facts = {
        "general.architecture": (TEXT, "llama"),
        "llama.context_length": (U32, config["max_position_embeddings"]),
        "llama.embedding_length": (U32, channels),
        "llama.block_count": (U32, config["num_hidden_layers"]),
        "llama.feed_forward_length": (U32, config["intermediate_size"]),
        "llama.attention.head_count": (U32, heads),
        "llama.attention.head_count_kv": (U32, keys),
        "llama.attention.layer_norm_rms_epsilon": (F32, config["rms_norm_eps"]),
        "llama.rope.dimension_count": (U32, size),
        "llama.rope.freq_base": (F32, config.get("rope_theta", 10000.0)),
        "llama.vocab_size": (U32, config["vocab_size"]),
    }

    def in_neighbours(values, count):  # pairs of a head: halves at Hugging Face, neighbours at llama.cpp
        return values.reshape(count, 2, size // 2, -1).swapaxes(1, 2).reshape(values.shape)

    tensors = {
        "token_embd.weight": weights["model.embed_tokens.weight"],
        "output_norm.weight": weights["model.norm.weight"],
        "output.weight": weights.get("lm_head.weight", weights["model.embed_tokens.weight"]),
    }
    names = {"input_layernorm": "attn_norm", "post_attention_layernorm": "ffn_norm", "self_attn.v_proj": "attn_v",
             "self_attn.o_proj": "attn_output", "mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up", "mlp.down_proj": "ffn_down"}
    for i in range(config["num_hidden_layers"]):
        layer, block = f"model.layers.{i}.", f"blk.{i}."
        for name, short in names.items():
            tensors[f"{block}{short}.weight"] = weights[f"{layer}{name}.weight"]
        for letter, count in (("q", heads), ("k", keys)):
            tensors[f"{block}attn_{letter}.weight"] = in_neighbours(weights[f"{layer}self_attn.{letter}_proj.weight"], count)
    return facts, tensors


def gpt2(config, weights):
    channels = config["n_embd"]
    prefix = "transformer." if "transformer.wte.weight" in weights else ""
    facts = {
        "general.architecture": (TEXT, "gpt2"),
        "gpt2.context_length": (U32, config["n_positions"]),
        "gpt2.embedding_length": (U32, channels),
        "gpt2.block_count": (U32, config["n_layer"]),
        "gpt2.feed_forward_length": (U32, 4 * channels),
        "gpt2.attention.head_count": (U32, config["n_head"]),
        "gpt2.attention.layer_norm_epsilon": (F32, config.get("layer_norm_epsilon", 1e-5)),
    }
    tensors = {
        "token_embd.weight": weights[prefix + "wte.weight"],
        "position_embd.weight": weights[prefix + "wpe.weight"],
        "output.weight": weights[prefix + "wte.weight"],
    }
    names = {"ln_1": "attn_norm", "ln_2": "ffn_norm", "attn.c_attn": "attn_qkv", "attn.c_proj": "attn_output",
             "mlp.c_fc": "ffn_up", "mlp.c_proj": "ffn_down"}
    for part in ("weight", "bias"):
        tensors[f"output_norm.{part}"] = weights[f"{prefix}ln_f.{part}"]
        for i in range(config["n_layer"]):
            for name, short in names.items():
                tensors[f"blk.{i}.{short}.{part}"] = weights[f"{prefix}h.{i}.{name}.{part}"].T
    return facts, tensors


def convert(folder, out, kind):
    config = json.loads((folder / "config.json").read_text())
    architectures = {"llama": llama, "gpt2": gpt2}
    if config["model_type"] not in architectures:
        sys.exit(f"{folder}: model_type {config['model_type']!r}; known are llama and gpt2")
    facts, tensors = architectures[config["model_type"]](config, read_safetensors(folder / "model.safetensors"))
    write_gguf(out, facts | vocabulary(len(tensors["token_embd.weight"])), tensors, kind)


def random_weights(architecture, o):
    random = np.random.default_rng(o.seed)
    normal = lambda *shape: (random.standard_normal(shape) * 0.06).astype(np.float32)
    near_one = lambda count: (1 + 0.1 * random.standard_normal(count)).astype(np.float32)
    C, keys, F = o.channels, o.kv_heads or o.heads, o.ffn or 4 * o.channels
    size, weights = C // o.heads, {}
    if architecture == "llama":
        weights["model.embed_tokens.weight"] = normal(o.vocab, C) * 10
        for i in range(o.layers):
            layer = f"model.layers.{i}."
            weights[layer + "input_layernorm.weight"] = near_one(C)
            for letter, shape in (("q", (C, C)), ("k", (keys * size, C)), ("v", (keys * size, C)), ("o", (C, C))):
                weights[f"{layer}self_attn.{letter}_proj.weight"] = normal(*shape)
            weights[layer + "post_attention_layernorm.weight"] = near_one(C)
            for name, shape in (("gate", (F, C)), ("up", (F, C)), ("down", (C, F))):
                weights[f"{layer}mlp.{name}_proj.weight"] = normal(*shape)
        weights["model.norm.weight"] = near_one(C)
        weights["lm_head.weight"] = normal(o.vocab, C)
        return weights, {
            "model_type": "llama", "architectures": ["LlamaForCausalLM"], "hidden_size": C, "num_hidden_layers": o.layers,
            "num_attention_heads": o.heads, "num_key_value_heads": keys, "intermediate_size": F, "vocab_size": o.vocab,
            "max_position_embeddings": o.context, "rms_norm_eps": 1e-5, "rope_theta": 10000.0,
            "tie_word_embeddings": False, "hidden_act": "silu", "torch_dtype": "float32"}
    weights["wte.weight"] = normal(o.vocab, C) * 5
    weights["wpe.weight"] = normal(o.context, C)
    for i in range(o.layers):
        layer = f"h.{i}."
        for name in ("ln_1", "ln_2"):
            weights[f"{layer}{name}.weight"], weights[f"{layer}{name}.bias"] = near_one(C), normal(C)
        for name, shape in (("attn.c_attn", (C, 3 * C)), ("attn.c_proj", (C, C)), ("mlp.c_fc", (C, 4 * C)), ("mlp.c_proj", (4 * C, C))):
            weights[f"{layer}{name}.weight"], weights[f"{layer}{name}.bias"] = normal(*shape), normal(shape[1])
    weights["ln_f.weight"], weights["ln_f.bias"] = near_one(C), normal(C)
    return weights, {
        "model_type": "gpt2", "architectures": ["GPT2LMHeadModel"], "n_embd": C, "n_layer": o.layers, "n_head": o.heads,
        "n_positions": o.context, "n_ctx": o.context, "vocab_size": o.vocab, "layer_norm_epsilon": 1e-5,
        "activation_function": "gelu_new"}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("out", nargs="?")
    parser.add_argument("--type", default="f32", choices=TYPES)
    parser.add_argument("--random", choices=("llama", "gpt2"))
    for name, value in {"layers": 2, "heads": 4, "kv_heads": 0, "channels": 64, "ffn": 0, "vocab": 256, "context": 256, "seed": 1}.items():
        parser.add_argument("--" + name.replace("_", "-"), type=int, default=value)
    options = parser.parse_args()
    if options.random:
        weights, config = random_weights(options.random, options)
        options.folder.mkdir(parents=True, exist_ok=True)
        (options.folder / "config.json").write_text(json.dumps(config, indent=1))
        write_safetensors(options.folder / "model.safetensors", weights)
    if options.out:
        convert(options.folder, options.out, options.type)


if __name__ == "__main__":
    main()
