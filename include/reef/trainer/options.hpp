#pragma once

#include <cstdint>
#include <string>

#include <reef/comm/options.hpp>
#include <reef/core/policy.hpp>
#include <reef/core/units.hpp>
#include <reef/optim/concept.hpp>
#include <reef/trainer/detail/hooks.hpp>
#include <reef/trainer/settings.hpp>
#include <reef/trainer/step_result.hpp>

namespace reef {
inline namespace v0 {

/// The options of a Trainer: TrainerSettings, and the options of its device and its policies.
///
/// | Device          | `device` has the type Device::Options                                        |
/// | Optim           | `rule` has the type Optim::Rule, `optim` the type options_of<Optim>          |
/// | Swap, Pipeline, | `swap`, `pipeline`, `compress` have the types options_of<...>: empty structs |
/// | Compress        | for policies without options                                                 |
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
  options_of<Optim> optim{};  ///< the options of the optimizer policy, such as those of optim::DiLoCo
  options_of<Swap> swap{};
  options_of<Pipeline> pipeline{};
  options_of<Compress> compress{};
  typename Device::Options device{};

  /// Throws OptionError, naming the first invalid option of the Trainer.
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

}  // namespace v0
}  // namespace reef
