#!/usr/bin/env python3
"""Writes small models of Llama, Mistral, Qwen 2 and Qwen 3 with their logits and greedy tokens.

    python3 tests/data/write_llama_cases.py [FOLDER ...]

With folders it writes nothing, and says how far each one's expected.json is off. Nothing here is Reef's, and nothing but
Python is needed: files are written with struct and json, and the model is the forward pass as Hugging Face's
modeling_llama, modeling_mistral, modeling_qwen2, modeling_qwen3 and modeling_rope_utils have it, in fp64.

    llama3_scaled    Llama 3's scaling of positions, biases everywhere, one head of keys, bf16
    mistral_window   a window of 5 tokens, heads larger than C / H, fp16 in two files with an index
    qwen2_bias       biases of queries, keys and values, a window in the second layer alone, tied
    qwen3_heads      normalised queries and keys, positions stretched linearly
"""

import math

import model_cases
from model_cases import added, softmax_sum, turned
BASE = dict(hidden_size=16, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2, intermediate_size=24,
            vocab_size=41, max_position_embeddings=48, rms_norm_eps=1e-5, rope_theta=10000.0,
            tie_word_embeddings=False, hidden_act="silu")
CASES = {
    "llama3_scaled": (dict(model_type="llama", architectures=["LlamaForCausalLM"], num_key_value_heads=1, rope_theta=500.0,
                           attention_bias=True, mlp_bias=True,
                           rope_scaling=dict(rope_type="llama3", factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0,
                                             original_max_position_embeddings=32)), "BF16", 1),
    "mistral_window": (dict(model_type="mistral", architectures=["MistralForCausalLM"], head_dim=6, sliding_window=5), "F16", 2),
    "qwen2_bias": (dict(model_type="qwen2", architectures=["Qwen2ForCausalLM"], use_sliding_window=True, sliding_window=4,
                        max_window_layers=1, rope_theta=1000000.0, tie_word_embeddings=True), "F32", 1),
    "qwen3_heads": (dict(model_type="qwen3", architectures=["Qwen3ForCausalLM"], head_dim=8, attention_bias=False,
                         sliding_window=None, rope_scaling=dict(rope_type="linear", factor=2.5)), "F32", 1),
}


def head_size(c):
    return c.get("head_dim") or c["hidden_size"] // c["num_attention_heads"]


def shapes(c):
    C, F, D = c["hidden_size"], c["intermediate_size"], head_size(c)
    H, K, V = c["num_attention_heads"] * D, c["num_key_value_heads"] * D, c["vocab_size"]
    qkv = c.get("attention_bias") or c["model_type"] == "qwen2"
    result = {"model.embed_tokens.weight": (V, C), "model.norm.weight": (C,)}
    for i in range(c["num_hidden_layers"]):
        p = f"model.layers.{i}."
        result[p + "input_layernorm.weight"] = result[p + "post_attention_layernorm.weight"] = (C,)
        linears = [("self_attn.q_proj", H, C, qkv), ("self_attn.k_proj", K, C, qkv), ("self_attn.v_proj", K, C, qkv),
                   ("self_attn.o_proj", C, H, c.get("attention_bias")), ("mlp.gate_proj", F, C, c.get("mlp_bias")),
                   ("mlp.up_proj", F, C, c.get("mlp_bias")), ("mlp.down_proj", C, F, c.get("mlp_bias"))]
        for name, rows, columns, bias in linears:
            result[p + name + ".weight"] = (rows, columns)
            if bias:
                result[p + name + ".bias"] = (rows,)
        if c["model_type"] == "qwen3":
            result[p + "self_attn.q_norm.weight"] = result[p + "self_attn.k_norm.weight"] = (D,)
    if not c["tie_word_embeddings"]:
        result["lm_head.weight"] = (V, C)
    return result


def frequencies(c):
    D, scaling = head_size(c), c.get("rope_scaling") or {}
    kind = scaling.get("rope_type", "default")
    plain = [1.0 / c["rope_theta"] ** (2 * i / D) for i in range(D // 2)]
    if kind == "default":
        return plain
    if kind == "linear":
        return [f / scaling["factor"] for f in plain]
    old = scaling["original_max_position_embeddings"]
    low, high = scaling["low_freq_factor"], scaling["high_freq_factor"]
    result = []
    for f in plain:
        wavelength = 2 * math.pi / f
        if wavelength < old / high:
            result.append(f)
        elif wavelength > old / low:
            result.append(f / scaling["factor"])
        else:
            smooth = (old / wavelength - low) / (high - low)
            result.append((1 - smooth) * f / scaling["factor"] + smooth * f)
    return result


def window_of(c, layer):
    if c["model_type"] == "mistral":
        return c.get("sliding_window")
    if c["model_type"].startswith("qwen") and c.get("use_sliding_window") and layer >= c["max_window_layers"]:
        return c["sliding_window"]
    return None


def logits_of(c, w, tokens):
    C, D, eps = c["hidden_size"], head_size(c), c["rms_norm_eps"]
    H, K = c["num_attention_heads"], c["num_key_value_heads"]

    def linear(x, name):
        return model_cases.linear(w, shapes(c), x, name)

    def norm(x, name):
        scale = w[name + ".weight"]
        return [[a / math.sqrt(sum(b * b for b in row) / len(row) + eps) * s for a, s in zip(row, scale)] for row in x]

    f = frequencies(c)

    def heads(x, prefix, name, turns):
        result = []
        for t, row in enumerate(x):
            parts = [row[i:i + D] for i in range(0, len(row), D)]
            if turns and c["model_type"] == "qwen3":
                parts = norm(parts, f"{prefix}self_attn.{name}_norm")
            if turns:
                parts = [turned(p, t, f) for p in parts]
            result.append(parts)
        return result

    embedding = model_cases.matrix(w, shapes(c), "model.embed_tokens")
    x = [list(embedding[token]) for token in tokens]
    for layer in range(c["num_hidden_layers"]):
        p = f"model.layers.{layer}."
        y = norm(x, p + "input_layernorm")
        q = heads(linear(y, p + "self_attn.q_proj"), p, "q", True)
        k = heads(linear(y, p + "self_attn.k_proj"), p, "k", True)
        v = heads(linear(y, p + "self_attn.v_proj"), p, "v", False)
        window = window_of(c, layer)
        mixed = []
        for t in range(len(tokens)):
            first = max(0, t - window + 1) if window else 0
            row = []
            for h in range(H):
                g = h // (H // K)
                scores = [sum(a * b for a, b in zip(q[t][h], k[s][g])) / math.sqrt(D) for s in range(first, t + 1)]
                row += softmax_sum(scores, [v[s][g] for s in range(first, t + 1)])
            mixed.append(row)
        x = added(x, linear(mixed, p + "self_attn.o_proj"))
        y = norm(x, p + "post_attention_layernorm")
        gate, up = linear(y, p + "mlp.gate_proj"), linear(y, p + "mlp.up_proj")
        inner = [[g / (1 + math.exp(-g)) * u for g, u in zip(*r)] for r in zip(gate, up)]
        x = added(x, linear(inner, p + "mlp.down_proj"))
    return linear(norm(x, "model.norm"), "model.embed_tokens" if c["tie_word_embeddings"] else "lm_head")


model_cases.main(shapes, logits_of, BASE, CASES)
