#pragma once

#include <algorithm>
#include <cmath>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <span>
#include <string_view>
#include <vector>

#include <reef/codec/detail/blocks.hpp>
#include <reef/codec/message.hpp>
#include <reef/codec/threads.hpp>
#include <reef/core/error.hpp>
#include <reef/core/finite.hpp>
#include <reef/core/product.hpp>
#include <reef/core/units.hpp>

/// \file
/// Messages of selecting codecs: the numbers that are kept, fp32, by index; then what says which they are.

namespace reef {
inline namespace v0 {
namespace codec::detail {

/// One in `ratio` of n, rounded up, so that there is one if there is any number.
inline std::int64_t one_in(double ratio, std::int64_t n, std::string_view name) {
  if (!within(ratio, 1, 1e12)) {
    throw OptionError("reef::codec: the ratio of ", name, " is ", ratio, ".\n  fix: from 1, which keeps all, to 1e12.");
  }
  const auto k = static_cast<std::int64_t>(std::ceil(static_cast<double>(n) / ratio));
  return std::clamp<std::int64_t>(k, std::min<std::int64_t>(n, 1), n);
}

template <class C>
MessageHead head_of(const C& format, std::int64_t n) {
  return {C::id, C::name, format.parameter(n), n};
}

template <class C>
concept rescaling = requires(const C& format, std::int64_t n) {
  { format.scale(n) } -> std::same_as<float>;
};

/// What a number that was sent is multiplied by when it is decoded.
template <class C>
float scale_of(const C& format, std::int64_t n) {
  if constexpr (rescaling<C>) {
    return format.scale(n);
  } else {
    return 1;
  }
}

template <class C>
std::vector<std::uint32_t> select_with(const C& format, std::span<const float> values, const Threads& threads) {
  if constexpr (requires { format.select(values, threads); }) {
    return format.select(values, threads);
  } else {
    return format.select(values);
  }
}

/// What is selected of n numbers takes with its selection, and no more than all of them do: where that is less, what is
/// left out is named (IndexForm::all_but). So it never grows as fewer are kept.
template <class C>
Bytes selected_bytes(const C& format, std::int64_t n) {
  const Bytes selection = format.selection_bytes(n);
  const Bytes all = sizeof(float) * static_cast<Bytes>(n) + std::min<Bytes>(selection, 2);
  return message_head_bytes +
         (std::min)(sizeof(float) * static_cast<Bytes>(format.kept(n)) + selection, all);
}

/// A codec that sends numbers whatever they are: of any that is not finite it sends NaN alone, so that it is seen.
template <class C>
bool hides(std::span<const float> values) {
  if constexpr (requires { C::sends_any; }) {
    return std::any_of(values.begin(), values.end(), [](float value) { return !is_finite(value); });
  } else {
    return false;
  }
}

/// The message of numbers of which some were selected: number(i) of these, by ascending index.
template <class C, class Number>
Bytes write_selected(const C& format, std::int64_t n, std::span<const std::uint32_t> indices, const Number& number,
                     std::span<std::byte> message, const Threads& threads = {}) {
  const MessageHead head = head_of(format, n);
  const std::span<std::byte> payload = begin_message(message, head, selected_bytes(format, n) - message_head_bytes);
  std::byte* at = payload.data();
  for (std::size_t i = 0; i < indices.size(); ++i) {
    const float value = number(i);
    std::memcpy(at, &value, sizeof value);
    at += sizeof value;
  }
  const std::size_t kept = indices.size() * sizeof(float);
  return seal_message(message, head, kept + format.write_selection(indices, n, payload.subspan(kept)), threads);
}

/// Calls sent(index) for each number that was sent, when all is written.
template <class C, class F>
Bytes encode_selected(const C& format, std::span<const float> values, std::span<std::byte> message,
                      const Threads& threads, const F& sent) {
  const std::vector<std::uint32_t> indices = select_with(format, values, threads);
  const bool broken = hides<C>(values);
  const auto number = [&](std::size_t i) {
    return broken ? std::numeric_limits<float>::quiet_NaN() : values[indices[i]];
  };
  const Bytes bytes =
      write_selected(format, static_cast<std::int64_t>(values.size()), indices, number, message, threads);
  for (const std::uint32_t index : indices) sent(index);
  return bytes;
}

template <class C>
Bytes encode_selected(const C& format, std::span<const float> values, std::span<std::byte> message,
                      const Threads& threads = {}) {
  return encode_selected(format, values, message, threads, [](std::uint32_t) {});
}

template <class C>
Bytes encode_selected_residual(const C& format, std::span<float> values, std::span<std::byte> message,
                               const Threads& threads = {}) {
  const auto n = static_cast<std::int64_t>(values.size());
  const float scale = scale_of(format, n);
  return encode_selected(format, values, message, threads, [values, scale](std::uint32_t index) {
    values[index] = scale == 1 ? 0 : values[index] - product(values[index], scale);
  });
}

/// Which numbers a message has, when it is believed.
template <class C>
std::vector<std::uint32_t> selection_of(const C& format, std::span<const std::byte> from, std::int64_t n) {
  std::vector<std::uint32_t> indices(static_cast<std::size_t>(format.kept(n)));
  if (!format.read_selection(from, n, indices)) {
    throw DecodeError("reef::codec: a message of ", C::name, " has indices that are none of ", n,
                      " numbers in ascending order.\n  state: nothing of it was decoded.\n"
                      "  fix: the sender's encode(); its checksum is that of what was sent.");
  }
  return indices;
}

/// What a message has that is believed: its numbers as they were sent, and which they are.
struct OpenedSelection {
  std::vector<std::uint32_t> indices{};
  const std::byte* numbers = nullptr;
  float scale = 1;

  [[nodiscard]] float number(std::size_t i) const {
    float value = 0;
    std::memcpy(&value, numbers + i * sizeof value, sizeof value);
    return scale == 1 ? value : value * scale;
  }
};

template <class C>
OpenedSelection open_selected(const C& format, std::span<const std::byte> message, std::int64_t n,
                              const Threads& threads = {}) {
  const Bytes kept = sizeof(float) * static_cast<Bytes>(format.kept(n));
  const auto payload =
      open_message(message, head_of(format, n), kept, selected_bytes(format, n) - message_head_bytes, threads);
  return {selection_of(format, payload.subspan(static_cast<std::size_t>(kept)), n), payload.data(),
          scale_of(format, n)};
}

template <class C>
void decode_selected(const C& format, std::span<const std::byte> message, std::span<float> values,
                     const Threads& threads = {}) {
  const auto n = static_cast<std::int64_t>(values.size());
  const OpenedSelection opened = open_selected(format, message, n, threads);
  const std::vector<std::uint32_t>& indices = opened.indices;
  each_part(threads, n, 1, [&](std::int64_t begin, std::int64_t end) {
    std::fill(values.begin() + begin, values.begin() + end, 0.0F);
    auto index = std::lower_bound(indices.begin(), indices.end(), static_cast<std::uint32_t>(begin));
    for (; index != indices.end() && static_cast<std::int64_t>(*index) < end; ++index) {
      values[*index] = opened.number(static_cast<std::size_t>(index - indices.begin()));
    }
  });
}

template <class C>
void accumulate_selected(const C& format, std::span<const std::byte> message, std::span<float> values) {
  const OpenedSelection opened = open_selected(format, message, static_cast<std::int64_t>(values.size()));
  for (std::size_t i = 0; i < opened.indices.size(); ++i) values[opened.indices[i]] += opened.number(i);
}

}  // namespace codec::detail
}  // namespace v0
}  // namespace reef
