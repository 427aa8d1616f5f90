#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include <reef/codec/concept.hpp>
#include <reef/core/random.hpp>

/// \file
/// Numbers, and what a codec makes of them.

namespace reef::test {

using Numbers = std::vector<float>;
using Message = std::vector<std::byte>;

inline Numbers normal_numbers(std::size_t n, std::uint64_t seed) {
  Numbers values(n);
  for (std::size_t i = 0; i < n; ++i) values[i] = static_cast<float>(normal({seed, 0, 0, 0}, i));
  return values;
}

template <class Codec>
Message encoded(const Codec& format, const Numbers& values) {
  Message message(format.encoded_bytes(static_cast<std::int64_t>(values.size())));
  message.resize(format.encode(values, message));
  return message;
}

template <class Codec>
Numbers decoded(const Codec& format, const Message& message, std::size_t n) {
  Numbers values(n, 7.0F);
  format.decode(message, values);
  return values;
}

template <class Codec>
Message encoded_after(const Codec& format, const Numbers& values, const Numbers& state, Numbers& next) {
  Message message(format.encoded_bytes(static_cast<std::int64_t>(values.size())));
  message.resize(codec::encode(format, values, state, next, message));
  return message;
}

}  // namespace reef::test
