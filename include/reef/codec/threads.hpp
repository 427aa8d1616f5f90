#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <type_traits>

#include <reef/core/language.hpp>

namespace reef {
inline namespace v0 {
namespace codec {

/// The threads that execute a codec's work: the calling thread alone, or all threads of a device queue's pool.
///
/// | lane   | a type with `parallel(parts, function)`, as device::Host::Lane; used on its thread; outlives Threads |
/// | order  | a codec splits its work by n alone, so that messages have the same bytes for any number of threads   |
///
/// \code
/// #include <reef/codec/blockwise8.hpp>
/// #include <reef/device/host.hpp>
/// // given: device::Host::Lane& lane, std::span<const float> values
/// const codec::Blockwise8 format;
/// std::vector<std::byte> message(format.encoded_bytes(static_cast<std::int64_t>(values.size())));
/// lane.submit([&](device::Host::Lane& own) { format.encode(values, message, own); });
/// lane.synchronize();
/// \endcode
class Threads {
public:
  /// Constructs a codec's work sharing with one thread: the calling one alone.
  Threads() = default;

  template <class Lane>
    requires requires(Lane& lane, void (*function)(std::int64_t)) { lane.parallel(std::int64_t{}, function); }
  Threads(Lane& lane)  // NOLINT(google-explicit-constructor)
      : lane_(std::addressof(lane)), run_([](void* of, std::int64_t parts, Call call, const void* context) {
          static_cast<Lane*>(of)->parallel(parts, [=](std::int64_t part) { call(context, part); });
        }) {}

  /// Calls function(part) for every part in [0, parts), in any order, on the threads; returns when all calls have.
  template <class F>
  void operator()(std::int64_t parts, const F& function) const {
    if (run_ == nullptr) {
      for (std::int64_t part = 0; part < parts; ++part) function(part);
      return;
    }
    run_(lane_, parts, [](const void* context, std::int64_t part) { (*static_cast<const F*>(context))(part); },
         std::addressof(function));
  }

private:
  using Call = void (*)(const void*, std::int64_t);

  void* lane_ = nullptr;
  void (*run_)(void*, std::int64_t, Call, const void*) = nullptr;
};

namespace detail {

/// Calls function(i) for every i in [0, n), in parts on the threads.
template <class F>
void each_number(const Threads& threads, std::size_t n, const F& function) {
  constexpr std::size_t part = 65536;
  threads(static_cast<std::int64_t>((n + part - 1) / part), [&](std::int64_t p) {
    const std::size_t begin = static_cast<std::size_t>(p) * part;
    const std::size_t end = (std::min)(n, begin + part);
    for (std::size_t i = begin; i < end; ++i) function(i);
  });
}

}  // namespace detail

}  // namespace codec
}  // namespace v0
}  // namespace reef
