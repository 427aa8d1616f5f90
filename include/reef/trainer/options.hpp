#pragma once

#include <cstdint>
#include <string>

#include <reef/comm/options.hpp>
#include <reef/core/policy.hpp>
#include <reef/core/units.hpp>
#include <reef/optim/concept.hpp>
#include <reef/trainer/detail/hooks.hpp>
#include <reef/trainer/settings.hpp>

namespace reef {
inline namespace v0 {

/// How a Trainer trains: TrainerSettings, and what its device and its policies have of their own.
///
/// | Device           | TrainerOptions::device is Device::Options                                      |
/// | Optim            | its Rule, and optim::options_of it                                             |
/// | Swap, Pipeline,  | options_of each: empty where a policy has none                                 |
/// | Compress         |                                                                                |
///
/// \code
/// Trainer<optim::Acco<optim::AdamW>>::Options options;
/// options.micro_batches = {4};
/// options.accumulation = Accumulation::capped(16);
/// options.learning_rate = {.peak = 3e-4, .warmup = 100, .steps = 10'000};
/// options.device.threads = 2;
/// options.communication.deadline = 120;
/// \endcode
template <class Device, class Optim, class Swap, class Pipeline, class Compress>
struct TrainerOptions : TrainerSettings {
  using Rule = typename Optim::Rule;

  Rule rule{};
  options_of<Optim> optim{};  ///< of the policy of that axis, as the next three: optim::DiLoCo
  options_of<Swap> swap{};
  options_of<Pipeline> pipeline{};
  options_of<Compress> compress{};
  typename Device::Options device{};

  /// Throws OptionError, naming the first option that cannot be.
  void validate() const {
    TrainerSettings::validate(Device::on_host);
    if constexpr (requires { rule.validate(); }) rule.validate();
    detail::hooks::validate(optim);
    detail::hooks::validate(swap);
    detail::hooks::validate(pipeline);
    detail::hooks::validate(compress);
    if constexpr (requires { device.validate(); }) device.validate();
    static_cast<void>(comm::checked(communication, 1));
  }
};

/// What a step came to, the same on every rank but for the seconds. Where ranks step on their own
/// (DiLoCo), loss, norm and not_finite are those of this rank, and every step counts as committed.
struct StepResult {
  std::int64_t step = 0;     ///< committed steps, this one included if it was committed
  double loss = 0;           ///< weighted mean over all micro-batches of all ranks
  double gradient_norm = 0;  ///< of the mean gradient, before clipping
  double learning_rate = 0;
  std::uint64_t micro_batches = 0;  ///< of all ranks
  std::uint64_t samples = 0;        ///< of all ranks
  std::uint64_t tokens = 0;         ///< of all ranks: elements of the first input
  Seconds seconds = 0;              ///< on this rank
  bool committed = true;            ///< false: skipped, because something was not finite
  std::string not_finite;  ///< of a skipped step: the first tensor, its rank and micro-batch
};

}  // namespace v0
}  // namespace reef
