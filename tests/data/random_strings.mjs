// Random Unicode strings from a stated generator: the same, byte for byte, as random_strings.hpp.

// Where characters come from: [weight, first, last], the likelier the heavier; no surrogates.
const SOURCES = [
  [30, 0x20, 0x20], [6, 0x27, 0x27], [24, 0x61, 0x7a], [6, 0x41, 0x5a], [8, 0x30, 0x39],
  [8, 0x21, 0x2f], [3, 0x3a, 0x40], [2, 0x5b, 0x60], [2, 0x7b, 0x7e], [5, 0x09, 0x0d],
  [2, 0x00, 0x1f], [1, 0x7f, 0xa0], [4, 0xa1, 0xff], [3, 0x100, 0x24f], [4, 0x300, 0x36f],
  [4, 0x370, 0x3ff], [5, 0x400, 0x4ff], [3, 0x5b0, 0x5ea], [4, 0x600, 0x6ff], [4, 0x900, 0x97f],
  [2, 0xe00, 0xe5b], [2, 0x1e00, 0x1fff], [4, 0x2000, 0x206f], [3, 0x2070, 0x218f],
  [2, 0x2190, 0x27bf], [3, 0x3000, 0x30ff], [5, 0x4e00, 0x9fff], [3, 0xac00, 0xd7a3],
  [2, 0xf900, 0xffff], [4, 0x1f300, 0x1f6ff], [2, 0x1f900, 0x1f9ff], [2, 0x10000, 0x12fff],
  [2, 0x1d400, 0x1d7ff], [1, 0x20000, 0x323af], [1, 0xfe00, 0xfe0f], [2, 0x0, 0x10ffff],
];
const ENDINGS = ["'s", "'t", "'re", "'ve", "'m", "'ll", "'d", "'S", "'l", "\u2019s"];
const TOTAL = SOURCES.reduce((sum, [weight]) => sum + weight, 0);

/// The string of that number: up to 60 pieces, each a run of 1 to 6 characters of one source, or
/// one of the endings that GPT-2's pattern knows.
export function randomString(number) {
  // xorshift32 (Marsaglia, 2003) from a state that is never 0.
  let state = Math.imul(number + 1, 0x9e3779b1) >>> 0 || 1;
  const draw = (bound) => {
    state = (state ^ (state << 13)) >>> 0;
    state = (state ^ (state >>> 17)) >>> 0;
    state = (state ^ (state << 5)) >>> 0;
    return state % bound;
  };
  for (let i = 0; i < 8; ++i) draw(1);
  let text = '';
  for (let pieces = draw(61); pieces > 0; --pieces) {
    if (draw(16) === 0) {
      text += ENDINGS[draw(ENDINGS.length)];
      continue;
    }
    let at = draw(TOTAL);
    const [, first, last] = SOURCES.find(([weight]) => (at -= weight) < 0);
    for (let length = 1 + draw(6); length > 0; --length) {
      const c = first + draw(last - first + 1);
      if (c < 0xd800 || c > 0xdfff) text += String.fromCodePoint(c);
    }
  }
  return text;
}

/// FNV-1a of 32 bits over bytes; give the last result to go on.
export function fnv1a(bytes, hash = 0x811c9dc5) {
  for (const byte of bytes) hash = Math.imul(hash ^ byte, 0x01000193) >>> 0;
  return hash;
}

/// fnv1a of token ids as little-endian words of 32 bits.
export function checksumOfTokens(tokens) {
  return fnv1a(new Uint8Array(Uint32Array.from(tokens).buffer));
}
