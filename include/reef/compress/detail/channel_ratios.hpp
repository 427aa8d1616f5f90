#pragma once

#include <algorithm>
#include <cstddef>
#include <optional>
#include <vector>

#include <reef/codec/adjust.hpp>
#include <reef/compress/coded_messages.hpp>
#include <reef/compress/detail/adapted_ratios.hpp>
#include <reef/compress/detail/channel_rules.hpp>
#include <reef/core/error.hpp>
#include <reef/run/step_plan.hpp>
#include <reef/schedule/program.hpp>

/// \file
/// The ratios of a channel's codec. `options` are those of Channels.

namespace reef {
inline namespace v0 {
namespace compress::detail {

/// The codec as what carries `index` has it: with the ratio that was planned for that, if any.
template <class Own>
[[nodiscard]] Own with_ratio_of(const Own& own, const std::vector<double>& ratios, int index) {
  const auto at = static_cast<std::size_t>(index);
  if constexpr (codec::has_ratio<Own>) {
    if (at < ratios.size() && ratios[at] > 1) return codec::with_ratio(own, ratios[at]);
  }
  return own;
}

/// Whether the codec's edges have other ratios from time to time, but those of which `choose` says one for good.
template <class Options, class Own>
[[nodiscard]] bool is_replanned(const Options& options, schedule::Traffic traffic, const Own& own) {
  return options.replan.is_on() && schedule::is_between_stages(traffic) && codec::takes_ratio(own);
}

/// Whether the codec's ratio may be another in each step.
template <class Options, class Own>
[[nodiscard]] bool is_chosen_by_step(const Options& options, const Own& own) {
  return options.choose.is_by_step() && codec::takes_ratio(own);
}

/// Throws OptionError where ratios are to follow links, and there are none, nor are they measured or chosen.
template <class Options>
void require_links(const run::StepPlan& plan, const Options& options, const char* policy) {
  if (plan.world || options.replan.is_on() || options.choose.is_by_step()) return;
  throw OptionError(
      "reef::compress::", policy,
      ": ratios are to adapt to links, and there is no network.\n"
      "  why: ratios follow what links take.\n"
      "  fix: TrainerOptions::network, measured or as profile::Network::uniform; or replan.every, to measure it before "
      "the "
      "first step and later; compress.choose, by step; or one ratio for all: Channels with TopK, without adapt.");
}

/// The ratios that stay, by index of what is carried: those that `choose` says, and those of links; 0 is the codec's
/// own.
template <class Options, class Own>
[[nodiscard]] std::vector<double> ratios_of(const run::StepPlan& plan, const Options& options,
                                            schedule::Traffic traffic, const Own& own) {
  std::vector<double> ratios;
  if constexpr (codec::has_ratio<Own>) {
    const bool adapts = options.adapt && plan.world && schedule::is_between_stages(traffic) && codec::takes_ratio(own);
    if (adapts && !is_replanned(options, traffic, own) && !is_chosen_by_step(options, own)) {
      ratios = adapted_ratios(plan, *plan.world, traffic, codec::ratio_of(own), options.stage_compute);
    }
  }
  // Pieces of fragments, which are not sent but encoded.
  if (traffic == schedule::Traffic::pseudo_gradient) return ratios;
  for (const CodedMessages& messages : coded_messages_of(plan, traffic)) {
    const std::optional<double> chosen = options.choose.for_good(messages);
    if (!chosen) continue;
    if (!(*chosen >= 1) || (*chosen > 1 && !codec::has_ratio<Own>)) {
      throw OptionError("reef::compress::Channels: ", schedule::name_of(traffic), " ", messages.index,
                        " is to have the ratio ", *chosen, ", under ", codec::text_of(own),
                        ".\n  fix: from 1, at which it stays as it is; more "
                        "for a codec with a ratio alone, as TopK.");
    }
    if constexpr (codec::has_ratio<Own>) {
      if (*chosen > 1) static_cast<void>(codec::with_ratio(own, *chosen).encoded_bytes(1));
    }
    ratios.resize((std::max)(ratios.size(), static_cast<std::size_t>(messages.index) + 1), 0);
    ratios[static_cast<std::size_t>(messages.index)] = *chosen;
  }
  return ratios;
}

}  // namespace compress::detail
}  // namespace v0
}  // namespace reef
