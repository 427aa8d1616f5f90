#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <reef/comm/gather.hpp>
#include <reef/core/error.hpp>

namespace reef::inline v0::detail {

/// Throws OptionError on every rank unless all give the same number.
inline void require_agreement(comm::Progress& progress, const std::string& what, std::uint64_t mine,
                              const std::string& fix) {
  // A double holds 32 bits exactly.
  const auto high = comm::gather_numbers(progress, what + " (high)", static_cast<double>(mine >> 32));
  const auto low =
      comm::gather_numbers(progress, what + " (low)", static_cast<double>(mine & 0xFFFFFFFFU));
  for (std::size_t rank = 1; rank < high.size(); ++rank) {
    if (high[rank] == high[0] && low[rank] == low[0]) continue;
    throw OptionError("reef::Trainer: rank " + std::to_string(rank) + " and rank 0 differ in their " +
                      what + ".\n  fix: " + fix);
  }
}

}  // namespace reef::inline v0::detail
