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
#include <reef/nn/host.hpp>
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
#include <reef/trainer/detail/diagnosis.hpp>
#include <reef/trainer/detail/in_library.hpp>
#include <reef/trainer/detail/policies.hpp>
#include <reef/trainer/estimate.hpp>
#include <reef/trainer/options.hpp>
#include <reef/trainer/rules.hpp>
#include <reef/trainer/training.hpp>

namespace reef {
inline namespace v0 {

namespace detail {

/// The policies of a Trainer by axis, the neutral element where none is given.
template <class... Policies>
struct Composition {
  using Pack = PolicyPack<Policies...>;
  using Swap = typename Pack::template get<SwapTag, swap::Resident>;
  using Pipeline = typename Pack::template get<PipelineTag, pipeline::Single>;
  using Compress = typename Pack::template get<CompressTag, compress::Dense>;
  using Optim = typename Pack::template get<OptimTag, optim::Ddp<optim::Sgd>>;
  using Device = typename Pack::template get<DeviceTag, device::Host>;
  using Precision = typename Pack::template get<PrecisionTag, precision::Fp32>;
};

template <class C>
concept composition_has_code =
    optim::brings_code<typename C::Optim, run::Handlers<typename C::Device>,
                       run::RankContext<typename C::Device, typename C::Precision::type,
                                        precision::gradient_t<typename C::Precision>>>;

}  // namespace detail

/// The policies can make a Trainer together: the question without the error.
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

/// Trains a model on all ranks of an MPI job, composed of policies in any order.
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
/// A step is a program that the policies have written as passes: all reserve; the optimizer composes the
/// step, for which pipeline and swap write the model's part; the compressor rewrites transfers. Before the first,
/// every rank verifies its own programs and compares them with what the rank ahead of it builds of it; one of them
/// verifies what those of all ranks show together.
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
class Trainer : public Training {
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

  using T = typename Composition::Precision::type;  ///< of parameters
  using Sum = sum_t<T>;  ///< of what is computed from them, of losses, of the optimizer's state
  using Gradient = precision::gradient_t<typename Composition::Precision>;  ///< as kept and sent
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

  /// `source` fills training micro-batches; `held_out`, if given, those that evaluate() asks for.
  /// All ranks take part.
  Trainer(Model model, run::Source source, Options options = {}, run::Source held_out = {})
      : Trainer(std::move(model), std::move(source), std::move(options), std::move(held_out),
                static_cast<const comm::Communicator*>(nullptr)) {}

  /// The ranks of a communicator take part. It must outlive the Trainer: its destructor calls MPI, which only the
  /// progress thread may do meanwhile.
  Trainer(Model model, run::Source source, Options options, run::Source held_out,
          const comm::Communicator& ranks)
      : Trainer(std::move(model), std::move(source), std::move(options), std::move(held_out),
                &ranks) {}

  /// A model that is none of these: rule R8.
  template <class OtherDevice, class U, class... Others>
    requires(!std::same_as<graph::Graph<OtherDevice, U>, Model>)
  Trainer(const graph::Graph<OtherDevice, U>& model, run::Source source, Options options = {}, const Others&...)
      : Trainer(refused(model), std::move(source), std::move(options)) {}

  /// What a step takes on `rank` of `ranks`, before there is a Trainer: nothing is allocated, started
  /// or sent. micro_batches: of each rank, where they differ; else that of the options.
  static StepEstimate estimate(const Model& model, const Options& options, int ranks = 1,
                               int rank = 0, std::vector<int> micro_batches = {});

  /// The options with the plan for the device written into them: cuts, activations and swap schedule. Planned
  /// once, they serve estimate(), programs() and trainers; on a device with less memory these say what it lacks.
  static Options planned(const Model& model, Options options, int ranks = 1,
                         std::vector<int> micro_batches = {});

  /// The programs of a step on `ranks` ranks, as they would be run: for schedule::simulate, of ranks that need
  /// not exist. With a profile in the options, forwards and backwards have its times, and
  /// run::machine_of gives the other speeds. micro_batches as in estimate; variant:
  /// which of the programs of training (DiLoCo: 0 sends nothing, f + 1 takes the outer step of
  /// fragment f).
  static std::vector<schedule::Program> programs(const Model& model, const Options& options,
                                                 int ranks, std::vector<int> micro_batches = {},
                                                 int variant = 0);

  /// estimate() of each rank, and what there is to simulate, with the options of all: each program is built and placed
  /// once, so this takes a fraction of the time of estimate() and programs().
  ///
  /// `each(variant, programs, placements)`: is called for one variant after the other with programs() and where
  /// schedule::place puts their storages, which it may keep: they are its own.
  static std::vector<StepEstimate> foresee(const Model& model, const Options& options, int ranks,
                                           const detail::EachVariant& each);

  /// One optimizer step on every rank: forward and backward of all micro-batches, the reduction, the
  /// update. Blocks until all ranks have the new weights.
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
  StepResult step() {
    const detail::OneThread::Entry entry(one_thread_, "reef::Trainer", "step");
    const comm::AtWork at_work(*progress_, concat("step ", state_.committed + 1));
    if (!same_weights_) require_same_weights();
    before_step();
    const Seconds begin = trace::now();
    state_.learning_rate = next_learning_rate();
    const Executable& ran = run_step();
    const optim::Verdict& verdict = verdict_of(ran);
    state_.micro_batch += micro_batches_of(verdict);
    if (verdict.commit || periodic) {
      ++state_.committed;
      state_.updates += plan_.weight_versions.updates(plan_.micro_batches.front());
    }
    StepResult result = result_of(verdict, trace::now() - begin);
    if (options_.after_update && result.committed) options_.after_update(state_.committed, *model_state_);
    if (verdict.finite || verdict.commit) return result;
    result.not_finite = diagnose(verdict);
    if (options_.non_finite == optim::NonFinite::stop) stop(result.not_finite);
    return result;
  }

  void gather_committed_weights() override;

  /// The weighted mean loss of the committed weights over `rounds` times this job's micro-batches of
  /// the held-out source, whose samples are counted from 0. All ranks. Changes nothing but that it
  /// gathers the committed weights. NaN if nothing there has a weight. `proceed`, where given, is
  /// asked before each round but the first with how many are done, and says the same on all ranks:
  /// false ends it there.
  double evaluate(std::int64_t rounds, const std::function<bool(std::int64_t done)>& proceed = {});

  /// Which of the committed weights is not finite, the first that the lowest rank finds: "element 3 of
  /// 'wte.weight' is nan on rank 0"; empty if all are. All ranks, between steps; it gathers the
  /// committed weights.
  std::string weight_not_finite();

  [[nodiscard]] const Options& options() const { return options_; }
  [[nodiscard]] const Model& model() const { return model_; }
  /// What this rank does in a step, or for another purpose that the composition has.
  [[nodiscard]] const schedule::Program& program(run::Purpose purpose = run::Purpose::training,
                                                 int variant = 0) const {
    return loaded({purpose, variant}).placed->program;
  }
  /// The variant of the training program that the next step runs.
  [[nodiscard]] int variant() const {
    if constexpr (periodic) return Optim::variant_after(plan_, state_.began, state_.committed);
    return 0;
  }
  /// What this rank has sent by its programs so far, evaluations included, and what its computation has stood still for: by
  /// link and sort of traffic. Of one step it is the difference to before. What codecs lose is measured where
  /// options.compress.watch asks for it. Between steps; each rank on its own.
  ///
  /// | counted | every message where it is made, as comm::Meter does: what is sent by others than programs, such as
  /// |         | checkpoints, is not in it                                                                          |
  [[nodiscard]] run::LinkTable links() const {
    run::LinkTable table;
    for (const LoadedProgram& program : programs_) {
      if (program.executable) program.executable->add_to(table);
    }
    for (const LoadedProgram& program : variants_) {
      if (program.executable) program.executable->add_to(table);
    }
    return table;
  }
  [[nodiscard]] Device& device() { return device_; }

  /// Copies a parameter of this rank out, or in. All ranks set the same values, between steps: the next step
  /// compares checksums, and throws OptionError on all ranks, with the parameter's name, where they differ. In bf16,
  /// parameter() gives the rounded weights, which the model computes with; set_parameter() sets these and the master
  /// weights, which are not rounded. Throws OptionError where the committed weights are on their owners alone: call
  /// gather_committed_weights() first. Of a parameter that this rank's stage does not use, parameter() throws OptionError,
  /// and set_parameter() sets nothing.
  [[nodiscard]] std::vector<Sum> parameter(std::string_view name);
  /// The same of any parameter, on every rank: of stages, from one that owns it. All ranks.
  [[nodiscard]] std::vector<Sum> gather_parameter(std::string_view name);
  void set_parameter(std::string_view name, std::span<const Sum> values);
  /// Some of its elements, from `first` on.
  void set_parameter(std::string_view name, std::int64_t first, std::span<const Sum> values);

  /// A range; throws OptionError unless it is of type Sum.
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

  /// For accumulation that adapts: the numbers of extra micro-batches in the phases of the last step; and, with replay(),
  /// their numbers in the next step, however long that communicates. The same counts on all ranks give the same bits again.
  /// The stages of a replica have the same counts, multiples of its micro_batches.
  [[nodiscard]] std::span<const int> extra_micro_batches() const { return extra_; }
  void replay(std::vector<int> counts);

private:
  using Executable = run::Executable<Device, T, Gradient>;

  /// A program of this rank, and what runs it. Empty for a purpose that the composition lacks.
  struct LoadedProgram {
    std::optional<run::PlacedProgram> placed{};
    std::unique_ptr<Executable> executable{};
  };

  using ProgramKey = detail::ProgramKey;

  static constexpr bool overlapping = optim::overlapping_policy<Optim>;
  static constexpr bool periodic = optim::periodic_policy<Optim>;
  static constexpr bool weights_are_committed = [] {
    if constexpr (overlapping || periodic) return static_cast<bool>(Optim::weights_are_committed);
    return true;
  }();

  Trainer(Model model, run::Source source, Options options, run::Source held_out,
          const comm::Communicator* ranks);

  static int variants([[maybe_unused]] const run::StepPlan& plan) {
    if constexpr (periodic) return Optim::variants(plan);
    return 1;
  }

  static run::StepBuilder build(const run::StepPlan& plan, int rank, ProgramKey key) {
    const run::Purpose purpose = key.purpose;
    run::StepBuilder builder(plan, rank, purpose, key.variant);
    const run::Pass model = [](run::StepBuilder& step) {
      detail::append(step, [](run::StepBuilder& models) {
        Pipeline::add(models);
        Swap::add(models);
      });
    };
    detail::hooks::reserve<Optim>(builder);
    if (!weights_are_committed) detail::require_tied_buffer(builder, Optim::name);
    detail::hooks::reserve<Swap>(builder);
    detail::hooks::reserve<Pipeline>(builder);
    detail::hooks::reserve<Compress>(builder);
    if (purpose == run::Purpose::diagnosis) {
      detail::add_diagnosis(builder, model);
      return builder;
    }
    Optim::add(builder, model);
    detail::require_verdict(builder, Optim::name);
    detail::keep_verdict(builder);
    run::add_tied_weights(builder);
    Compress::add(builder);
    return builder;
  }

  static run::Choice choose_swap(const graph::Dag& dag, const TrainerSettings& settings, int ranks,
                                 const std::vector<int>& micro_batches);
  static const Options& options_in(const TrainerSettings& settings) { return static_cast<const Options&>(settings); }

  static detail::PlannedDevice planned_device(const TrainerSettings& settings) {
    const typename Device::Options& device = options_in(settings).device;
    detail::PlannedDevice planned{Device::discrete(device), device.memory_bytes};
    if constexpr (requires { device.poison_freed; }) planned.poisons_dead_memory = device.poison_freed;
    return planned;
  }
  static void fill_in(run::StepPlan& plan, const TrainerSettings& settings) {
    const Options& options = options_in(settings);
    optim::plan_whole_matrices<Device, Sum>(plan, options.rule, device::threads_of(options.device));
    detail::hooks::plan<Optim>(plan, options.optim);
    detail::hooks::plan<Swap>(plan, options.swap);
    detail::hooks::plan<Pipeline>(plan, options.pipeline);
    detail::hooks::plan<Compress>(plan, options.compress);
  }
  static void add_to(Hash& hash, const TrainerSettings& settings) {
    const Options& options = options_in(settings);
    detail::hooks::add_to<Optim>(hash, options.optim);
    detail::hooks::add_to<Swap>(hash, options.swap);
    detail::hooks::add_to<Pipeline>(hash, options.pipeline);
    detail::hooks::add_to<Compress>(hash, options.compress);
  }
  static std::array<std::uint64_t, 4> hashes(const TrainerSettings& settings) {
    const Options& options = options_in(settings);
    return {detail::hooks::hash_of<Optim>(options.optim), detail::hooks::hash_of<Swap>(options.swap),
            detail::hooks::hash_of<Pipeline>(options.pipeline), detail::hooks::hash_of<Compress>(options.compress)};
  }

  static constexpr detail::Policies policies = [] {
    detail::Policies all;
    all.overlapping = overlapping;
    all.periodic = periodic;
    all.weights_are_committed = weights_are_committed;
    if constexpr (overlapping) all.warms_up = Optim::warm_up > 0;
    all.updates_within_a_step = requires { requires Optim::updates_within_a_step; };
    if constexpr (requires { Pipeline::spans_stages; }) all.spans_stages = Pipeline::spans_stages;
    all.element = element_of<T>;
    all.gradient = element_of<Gradient>;
    all.variants = &variants;
    all.build = &build;
    all.state = &detail::hooks::state_of<Composition>;
    all.device = &planned_device;
    if constexpr (requires(const Options& options) { Pipeline::stage_of_chunk(1, options.pipeline); }) {
      all.stage_of_chunk = [](int stages, const TrainerSettings& settings) {
        return Pipeline::stage_of_chunk(stages, options_in(settings).pipeline);
      };
    }
    if constexpr (Swap::offloads_to_host) {
      all.offloads_to_host = true;
      all.swapping = Swap::schedules().front();
      all.choose = &choose_swap;
    }
    all.fill_in = &fill_in;
    all.add_to = &add_to;
    all.hashes = &hashes;
    return all;
  }();

  LoadedProgram& loaded(ProgramKey key) {
    return const_cast<LoadedProgram&>(std::as_const(*this).loaded(key));
  }
  [[nodiscard]] const LoadedProgram& loaded(ProgramKey key) const {
    return key.variant == 0 ? programs_[static_cast<std::size_t>(key.purpose)]
                            : variants_[static_cast<std::size_t>(key.variant) - 1];
  }
  LoadedProgram& loaded(run::Purpose purpose) { return loaded(ProgramKey{purpose}); }
  [[nodiscard]] const LoadedProgram& loaded(run::Purpose purpose) const {
    return loaded(ProgramKey{purpose});
  }
  Executable& perform(ProgramKey key) {
    loaded(key).executable->run();
    return *loaded(key).executable;
  }
  Executable& perform(run::Purpose purpose) { return perform(ProgramKey{purpose}); }
  Executable& run_step();
  void swap_with_comm_buffer();

  void start(run::Source source, run::Source held_out);
  Options agreed_options();
  void plan_step();
  void verify_together();
  void part_with(const std::exception_ptr& error);
  void initialise_weights();
  std::unique_ptr<Executable> make_executable(const run::PlacedProgram& program, run::Source source,
                                              run::NextMicroBatch next,
                                              const run::StepState& state);
  run::NextMicroBatch next_micro_batch();
  static Options possible(Options options);
  /// Of all ranks: a rank that steps on its own has counted its own.
  [[nodiscard]] std::uint64_t micro_batches_of(const optim::Verdict& verdict) const {
    return static_cast<std::uint64_t>(periodic ? plan_.micro_batches_of_step()
                                               : verdict.micro_batches);
  }
  [[nodiscard]] bool updates_with(double learning_rate, std::int64_t committed) const;
  [[nodiscard]] double next_learning_rate() const;
  void before_step();
  std::string diagnose(const optim::Verdict& verdict);
  void find_not_finite(const run::StepState& before);
  [[noreturn]] void stop(const std::string& why);
  const run::Memory<Device>& memory() const {
    return loaded(run::Purpose::training).executable->memory();
  }
  const run::StepBuilder& builder() const { return loaded(run::Purpose::training).placed->builder; }
  /// How many elements are staged at once on their way to the device: 1 MB in fp32.
  static constexpr std::int64_t staged_elements = std::int64_t{1} << 18;
  [[nodiscard]] ModelState::Memory reached_memory();
  template <class Other>
  static Model refused(const Other&) {
    static_assert(rules::model_is_of<Other, Device, T>, REEF_R8_MODEL_IS_OF);
    return Model();
  }
  static const optim::Verdict& verdict_of(const Executable& executable) {
    return *executable.memory().template at<const optim::Verdict>(
        executable.context().builder.verdict);
  }
  [[nodiscard]] StepResult result_of(const optim::Verdict& verdict, Seconds seconds) const;

  static constexpr Facts facts_of_composition{
      Optim::name, Rule::name, optim::rule_count<Rule>, periodic, {element_of<T>, element_of<Sum>, weights_are_committed}};

  Options options_;
  Device device_;
  std::unique_ptr<run::Lanes<Device>> lanes_;
  Model model_;
  run::StepState evaluation_state_;
  std::array<LoadedProgram, run::purpose_count> programs_{};
  std::vector<LoadedProgram> variants_{};  ///< of training, from variant 1 on
  std::optional<run::Arenas<Device>> arenas_;
  run::Source source_;
  std::array<std::vector<std::uint64_t>, 2> numbers_{};  ///< of this round's, and of the last's
  std::vector<int> extra_{};  ///< micro-batches of the last step's phases beyond those of the plan
  std::shared_ptr<detail::Finding> finding_ = std::make_shared<detail::Finding>();
};

}  // namespace v0
}  // namespace reef

#include <reef/trainer/detail/plans.hpp>
#include <reef/trainer/detail/trainer.hpp>
#include <reef/trainer/detail/weights.hpp>
