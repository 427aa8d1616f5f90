#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include <reef/codec.hpp>
#include <reef/core/error.hpp>
#include <reef/core/numbers.hpp>
#include <reef/core/text.hpp>
#include <reef/io/json.hpp>

#include "commands.hpp"

namespace reef_examples {

namespace {

using namespace reef;
using Numbers = std::vector<float>;

constexpr std::size_t max_numbers = std::size_t{1} << 24;

/// A number, or the bits of one as "0x3f800000".
float number_from(const io::Json& json, const std::string& where) {
  if (json.is_number()) return json.get<float>();
  const std::string text = json.is_string() ? json.get<std::string>() : std::string{};
  if (text.starts_with("0x") && text.size() == 10 && text.find_first_not_of("0123456789abcdefABCDEF", 2) == std::string::npos) {
    return std::bit_cast<float>(static_cast<std::uint32_t>(std::stoul(text, nullptr, 16)));
  }
  throw DecodeError("reef-plan: ", where, " is neither a number nor the bits of one.\n  fix: 1.5, or \"0x3fc00000\".");
}

Numbers numbers_from(const io::Json& json, const char* key, const std::string& source) {
  if (!json.contains(key) || !json.at(key).is_array() || json.at(key).size() > max_numbers) {
    throw DecodeError("reef-plan: ", source, ": '", key, "' is no list of at most ", max_numbers,
                      " numbers.\n  fix: [0.5, -1, \"0x3f800000\"].");
  }
  Numbers numbers;
  for (const io::Json& number : json.at(key)) {
    numbers.push_back(number_from(number, concat(source, ": '", key, "'[", numbers.size(), "]")));
  }
  return numbers;
}

/// As the case files have them, bit by bit.
io::Json bits_of(const Numbers& numbers) {
  io::Json list = io::Json::array();
  constexpr std::string_view digits = "0123456789abcdef";
  for (const float number : numbers) {
    std::string text = "0x00000000";
    const auto bits = std::bit_cast<std::uint32_t>(number);
    for (unsigned digit = 0; digit < 8; ++digit) text[9 - digit] = digits[bits >> (4 * digit) & 15U];
    list.push_back(text);
  }
  return list;
}

/// Of a codec with memory, those of its first message.
template <codec::decodes_alone Codec>
Bytes wire_bytes(const Codec& codec, const Numbers& x, Numbers& decoded) {
  const auto n = static_cast<std::int64_t>(x.size());
  std::vector<std::byte> message(codec.encoded_bytes(n));
  Numbers memory(static_cast<std::size_t>(codec::state_of(codec, n)));
  message.resize(codec::encode(codec, x, memory, memory, message));
  decoded.resize(x.size());
  codec.decode(message, decoded);
  return message.size();
}

io::Json blockwise8(const io::Json& json, const std::string& source) {
  const codec::Blockwise8 codec{io::value_or<std::int64_t>(json, "blocksize", 4096, source)};
  const Numbers x = numbers_from(json, "x", source);
  Numbers decoded;
  const Bytes bytes = wire_bytes(codec, x, decoded);
  Numbers largest(static_cast<std::size_t>(codec.blocks(static_cast<std::int64_t>(x.size()))));
  std::vector<std::uint8_t> indices(x.size());
  codec.quantize(x, largest, indices);
  return {{"absmax", bits_of(largest)}, {"indices", indices}, {"dequant", bits_of(decoded)}, {"wire_bytes", bytes}};
}

io::Json normal_float4(const io::Json& json, const std::string& source) {
  const bool only_nested = io::value_or<std::string>(json, "codec", "", source) == "nf4-nested";
  const codec::NormalFloat4 plain{io::value_or<std::int64_t>(json, "blocksize", 64, source), false};
  const codec::NormalFloat4 nested{plain.block, true};
  const Numbers x = numbers_from(json, "x", source);
  Numbers decoded;
  Numbers decoded_nested;
  const Bytes bytes = wire_bytes(plain, x, decoded);
  const Bytes bytes_nested = wire_bytes(nested, x, decoded_nested);
  std::vector<std::uint8_t> packed((x.size() + 1) / 2);
  const codec::NormalFloat4::Scales scales = nested.quantize(x, packed);
  io::Json answer{{"absmax", bits_of(scales.largest)},
                  {"packed", packed},
                  {"dequant", bits_of(only_nested ? decoded_nested : decoded)},
                  {"wire_bytes", only_nested ? bytes_nested : bytes}};
  answer["nested"] = {{"offset", bits_of({scales.offset})[0]},
                      {"absmax2", bits_of(scales.largest_above)},
                      {"indices", scales.indices},
                      {"dequant", bits_of(decoded_nested)},
                      {"wire_bytes", bytes_nested}};
  return answer;
}

io::Json uniform8(const io::Json& json, const std::string& source) {
  const codec::Uniform8 codec;
  const Numbers x = numbers_from(json, "x", source);
  Numbers decoded;
  const Bytes bytes = wire_bytes(codec, x, decoded);
  std::vector<std::uint8_t> indices(x.size());
  const codec::Uniform8::Scale scale = codec.quantize(x, indices);
  const auto means = codec::Uniform8::bucket_means(x, indices);
  io::Json codebook = io::Json::object();
  for (const std::uint8_t index : indices) codebook[concat(static_cast<int>(index))] = means[index];
  return {{"indices", indices}, {"mean", scale.mean}, {"scale", scale.step}, {"codebook_nonzero", codebook},
          {"dequant", bits_of(decoded)}, {"wire_bytes", bytes}};
}

io::Json int8_rows(const io::Json& json, const std::string& source) {
  Numbers matrix;
  std::size_t columns = 0;
  if (!json.at("A").is_array()) throw DecodeError("reef-plan: ", source, ": 'A' is no list of rows.\n  fix: [[1, 2], [3, 4]].");
  for (std::size_t row = 0; row < json.at("A").size(); ++row) {
    const Numbers numbers = numbers_from({{"row", json.at("A")[row]}}, "row", concat(source, ": 'A'[", row, "]"));
    if (row == 0) columns = numbers.size();
    if (numbers.empty() || numbers.size() != columns) {
      throw DecodeError("reef-plan: ", source, ": row ", row, " of 'A' has ", numbers.size(), " numbers.\n  fix: rows of one length, from 1.");
    }
    matrix.insert(matrix.end(), numbers.begin(), numbers.end());
  }
  const float outlier = io::value_or<float>(json, "outlier_threshold", 6.0F, source);
  const auto width = static_cast<std::int64_t>(std::max<std::size_t>(columns, 1));
  const codec::Int8Rows rows = codec::int8_rows(matrix, width);
  io::Json values = io::Json::array();
  for (std::size_t i = 0; i < rows.values.size(); ++i) {
    if (i % columns == 0) values.push_back(io::Json::array());
    values.back().push_back(rows.values[i]);
  }
  return {{"row_absmax", rows.largest}, {"int8", values}, {"outlier_threshold", outlier},
          {"outlier_columns", codec::outlier_columns(matrix, width, outlier)}};
}

/// What of a payload an answer shows beside what it decodes to.
template <class Codec>
void add_parts(io::Json& /*answer*/, const Codec& /*codec*/, const Numbers& /*x*/) {}

/// Of formats with numbers for each block, which those of 8 bits name by what they are.
template <class Codec>
  requires requires(const Codec& codec, std::int64_t n) { codec.code_bytes(n); }
void add_parts(io::Json& answer, const Codec& codec, const Numbers& x) {
  const auto n = static_cast<std::int64_t>(x.size());
  Numbers scales(static_cast<std::size_t>(codec.scales(n)));
  std::vector<std::uint8_t> codes(static_cast<std::size_t>(codec.code_bytes(n)));
  codec.quantize(x, scales, codes);
  constexpr bool bytes = std::is_same_v<Codec, codec::Fp8>;
  answer[bytes ? "absmax" : "means"] = bits_of(scales);
  answer[bytes ? "indices" : "packed"] = codes;
}

template <codec::selecting_codec Codec>
void add_parts(io::Json& answer, const Codec& codec, const Numbers& x) {
  const std::vector<std::uint32_t> indices = codec.select(x);
  const auto n = static_cast<std::int64_t>(x.size());
  std::vector<std::byte> selection(codec.selection_bytes(n));
  Numbers kept;
  for (const std::uint32_t index : indices) kept.push_back(x[index]);
  answer["indices"] = indices;
  answer["values"] = bits_of(kept);
  answer["index_bytes"] = codec.write_selection(indices, n, selection);
}

template <class A, class B>
void add_parts(io::Json& answer, const codec::Chain<A, B>& chain, const Numbers& x) {
  add_parts(answer, chain.selection, x);
}

template <class Codec>
io::Json answer_of(const Codec& codec, const io::Json& json, const std::string& source) {
  const Numbers x = numbers_from(json, "x", source);
  Numbers decoded;
  io::Json answer{{"wire_bytes", wire_bytes(codec, x, decoded)}};
  answer["dequant"] = bits_of(decoded);
  add_parts(answer, codec, x);
  return answer;
}

/// Calls f with the codec that selects, of this name, as the case sets it up; false if there is none.
template <class F>
bool with_selecting(std::string_view name, const io::Json& json, const std::string& source, const F& f) {
  const auto ratio = [&] { return io::value_or<double>(json, "ratio", 100.0, source); };
  if (name == "top-k") {
    f(codec::TopK{ratio()});
  } else if (name == "random-k") {
    f(codec::RandomK{ratio(), io::value_or<std::uint64_t>(json, "seed", 0, source),
                     io::value_or<std::uint32_t>(json, "draw", 0, source), io::value_or<bool>(json, "unbiased", false, source)});
  } else if (name == "chunk-top-k") {
    f(codec::ChunkTopK{io::value_or<std::int64_t>(json, "chunk", 4096, source),
                       io::value_or<std::int64_t>(json, "keep", 64, source)});
  } else {
    return false;
  }
  return true;
}

/// The same of those that send every number.
template <class F>
bool with_whole(std::string_view name, const io::Json& json, const std::string& source, const F& f) {
  const auto block = [&](std::int64_t otherwise) { return io::value_or<std::int64_t>(json, "blocksize", otherwise, source); };
  if (name == "dense") {
    f(codec::Dense{});
  } else if (name == "bf16") {
    f(codec::Bf16{});
  } else if (name == "two-bit") {
    f(codec::TwoBit{block(0)});
  } else if (name == "fp8") {
    f(codec::Fp8{block(512)});
  } else if (name == "sign") {
    f(codec::Sign{block(4096)});
  } else if (name == "blockwise8") {
    f(codec::Blockwise8{block(4096)});
  } else if (name == "nf4" || name == "nf4-nested") {
    f(codec::NormalFloat4{block(64), name == "nf4-nested"});
  } else if (name == "uniform8") {
    f(codec::Uniform8{});
  } else {
    return false;
  }
  return true;
}

/// The answer of a codec by its name, or of "A+B": what A selects, as B; nothing if there is none.
std::optional<io::Json> named_answer(const std::string& name, const io::Json& json, const std::string& source) {
  std::optional<io::Json> answer;
  const auto answers = [&](const auto& codec) { answer = answer_of(codec, json, source); };
  const std::size_t plus = name.find('+');
  if (name == "power-sgd") {
    answers(codec::PowerSgd{io::value_or<std::int64_t>(json, "columns", 1, source), io::value_or<std::int64_t>(json, "rank", 4, source),
                            io::value_or<std::uint64_t>(json, "seed", 0, source)});
    return answer;
  }
  if (plus == std::string::npos) {
    if (!with_selecting(name, json, source, answers)) with_whole(name, json, source, answers);
    return answer;
  }
  with_selecting(std::string_view(name).substr(0, plus), json, source, [&]<class A>(const A& selection) {
    with_whole(std::string_view(name).substr(plus + 1), json, source,
               [&]<class B>(const B& numbers) { answers(codec::Chain<A, B>{selection, numbers}); });
  });
  return answer;
}

io::Json encode(const PlanCase& test) {
  const io::Json& json = test.json;
  const std::string& source = test.file;
  auto named = io::value_or<std::string>(json, "codec", "", source);
  std::replace(named.begin(), named.end(), '_', '-');
  const auto is = [&named](std::string_view name, bool by_its_keys) { return named == name || (named.empty() && by_its_keys); };
  if (is("int8-rows", json.contains("A"))) return int8_rows(json, source);
  if (is("uniform8", json.contains("codebook_nonzero"))) return uniform8(json, source);
  if (is("nf4", json.contains("packed") || json.contains("crc32_packed")) || named == "nf4-nested") {
    return normal_float4(json, source);
  }
  if (is("blockwise8", json.contains("blocksize"))) return blockwise8(json, source);
  if (std::optional<io::Json> answer = named_answer(named, json, source)) return *answer;
  throw DecodeError("reef-plan: ", source, ": the codec is ", named.empty() ? "not said" : in_quotes(named),
                    ".\n  fix: codec: dense, bf16, fp8, blockwise8, nf4, nf4-nested, uniform8, int8-rows, two-bit, sign, power-sgd, "
                    "top-k, random-k or chunk-top-k; or one of the last three and another, as chunk-top-k+two-bit.");
}

}  // namespace

void add_encode(Commands& commands) {
  commands.add("encode",
               "what numbers come to in a format of the wire.\n"
               "CASE: x (numbers, or their bits as \"0x3f800000\"), codec (dense, bf16, fp8, blockwise8, nf4, nf4-nested, uniform8, "
               "two-bit, sign, power-sgd, top-k, random-k, chunk-top-k, or as chunk-top-k+two-bit what the first selects in the second), "
               "blocksize, columns, rank, ratio, seed, draw, unbiased, chunk, keep; or A (rows), for int8-rows",
               "case.json", encode);
}

}  // namespace reef_examples
