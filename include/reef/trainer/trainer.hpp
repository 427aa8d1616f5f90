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

/// True if the policies can make a Trainer together: the question without the error.
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

/// Trains a model on all ranks of an MPI job; composed of policies, in any order.
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
/// verifies its own programs and compares them with those that the rank ahead of it builds for it; one rank verifies
/// what only the programs of all ranks show together.
///
/// | who    | all ranks construct it, call its members in the same order, on one thread at a time, and    |
/// |        | destroy it; one at a time per process; a comm::Environment is alive meanwhile               |
/// | memory | two arenas, allocated once, hold every tensor; a step allocates none                        |
/// | bits   | P ranks give those of one process with virtual_ranks = P; threads, transport, tracing,      |
/// |        | resuming and cuts change none                                                               |
/// | ranks  | what differs between them and must not is an OptionError of all, with names, values and     |
/// |        | ranks: options from the constructor, weights from the first step                            |
/// | errors | OptionError, ScheduleError, MemoryError from the constructor; OptionError from step for a   |
/// |        | learning rate that is no finite number of 0 or more, before anything of the step has run;   |
/// |        | NonFiniteError from step, which has then committed nothing; comm's errors, and of what a    |
/// |        | source or an operator throws run::SourceError or graph::OperatorError, of which the other   |
/// |        | ranks hear as MpiError: after these it is unusable                                          |
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

  using T = typename Composition::Precision::type;  ///< type of parameters
  using Sum = sum_t<T>;  ///< type of numbers computed from parameters, of losses, of the optimizer's state
  using Gradient = precision::gradient_t<typename Composition::Precision>;  ///< type of gradients, kept and sent
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

  /// Refuses a model of another device or element type: rule R8.
  template <class OtherDevice, class U, class... Others>
    requires(!std::same_as<graph::Graph<OtherDevice, U>, Model>)
  Trainer(const graph::Graph<OtherDevice, U>& model, run::Source source, Options options = {}, const Others&...)
      : Trainer(refused(model), std::move(source), std::move(options)) {}

  ~Trainer() override { end(); }

  /// Returns the estimate of a step on `rank` of `ranks`, before there is a Trainer: nothing is allocated, started or
  /// sent. `micro_batches`: the number on each rank, where they differ; else that of the options.
  static StepEstimate estimate(const Model& model, const Options& options, int ranks = 1,
                               int rank = 0, std::vector<int> micro_batches = {});

  /// Returns the options with the plan for the device written into them: cuts, activations and swap schedule. Planned
  /// once, these options serve estimate(), programs() and trainers; on a device with less memory these functions say
  /// how much is missing.
  static Options planned(const Model& model, Options options, int ranks = 1,
                         std::vector<int> micro_batches = {});

  /// Returns the programs of a step on `ranks` ranks, as they would be run: for schedule::simulate, of ranks that need
  /// not exist. With a profile in the options, forwards and backwards have its times, and run::machine_of gives the
  /// other speeds. `micro_batches`: as in estimate(). `variant`: which of the training programs (DiLoCo: 0 sends
  /// nothing, f + 1 takes the outer step of fragment f).
  static std::vector<schedule::Program> programs(const Model& model, const Options& options,
                                                 int ranks, std::vector<int> micro_batches = {},
                                                 int variant = 0);

  /// Returns estimate() of each rank, and hands out the programs to simulate, with the options of all: each program is
  /// built and placed once, so this takes a fraction of the time of estimate() and programs().
  ///
  /// `each(variant, programs, placements)` is called for one variant after the other with the result of programs() and
  /// the placements of schedule::place, both of which it may keep.
  static std::vector<StepEstimate> foresee(const Model& model, const Options& options, int ranks,
                                           const detail::EachVariant& each);

  /// Takes one optimizer step on every rank: forward and backward of all micro-batches, the reduction, the update.
  /// Blocks until all ranks have the new weights.
  ///
  ///     Ddp<Rule>:  for each micro-batch j:          Forward(0..S-1, j), Backward(S-1..0, j)
  ///                 for each bucket b, last first:   reduce-scatter, all-gather its gradient,
  ///                                                  under what is left of the last backward
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
  /// the committed weights and changes nothing else. `proceed`, where given, is asked before each round but the first
  /// with the number of rounds done, and returns the same on all ranks: false ends the evaluation there.
  double evaluate(std::int64_t rounds, const std::function<bool(std::int64_t done)>& proceed = {}) {
    return Engine::evaluate(rounds, proceed);
  }

  /// Returns which committed weight is not finite, the first that the lowest rank finds: "element 3 of 'wte.weight' is
  /// nan on rank 0"; empty if all weights are finite. All ranks call it, between steps; it gathers the committed
  /// weights.
  std::string weight_not_finite() { return Engine::weight_not_finite(); }

  [[nodiscard]] const Options& options() const { return options_; }
  [[nodiscard]] const Model& model() const { return model_; }
  /// Returns the program of this rank for a step, or for another purpose that the composition has.
  [[nodiscard]] const schedule::Program& program(run::Purpose purpose = run::Purpose::training,
                                                 int variant = 0) const {
    return Engine::program(purpose, variant);
  }
  /// Returns the variant of the training program that the next step runs.
  [[nodiscard]] int variant() const { return Engine::variant(); }
  /// Returns what this rank's programs have sent so far, evaluations included, and how long its computation has stood
  /// still for messages: by link and sort of traffic. The figures of one step are the difference of two tables. The
  /// loss of codecs is measured where options.compress.watch asks for it. Each rank calls it on its own, between steps.
  ///
  /// | counted | every message where it is made, as comm::Meter does: what is sent by others than programs, such as
  /// |         | checkpoints, is not in it                                                                          |
  [[nodiscard]] run::LinkTable links() const { return Engine::links(); }
  [[nodiscard]] Device& device() { return device_; }

  /// Copies a parameter of this rank out, or in. All ranks set the same values, between steps: the next step compares
  /// checksums, and throws OptionError on all ranks, with the parameter's name, where they differ. In bf16, parameter()
  /// returns the rounded weights, with which the model computes; set_parameter() sets these and the master weights,
  /// which are not rounded. Throws OptionError where the committed weights are on their owners alone: call
  /// gather_committed_weights() first. For a parameter that this rank's stage does not use, parameter() throws
  /// OptionError, and set_parameter() sets nothing.
  [[nodiscard]] std::vector<Sum> parameter(std::string_view name);
  /// Returns any parameter on every rank; with stages, it is sent by a rank that owns it. All ranks call it.
  [[nodiscard]] std::vector<Sum> gather_parameter(std::string_view name);
  void set_parameter(std::string_view name, std::span<const Sum> values);
  /// Sets some elements of a parameter, from `first` on.
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

  /// Returns the numbers of extra micro-batches in the phases of the last step, where accumulation adapts; replay()
  /// fixes those of the next step, however long it communicates. The same counts on all ranks give the same bits again.
  /// The stages of a replica have the same counts, multiples of its micro_batches.
  [[nodiscard]] std::span<const int> extra_micro_batches() const { return Engine::extra_micro_batches(); }
  void replay(std::vector<int> counts) { Engine::replay(std::move(counts)); }

private:
  using PolicyTable = detail::PoliciesOf<Composition, Options>;

  static constexpr Facts facts_of_composition{Optim::name, Rule::name, optim::rule_count<Rule>, PolicyTable::periodic,
                                              {element_of<T>, element_of<Sum>, PolicyTable::weights_are_committed}};

  Trainer(Model model, run::Source source, Options options, run::Source held_out,
          const comm::Communicator* ranks);

  template <class Other>
  static Model refused(const Other&) {
    static_assert(rules::model_is_of<Other, Device, T>, REEF_R8_MODEL_IS_OF);
    return Model();
  }
  static Options possible(Options options);
  Options agreed_options();

  // The parts of an engine's work that depend on policies, device and types.
  [[nodiscard]] const TrainerSettings& settings() const override { return options_; }
  [[nodiscard]] std::vector<comm::Alike> alike() const override;
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
