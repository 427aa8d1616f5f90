#pragma once

// The members of Trainer that a reader of step() need not see. Those that copy weights and state in
// and out are in weights.hpp, those that plan in plans.hpp.

#include <algorithm>
#include <cstdint>
#include <exception>
#include <functional>
#include <limits>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <reef/core/finite.hpp>
#include <reef/core/product.hpp>
#include <reef/core/text.hpp>
#include <reef/graph/hash.hpp>
#include <reef/schedule/hash.hpp>
#include <reef/trainer/trainer.hpp>

namespace reef {
inline namespace v0 {

template <class... Policies>
Trainer<Policies...>::Trainer(Model model, run::Source source, Options options,
                              run::Source held_out, const comm::Communicator* ranks)
    : Engine(facts_of_composition, PolicyTable::table),
      options_(validated(std::move(options))),
      device_(options_.device),
      model_(model.serving(device_.threads())) {
  begin(ranks, device::any_device(device_), std::move(source), std::move(held_out));
}

/// Throws OptionError for options that cannot be, before anything is started.
template <class... Policies>
auto Trainer<Policies...>::validated(Options options) -> Options {
  options.validate();
  detail::require_possible(PolicyTable::table, options);
  if constexpr (Swap::offloads_to_host) {
    if (options.swapping) detail::require_schedule_of<Swap>(*options.swapping);
  }
  return options;
}

template <class... Policies>
std::vector<comm::SharedFact> Trainer<Policies...>::alike() const {
  std::vector<comm::SharedFact> mine = detail::alike_of(detail::alike_policies<Optim>(options_), options_);
  mine.push_back(
      {"precision", concat(name_of(element_of<T>), ", gradients ", name_of(element_of<Gradient>))});
  return mine;
}

template <class... Policies>
std::unique_ptr<run::Executable> Trainer<Policies...>::load(const run::PlacedProgram& program, run::Source source,
                                                            run::NextMicroBatch next, const run::StepState& state) {
  using RankContext = run::RankContext<Device, T, Gradient>;
  const auto add_code = [this](run::Handlers<Device>& handlers, const RankContext& context) {
    const optim::CodeOptions<Optim> of_optim{
        options_.rule,
        {options_.clip_norm, options_.non_finite != optim::NonFinite::ignore},
        options_.optim};
    detail::hooks::add_code<Optim>(handlers, context, of_optim);
    detail::hooks::add_code<Swap>(handlers, context, options_.swap);
    detail::hooks::add_code<Pipeline>(handlers, context, options_.pipeline);
    detail::hooks::add_code<Compress>(handlers, context, options_.compress);
    detail::add_diagnosis_code(handlers, context, finding());
  };
  return run::make_executable<Device, T, Gradient>(program, arenas(), model_, std::move(source), std::move(next), state,
                                                   *progress_, lanes(), options_.serial, add_code);
}

template <class... Policies>
bool Trainer<Policies...>::updates_with(double learning_rate, std::int64_t committed) const {
  if (!is_finite(learning_rate) || learning_rate < 0) return false;
  const auto finite = [&](const optim::detail::Run& run) {
    return optim::detail::visit_rule(options_.rule, run.rule, [&]<class Own>(const Own& rule) {
      for (const Sum gradient : {Sum(0), Sum(1)}) {
        Sum weight = 1;
        Sum state[Own::states + 1] = {};
        Own::update(weight, state, gradient,
                    optim::detail::coefficients_of<Sum>(rule, run, committed + 1, learning_rate));
        if (!is_finite(weight)) return false;
      }
      return true;
    });
  };
  for (const bool decays : {false, true}) {
    if (!finite({.decays = decays})) return false;
    for (const run::ParameterGroup& group : plan_.groups) {
      if (!finite({.decays = decays || group.weight_decay,
                   .rule = group.rule,
                   .learning_rate = group.learning_rate,
                   .weight_decay = group.weight_decay})) {
        return false;
      }
    }
  }
  return true;
}

template <class... Policies>
void Trainer<Policies...>::before_step() {
  detail::hooks::before_step<Optim>(*progress_, plan_, options_.optim, state_);
  detail::hooks::before_step<Swap>(*progress_, plan_, options_.swap, state_);
  detail::hooks::before_step<Pipeline>(*progress_, plan_, options_.pipeline, state_);
  detail::hooks::before_step<Compress>(*progress_, plan_, options_.compress, state_);
}

template <class... Policies>
void Trainer<Policies...>::exchange(device::AnyLane& lane, void* weights, void* others, std::int64_t elements) {
  const optim::detail::SwapKernel<T> kernel{static_cast<T*>(weights), static_cast<T*>(others)};
  lane.submit([kernel, elements](device::AnyLane& self) {
    transform_vectors<T>(device::lane_of<Device>(self), elements, kernel);
  });
}

}  // namespace v0
}  // namespace reef
