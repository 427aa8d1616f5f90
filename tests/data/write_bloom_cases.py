#!/usr/bin/env python3
"""Writes small models of BLOOM and GPT-NeoX with their logits and greedy tokens.

    python3 tests/data/write_bloom_cases.py [FOLDER ...]

With folders it writes nothing, and says how far each one's expected.json is off. Nothing here is Reef's, and nothing but
Python is needed: the models are the forward passes as Hugging Face's modeling_bloom and modeling_gpt_neox have them, in fp64,
and files are written as model_cases.py does.

    bloom_alibi       six heads, so that slopes are of two sequences; fp32
    bloom_untied      a head of its own, n_embed and num_ names, fp16 in two files
    neox_parallel     half of 8 columns turned, GELU by the error function, bf16
    neox_sequential   all columns turned, a base of its own, no biases at the attention, GELU by a tanh, tied
"""

import math

import model_cases
from model_cases import added, softmax_sum, turned

BASE = dict(vocab_size=41)
NEOX = dict(model_type="gpt_neox", architectures=["GPTNeoXForCausalLM"], hidden_size=24, num_hidden_layers=2, num_attention_heads=3,
            intermediate_size=40, max_position_embeddings=48, layer_norm_eps=1e-5, hidden_act="gelu", rotary_pct=0.5,
            rotary_emb_base=10000, use_parallel_residual=True, tie_word_embeddings=False)
CASES = {
    "bloom_alibi": (dict(model_type="bloom", architectures=["BloomForCausalLM"], hidden_size=24, n_layer=2, n_head=6, seq_length=48,
                         layer_norm_epsilon=1e-5, apply_residual_connection_post_layernorm=False, hidden_dropout=0.0,
                         pretraining_tp=2, slow_but_exact=False), "F32", 1),
    "bloom_untied": (dict(model_type="bloom", architectures=["BloomForCausalLM"], n_embed=16, num_hidden_layers=2,
                          num_attention_heads=2, layer_norm_epsilon=1e-4, tie_word_embeddings=False), "F16", 2),
    "neox_parallel": (NEOX, "BF16", 1),
    "neox_sequential": (NEOX | dict(use_parallel_residual=False, rotary_pct=1.0, rotary_emb_base=500, attention_bias=False,
                                    hidden_act="gelu_new", tie_word_embeddings=True), "F32", 1),
}


def sizes(c):
    C = c.get("n_embed") or c["hidden_size"]
    return C, c.get("n_head") or c["num_attention_heads"], c.get("n_layer") or c["num_hidden_layers"]


def is_bloom(c):
    return c["model_type"] == "bloom"


def names(c):
    if is_bloom(c):
        return dict(embedding="transformer.word_embeddings", layer="transformer.h.", attention="self_attention.",
                    last="transformer.ln_f", head="lm_head")
    return dict(embedding="gpt_neox.embed_in", layer="gpt_neox.layers.", attention="attention.", last="gpt_neox.final_layer_norm",
                head="embed_out")


def is_tied(c):
    return c.get("tie_word_embeddings", is_bloom(c))


def shapes(c):
    (C, _, L), V, n = sizes(c), c["vocab_size"], names(c)
    F = 4 * C if is_bloom(c) else c["intermediate_size"]
    result = {n["embedding"] + ".weight": (V, C)}

    def add(name, *shape, bias=True):
        result[name + ".weight"] = shape
        if bias:
            result[name + ".bias"] = shape[:1]

    if is_bloom(c):
        add("transformer.word_embeddings_layernorm", C)
    for i in range(L):
        p = f"{n['layer']}{i}."
        add(p + "input_layernorm", C)
        add(p + n["attention"] + "query_key_value", 3 * C, C, bias=c.get("attention_bias", True))
        add(p + n["attention"] + "dense", C, C, bias=c.get("attention_bias", True))
        add(p + "post_attention_layernorm", C)
        add(p + "mlp.dense_h_to_4h", F, C)
        add(p + "mlp.dense_4h_to_h", C, F)
    add(n["last"], C)
    if not is_tied(c):
        add(n["head"], V, C, bias=False)
    return result


def slopes(heads):
    """As build_alibi_tensor of modeling_bloom.py."""
    closest = 2 ** math.floor(math.log2(heads))
    base = 2.0 ** (-(2.0 ** -(math.log2(closest) - 3)))
    result = [base ** i for i in range(1, closest + 1)]
    if closest != heads:
        extra = 2.0 ** (-(2.0 ** -(math.log2(2 * closest) - 3)))
        remaining = min(closest, heads - closest)
        result += [extra ** i for i in range(1, 1 + 2 * remaining, 2)]
    return result


def gelu(c, x):
    if c.get("hidden_act") == "gelu":
        return x * 0.5 * (1 + math.erf(x / math.sqrt(2)))
    return x * 0.5 * (1 + math.tanh(0.7978845608028654 * (x + 0.044715 * x ** 3)))


def logits_of(c, w, tokens):
    (C, H, L), n, all_shapes = sizes(c), names(c), shapes(c)
    D = C // H
    epsilon = c["layer_norm_epsilon"] if is_bloom(c) else c["layer_norm_eps"]
    ndims = 0 if is_bloom(c) else int(D * c["rotary_pct"])
    f = [1.0 / c["rotary_emb_base"] ** (2 * i / ndims) for i in range(ndims // 2)]
    slope = slopes(H) if is_bloom(c) else [0.0] * H

    def linear(x, name):
        return model_cases.linear(w, all_shapes, x, name)

    def norm(x, name):
        result = []
        for row in x:
            mean = sum(row) / C
            scale = 1 / math.sqrt(sum((a - mean) ** 2 for a in row) / C + epsilon)
            result.append([(a - mean) * scale * s + b for a, s, b in zip(row, w[name + ".weight"], w[name + ".bias"])])
        return result

    def attention(y, p):
        fused = linear(y, p + "query_key_value")  # (T, H, 3, D)
        q, k, v = ([[row[(3 * h + part) * D:(3 * h + part + 1) * D] for h in range(H)] for row in fused] for part in range(3))
        q, k = ([[turned(head, t, f) for head in row] for t, row in enumerate(x)] for x in (q, k))
        mixed = []
        for t in range(len(tokens)):
            row = []
            for h in range(H):
                scores = [sum(a * b for a, b in zip(q[t][h], k[s][h])) / math.sqrt(D) + slope[h] * s for s in range(t + 1)]
                row += softmax_sum(scores, [v[s][h] for s in range(t + 1)])
            mixed.append(row)
        return linear(mixed, p + "dense")

    def mlp(y, p):
        return linear([[gelu(c, a) for a in row] for row in linear(y, p + "mlp.dense_h_to_4h")], p + "mlp.dense_4h_to_h")

    embedding = model_cases.matrix(w, all_shapes, n["embedding"])
    x = [list(embedding[token]) for token in tokens]
    if is_bloom(c):
        x = norm(x, "transformer.word_embeddings_layernorm")
    for layer in range(L):
        p = f"{n['layer']}{layer}."
        mixed = attention(norm(x, p + "input_layernorm"), p + n["attention"])
        if c.get("use_parallel_residual", False):
            x = added(mlp(norm(x, p + "post_attention_layernorm"), p), mixed, x)
        else:
            x = added(mixed, x)
            x = added(mlp(norm(x, p + "post_attention_layernorm"), p), x)
    return linear(norm(x, n["last"]), n["embedding"] if is_tied(c) else n["head"])


model_cases.main(shapes, logits_of, BASE, CASES)
