#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstring>
#include <iterator>
#include <vector>

#include <reef/codec/detail/blocks.hpp>
#include <reef/codec/detail/look_up.hpp>
#include <reef/codec/uniform8.hpp>
#include <reef/core/product.hpp>
#include <reef/device/simd.hpp>

namespace reef {
inline namespace v0 {
namespace codec {

namespace detail {

/// The nearest of 256 steps, of which 128 is the mean's; 0 of NaN.
struct QuantizeEvenly {
  template <class V>
  void run(const float* values, std::int64_t n, float mean, float inverse, std::uint8_t* indices) const {
    for (std::int64_t i = 0; i < n; i += V::width) {
      const V index = round_even((V::load(values + i, n - i) - V(mean)) * V(inverse)) + V(128.0F);
      select_less(V(0.0F), index, smaller(V(255.0F), index), V(0.0F))
          .store_bytes(indices + i, n - i);
    }
  }
};

/// The numbers less `centre`, or the squares of that, added up in fp64: sixteen interleaved sums, then halves onto
/// halves.
template <class V, bool squared>
REEF_ALWAYS_INLINE double sum_of(const float* values, std::int64_t n, float centre) {
  typedef double Four __attribute__((vector_size(4 * sizeof(double))));
  typedef float Narrow __attribute__((vector_size(4 * sizeof(float))));
  constexpr std::int64_t lanes = 16;
  Four first{};
  Four second{};
  Four third{};
  Four fourth{};
  const auto add = [](Four& to, const float* from) {
    Narrow narrow;
    std::memcpy(&narrow, from, sizeof narrow);
    const Four wide = __builtin_convertvector(narrow, Four);
    to += squared ? wide * wide : wide;
  };
  for (std::int64_t i = 0; i < n; i += lanes) {
    float some[lanes];
    for (std::int64_t j = 0; j < lanes; j += V::width) {  // behind the last number nothing, as less centre
      (V::load(values + i + j, std::max<std::int64_t>(n - i - j, 0), V(centre)) - V(centre)).store(some + j);
    }
    add(first, some);
    add(second, some + 4);
    add(third, some + 8);
    add(fourth, some + 12);
  }
  const Four two = (first + third) + (second + fourth);
  return (two[0] + two[2]) + (two[1] + two[3]);
}

/// Of a part of the numbers.
struct Moments {
  double sum = 0;
  double squares = 0;  ///< of the numbers less `centre`
  float centre = 0;    ///< their mean

  /// As if less `mean`.
  [[nodiscard]] double squares_around(float mean, double n) const {
    const double moved = static_cast<double>(centre) - static_cast<double>(mean);
    return squares + product(moved, 2 * (sum - product(n, static_cast<double>(centre))) + product(n, moved));
  }
};

struct MomentsOfPart {
  template <class V>
  void run(const float* values, std::int64_t n, Moments* of) const {
    of->sum = sum_of<V, false>(values, n, 0);
    of->centre = static_cast<float>(of->sum / static_cast<double>(n));
    of->squares = sum_of<V, true>(values, n, of->centre);
  }
};

}  // namespace detail

REEF_INLINE Bytes Uniform8::encoded_bytes(std::int64_t n) const {
  return message_head_bytes + sizeof(Scale) + static_cast<Bytes>(n);
}

REEF_INLINE auto Uniform8::quantize(std::span<const float> values, std::span<std::uint8_t> indices,
                                   const Threads& threads) const -> Scale {
  if (values.empty()) return {};
  const auto n = static_cast<double>(values.size());
  const std::int64_t part = detail::numbers_of_part;
  std::vector<detail::Moments> parts((values.size() + static_cast<std::size_t>(part) - 1) /
                                     static_cast<std::size_t>(part));
  const auto in_part = [&](std::int64_t p) {
    return (std::min)(part, std::ssize(values) - p * part);
  };
  threads(std::ssize(parts), [&](std::int64_t p) {
    device::run_vectors<float>(detail::MomentsOfPart{}, values.data() + p * part, in_part(p),
                               &parts[static_cast<std::size_t>(p)]);
  });
  double sum = 0;
  for (const detail::Moments& of : parts) sum += of.sum;
  Scale scale;
  scale.mean = static_cast<float>(sum / n);
  double squares = 0;
  for (std::size_t p = 0; p < parts.size(); ++p) {
    squares += parts[p].squares_around(scale.mean, static_cast<double>(in_part(static_cast<std::int64_t>(p))));
  }
  scale.step =
      static_cast<float>(6 * std::sqrt((std::max)(squares, 0.0) / (std::max)(n - 1, 1.0)) / 256);
  const float inverse = scale.step > 0 ? 1 / scale.step : 0;
  detail::each_part(threads, static_cast<std::int64_t>(values.size()), 1, [&](std::int64_t begin, std::int64_t end) {
    device::run_vectors<float>(detail::QuantizeEvenly{}, values.data() + begin, end - begin, scale.mean, inverse,
                               indices.data() + begin);
  });
  return scale;
}

REEF_INLINE std::array<float, 256> Uniform8::bucket_means(std::span<const float> values,
                                                          std::span<const std::uint8_t> indices) {
  std::array<double, 256> sums{};
  std::array<double, 256> counts{};
  for (std::size_t i = 0; i < values.size(); ++i) {
    sums[indices[i]] += static_cast<double>(values[i]);
    counts[indices[i]] += 1;
  }
  std::array<float, 256> means{};
  for (std::size_t k = 0; k < means.size(); ++k) {
    means[k] = counts[k] > 0 ? static_cast<float>(sums[k] / counts[k]) : 0.0F;
  }
  return means;
}

REEF_INLINE Bytes Uniform8::encode(std::span<const float> values, std::span<std::byte> message,
    const Threads& threads) const {
  const auto n = static_cast<std::int64_t>(values.size());
  const Bytes payload = encoded_bytes(n) - message_head_bytes;
  const MessageHead head{CodecId::uniform8, name, 0, n};
  std::byte* const at = begin_message(message, head, payload).data();
  const Scale scale = quantize(values, {reinterpret_cast<std::uint8_t*>(at + sizeof(Scale)), values.size()}, threads);
  std::memcpy(at, &scale, sizeof scale);
  return seal_message(message, head, payload, threads);
}

REEF_INLINE void Uniform8::decode(std::span<const std::byte> message, std::span<float> values,
    const Threads& threads) const {
  const auto n = static_cast<std::int64_t>(values.size());
  const Bytes expected = encoded_bytes(n) - message_head_bytes;
  const auto payload = open_message(message, {CodecId::uniform8, name, 0, n}, expected, expected, threads);
  Scale scale;
  std::memcpy(&scale, payload.data(), sizeof scale);
  std::array<float, 256> table{};
  for (std::size_t i = 0; i < table.size(); ++i)
    table[i] = scale.mean + product(static_cast<float>(static_cast<int>(i) - 128), scale.step);
  const auto* const indices = reinterpret_cast<const std::uint8_t*>(payload.data() + sizeof scale);
  detail::each_part(threads, n, 1, [&](std::int64_t begin, std::int64_t end) {
    detail::look_up(table, indices + begin, values.data() + begin, end - begin);
  });
}

}  // namespace codec
}  // namespace v0
}  // namespace reef
