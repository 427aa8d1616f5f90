#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include <reef/comm/collectives.hpp>
#include <reef/comm/progress.hpp>
#include <reef/core/error.hpp>

namespace reef::inline v0::detail {

/// One number of every rank, by rank. Collective; blocks.
inline std::vector<double> gather_numbers(comm::Progress& progress, const std::string& what, double mine) {
  const int ranks = progress.size();
  std::vector<double> all(static_cast<std::size_t>(ranks));
  comm::AllGatherTask<double> task(what, std::span<const double>(&mine, 1), std::span<double>(all),
                                   comm::even_offsets(ranks, ranks));
  progress.submit(progress.queue("reduce"), task);
  progress.wait(task);
  return all;
}

/// Throws OptionError on every rank unless all give the same number.
inline void require_agreement(comm::Progress& progress, const std::string& what, std::uint64_t mine,
                              const std::string& fix) {
  // A double holds 32 bits exactly.
  const auto high = gather_numbers(progress, what + " (high)", static_cast<double>(mine >> 32));
  const auto low = gather_numbers(progress, what + " (low)", static_cast<double>(mine & 0xFFFFFFFFU));
  for (std::size_t rank = 1; rank < high.size(); ++rank) {
    if (high[rank] == high[0] && low[rank] == low[0]) continue;
    throw OptionError("reef::Trainer: rank " + std::to_string(rank) + " and rank 0 differ in their " +
                      what + ".\n  fix: " + fix);
  }
}

}  // namespace reef::inline v0::detail
