#!/usr/bin/env python3
"""Writes tokenizer_json_cases.json: texts and their tokens under the patterns of tokenizers that people use.

    python3 tests/data/write_tokenizer_cases.py        # needs the module regex

The tokens are those of plain byte-pair encoding, written here anew: the module `regex` cuts a text, and in each piece the
pair of the lowest rank merges until none does. Vocabulary and merges are small_vocab.json and small_merges.txt.
"""

import json
import os
import random
import unicodedata

import regex

here = os.path.dirname(os.path.abspath(__file__))

GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
CL100K = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
QWEN2 = CL100K.replace(r"\p{N}{1,3}", r"\p{N}")
O200K = "|".join([
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
    r"\p{N}{1,3}", r" ?[^\s\p{L}\p{N}]+[\r\n/]*", r"\s*[\r\n]+", r"\s+(?!\S)", r"\s+"])

TEXTS = [
    "", "a", " ", "\n", "Hello, world!", "I'm here, we'll go; they've DON'T IT'S she'D 'twas x's' ''s",
    "1234567 12 3 0x1F 3.14159 1,000,000", "  two   spaces\tand\ttabs \n\n  lines\r\n\r\n end  ",
    "trailing spaces   ", "\n\n\n", " \n \n x", "a\nb\r\nc\n\n\nd", "snake_case camelCase HTTPServer x+=1;\n\tif (a&&b) {\n",
    "中文字符，和标点。", "日本語のテキスト", "한국어 문장", "Привет, мир", "שלום עולם", "مرحبا بالعالم ١٢٣",
    "नमस्ते दुनिया", "e\u0301 a\u0308 o\u0302\u0323", "\u00e9\u00e4\u00f4", "🙂🙃 👩‍👩‍👧 👍🏽", "½ ² Ⅷ ٣",
    "no\u00a0break\u2003em\u3000wide\u2028line\u2029par\u0085next", "\u180e\u200b\ufeff", "http://a.b/c?d=e#f // /* */ --- ===",
    "don’t ‘quote’", "\u017f's 'ſ", "ǅ Ǆ ǆ ʰ", "the the the of the and in the world's 'll 'LL",
]

RANGES = [(0x20, 0x7e)] * 12 + [(0x20, 0x20)] * 6 + [(0x9, 0xd)] * 3 + [
    (0xa0, 0x24f), (0x300, 0x36f), (0x370, 0x3ff), (0x400, 0x4ff), (0x5d0, 0x5ea), (0x620, 0x6ff), (0x900, 0x97f),
    (0x1e00, 0x1fff), (0x2000, 0x206f), (0x2070, 0x218f), (0x3000, 0x30ff), (0x4e00, 0x9fff), (0xac00, 0xd7a3),
    (0x1f300, 0x1f6ff), (0x1d400, 0x1d7ff)]


def random_text(draw):
    text = ""
    for _ in range(draw.randrange(1, 25)):
        if draw.randrange(8) == 0:
            text += draw.choice(["'s", "'T", "'re", "'VE", "'ll", " the", "\r\n", "1234"])
            continue
        low, high = draw.choice(RANGES)
        for _ in range(draw.randrange(1, 5)):
            c = chr(draw.randrange(low, high + 1))
            if unicodedata.category(c) != "Cn":
                text += c
    return text


def visible_bytes():
    """GPT-2's table: the character that stands for a byte."""
    seen = [b for b in range(256) if 33 <= b <= 126 or 161 <= b <= 172 or 174 <= b <= 255]
    table = {b: chr(b) for b in seen}
    rest = [b for b in range(256) if b not in table]
    table.update({b: chr(256 + i) for i, b in enumerate(rest)})
    return table


def main():
    with open(os.path.join(here, "small_vocab.json"), encoding="utf-8") as file:
        vocabulary = json.load(file)
    with open(os.path.join(here, "small_merges.txt"), encoding="utf-8") as file:
        lines = file.read().split("\n")[1:]
    ranks = {tuple(line.split(" ")): i for i, line in enumerate(lines) if line}
    table = visible_bytes()

    def tokens_of_piece(piece, whole_pieces):
        symbols = [table[b] for b in piece.encode("utf-8")]
        if whole_pieces and "".join(symbols) in vocabulary:
            return [vocabulary["".join(symbols)]]
        while len(symbols) > 1:
            best = min(range(len(symbols) - 1), key=lambda i: ranks.get((symbols[i], symbols[i + 1]), 1 << 30))
            if (symbols[best], symbols[best + 1]) not in ranks:
                break
            symbols[best:best + 2] = [symbols[best] + symbols[best + 1]]
        return [vocabulary[s] for s in symbols]

    def cut(pieces, pattern):
        out = []
        for piece in pieces:
            at = 0
            for match in regex.finditer(pattern, piece, flags=regex.V0):
                out += [piece[at:match.start()], match.group()]
                at = match.end()
            out.append(piece[at:])
        return [piece for piece in out if piece]

    split = lambda pattern: {"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated", "invert": False}
    level = lambda space, own: {"type": "ByteLevel", "add_prefix_space": space, "trim_offsets": True, "use_regex": own}
    both = lambda *patterns: {"type": "Sequence", "pretokenizers": [split(p) for p in patterns] + [level(False, False)]}
    kinds = [
        ("gpt2", level(False, True), [GPT2], False, False),
        ("gpt2 with a space in front", level(True, True), [GPT2], True, False),
        ("gpt2 by PCRE2", both(GPT2), [GPT2], False, False),
        ("cl100k, llama3", both(CL100K), [CL100K], False, True),
        ("qwen2", both(QWEN2), [QWEN2], False, False),
        ("o200k", both(O200K), [O200K], False, True),
        ("digits, then words", both(r"\p{N}{1,3}", r"[一-龥぀-ゟ゠-ヿ]+", r"\s?\p{L}+|\s+"),
         [r"\p{N}{1,3}", r"[一-龥぀-ゟ゠-ヿ]+", r"\s?\p{L}+|\s+"], False, False),
    ]
    draw = random.Random(1)
    texts = TEXTS + [random_text(draw) for _ in range(150)]
    cases = []
    for name, pre, patterns, space, whole in kinds:
        tokens = []
        for text in texts:
            pieces = [text] if text else []
            if space and text and not text.startswith(" "):
                pieces = [" " + text]
            for pattern in patterns:
                pieces = cut(pieces, pattern)
            tokens.append([t for piece in pieces for t in tokens_of_piece(piece, whole)])
        cases.append({"name": name, "pre_tokenizer": pre, "ignore_merges": whole, "tokens": tokens})
    with open(os.path.join(here, "tokenizer_json_cases.json"), "w", encoding="utf-8") as file:
        json.dump({"texts": texts, "cases": cases}, file, ensure_ascii=True, separators=(",", ":"))
        file.write("\n")


main()
