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
#include <reef/nn/host/products.hpp>
#include <reef/schedule/hash.hpp>
#include <reef/trainer/trainer.hpp>

namespace reef {
inline namespace v0 {

template <class... Policies>
Trainer<Policies...>::Trainer(Model model, run::Source source, Options options,
                              run::Source held_out, const comm::Communicator* ranks)
    : Training(facts_of_composition), options_(possible(std::move(options))), device_(options_.device), model_(model.serving(device_.threads())) {
  comm::ProgressOptions communication = options_.communication;
  communication.trace = options_.trace;
  const auto failure = std::make_shared<run::FailureSwitch>();
  communication.on_failure = [failure, told = communication.on_failure](const std::string& text) {
    if (told) told(text);
    failure->trip();
  };
  progress_ = ranks != nullptr ? std::make_unique<comm::Progress>(*ranks, std::move(communication))
                               : std::make_unique<comm::Progress>(std::move(communication));
  try {
    const comm::AtWork at_work(*progress_, "the plan of its steps");
    lanes_ = std::make_unique<run::Lanes<Device>>(device_, *progress_, options_.trace, failure);
    start(std::move(source), std::move(held_out));
  } catch (...) {
    // The others wait for a rank that fails alone: they hear why it does not come.
    if (progress_) progress_->give_up(std::current_exception());
    throw;
  }
}

/// Throws OptionError for options that cannot be, before anything is started.
template <class... Policies>
auto Trainer<Policies...>::possible(Options options) -> Options {
  options.validate();
  detail::require_possible(policies, options);
  if constexpr (Swap::offloads_to_host) {
    if (options.swapping) detail::require_schedule_of<Swap>(*options.swapping);
  }
  return options;
}

template <class... Policies>
void Trainer<Policies...>::start(run::Source source, run::Source held_out) {
  if (!source) {
    throw OptionError(
        "reef::Trainer: the source is empty.\n  fix: a function that fills the inputs.");
  }
  state_.seed = options_.seed;
  evaluation_state_.seed = options_.seed;

  std::vector<comm::Alike> mine = detail::alike_of(detail::alike_policies<Optim>(options_), options_);
  mine.push_back(
      {"precision", concat(name_of(element_of<T>), ", gradients ", name_of(element_of<Gradient>))});
  part_with(difference("options", mine, "start every rank with the same options and data, on machines of one kind."));
  if constexpr (nn::host::lacks_blas && Device::on_host && std::is_same_v<Sum, float>) {
    if (rank() == 0) nn::host::tell_that_blas_lacks(model_.dag());
  }
  plan_step();
  variants_ = std::vector<LoadedProgram>(static_cast<std::size_t>(variants(plan_)) - 1);
  std::vector<const schedule::Placement*> placements;
  for (const ProgramKey key : policies.programs_in(plan_)) {
    placements.push_back(&loaded(key).placed.emplace(build(plan_, rank(), key)).placement);
  }
  verify_together();
  if (plan_.adapts && options_.accumulation.order == Accumulation::Order::shared) {
    counter_.emplace(*progress_, "micro-batches");
  }
  arenas_.emplace(device_, placements);
  for (const ProgramKey key : policies.programs_in(plan_)) {
    LoadedProgram& made = loaded(key);
    // A diagnosis gets its executable when there is something to look for.
    if (key.purpose == run::Purpose::diagnosis) continue;
    if (key.purpose != run::Purpose::evaluation) {
      made.executable = make_executable(*made.placed, source, next_micro_batch(), state_);
      if constexpr (Device::on_host) {
        if (options_.paced) made.executable->pace(run::durations(made.placed->program, plan_, *options_.profile));
      }
    } else if (held_out) {
      made.executable = make_executable(*made.placed, std::move(held_out), {}, evaluation_state_);
    }
  }
  source_ = std::move(source);
  model_state_.emplace(plan_, builder(), detail::hooks::state_of<Composition>(builder()), facts_.state, reached_memory(),
                       [this](std::string_view parameter) { weights_were_set(parameter); });
  initialise_weights();
}

/// Each rank proves its own programs, and one of them what those of all ranks show together.
template <class... Policies>
void Trainer<Policies...>::verify_together() {
  std::vector<const run::PlacedProgram*> own;
  for (const ProgramKey key : policies.programs_in(plan_)) own.push_back(&*loaded(key).placed);
  part_with(Training::verify_together(policies, options_, options_.device.memory_bytes, own));
}

/// Every rank is here with the same error: they part in good order, so that all of them tell it. What one rank alone throws, before
/// or here, the others hear of it.
template <class... Policies>
void Trainer<Policies...>::part_with(const std::exception_ptr& error) {
  if (!error) return;
  lanes_.reset();
  progress_.reset();
  std::rethrow_exception(error);
}

template <class... Policies>
auto Trainer<Policies...>::make_executable(const run::PlacedProgram& program, run::Source source,
                                           run::NextMicroBatch next, const run::StepState& state)
    -> std::unique_ptr<Executable> {
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
    detail::add_diagnosis_code(handlers, context, finding_);
  };
  return std::make_unique<Executable>(program, *arenas_, model_, std::move(source), std::move(next),
                                      state, device_, *progress_, *lanes_, options_.serial,
                                      add_code);
}

/// Where a rank decides alone how many it takes: every D_DP-th, or the next of all.
template <class... Policies>
run::NextMicroBatch Trainer<Policies...>::next_micro_batch() {
  if (!plan_.adapts) return {};
  return [this] {
    const std::uint64_t own =
        taken_++ * replicas() + static_cast<std::uint64_t>(plan_.topology.replica_of(rank()));
    const std::uint64_t number = counter_ ? counter_->next() : own;
    numbers_[0].push_back(number);
    return number;
  };
}

/// An update with that rate leaves a weight of 1 finite, with no gradient and with one of 1: so it does not
/// if the rate is no number, or what the rule makes of it is none of the type that is computed in.
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

/// That of the step to come; throws OptionError unless weights may be updated with it.
template <class... Policies>
double Trainer<Policies...>::next_learning_rate() const {
  const double rate = options_.learning_rate.at(state_.committed);
  if (updates_with(rate, state_.committed)) return rate;
  throw OptionError(
      "reef::Trainer::step: the learning rate of the step after ", state_.committed,
      " committed ones is ", rate, ".\n  why: ",
      is_finite(rate) && rate >= 0
          ? "with it and the rule's constants an update makes numbers that are not finite."
          : "a rate is a finite number of 0 or more.",
      "\n  state: nothing of that step has run, and the weights are those of the last committed "
      "step.\n  fix: a LearningRate, or a schedule of one's own, that gives such a number for "
      "every step.");
}

template <class... Policies>
void Trainer<Policies...>::before_step() {
  detail::hooks::before_step<Optim>(*progress_, plan_, options_.optim, state_);
  detail::hooks::before_step<Swap>(*progress_, plan_, options_.swap, state_);
  detail::hooks::before_step<Pipeline>(*progress_, plan_, options_.pipeline, state_);
  detail::hooks::before_step<Compress>(*progress_, plan_, options_.compress, state_);
}

/// Runs a step. Overlapping rounds come after their warm-up, and begin with a gradient. Ranks that step
/// on their own go on with their own weights.
template <class... Policies>
auto Trainer<Policies...>::run_step() -> Executable& {
  if constexpr (overlapping) {
    numbers_[1] = std::exchange(numbers_[0], {});
    if (state_.committed < Optim::warm_up) {
      set_pending(false);
      return perform(run::Purpose::warm_up);
    }
    if (!weights_are_committed) {
      // A rate that the next step will refuse moves no weights ahead either.
      const double next = options_.learning_rate.at(state_.committed + 1);
      state_.next_learning_rate =
          updates_with(next, state_.committed + 1) ? next : state_.learning_rate;
    }
    if (model_state_->ahead_in_buffer()) swap_with_comm_buffer();
    if (!pending()) perform(run::Purpose::prologue);
    model_state_->step_begins();
  }
  if constexpr (periodic) {
    if (model_state_->ahead_in_buffer()) swap_with_comm_buffer();
    model_state_->step_begins();
  }
  Executable& ran = perform({run::Purpose::training, variant()});
  extra_.assign(ran.trip_counts().begin(), ran.trip_counts().end());
  for (int& count : extra_) count *= plan_.micro_batches_of_body(rank());
  return ran;
}

template <class... Policies>
void Trainer<Policies...>::replay(std::vector<int> counts) {
  const int unit = plan_.micro_batches_of_body(rank());
  for (int& count : counts) {
    if (count % unit != 0) {
      throw OptionError("reef::Trainer::replay: ", count, " extra micro-batches in a phase.\n  why: the stages of a "
                        "pipeline take as many again as micro_batches says, here ", unit, ".\n  fix: a multiple of ",
                        unit, ", as extra_micro_batches() gives.");
    }
    count /= unit;
  }
  loaded({}).executable->replay(std::move(counts));
}

template <class... Policies>
void Trainer<Policies...>::gather_committed_weights() {
  const detail::OneThread::Entry entry(one_thread_, "reef::Trainer", "gather_committed_weights");
  if constexpr (!weights_are_committed) {
    if (model_state_->has_committed_weights()) return;
    perform(run::Purpose::gather_committed);
    swap_with_comm_buffer();
  }
}

template <class... Policies>
double Trainer<Policies...>::evaluate(std::int64_t rounds,
                                      const std::function<bool(std::int64_t done)>& proceed) {
  if (!loaded(run::Purpose::evaluation).executable) {
    throw OptionError(
        "reef::Trainer::evaluate: there is no held-out source.\n"
        "  fix: give the constructor one.");
  }
  const detail::OneThread::Entry entry(one_thread_, "reef::Trainer", "evaluate");
  const comm::AtWork at_work(*progress_, "an evaluation");
  gather_committed_weights();
  double weight = 0;
  double loss = 0;
  evaluation_state_.micro_batch = 0;
  evaluation_state_.committed = state_.committed;
  evaluation_state_.ratios = state_.ratios;
  evaluation_state_.chosen = state_.chosen;
  for (std::int64_t round = 0; round < rounds; ++round) {
    if (round > 0 && proceed && !proceed(round)) break;
    const optim::Verdict verdict = verdict_of(perform(run::Purpose::evaluation));
    evaluation_state_.micro_batch += static_cast<std::uint64_t>(plan_.micro_batches_in_all());
    if (verdict.weight == 0) continue;
    weight += verdict.weight;
    loss += product(verdict.weight, verdict.loss);
  }
  return weight > 0 ? loss / weight : std::numeric_limits<double>::quiet_NaN();
}

template <class... Policies>
StepResult Trainer<Policies...>::result_of(const optim::Verdict& verdict, Seconds seconds) const {
  const graph::TensorSpec& input = plan_.dag->tensor_at(plan_.dag->inputs.at(0)).spec;
  const std::uint64_t micro_batches = micro_batches_of(verdict);
  StepResult result;
  result.micro_batches = micro_batches;
  result.step = state_.committed;
  result.loss = verdict.loss;
  result.gradient_norm = verdict.norm;
  result.learning_rate = state_.learning_rate;
  result.samples =
      micro_batches * static_cast<std::uint64_t>(input.shape.rank() == 0 ? 1 : input.shape[0]);
  result.tokens = micro_batches * static_cast<std::uint64_t>(input.shape.size());
  result.seconds = seconds;
  result.committed = verdict.commit || periodic;
  return result;
}

/// Repeats this rank's part of the step, in which every loss and gradient is looked at.
template <class... Policies>
void Trainer<Policies...>::find_not_finite(const run::StepState& before) {
  *finding_ = {};
  const run::PlacedProgram& program = *loaded({run::Purpose::diagnosis}).placed;
  if (!plan_.adapts) {
    make_executable(program, source_, {}, before)->run();
    return;
  }
  // In portions of what the plan has: the pending micro-batches, and all of this round.
  std::vector<std::uint64_t> numbers = std::move(numbers_[1]);
  numbers.insert(numbers.end(), numbers_[0].begin(), numbers_[0].end());
  std::size_t next = 0;
  const auto executable = make_executable(
      program, source_, [&] { return numbers[(std::min)(next++, numbers.size() - 1)]; }, before);
  detail::Finding first;
  while (next < numbers.size()) {
    const auto done = static_cast<int>(next);
    executable->run();
    if (first.use != detail::Finding::nothing || finding_->use == detail::Finding::nothing) continue;
    first = {finding_->use, finding_->micro_batch + done};
    if (plan_.topology.stages == 1) break;  // else the other stages do not know
  }
  *finding_ = first;
}

template <class... Policies>
std::string Trainer<Policies...>::weight_not_finite() {
  gather_committed_weights();
  return first_weight_not_finite();
}

/// All ranks repeat the step; of the lowest replica that finds something the first finding is named. A replica that
/// steps on its own does so alone.
template <class... Policies>
std::string Trainer<Policies...>::diagnose(const optim::Verdict& verdict) {
  const bool weighs = verdict.weight != 0;  // the memory of the step is used again
  run::StepState before = state_;
  before.micro_batch -= micro_batches_of(verdict);
  find_not_finite(before);
  if constexpr (!periodic) model_state_->nothing_is_pending();  // its gradients were the place to look for them
  return describe_not_finite(policies, *finding_, weighs, options_.non_finite);
}

/// A replica that steps on its own is alone with this: the others hear why it does not come.
template <class... Policies>
void Trainer<Policies...>::stop(const std::string& why) {
  if (periodic) progress_->give_up(std::make_exception_ptr(NonFiniteError(why)));
  throw NonFiniteError(why);
}

}  // namespace v0
}  // namespace reef
