#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <reef/comm/agreement.hpp>
#include <reef/comm/communicator.hpp>
#include <reef/core/units.hpp>
#include <reef/device/any_device.hpp>
#include <reef/optim/verdict.hpp>
#include <reef/run/executable.hpp>
#include <reef/run/lanes.hpp>
#include <reef/run/links.hpp>
#include <reef/run/memory.hpp>
#include <reef/run/placed_program.hpp>
#include <reef/schedule/program.hpp>
#include <reef/trainer/detail/finding.hpp>
#include <reef/trainer/detail/policies.hpp>
#include <reef/trainer/settings.hpp>
#include <reef/trainer/step_result.hpp>
#include <reef/trainer/training.hpp>

namespace reef {
inline namespace v0 {
namespace detail {

/// What trains: it has the programs of a rank planned, proven, placed and loaded, and runs them step by step. It knows
/// neither the policies, which are a table to it, nor the device and the types, of which a Trainer gives it what
/// computes.
///
/// | life | what a Trainer gives it (the device, the model) outlives it |
class Engine : public Training {
public:
  ~Engine() override;

  /// As those of Trainer.
  StepResult step();
  void gather_committed_weights() final;
  double evaluate(std::int64_t rounds, const std::function<bool(std::int64_t done)>& proceed = {});
  std::string weight_not_finite();
  [[nodiscard]] const schedule::Program& program(run::Purpose purpose = run::Purpose::training,
                                                 int variant = 0) const&;
  void program(run::Purpose = run::Purpose::training, int = 0) const&& = delete;
  [[nodiscard]] int variant() const;
  [[nodiscard]] run::LinkTable links() const;
  [[nodiscard]] std::span<const int> extra_micro_batches() const& { return extra_; }
  void extra_micro_batches() const&& = delete;
  void replay(std::vector<int> counts);

protected:
  /// How many elements are staged at once on their way to the device: 1 MB in fp32.
  static constexpr std::int64_t staged_elements = std::int64_t{1} << 18;

  Engine(const PolicyFacts& facts, const Policies& policies);

  /// Plans, proves and loads what the ranks run, and gives the weights their first values. All ranks; `ranks`, if
  /// given, are those of that communicator.
  void begin(const comm::Communicator* ranks, std::unique_ptr<device::AnyDevice> device,
             run::Source source, run::Source held_out);

  /// Lets go of what is on the device: in the destructor of whoever has it.
  void end();

  [[nodiscard]] const run::Arenas& arenas() const& { return *arenas_; }
  void arenas() const&& = delete;
  [[nodiscard]] run::Lanes& lanes() & { return *lanes_; }
  void lanes() && = delete;
  /// What a diagnosis has found is written there.
  [[nodiscard]] std::shared_ptr<Finding> finding() const { return finding_; }

private:
  /// A program of this rank, and what runs it. Empty for a purpose that the composition lacks.
  struct LoadedProgram {
    std::optional<run::PlacedProgram> placed{};
    std::unique_ptr<run::Executable> executable{};
  };

  [[nodiscard]] virtual const TrainerSettings& settings() const = 0;
  /// What all ranks must have alike before they plan.
  [[nodiscard]] virtual std::vector<comm::SharedFact> alike() const = 0;
  /// The plan that all ranks agree on.
  [[nodiscard]] virtual run::StepPlan agreed_plan() = 0;
  [[nodiscard]] virtual std::unique_ptr<run::Executable> load(const run::PlacedProgram& program,
                                                              run::Source source,
                                                              run::NextMicroBatch next,
                                                              const run::StepState& state) = 0;
  /// The policies' hook of that name.
  virtual void before_step() = 0;
  /// An update with that rate leaves a weight of 1 finite, with no gradient and with one of 1: so it does not
  /// if the rate is no number, or what the rule makes of it is none of the type that is computed in.
  [[nodiscard]] virtual bool updates_with(double learning_rate, std::int64_t committed) const = 0;
  /// So many weights in two places change these.
  virtual void exchange(device::AnyLane& lane, void* weights, void* others,
                        std::int64_t elements) = 0;

  void start(run::Source source, run::Source held_out);
  void load_programs(run::Source source, run::Source held_out);
  void verify_together();
  [[nodiscard]] ModelState::Memory reached_memory();
  void initialise_weights();
  template <class Sum>
  void initialise(std::size_t parameter);

  LoadedProgram& loaded_program(ProgramKey key) {
    return const_cast<LoadedProgram&>(std::as_const(*this).loaded_program(key));
  }
  [[nodiscard]] const LoadedProgram& loaded_program(ProgramKey key) const {
    return key.variant == 0 ? programs_[static_cast<std::size_t>(key.purpose)]
                            : variants_[static_cast<std::size_t>(key.variant) - 1];
  }
  run::Executable& run_program(ProgramKey key);
  run::Executable& run_step();
  void begin_ahead();
  void swap_with_comm_buffer();

  void part_with(const std::exception_ptr& error);
  run::NextMicroBatch next_micro_batch();
  /// Not the plan, but the settings, the rank or the optimizer choose which micro-batches a step has.
  [[nodiscard]] bool chooses_numbers() const { return plan_.adapts || settings().next_micro_batch; }
  /// Of all ranks: a rank that steps on its own has counted its own.
  [[nodiscard]] std::uint64_t micro_batches_of(const optim::Verdict& verdict) const;
  [[nodiscard]] double next_learning_rate() const;
  [[nodiscard]] StepResult result_of(const optim::Verdict& verdict, Seconds seconds) const;
  std::string diagnose(const optim::Verdict& verdict);
  void find_not_finite(const run::StepState& before);
  [[noreturn]] void stop(const std::string& why);

  [[nodiscard]] const run::Memory& memory() const { return loaded_program({}).executable->memory(); }
  [[nodiscard]] const run::StepBuilder& builder() const { return loaded_program({}).placed->builder; }
  [[nodiscard]] device::AnyLane& compute_lane() {
    return *lanes_->lanes[static_cast<std::size_t>(schedule::Lane::compute)];
  }

  const Policies& policies_;
  std::unique_ptr<run::Lanes> lanes_;
  run::StepState evaluation_state_;
  std::array<LoadedProgram, run::purpose_count> programs_{};
  std::vector<LoadedProgram> variants_{};  ///< of training, from variant 1 on
  std::optional<run::Arenas> arenas_;
  run::Source source_;
  std::array<std::vector<std::uint64_t>, 2>
      numbers_{};             ///< of this round's micro-batches, and of the last's, if they are chosen
  std::vector<int> extra_{};  ///< micro-batches of the last step's phases beyond those of the plan
  std::shared_ptr<Finding> finding_ = std::make_shared<Finding>();
};

}  // namespace detail
}  // namespace v0
}  // namespace reef

#ifndef REEF_COMPILED
#include <reef/trainer/detail/engine.ipp>
#endif
