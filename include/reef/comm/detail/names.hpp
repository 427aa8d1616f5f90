#pragma once

#include <cstdint>
#include <mutex>
#include <string>
#include <string_view>
#include <unordered_map>

#include <reef/comm/meter.hpp>

namespace reef {
inline namespace v0 {
namespace comm::detail {

/// The names of the operations that this rank knows. Any thread.
class Names {
public:
  /// Of all ranks, or of two: no group.
  void remember(std::uint64_t operation, Kind kind, std::string_view name,
                std::string_view group = {});

  /// "all-reduce 'loss'", or the bare number of an operation that this rank does not know.
  std::string text(std::uint64_t operation);

private:
  std::mutex mutex_;
  std::unordered_map<std::uint64_t, std::string> texts_;
};

}  // namespace comm::detail
}  // namespace v0
}  // namespace reef

#ifndef REEF_COMPILED
#include <reef/comm/detail/names.ipp>
#endif
