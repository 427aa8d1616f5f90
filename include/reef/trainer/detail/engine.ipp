#pragma once

#include <algorithm>
#include <limits>
#include <thread>
#include <utility>

#include <reef/comm/at_work.hpp>
#include <reef/comm/progress.hpp>
#include <reef/core/error.hpp>
#include <reef/core/inline.hpp>
#include <reef/core/product.hpp>
#include <reef/core/random.hpp>
#include <reef/core/text.hpp>
#include <reef/graph/dag.hpp>
#include <reef/run/costs.hpp>
#include <reef/trace/span.hpp>
#include <reef/trainer/detail/engine.hpp>

namespace reef {
inline namespace v0 {
namespace detail {

REEF_INLINE const optim::Verdict& verdict_of(const run::Executable& executable) {
  return *executable.memory().at<const optim::Verdict>(executable.context().builder.verdict);
}

REEF_INLINE Engine::Engine(const PolicyFacts& facts, const Policies& policies) : Training(facts), policies_(policies) {}

REEF_INLINE Engine::~Engine() = default;

REEF_INLINE void Engine::begin(const comm::Communicator* ranks, std::unique_ptr<device::AnyDevice> device,
                               run::Source source, run::Source held_out) {
  comm::ProgressOptions communication = settings().communication;
  communication.trace = settings().trace;
  const auto failure = std::make_shared<run::FailureSwitch>();
  communication.on_failure = [failure, told = communication.on_failure](const std::string& text) {
    if (told) told(text);
    failure->trip();
  };
  progress_ = ranks != nullptr ? std::make_unique<comm::Progress>(*ranks, std::move(communication))
                               : std::make_unique<comm::Progress>(std::move(communication));
  try {
    const comm::AtWork at_work(*progress_, "the plan of its steps");
    lanes_ = std::make_unique<run::Lanes>(std::move(device), *progress_, settings().trace, failure);
    start(std::move(source), std::move(held_out));
  } catch (...) {
    // The others wait for a rank that fails alone: they hear why it does not come.
    if (progress_) progress_->give_up(std::current_exception());
    end();
    throw;
  }
}

REEF_INLINE void Engine::end() {
  variants_.clear();
  for (LoadedProgram& program : programs_) program.executable.reset();
  arenas_.reset();
  lanes_.reset();
}

REEF_INLINE void Engine::start(run::Source source, run::Source held_out) {
  if (!source) {
    throw OptionError("reef::Trainer: the source is empty.\n  fix: a function that fills the inputs.");
  }
  state_.seed = settings().seed;
  evaluation_state_.seed = settings().seed;
  part_with(
      difference("options", alike(), "start every rank with the same options and data, on machines of one kind."));
  plan_ = agreed_plan();
  variants_ = std::vector<LoadedProgram>(static_cast<std::size_t>(policies_.variants(plan_)) - 1);
  for (const ProgramKey key : policies_.programs_in(plan_))
    loaded_program(key).placed.emplace(policies_.build(plan_, rank(), key));
  verify_together();
  if (plan_.adapts && settings().accumulation.order == Accumulation::Order::shared) {
    counter_.emplace(*progress_, "micro-batches");
  }
  load_programs(std::move(source), std::move(held_out));
  model_state_.emplace(plan_, builder(), policies_.state(builder()), facts_.state, reached_memory(),
                       [this](std::string_view parameter) { weights_were_set(parameter); });
  initialise_weights();
}

REEF_INLINE void Engine::load_programs(run::Source source, run::Source held_out) {
  std::vector<const schedule::Placement*> placements;
  for (const ProgramKey key : policies_.programs_in(plan_))
    placements.push_back(&loaded_program(key).placed->placement);
  arenas_.emplace(*lanes_->any_device, placements);
  for (const ProgramKey key : policies_.programs_in(plan_)) {
    LoadedProgram& made = loaded_program(key);
    // A diagnosis gets its executable when there is something to look for.
    if (key.purpose == run::Purpose::diagnosis) continue;
    if (key.purpose != run::Purpose::evaluation) {
      made.executable = load(*made.placed, source, next_micro_batch(), state_);
      if (settings().paced) {
        made.executable->pace(run::durations(made.placed->program, plan_, *settings().profile));
      }
    } else if (held_out) {
      made.executable = load(*made.placed, std::move(held_out), {}, evaluation_state_);
    }
  }
  source_ = std::move(source);
}

/// Each rank proves its own programs, and one of them what those of all ranks show together.
REEF_INLINE void Engine::verify_together() {
  std::vector<const run::PlacedProgram*> own;
  for (const ProgramKey key : policies_.programs_in(plan_)) own.push_back(&*loaded_program(key).placed);
  part_with(Training::verify_together(policies_, settings(), policies_.device(settings()).memory_bytes, own));
}

/// Throws an error that all ranks have, after their Progress objects have ended in good order, so that each reports it.
REEF_INLINE void Engine::part_with(const std::exception_ptr& error) {
  if (!error) return;
  lanes_.reset();
  progress_.reset();
  std::rethrow_exception(error);
}

/// Where a rank decides alone which it takes: what the settings say, every D_DP-th, or the next of all.
REEF_INLINE run::NextMicroBatch Engine::next_micro_batch() {
  if (!chooses_numbers() || policies_.counts_micro_batches) return {};
  return [this] {
    const std::uint64_t own =
        taken_++ * replicas() + static_cast<std::uint64_t>(plan_.topology.replica_of(rank()));
    const auto& given = settings().next_micro_batch;
    return numbers_[0].emplace_back(given ? given() : counter_ ? counter_->next() : own);
  };
}

/// A parameter's initial values depend on their indices alone. So they are made piece by piece,
/// which takes little memory, and threads share each piece.
REEF_INLINE void Engine::initialise_weights() {
  for (std::size_t p = 0; p < plan_.dag->parameters.size(); ++p) {
    if (!model_state_->holds(p)) continue;
    if (sum_of(plan_.dag->element) == Element::float64) {
      initialise<double>(p);
    } else {
      initialise<float>(p);
    }
  }
}

template <class Sum>
void Engine::initialise(std::size_t p) {
  const graph::Parameter& parameter = plan_.dag->parameters[p];
  const DrawKey key{settings().seed, 0, 0, static_cast<std::uint32_t>(p)};
  const std::int64_t size = parameter.spec.shape.size();
  std::vector<Sum> values;
  for (std::int64_t begin = 0; begin < size; begin += staged_elements) {
    const std::int64_t count = (std::min)(staged_elements, size - begin);
    const std::int64_t parts = std::clamp<std::int64_t>(count >> 16, 1, lanes_->any_device->threads());
    values.resize(static_cast<std::size_t>(count));
    {
      std::vector<std::jthread> threads;
      const auto make = [&](std::int64_t part) {
        const std::int64_t first = count * part / parts;
        graph::initialise(parameter, key, values.data() + first, begin + first,
                          begin + count * (part + 1) / parts);
      };
      for (std::int64_t part = 1; part < parts; ++part) threads.emplace_back(make, part);
      make(0);
    }
    model_state_->set_weights(parameter.name, begin, std::as_bytes(std::span(values)), element_of<Sum>);
  }
}

/// How ModelState reaches the memory of the training program.
REEF_INLINE ModelState::Memory Engine::reached_memory() {
  ModelState::Memory reached;
  reached.at = [this](run::StorageId storage) { return memory().at<std::byte>(storage); };
  reached.on_host = [this](run::StorageId storage) {
    return !lanes_->any_device->discrete() || builder().program.storages[storage].place == schedule::Place::host;
  };
  reached.copy = [this](void* to, const void* from, Bytes bytes, device::Copy direction) {
    compute_lane().submit([=](device::AnyLane& self) { self.copy(to, from, bytes, direction); });
    compute_lane().synchronize();
  };
  return reached;
}

/// The model's weights and those in builder.comm_buffer and tied_buffer change places.
REEF_INLINE void Engine::swap_with_comm_buffer() {
  const auto swap = [&](run::StorageId weights, run::StorageId buffer, std::int64_t elements) {
    exchange(compute_lane(), memory().at(weights), memory().at(buffer), elements);
  };
  for (const std::size_t b : builder().stage_buckets()) {
    swap(builder().weights[b], builder().comm_buffer[b], plan_.buckets[b].size());
  }
  for (std::size_t p = 0; p < plan_.dag->parameters.size(); ++p) {
    if (builder().tied_weights[p] == run::no_storage) continue;
    swap(builder().tied_weights[p], builder().tied_buffer[p],
         plan_.dag->parameters[p].spec.shape.size());
  }
  compute_lane().synchronize();
  model_state_->buffers_were_swapped();
}

REEF_INLINE StepResult Engine::step() {
  const OneThread::Entry entry(one_thread_, "reef::Trainer", "step");
  const comm::AtWork at_work(*progress_, concat("step ", state_.committed + 1));
  if (!same_weights_) require_same_weights();
  before_step();
  const Seconds begin = trace::now();
  state_.learning_rate = next_learning_rate();
  const run::Executable& ran = run_step();
  const optim::Verdict& verdict = verdict_of(ran);
  state_.micro_batch += micro_batches_of(verdict);
  if (verdict.commit || policies_.periodic) {
    ++state_.committed;
    state_.updates += plan_.weight_versions.updates(plan_.micro_batches.front());
  }
  StepResult result = result_of(verdict, trace::now() - begin);
  if (settings().after_update && result.committed) settings().after_update(state_.committed, *model_state_);
  if (verdict.finite || verdict.commit) return result;
  result.not_finite = diagnose(verdict);
  if (settings().non_finite == optim::NonFinite::stop) stop(result.not_finite);
  return result;
}

REEF_INLINE run::Executable& Engine::run_program(ProgramKey key) {
  loaded_program(key).executable->run();
  return *loaded_program(key).executable;
}

/// Runs a step. Overlapping rounds come after their warm-up, and begin with a gradient. Ranks that step
/// on their own go on with their own weights.
REEF_INLINE run::Executable& Engine::run_step() {
  const ProgramKey next = policies_.next_program(plan_, state_);
  numbers_[1] = std::exchange(numbers_[0], {});
  if (!policies_.overlapping) numbers_[1].clear();
  if (next.purpose == run::Purpose::warm_up) {
    set_pending(false);
    return run_program(next);
  }
  if (policies_.overlapping || policies_.periodic) begin_ahead();
  run::Executable& ran = run_program(next);
  extra_.assign(ran.trip_counts().begin(), ran.trip_counts().end());
  for (int& count : extra_) count *= plan_.micro_batches_of_body(rank());
  if (policies_.counts_micro_batches) numbers_[0] = ran.context().given();
  return ran;
}

/// Puts the weights ahead in place, and computes the pending gradient, with which an overlapping round begins.
REEF_INLINE void Engine::begin_ahead() {
  if (policies_.overlapping && !policies_.weights_are_committed) {
    // A rate that the next step will refuse moves no weights ahead either.
    const double next = settings().learning_rate.at(state_.committed + 1);
    state_.next_learning_rate = updates_with(next, state_.committed + 1) ? next : state_.learning_rate;
  }
  if (model_state_->ahead_in_buffer()) swap_with_comm_buffer();
  if (policies_.overlapping && !pending()) run_program({run::Purpose::prologue});
  model_state_->step_begins();
}

/// That of the step to come; throws OptionError unless weights may be updated with it.
REEF_INLINE double Engine::next_learning_rate() const {
  const double rate = settings().learning_rate.at(state_.committed);
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

REEF_INLINE std::uint64_t Engine::micro_batches_of(const optim::Verdict& verdict) const {
  return static_cast<std::uint64_t>(policies_.periodic ? plan_.micro_batches_of_step() : verdict.micro_batches);
}

REEF_INLINE StepResult Engine::result_of(const optim::Verdict& verdict, Seconds seconds) const {
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
  result.committed = verdict.commit || policies_.periodic;
  return result;
}

REEF_INLINE void Engine::gather_committed_weights() {
  const OneThread::Entry entry(one_thread_, "reef::Trainer", "gather_committed_weights");
  if (policies_.weights_are_committed || model_state_->has_committed_weights()) return;
  run_program({run::Purpose::gather_committed});
  swap_with_comm_buffer();
}

REEF_INLINE double Engine::evaluate(std::int64_t rounds, const std::function<bool(std::int64_t done)>& proceed) {
  if (!loaded_program({run::Purpose::evaluation}).executable) {
    throw OptionError("reef::Trainer::evaluate: there is no held-out source.\n  fix: give the constructor one.");
  }
  const OneThread::Entry entry(one_thread_, "reef::Trainer", "evaluate");
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
    const optim::Verdict verdict = verdict_of(run_program({run::Purpose::evaluation}));
    evaluation_state_.micro_batch += static_cast<std::uint64_t>(plan_.micro_batches_in_all());
    if (verdict.weight == 0) continue;
    weight += verdict.weight;
    loss += product(verdict.weight, verdict.loss);
  }
  return weight > 0 ? loss / weight : std::numeric_limits<double>::quiet_NaN();
}

REEF_INLINE std::string Engine::weight_not_finite() {
  gather_committed_weights();
  return first_weight_not_finite();
}

REEF_INLINE const schedule::Program& Engine::program(run::Purpose purpose, int variant) const& {
  return loaded_program({purpose, variant}).placed->program;
}

REEF_INLINE int Engine::variant() const { return policies_.next_program(plan_, state_).variant; }

REEF_INLINE run::LinkTable Engine::links() const {
  run::LinkTable table;
  const auto add = [&](const LoadedProgram& program) {
    if (program.executable) program.executable->add_to(table);
  };
  std::for_each(programs_.begin(), programs_.end(), add);
  std::for_each(variants_.begin(), variants_.end(), add);
  return table;
}

REEF_INLINE void Engine::replay(std::vector<int> counts) {
  const int unit = plan_.micro_batches_of_body(rank());
  for (int& count : counts) {
    if (count % unit != 0) {
      throw OptionError("reef::Trainer::replay: ", count, " extra micro-batches in a phase.\n  why: the stages of a "
                        "pipeline take as many again as micro_batches says, here ", unit, ".\n  fix: a multiple of ",
                        unit, ", as extra_micro_batches() gives.");
    }
    count /= unit;
  }
  loaded_program({}).executable->replay(std::move(counts));
}

/// Repeats this rank's part of the step, in which every loss and gradient is looked at.
REEF_INLINE void Engine::find_not_finite(const run::StepState& before) {
  *finding_ = {};
  const run::PlacedProgram& program = *loaded_program({run::Purpose::diagnosis}).placed;
  if (!chooses_numbers()) return load(program, source_, {}, before)->run();
  // In portions of what the plan has: the pending micro-batches, and all of this round.
  std::vector<std::uint64_t> numbers = std::move(numbers_[1]);
  numbers.insert(numbers.end(), numbers_[0].begin(), numbers_[0].end());
  std::size_t next = 0;
  const auto number = [&] { return numbers[(std::min)(next++, numbers.size() - 1)]; };
  const auto executable = load(program, source_, number, before);
  Finding first;
  while (next < numbers.size()) {
    const auto done = static_cast<int>(next);
    executable->run();
    if (first.use != Finding::nothing || finding_->use == Finding::nothing) continue;
    first = {finding_->use, finding_->micro_batch + done};
    if (plan_.topology.stages == 1) break;  // else the other stages do not know
  }
  *finding_ = first;
}

/// All ranks repeat the step; of the lowest replica that finds something the first finding is named. A replica that
/// steps on its own does so alone.
REEF_INLINE std::string Engine::diagnose(const optim::Verdict& verdict) {
  const bool weighs = verdict.weight != 0;  // the memory of the step is used again
  run::StepState before = state_;
  before.micro_batch -= micro_batches_of(verdict);
  find_not_finite(before);
  if (!policies_.periodic) model_state_->nothing_is_pending();  // its gradients were the place to look for them
  return describe_not_finite(policies_, *finding_, weighs, settings().non_finite);
}

/// A replica that steps on its own is alone with this: the others hear why it does not come.
REEF_INLINE void Engine::stop(const std::string& why) {
  if (policies_.periodic) progress_->give_up(std::make_exception_ptr(NonFiniteError(why)));
  throw NonFiniteError(why);
}

}  // namespace detail
}  // namespace v0
}  // namespace reef
