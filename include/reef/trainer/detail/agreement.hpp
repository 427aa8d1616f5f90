#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include <reef/comm/gather.hpp>
#include <reef/core/error.hpp>
#include <reef/core/hash.hpp>
#include <reef/device/instruction_set.hpp>

namespace reef::inline v0::detail {

/// Throws OptionError on every rank unless all give the same number.
inline void require_agreement(comm::Progress& progress, const std::string& what, std::uint64_t mine,
                              const std::string& fix) {
  // A double holds 32 bits exactly.
  const auto high =
      comm::gather_numbers(progress, what + " (high)", static_cast<double>(mine >> 32));
  const auto low =
      comm::gather_numbers(progress, what + " (low)", static_cast<double>(mine & 0xFFFFFFFFU));
  for (std::size_t rank = 1; rank < high.size(); ++rank) {
    if (high[rank] == high[0] && low[rank] == low[0]) continue;
    throw OptionError("reef::Trainer: rank ", rank, " and rank 0 differ in their ", what,
                      ".\n  fix: ", fix);
  }
}

/// What the ranks' programs do not show of their options.
template <class Options>
std::uint64_t hash_of(const Options& options) {
  Hash hash;
  hash.add(options.seed).add(std::string_view(std::remove_cvref_t<decltype(options.rule)>::name));
  hash.add(options.clip_norm).add(options.non_finite);
  const auto& rate = options.learning_rate;
  hash.add(rate.peak).add(rate.warmup).add(rate.steps).add(rate.floor);
  hash.add(rate.at(0));  // of a schedule of one's own no more is known to be askable
  for (const bool decays : {false, true}) {
    const auto c = options.rule.template coefficients<double>(1, 1.0, decays);
    static_assert(std::is_trivially_copyable_v<decltype(c)> && sizeof(c) % sizeof(double) == 0);
    double numbers[sizeof(c) / sizeof(double)];
    std::memcpy(numbers, &c, sizeof(c));
    for (const double number : numbers) hash.add(number);
  }
  hash.add(device::name_of(device::instruction_set()));
  return hash.value();
}

}  // namespace reef::inline v0::detail
