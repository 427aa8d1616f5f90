// Writes small_tokens_of_tiktoken.bin, what npm's tiktoken makes of the random strings:
//
//   npm install --prefix /tmp/tiktoken tiktoken@1.0.22
//   node tests/data/write_tokens_of_tiktoken.mjs /tmp/tiktoken [gpt2 FILE]
//
// Little-endian words of 32 bits: fnv1a of all 10 000 strings in UTF-8, one after the other, then
// for each string fnv1a of its token ids. With "gpt2" the same for GPT-2's own vocabulary, to FILE,
// with its ranks as a tiktoken file to FILE.tiktoken.

import fs from 'node:fs';
import {createRequire} from 'node:module';
import path from 'node:path';
import url from 'node:url';
import {checksumOfTokens, fnv1a, randomString} from './random_strings.mjs';

const STRINGS = 10_000;
const [folder, which, output] = process.argv.slice(2);
const here = path.dirname(url.fileURLToPath(import.meta.url));
const require = createRequire(path.join(path.resolve(folder), 'package.json'));
const {Tiktoken} = require('tiktoken');
const gpt2 = require('tiktoken/encoders/gpt2.json');

let ranks = gpt2.bpe_ranks;
let special = gpt2.special_tokens;
if (which === 'gpt2') {
  const tokens = ranks.split('\n').flatMap((line) => line.split(' ').slice(2)).filter(Boolean);
  const lines = tokens.map((token, rank) => `${token} ${rank}\n`);
  fs.writeFileSync(`${output}.tiktoken`, lines.join(''));
} else {
  const lines = fs.readFileSync(path.join(here, 'small.tiktoken'), 'utf8').trim().split('\n');
  ranks = ['!', '0', ...lines.map((line) => line.split(' ')[0])].join(' ');
  special = {'<|endoftext|>': lines.length};
}

const tokenizer = new Tiktoken(ranks, special, gpt2.pat_str);
const words = new Uint32Array(1 + STRINGS);
words[0] = fnv1a([]);
for (let i = 0; i < STRINGS; ++i) {
  const text = randomString(i);
  words[0] = fnv1a(Buffer.from(text), words[0]);
  words[1 + i] = checksumOfTokens(tokenizer.encode_ordinary(text));
}
const target = which === 'gpt2' ? output : path.join(here, 'small_tokens_of_tiktoken.bin');
fs.writeFileSync(target, words);
