#pragma once

#include <cstddef>
#include <string>

#include <reef/core/finite.hpp>
#include <reef/core/inline.hpp>
#include <reef/core/text.hpp>
#include <reef/trainer/settings.hpp>

namespace reef {
inline namespace v0 {

REEF_INLINE TrainerSettings::TrainerSettings() = default;
REEF_INLINE TrainerSettings::TrainerSettings(const TrainerSettings&) = default;
REEF_INLINE TrainerSettings::TrainerSettings(TrainerSettings&&) noexcept = default;
REEF_INLINE TrainerSettings& TrainerSettings::operator=(const TrainerSettings&) = default;
REEF_INLINE TrainerSettings& TrainerSettings::operator=(TrainerSettings&&) noexcept = default;
REEF_INLINE TrainerSettings::~TrainerSettings() = default;

REEF_INLINE std::vector<int> TrainerSettings::counts() const {
  if (micro_batches.size() > 1) return micro_batches;
  return std::vector<int>(static_cast<std::size_t>(virtual_ranks), micro_batches.front());
}

REEF_INLINE void TrainerSettings::validate(bool on_host) const {
  const auto require_that = [](bool holds, const std::string& text) {
    if (!holds) throw OptionError("reef::TrainerOptions: ", text);
  };
  require_that(!micro_batches.empty(),
               "micro_batches is empty.\n  fix: one count of at least 1.");
  for (const int count : micro_batches) {
    require_that(count >= 1, concat("micro_batches has the count ", count,
                                    ".\n  fix: every rank gives at least 1."));
  }
  require_that(virtual_ranks >= 1, concat("virtual_ranks is ", virtual_ranks, ", at least 1."));
  require_that(micro_batches.size() == 1 ||
                   micro_batches.size() == static_cast<std::size_t>(virtual_ranks),
               concat("micro_batches has ", micro_batches.size(), " counts for ", virtual_ranks,
                      " virtual ranks.\n  fix: one count, or one for each."));
  require_that(!accumulation.adapts || virtual_ranks == 1,
               "accumulation adapts on virtual ranks.\n  why: nothing is sent meanwhile.\n"
               "  fix: Accumulation::fixed(), or real ranks.");
  require_that(
      accumulation.adapts || accumulation.order == Accumulation::Order::own,
      "accumulation has a shared order, but fixed counts.\n  why: the plan numbers their "
      "micro-batches.\n  fix: Accumulation::adaptive(Order::shared), or Order::own.");
  require_that(!next_micro_batch || accumulation.order == Accumulation::Order::own,
               "accumulation has a shared order, but next_micro_batch is given.\n  why: both number micro-batches.\n"
               "  fix: one of the two.");
  require_that(
      accumulation.max_micro_batches == 0 ||
          accumulation.max_micro_batches >= micro_batches.front(),
      concat("a phase takes at least ", micro_batches.front(), " and at most ",
             accumulation.max_micro_batches, " micro-batches.\n  fix: a bound of no less."));
  require_that(is_finite(clip_norm) && clip_norm >= 0,
               concat("clip_norm is ", clip_norm,
                      ".\n  fix: 0 for no clipping, or a finite number above 0."));
  require_that(activations.size() <= 1 || activations.size() == cuts.size() + 1,
               concat("activations are given for ", activations.size(), " segments, but the ",
                      cuts.size(), " cuts make ", cuts.size() + 1,
                      ".\n  fix: one for all, or cuts and one for each segment."));
  require_that(
      !swapping || swapping->weight_slots >= 2,
      "swapping has fewer than 2 slots.\n  why: one segment runs while the next is loaded.\n"
      "  fix: 2 or more.");
  require_that(
      !swapping || swapping->resident_segments >= 0,
      "swapping has fewer than 0 segments that stay.\n  fix: 0, or as many as have room.");
  require_that(
      !swapping || swapping->stash_slots >= 1,
      "swapping has no slot for what is stashed.\n  why: it leaves from one, and comes back "
      "to one.\n  fix: 1 or more.");
  require_that(
      !paced || profile,
      "paced is set, but there is no profile.\n  fix: profile, measured (graph::measure) or "
      "estimated (graph::estimate).");
  require_that(
      !paced || on_host,
      "paced is set, but the device is not on the host.\n  why: there no thread waits for "
      "kernels.\n  fix: paced = false, or device::Host.");
  require_that(clip_norm == 0 || non_finite != optim::NonFinite::ignore,
               "what is not finite is ignored, but clip_norm is above 0.\n  why: without norms "
               "nothing can be clipped.\n  fix: clip_norm = 0, or NonFinite::stop or skip.");
  learning_rate.validate();
  if (network) network->validate();
  for (const run::ParameterGroup& group : groups) group.validate();
}

}  // namespace v0
}  // namespace reef
