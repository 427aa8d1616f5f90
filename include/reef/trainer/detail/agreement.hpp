#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include <reef/comm/error.hpp>
#include <reef/comm/functions.hpp>
#include <reef/comm/gather.hpp>
#include <reef/core/error.hpp>
#include <reef/core/hash.hpp>
#include <reef/device/instruction_set.hpp>

namespace reef::inline v0::detail {

/// Throws OptionError on every rank unless all give the same number.
inline void require_agreement(comm::Progress& progress, const std::string& what, std::uint64_t mine,
                              const std::string& fix) {
  const auto all = comm::gather_numbers(progress, what, mine);
  for (std::size_t rank = 1; rank < all.size(); ++rank) {
    if (all[rank] == all[0]) continue;
    // Who ends now would end the others, perhaps before they have seen the numbers: all meet once more.
    try {
      comm::barrier(progress, what);
    } catch (const comm::MpiError&) {  // by who left the barrier first, and knows the same
    }
    throw OptionError("reef::Trainer: rank ", rank, " and rank 0 differ in their ", what,
                      ".\n  fix: ", fix);
  }
}

/// What a rule does to a few numbers in its first steps: equal constants give equal hashes.
template <class Rule>
std::uint64_t effect_of(const Rule& rule) {
  Hash hash;
  for (const bool decays : {false, true}) {
    double w = 0.75;
    double state[Rule::states + 1] = {};
    std::int64_t t = 0;
    for (const double g : {0.5, -3.0, 1e-6}) {
      Rule::update(w, state, g, rule.template coefficients<double>(++t, 0.1, decays));
      hash.add(w);
      for (const double number : state) hash.add(number);
    }
  }
  return hash.value();
}

/// What the ranks' programs do not show of their optimizer policy and options.
template <class Optim, class Options>
std::uint64_t hash_of(const Options& options) {
  Hash hash;
  hash.add(std::string_view(Optim::name));
  if constexpr (requires { Optim::warm_up; }) hash.add(Optim::warm_up);
  hash.add(options.seed).add(std::string_view(std::remove_cvref_t<decltype(options.rule)>::name));
  hash.add(options.clip_norm).add(options.non_finite).add(options.accumulation.order);
  hash.add(options.accumulation.adapts).add(options.accumulation.most);
  const auto& rate = options.learning_rate;
  hash.add(rate.peak).add(rate.warmup).add(rate.steps).add(rate.floor);
  hash.add(rate.at(0));  // of a schedule of one's own no more is known to be askable
  hash.add(effect_of(options.rule));
  if constexpr (requires { options.sync.outer; }) {
    const auto& o = options.sync;
    hash.add(o.every).add(o.fragments).add(o.overlap).add(o.mix).add(o.outer_learning_rate);
    hash.add(effect_of(o.outer));
  }
  hash.add(device::name_of(device::instruction_set()));
  return hash.value();
}

}  // namespace reef::inline v0::detail
