#pragma once

#include <algorithm>
#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <reef/comm/at_work.hpp>
#include <reef/comm/gather.hpp>
#include <reef/comm/progress.hpp>
#include <reef/comm/shared_counter.hpp>
#include <reef/compress/dense.hpp>
#include <reef/core/policy.hpp>
#include <reef/core/precision.hpp>
#include <reef/device/host.hpp>
#include <reef/device/sum_of_squares.hpp>
#include <reef/device/transform.hpp>
#include <reef/graph/graph.hpp>
#include <reef/optim/ddp.hpp>
#include <reef/optim/sgd.hpp>
#include <reef/pipeline/single.hpp>
#include <reef/run/chunk_bounds.hpp>
#include <reef/run/costs.hpp>
#include <reef/run/executable.hpp>
#include <reef/run/links.hpp>
#include <reef/run/proof.hpp>
#include <reef/schedule/verify.hpp>
#include <reef/swap/resident.hpp>
#include <reef/trainer/detail/agreement.hpp>
#include <reef/trainer/detail/composition.hpp>
#include <reef/trainer/detail/diagnosis.hpp>
#include <reef/trainer/detail/engine.hpp>
#include <reef/trainer/detail/in_library.hpp>
#include <reef/trainer/detail/policies_of.hpp>
#include <reef/trainer/estimate.hpp>
#include <reef/trainer/options.hpp>
#include <reef/trainer/rules.hpp>
#include <reef/trainer/training.hpp>

namespace reef {
inline namespace v0 {

/// A concept that is satisfied if the policies can be composed to a Trainer; a Trainer of other policies is an error.
template <class... Policies>
concept composable =
    (policy<Policies> && ...) && one_policy_per_axis<Policies...> &&
    rules::all<typename detail::Composition<Policies...>::Swap,
               typename detail::Composition<Policies...>::Pipeline,
               typename detail::Composition<Policies...>::Compress,
               typename detail::Composition<Policies...>::Optim> &&
    rules::gradients_may_round<typename detail::Composition<Policies...>::Precision,
                               typename detail::Composition<Policies...>::Optim> &&
    rules::matrices_on_host<typename detail::Composition<Policies...>::Device,
                            typename detail::Composition<Policies...>::Optim> &&
    detail::composition_has_code<detail::Composition<Policies...>>;

/// A trainer of a model on all ranks of an MPI job, composed of policies in any order.
///
/// \code
/// #include <cstdio>
/// // given: run::Source source
/// const auto model = nn::gpt<device::Host, float>({.layers = 2, .heads = 2, .channels = 64});
/// Trainer<optim::Zero1<optim::AdamW>>::Options options;
/// options.learning_rate = {.peak = 3e-3, .warmup = 10, .steps = 200};
/// Trainer<optim::Zero1<optim::AdamW>> trainer(model, source, options);
/// for (int step = 0; step < 200; ++step) std::printf("loss %.2f\n", trainer.step().loss);
/// \endcode
///
/// A step is a program that the policies write as passes: all reserve storages; the optimizer composes the step, for
/// which pipeline and swap write the model's part; the compressor rewrites transfers. Before the first step, every rank
/// verifies its own programs and compares them with those that the rank ahead of it builds for it; rank 0 verifies
/// the properties that only the programs of all ranks together show.
///
/// | who    | all ranks construct it, call its members in the same order, on one thread at a time, and    |
/// |        | destroy it; one at a time per process; a comm::Environment is alive meanwhile               |
/// | memory | two arenas, allocated once, hold every tensor; a step allocates none                        |
/// | bits   | P ranks give the bits of one process with virtual_ranks = P; threads, transport, tracing,   |
/// |        | resuming and cuts change no bit: without lossy codecs, adaptive counts and DiLoCo, with     |
/// |        | oneDNN or the portable product                                                              |
/// | ranks  | options or weights that must be equal on all ranks and are not: OptionError on all ranks,   |
/// |        | with names, values and ranks, from the constructor or from the first step                   |
/// | errors | OptionError, ScheduleError, MemoryError from the constructor; OptionError from step for a   |
/// |        | learning rate that is not finite or below 0, before any work of the step has run;           |
/// |        | NonFiniteError from step, which has then committed nothing; comm's errors; run::SourceError |
/// |        | or graph::OperatorError for an exception of a source or an operator, which other ranks get  |
/// |        | as MpiError. After comm's and these errors the trainer is unusable                          |
template <class... Policies>
class Trainer : public detail::Engine {
  using Composition = detail::Composition<Policies...>;

public:
  using Swap = typename Composition::Swap;
  using Pipeline = typename Composition::Pipeline;
  using Compress = typename Composition::Compress;
  using Optim = typename Composition::Optim;
  using Device = typename Composition::Device;

  static_assert(swap::SwapPolicy<Swap>, REEF_P5_IS_WHOLE);
  static_assert(pipeline::PipelinePolicy<Pipeline>, REEF_P5_IS_WHOLE);
  static_assert(compress::CompressorPolicy<Compress>, REEF_P5_IS_WHOLE);
  static_assert(optim::OptimizerPolicy<Optim>, REEF_P5_IS_WHOLE);

  using T = typename Composition::Precision::type;  ///< the type of parameters
  using Sum = sum_t<T>;  ///< the type of numbers computed from parameters, of losses, of the optimizer's state
  using Gradient = precision::gradient_t<typename Composition::Precision>;  ///< the type of stored and sent gradients
  using Rule = typename Optim::Rule;
  using Model = graph::Graph<Device, T>;
  using Options = TrainerOptions<Device, Optim, Swap, Pipeline, Compress>;

  static_assert(detail::composition_has_code<Composition>, REEF_P3_BRINGS_CODE);
  static_assert(rules::payload_travels<Compress, Optim>, REEF_R1_PAYLOAD_TRAVELS);
  static_assert(rules::scalars_in_time<Swap, Optim>, REEF_R2_SCALARS_IN_TIME);
  static_assert(rules::supports_offload<Swap, Optim>, REEF_R4_SUPPORTS_OFFLOAD);
  static_assert(rules::updates_in_step<Pipeline, Optim>, REEF_R5_UPDATES_IN_STEP);
  static_assert(rules::matrices_stay_whole<Optim>, REEF_R6_MATRICES_STAY_WHOLE);
  static_assert(rules::matrices_on_host<Device, Optim>, REEF_R7_MATRICES_ON_HOST);
  static_assert(rules::gradients_may_round<typename Composition::Precision, Optim>,
                REEF_R3_GRADIENTS_MAY_ROUND);

  /// Constructs the trainer on all ranks, which all take part. `source` fills training micro-batches; `held_out`, if
  /// given, fills those of evaluate().
  Trainer(Model model, run::Source source, Options options = {}, run::Source held_out = {})
      : Trainer(std::move(model), std::move(source), std::move(options), std::move(held_out),
                static_cast<const comm::Communicator*>(nullptr)) {}

  /// Constructs the trainer on the ranks of a communicator. The communicator must outlive the Trainer: its destructor
  /// calls MPI, which only the progress thread may do meanwhile.
  /// comm::Communicator::alone() is this process by itself, without MPI, and need not outlive the Trainer.
  Trainer(Model model, run::Source source, Options options, run::Source held_out,
          const comm::Communicator& ranks)
      : Trainer(std::move(model), std::move(source), std::move(options), std::move(held_out),
                &ranks) {}

  /// A constructor that is chosen for a model of another device or element type than the Trainer's, and does not
  /// compile: the error explains rule R8.
  template <class OtherDevice, class U, class... Others>
    requires(!std::same_as<graph::Graph<OtherDevice, U>, Model>)
  Trainer(const graph::Graph<OtherDevice, U>& model, run::Source source, Options options = {}, const Others&...)
      : Trainer(refused(model), std::move(source), std::move(options)) {}

  ~Trainer() override { end(); }

  /// Returns the estimate of a step on `rank` of `ranks` without a Trainer: nothing is allocated, started or sent.
  /// `micro_batches`: the number on each rank, if these differ; if it is empty, options.micro_batches.
  static StepEstimate estimate(const Model& model, const Options& options, int ranks = 1,
                               int rank = 0, std::vector<int> micro_batches = {});

  /// Returns the options with the plan for the device written into them: cuts, activations and swap schedule. Options
  /// that are planned once serve estimate(), programs() and trainers, which throw MemoryError on a device with less
  /// memory.
  static Options planned(const Model& model, Options options, int ranks = 1,
                         std::vector<int> micro_batches = {});

  /// Returns the programs of a step on `ranks` ranks, which need not exist, in the form in which they would run: for
  /// schedule::simulate. With a profile in the options, forwards and backwards have its times, and run::machine_of
  /// returns the other speeds. `micro_batches`: as in estimate(). `variant`: the number of the training program (of
  /// DiLoCo, program 0 sends nothing, f + 1 has the outer step of fragment f).
  static std::vector<schedule::Program> programs(const Model& model, const Options& options,
                                                 int ranks, std::vector<int> micro_batches = {},
                                                 int variant = 0);

  /// Returns estimate() for each rank, all with the same options. Every program is built, and its storages are given
  /// addresses in memory, once: so this takes a fraction of the time of estimate() and programs().
  ///
  /// `each(variant, programs, placements)` is called once for each number `variant` of a training program that
  /// programs() takes, with what programs() and schedule::place return for it, both of which it may keep.
  static std::vector<StepEstimate> estimate_all(const Model& model, const Options& options, int ranks,
                                           const detail::EachVariant& each);

  /// Takes one optimizer step on every rank: forward and backward of all micro-batches, the reduction, the update.
  /// Blocks until all ranks have the new weights.
  ///
  ///     Ddp<Rule>:  for each micro-batch j:          Forward(0..S-1, j), Backward(S-1..0, j)
  ///                 for each bucket b, last first:   reduce-scatter, all-gather its gradient,
  ///                                                  during the rest of the last backward
  ///                 for each bucket b:               w = rule(w, clip * sum of g / sum of weights)
  ///
  ///     Acco<Rule>:  for each micro-batch j of phase 1:   g += Forward, Backward at w
  ///                    meanwhile, from the step before:   reduce g~, all-gather w~ = rule(w, mean of g~)
  ///                  for each micro-batch j of phase 2:   g~ += Forward, Backward at w~
  ///                    meanwhile:                         reduce g, all-gather w = rule(w, mean of all)
  ///
  ///     DiLoCo<Rule>:  for each micro-batch j:       Forward, Backward, then w = rule(w, mean of g)
  ///                    now and then, of a fragment:  theta = outer(theta, theta - mean over ranks of w)
  StepResult step() { return Engine::step(); }

  /// Returns the weighted mean loss of the committed weights over `rounds` times this job's micro-batches of the
  /// held-out source, whose samples are counted from 0; NaN if no sample there has a weight. All ranks call it. Gathers
  /// the committed weights and changes nothing else. `proceed`, if given, is called before each later round with
  /// the number of finished rounds, and must return the same on all ranks: false ends the evaluation.
  double evaluate(std::int64_t rounds, const std::function<bool(std::int64_t done)>& proceed = {}) {
    return Engine::evaluate(rounds, proceed);
  }

  /// Returns a text on the first committed weight that is not finite, of the lowest rank that has one: "element 3 of
  /// 'wte.weight' is nan on rank 0"; empty if all weights are finite. All ranks call it, between steps; it gathers the
  /// committed weights.
  std::string weight_not_finite() { return Engine::weight_not_finite(); }

  [[nodiscard]] const Options& options() const { return options_; }
  [[nodiscard]] const Model& model() const { return model_; }
  /// Returns the program (list of instructions) of this rank for a step, or for another purpose, such as an evaluation.
  [[nodiscard]] const schedule::Program& program(run::Purpose purpose = run::Purpose::training,
                                                 int variant = 0) const {
    return Engine::program(purpose, variant);
  }
  /// Returns the number of the training program that the next step runs, where several take turns (DiLoCo).
  [[nodiscard]] int variant() const { return Engine::variant(); }
  /// Returns the messages that this rank has sent in steps and evaluations so far, and the time for which its
  /// computation stood still for messages, by link and sort of message. The figures of one step are the difference of
  /// two tables. The loss of precision by codecs is measured if options.compress.watch is set. Any rank may call it,
  /// between steps.
  ///
  /// | counted | every message by its sender, as comm::Meter does; messages that are sent outside of programs, such |
  /// |         | as those of checkpoints, are not counted                                                           |
  [[nodiscard]] run::LinkTable links() const { return Engine::links(); }
  [[nodiscard]] Device& device() { return device_; }

  /// Returns the weights of a parameter that this rank's stage uses; set_parameter() sets them. All ranks must set the
  /// same values, between steps: the next step compares checksums, and throws OptionError on all ranks, with the
  /// parameter's name, if they differ. In bf16, parameter() returns the rounded weights, with which the model computes;
  /// set_parameter() sets these and the master weights, which are not rounded. Throws OptionError if the committed
  /// weights are on their owners alone: call gather_committed_weights() first. For a parameter that this rank's stage
  /// does not use, parameter() throws OptionError, and set_parameter() sets nothing.
  [[nodiscard]] std::vector<Sum> parameter(std::string_view name);
  /// Returns the weights of a parameter of any stage on every rank: with several stages, an owner sends them. All ranks
  /// call it.
  [[nodiscard]] std::vector<Sum> gather_parameter(std::string_view name);
  void set_parameter(std::string_view name, std::span<const Sum> values);
  /// Sets some elements of a parameter's weights, from element `first` on.
  void set_parameter(std::string_view name, std::int64_t first, std::span<const Sum> values);

  /// Returns the numbers of a range of the optimizer's state; throws OptionError unless the range is of type Sum.
  [[nodiscard]] std::vector<Sum> state(const StateRange& range) {
    if (range.element != element_of<Sum>) {
      throw OptionError("reef::Trainer::state: '", range.name, "' is of type ",
                        name_of(range.element), ".\n  fix: state_bytes.");
    }
    std::vector<Sum> values(static_cast<std::size_t>(range.elements));
    const auto room = std::as_writable_bytes(std::span(values));
    const auto bytes = state_bytes(range, 0, room);
    if (bytes.data() != room.data()) std::copy(bytes.begin(), bytes.end(), room.begin());
    return values;
  }

  /// Returns the numbers of extra micro-batches that this rank ran in the accumulation phases of the last step, if
  /// accumulation adapts; replay() sets those of the next step, however long it communicates. The same numbers on all
  /// ranks reproduce the same bits. The stages of a replica have the same numbers, multiples of its micro_batches.
  [[nodiscard]] std::span<const int> extra_micro_batches() const { return Engine::extra_micro_batches(); }
  void replay(std::vector<int> counts) { Engine::replay(std::move(counts)); }

private:
  using PolicyTable = detail::PoliciesOf<Composition, Options>;

  static constexpr PolicyFacts facts_of_composition{
      Optim::name,
      Rule::name,
      optim::rule_count<Rule>,
      PolicyTable::periodic,
      PolicyTable::counts_micro_batches,
      {element_of<T>, element_of<Sum>, PolicyTable::weights_are_committed}};

  Trainer(Model model, run::Source source, Options options, run::Source held_out,
          const comm::Communicator* ranks);

  template <class Other>
  static Model refused(const Other&) {
    static_assert(rules::model_is_of<Other, Device, T>, REEF_R8_MODEL_IS_OF);
    return Model();
  }
  static Options validated(Options options);
  Options agreed_options();

  // The parts of an engine's work that depend on policies, device and types.
  [[nodiscard]] const TrainerSettings& settings() const override { return options_; }
  [[nodiscard]] std::vector<comm::SharedFact> alike() const override;
  [[nodiscard]] run::StepPlan agreed_plan() override;
  [[nodiscard]] std::unique_ptr<run::Executable> load(const run::PlacedProgram& program, run::Source source,
                                                      run::NextMicroBatch next, const run::StepState& state) override;
  void before_step() override;
  [[nodiscard]] bool updates_with(double learning_rate, std::int64_t committed) const override;
  void exchange(device::AnyLane& lane, void* weights, void* others, std::int64_t elements) override;

  Options options_;
  Device device_;
  Model model_;
};

}  // namespace v0
}  // namespace reef

#include <reef/trainer/detail/plans.hpp>
#include <reef/trainer/detail/trainer.hpp>
#include <reef/trainer/detail/weights.hpp>
