#pragma once

#include <bit>
#include <cstdint>
#include <span>
#include <string_view>
#include <type_traits>

#include <reef/schedule/program.hpp>

namespace reef::inline v0::schedule {

/// FNV-1a over plain numbers and texts, 64 bits: the same on every machine.
class Hash {
public:
  template <class Number>
    requires std::is_integral_v<Number> || std::is_enum_v<Number>
  Hash& add(Number number) {
    auto bits = static_cast<std::uint64_t>(number);
    for (int byte = 0; byte < 8; ++byte, bits >>= 8) mix(static_cast<std::uint8_t>(bits));
    return *this;
  }
  Hash& add(double number) { return add(std::bit_cast<std::uint64_t>(number)); }
  Hash& add(std::string_view text) {
    for (const char c : text) mix(static_cast<std::uint8_t>(c));
    return add(text.size());
  }
  [[nodiscard]] std::uint64_t value() const { return value_; }

private:
  void mix(std::uint8_t byte) { value_ = (value_ ^ byte) * 1099511628211ULL; }

  std::uint64_t value_ = 14695981039346656037ULL;
};

/// What ranks compare before they start: the programs of all of them, each as every rank built it.
inline std::uint64_t hash_of(std::span<const Program> programs) {
  Hash hash;
  for (const Program& program : programs) {
    hash.add(program.rank).add(program.storages.size()).add(program.round.size());
    for (const Storage& storage : program.storages) {
      hash.add(storage.name).add(storage.bytes).add(storage.place).add(storage.life);
      hash.add(storage.parent).add(storage.offset);
    }
    for (const Instruction& i : program.round) {
      hash.add(i.kind).add(i.lane).add(i.index).add(i.micro_batch);
      for (const auto* values : {&i.reads, &i.writes, &i.accumulates}) {
        hash.add(values->size());
        for (const Value value : *values) hash.add(value.storage).add(value.version);
      }
      for (const auto* messages : {&i.sends, &i.receives}) {
        hash.add(messages->size());
        for (const Message& m : *messages)
          hash.add(m.peer).add(m.bytes).add(m.channel).add(m.pieces);
      }
    }
  }
  return hash.value();
}

}  // namespace reef::inline v0::schedule
