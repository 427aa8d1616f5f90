#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <memory>

#include <reef/core/error.hpp>
#include <reef/core/inline.hpp>
#include <reef/swarm/average/dense_parts.hpp>
#include <reef/swarm/net/sha256.hpp>

namespace reef {
inline namespace v0 {
namespace swarm {

static_assert(std::endian::native == std::endian::little,
              "reef::swarm: parts are little-endian as they lie in memory.");

namespace detail {

inline float number_at(const Bulk& bytes, std::size_t i) {
  float number = 0;
  std::memcpy(&number, bytes->data() + i * sizeof number, sizeof number);
  return number;
}

/// Returns the verdict on a sum with this sum of squares, whose contributors have this total weight and loss.
inline RoundVerdict verdict_of(double squares, double weight, double loss) {
  if (!std::isfinite(squares) || !std::isfinite(loss)) return {false, 0, 1, 0};
  return {true, std::sqrt(squares) / weight, 1, loss / weight};
}

}  // namespace detail

REEF_INLINE core::RoundFunctions dense_functions(std::int64_t parameters, std::int64_t piece) {
  const auto length_of = [parameters, piece](std::int64_t at) {
    return static_cast<std::size_t>((std::min)(piece, parameters - at * piece));
  };
  core::RoundFunctions functions;
  functions.digest = sha256;
  functions.fold = [length_of](std::int64_t at, std::span<const Bulk> parts) {
    std::vector<std::byte> bytes(length_of(at) * sizeof(float));
    for (std::size_t i = 0; i < length_of(at); ++i) {
      float sum = parts.empty() ? 0.0F : detail::number_at(parts.front(), i);
      for (const Bulk& part : parts.subspan(parts.empty() ? 0 : 1)) sum += detail::number_at(part, i);
      std::memcpy(bytes.data() + i * sizeof sum, &sum, sizeof sum);
    }
    return std::make_shared<const std::vector<std::byte>>(std::move(bytes));
  };
  functions.accepts = [length_of](std::int64_t at, const Bulk& part) {
    if (part->size() != length_of(at) * sizeof(float)) return false;
    for (std::size_t i = 0; i < length_of(at); ++i) {
      if (!std::isfinite(detail::number_at(part, i))) return false;
    }
    return true;
  };
  functions.judge = [](std::span<const Bulk> results, double weight, double loss) {
    double squares = 0;
    for (const Bulk& result : results) {
      double of_piece = 0;
      for (std::size_t i = 0; i < result->size() / sizeof(float); ++i) {
        const double number = detail::number_at(result, i);
        of_piece += number * number;
      }
      squares += of_piece;
    }
    return detail::verdict_of(squares, weight, loss);
  };
  return functions;
}

REEF_INLINE std::vector<Bulk> dense_parts(std::span<const float> numbers, std::int64_t piece) {
  std::vector<Bulk> parts;
  for (std::size_t from = 0; from < numbers.size(); from += static_cast<std::size_t>(piece)) {
    const std::span<const std::byte> bytes =
        std::as_bytes(numbers.subspan(from, (std::min)(static_cast<std::size_t>(piece), numbers.size() - from)));
    parts.push_back(std::make_shared<const std::vector<std::byte>>(bytes.begin(), bytes.end()));
  }
  return parts;
}

REEF_INLINE void read_dense_parts(std::span<const Bulk> parts, std::span<float> numbers) {
  std::span<std::byte> to = std::as_writable_bytes(numbers);
  for (const Bulk& part : parts) {
    if (part->size() > to.size()) break;
    std::copy(part->begin(), part->end(), to.begin());
    to = to.subspan(part->size());
  }
  if (!to.empty()) {
    throw DecodeError("reef::swarm: the pieces of a result are not as long as the layout of ", numbers.size(),
                      " numbers.\n", "  fix: the model of the job, on all peers.");
  }
}

}  // namespace swarm
}  // namespace v0
}  // namespace reef
