// Trains the small vocabulary of the tokenizer's tests: 256 bytes, 1000 merges, <|endoftext|>.
//
//   node tests/data/train_small_vocabulary.mjs
//
// Writes small_vocab.json, small_merges.txt and small.tiktoken beside itself. The text: sources of
// Reef, as they are at that moment, and random strings that the comparison does not use.

import fs from 'node:fs';
import path from 'node:path';
import url from 'node:url';
import {randomString} from './random_strings.mjs';

const here = path.dirname(url.fileURLToPath(import.meta.url));
const root = path.join(here, '../..');
const MERGES = 1000;
const PATTERN =
    /'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+/gu;

let text = fs.readFileSync(path.join(root, 'README.md'), 'utf8');
for (const folder of ['core', 'data', 'graph', 'nn']) {
  const full = path.join(root, 'include/reef', folder);
  for (const name of fs.readdirSync(full).sort()) {
    if (name.endsWith('.hpp')) text += fs.readFileSync(path.join(full, name), 'utf8');
  }
}
for (let i = 10_000; i < 13_000; ++i) text += randomString(i);

// Bytes in the order of GPT-2's ids, and the character that each is written as.
const visible = (b) => (b >= 33 && b <= 126) || (b >= 161 && b <= 172) || b >= 174;
const bytes = [...Array(256).keys()];
const order = [...bytes.filter(visible), ...bytes.filter((b) => !visible(b))];
const character = new Map();
let next = 256;
for (const b of bytes) character.set(b, String.fromCodePoint(visible(b) ? b : next++));

const idOfByte = new Map(order.map((b, id) => [b, id]));
const tokens = order.map((b) => [b]);
const counts = new Map();
for (const [piece] of text.matchAll(PATTERN)) counts.set(piece, (counts.get(piece) ?? 0) + 1);
const words = [...counts].map(
    ([piece, count]) => ({ids: [...Buffer.from(piece)].map((b) => idOfByte.get(b)), count}));

const merges = [];
const known = new Set(tokens.map(String));
while (merges.length < MERGES) {
  const pairs = new Map();
  for (const {ids, count} of words) {
    for (let i = 0; i + 1 < ids.length; ++i) {
      const key = ids[i] * 65536 + ids[i + 1];
      pairs.set(key, (pairs.get(key) ?? 0) + count);
    }
  }
  // The most frequent pair that makes a new token; of equal ones that of the lowest ids.
  let best = -1;
  for (const [key, count] of pairs) {
    if (known.has(String([...tokens[key >> 16], ...tokens[key & 65535]]))) continue;
    const most = best < 0 ? 0 : pairs.get(best);
    if (count > most || (count === most && key < best)) best = key;
  }
  const [left, right] = [best >> 16, best & 65535];
  const id = tokens.length;
  tokens.push([...tokens[left], ...tokens[right]]);
  known.add(String(tokens[id]));
  merges.push([left, right]);
  for (const word of words) {
    const {ids} = word;
    if (!ids.some((value, i) => value === left && ids[i + 1] === right)) continue;
    const merged = [];
    for (let i = 0; i < ids.length; ++i) {
      const fits = ids[i] === left && ids[i + 1] === right;
      merged.push(fits ? id : ids[i]);
      if (fits) ++i;
    }
    word.ids = merged;
  }
}

const shown = (id) => tokens[id].map((b) => character.get(b)).join('');
const vocabulary = Object.fromEntries(tokens.map((_, id) => [shown(id), id]));
vocabulary['<|endoftext|>'] = tokens.length;
fs.writeFileSync(path.join(here, 'small_vocab.json'), JSON.stringify(vocabulary));
fs.writeFileSync(path.join(here, 'small_merges.txt'), '#version: 0.2\n' +
    merges.map(([left, right]) => `${shown(left)} ${shown(right)}\n`).join(''));
fs.writeFileSync(path.join(here, 'small.tiktoken'),
    tokens.map((token, id) => `${Buffer.from(token).toString('base64')} ${id}\n`).join(''));
