#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <reef/codec/adjust.hpp>
#include <reef/codec/concept.hpp>
#include <reef/codec/delta.hpp>
#include <reef/codec/message.hpp>
#include <reef/core/element.hpp>
#include <reef/core/error.hpp>
#include <reef/core/hash.hpp>
#include <reef/run/step_plan.hpp>
#include <reef/schedule/program.hpp>

namespace reef {
inline namespace v0 {
namespace compress::detail {

/// The optimizer sends that; what is between stages is where there are some.
bool travels(const run::StepPlan& plan, schedule::Traffic traffic);

/// Throws OptionError where no optimizer sends what is to be encoded.
void require_traffic(const run::StepPlan& plan, schedule::Traffic traffic, const std::string& codec);

/// What a codec makes of some numbers stands for its members: of one with a memory also what it makes of them with what
/// it remembers then, since all that a codec ever sees of it is 0 and what it wrote itself.
template <codec::any_codec C>
void add_message(Hash& hash, const C& format) {
  if (const std::int64_t period = codec::period_of(format); period > 0) hash.add(period);
  constexpr std::size_t n = 10'000;
  std::vector<float> values(n);
  for (std::size_t i = 0; i < n; ++i) values[i] = static_cast<float>(i * 7919 % 10'007) / 5000 - 1;
  std::vector<float> state(static_cast<std::size_t>(codec::state_of(format, n)));
  std::vector<float> next(state.size());
  std::vector<std::byte> message(static_cast<std::size_t>(format.encoded_bytes(n)));
  for (int sent = 0; sent < (state.empty() ? 1 : 2); ++sent) {
    codec::encode(format, std::span<const float>(values), state, next, message);
    const std::span<const std::byte> used = codec::message_in(message);
    hash.add(std::string_view(reinterpret_cast<const char*>(used.data()), used.size()));
    state.swap(next);
  }
}

/// A codec that sends every number, and not what it changed by.
template <codec::any_codec C>
bool sends_all_numbers(const C& format) {
  constexpr std::int64_t n = 256;
  constexpr std::int64_t many = 1 << 20;
  if (codec::state_of(format, n) != 0 || codec::received_state_of(format, n) != 0) return false;
  if (codec::kept_of(format, many) < many) return false;
  const std::vector<float> ones(n, 1.0F);
  std::vector<float> decoded(n);
  std::vector<std::byte> message(static_cast<std::size_t>(format.encoded_bytes(n)));
  codec::encode(format, std::span<const float>(ones), {}, {}, message);
  codec::decode(format, codec::message_in(message), {}, {}, decoded);
  return std::find(decoded.begin(), decoded.end(), 0.0F) == decoded.end();
}

/// Throws OptionError for another.
template <codec::any_codec C>
void require_all_numbers(const C& format) {
  if (sends_all_numbers(format)) return;
  throw OptionError("reef::compress::Channels: weights are to go by ", codec::text_of(format),
                    ".\n  why: ranks get weights, not what they changed by: one that is not sent would be 0.\n"
                    "  fix: a codec that sends every number and remembers nothing, as Bf16 or Blockwise8.");
}

/// Throws OptionError for a codec that selects nothing, or whose messages decode to more numbers than it selects.
template <codec::any_codec C>
void require_zeros(const C& format) {
  constexpr std::int64_t n = 8192;
  bool selects = codec::takes_ratio(format) || codec::kept_of(format, n) < n;
  if (selects) {
    std::vector<float> values(n);
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i * 7919 % 10'007) / 5000 - 1;
    std::vector<float> next(static_cast<std::size_t>(codec::state_of(format, n)));
    const std::vector<float> state(next.size());
    std::vector<std::byte> message(static_cast<std::size_t>(format.encoded_bytes(n)));
    codec::encode(format, std::span<const float>(values), state, next, message);
    codec::decode(format, codec::message_in(message), {}, {}, values);
    const auto kept = static_cast<std::int64_t>(values.size()) - std::count(values.begin(), values.end(), 0.0F);
    selects = kept <= codec::kept_of(format, n);
  }
  if (selects) return;
  throw OptionError("reef::compress::Channels: one mask, of what ", codec::text_of(format), " sends between stages.\n"
                    "  why: it is no selection: what arrives as zero is not what was left out.\n"
                    "  fix: a codec that selects, as codec::TopK or a Chain of it, or no mask.");
}

/// Throws OptionError where numbers are none that codecs have, or are rounded already.
void require_floats(const run::StepPlan& plan);

}  // namespace compress::detail
}  // namespace v0
}  // namespace reef

#ifndef REEF_COMPILED
#include <reef/compress/detail/channel_rules.ipp>
#endif
