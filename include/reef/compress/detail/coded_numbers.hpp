#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

#include <reef/codec/threads.hpp>
#include <reef/core/bfloat16.hpp>
#include <reef/core/element.hpp>
#include <reef/core/units.hpp>
#include <reef/device/concept.hpp>

namespace reef {
inline namespace v0 {
namespace compress::detail {

/// The threads of a lane's pool; of a lane that has none on the host, its own.
template <class Lane>
codec::Threads threads_of(Lane& lane) {
  if constexpr (std::is_constructible_v<codec::Threads, Lane&>) {
    return codec::Threads(lane);
  } else {
    return {};
  }
}

/// Numbers of a program as a codec has them: floats in memory that the host reads. Where they are others, or elsewhere,
/// they are brought to a copy, and taken back.
struct CodedNumbers {
  void* at = nullptr;
  std::int64_t count = 0;
  Element element = Element::float32;
  bool away = false;      ///< in a device's memory that is not the host's
  float* copy = nullptr;  ///< none: they are floats, and here
  std::vector<std::pair<std::int64_t, std::int64_t>> padding{};  ///< gaps between parameters, which nobody else writes

  [[nodiscard]] std::span<float> floats() const {
    return {copy != nullptr ? copy : static_cast<float*>(at), static_cast<std::size_t>(count)};
  }
  [[nodiscard]] Bytes bytes() const { return static_cast<Bytes>(count) * size_of(element); }

  /// floats() are what the numbers are.
  template <class Lane>
  void bring(Lane& lane) const {
    if (copy != nullptr) {
      // Narrower ones come to the end of the copy, and are widened from its beginning: none is overtaken.
      std::byte* const raw = reinterpret_cast<std::byte*>(copy) + static_cast<Bytes>(count) * sizeof(float) - bytes();
      lane.copy(raw, at, bytes(), away ? device::Copy::to_host : device::Copy::on_host);
      lane.settle();
      if (element == Element::bfloat16) {
        for (std::int64_t i = 0; i < count; ++i) {
          Bfloat16 number;
          std::memcpy(&number, raw + i * std::ptrdiff_t{sizeof number}, sizeof number);
          const float widened = number;
          std::memcpy(copy + i, &widened, sizeof widened);
        }
      }
      return;
    }
    lane.settle();
  }

  /// The numbers are what floats() are, rounded where they are narrower.
  template <class Lane>
  void take_back(Lane& lane) const {
    if (copy == nullptr) return;
    if (element == Element::bfloat16) {
      auto* const narrow = reinterpret_cast<std::byte*>(copy);
      for (std::int64_t i = 0; i < count; ++i) {
        float number = 0;
        std::memcpy(&number, copy + i, sizeof number);
        const Bfloat16 rounded(number);
        std::memcpy(narrow + i * std::ptrdiff_t{sizeof rounded}, &rounded, sizeof rounded);
      }
    }
    lane.copy(at, copy, bytes(), away ? device::Copy::to_device : device::Copy::on_host);
  }

  /// What was decoded is 0 again where it is no parameter's: a codec of blocks makes something of padding too, and what
  /// is left there would be in the next step's messages, and in its norm.
  template <class Lane>
  void clear_padding(Lane& lane) const {
    const Bytes size = size_of(element);
    for (const auto& [begin, end] : padding) {
      lane.fill_zero(static_cast<std::byte*>(at) + static_cast<Bytes>(begin) * size,
                     static_cast<Bytes>(end - begin) * size);
    }
  }
};

}  // namespace compress::detail
}  // namespace v0
}  // namespace reef
