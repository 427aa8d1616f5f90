#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <reef/codec/blockwise8.hpp>
#include <reef/codec/int8_rows.hpp>
#include <reef/codec/normal_float4.hpp>
#include <reef/codec/uniform8.hpp>
#include <reef/core/error.hpp>
#include <reef/core/numbers.hpp>
#include <reef/core/text.hpp>
#include <reef/io/json.hpp>

#include "commands.hpp"

namespace reef_examples {

namespace {

using namespace reef;
using Numbers = std::vector<float>;

constexpr std::size_t most_numbers = std::size_t{1} << 24;

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
  if (!json.contains(key) || !json.at(key).is_array() || json.at(key).size() > most_numbers) {
    throw DecodeError("reef-plan: ", source, ": '", key, "' is no list of at most ", most_numbers,
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

template <class Codec>
Bytes wire_bytes(const Codec& codec, const Numbers& x, Numbers& decoded) {
  std::vector<std::byte> message(codec.encoded_bytes(static_cast<std::int64_t>(x.size())));
  message.resize(codec.encode(x, message));
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

io::Json encode(const PlanCase& test) {
  const io::Json& json = test.json;
  const std::string& source = test.file;
  const auto named = io::value_or<std::string>(json, "codec", "", source);
  if (named == "int8-rows" || json.contains("A")) return int8_rows(json, source);
  if (named == "uniform8" || json.contains("codebook_nonzero")) return uniform8(json, source);
  if (named == "nf4" || named == "nf4-nested" || json.contains("packed") || json.contains("crc32_packed")) {
    return normal_float4(json, source);
  }
  if (named == "blockwise8" || json.contains("blocksize")) return blockwise8(json, source);
  throw DecodeError("reef-plan: ", source, ": the codec is ", named.empty() ? "not said" : in_quotes(named),
                    ".\n  fix: codec: blockwise8, nf4, nf4-nested, uniform8 or int8-rows.");
}

}  // namespace

void add_encode(Commands& commands) {
  commands.add("encode",
               "what numbers come to in a format of the wire.\n"
               "CASE: x (numbers, or their bits as \"0x3f800000\"), codec (blockwise8, nf4, nf4-nested, uniform8), blocksize; "
               "or A (rows), for int8-rows",
               "case.json", encode);
}

}  // namespace reef_examples
