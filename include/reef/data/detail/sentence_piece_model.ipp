#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <reef/core/inline.hpp>
#include <reef/core/text.hpp>
#include <reef/data/detail/sentence_piece_model.hpp>

namespace reef {
inline namespace v0 {
namespace data::detail {

/// The fields of a message in Protocol Buffers' format, one after another.
class ProtobufFields {
public:
  explicit ProtobufFields(std::string_view message) : rest_(message) {}

  /// Goes to the next field. Returns false at the end, and where the bytes are no message.
  bool next() {
    if (rest_.empty()) return false;
    const auto tag = varint();
    if (!tag) return fail();
    number_ = *tag >> 3U;
    bytes_ = {};
    switch (*tag & 7U) {
      case 0: return varint() ? true : fail();
      case 1: return skip(8);
      case 2: {
        const auto length = varint();
        if (!length || *length > rest_.size()) return fail();
        bytes_ = rest_.substr(0, static_cast<std::size_t>(*length));
        return skip(bytes_.size());
      }
      case 5: return skip(4);
      default: return fail();
    }
  }

  [[nodiscard]] std::uint64_t number() const { return number_; }
  /// Returns the bytes of a field that is text or a message; none of a number.
  [[nodiscard]] std::string_view bytes() const { return bytes_; }
  [[nodiscard]] bool has_failed() const { return has_failed_; }

private:
  bool fail() {
    has_failed_ = true;
    return false;
  }
  bool skip(std::size_t bytes) {
    if (bytes > rest_.size()) return fail();
    rest_.remove_prefix(bytes);
    return true;
  }
  std::optional<std::uint64_t> varint() {
    std::uint64_t value = 0;
    for (unsigned shift = 0; shift < 64 && !rest_.empty(); shift += 7) {
      const auto byte = static_cast<std::uint8_t>(rest_.front());
      rest_.remove_prefix(1);
      value |= std::uint64_t{byte & 0x7FU} << shift;
      if (byte < 0x80) return value;
    }
    return std::nullopt;
  }

  std::string_view rest_;
  std::string_view bytes_;
  std::uint64_t number_ = 0;
  bool has_failed_ = false;
};

/// Returns what is wrong with the offsets of a precompiled_charsmap; nothing if all are in their bounds.
inline std::optional<std::string> flaw_of_charsmap(std::string_view charsmap) {
  constexpr std::size_t unit = 4;
  const auto word = [&](std::size_t at) {
    std::uint32_t value = 0;
    for (std::size_t i = 0; i < unit; ++i) value |= std::uint32_t{static_cast<std::uint8_t>(charsmap[at + i])} << 8 * i;
    return value;
  };
  if (charsmap.empty()) return std::nullopt;
  if (charsmap.size() < unit || word(0) > charsmap.size() - unit) return "its trie is cut off";
  const std::size_t units = word(0) / unit;
  const std::string_view texts = charsmap.substr(unit + word(0));
  if (units == 0 || texts.empty() || texts.back() != '\0') return "its trie or its texts are empty or cut off";
  const auto unit_at = [&](std::size_t i) { return word(unit * (1 + i)); };
  const auto offset_of = [](std::uint32_t node) { return (node >> 10U) << ((node & (1U << 9U)) >> 6U); };

  std::vector<bool> is_seen(units);
  std::vector<std::size_t> bases{offset_of(unit_at(0))};  // where the children of a node begin, by exclusive or
  while (!bases.empty()) {
    const std::size_t base = bases.back();
    bases.pop_back();
    if ((base | 0xFFU) >= units) return "an offset leaves its trie";
    if (is_seen[base]) continue;
    is_seen[base] = true;
    for (std::size_t byte = 0; byte < 256; ++byte) {
      const std::uint32_t child = unit_at(base ^ byte);
      if ((child & (1U << 31U | 0xFFU)) != byte) continue;  // another label, or a leaf
      const std::size_t next = base ^ byte ^ offset_of(child);
      bases.push_back(next);
      if ((child & (1U << 8U)) == 0) continue;  // ends no rule
      if (next >= units) return "an offset leaves its trie";
      if ((unit_at(next) & ~(1U << 31U)) >= texts.size()) return "a rule's text is outside of its texts";
    }
  }
  return std::nullopt;
}

REEF_INLINE std::optional<std::string> flaw_of_sentence_piece_model(std::string_view model) {
  constexpr std::uint64_t normalizer = 3, denormalizer = 5, charsmap = 2;
  ProtobufFields fields(model);
  while (fields.next()) {
    if (fields.number() != normalizer && fields.number() != denormalizer) continue;
    ProtobufFields spec(fields.bytes());
    while (spec.next()) {
      if (spec.number() != charsmap) continue;
      if (const auto flaw = flaw_of_charsmap(spec.bytes())) return concat("of its rules of normalisation ", *flaw);
    }
    if (spec.has_failed()) return "its rules of normalisation are cut off";
  }
  if (fields.has_failed()) return "it is cut off, or no model";
  return std::nullopt;
}

}  // namespace data::detail
}  // namespace v0
}  // namespace reef
