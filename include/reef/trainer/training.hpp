#pragma once

#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <reef/comm/agreement.hpp>
#include <reef/comm/progress.hpp>
#include <reef/comm/shared_counter.hpp>
#include <reef/core/inline.hpp>
#include <reef/core/units.hpp>
#include <reef/run/placed_program.hpp>
#include <reef/run/rank_context.hpp>
#include <reef/run/state_range.hpp>
#include <reef/run/step_plan.hpp>
#include <reef/trainer/detail/finding.hpp>
#include <reef/trainer/detail/one_thread.hpp>
#include <reef/trainer/detail/policies.hpp>
#include <reef/trainer/model_state.hpp>
#include <reef/trainer/settings.hpp>

namespace reef {
inline namespace v0 {

namespace checkpoint {
struct Claim;
}

/// The part of a Trainer that does not depend on policies: its progress, and the state that it keeps. Checkpoints are
/// saved from a Training, and resumed into one.
///
/// | who | all ranks, in the same order, on one thread at a time, between steps |
///
/// \code
/// // given: Trainer<optim::Ddp<optim::AdamW>>& trainer
/// Training& training = trainer;
/// const std::int64_t steps = training.progress_state().committed;
/// \endcode
class Training {
public:
  using StateRange = run::StateRange;

  /// Facts about the training that the chosen policies decide.
  struct PolicyFacts {
    std::string_view optimizer{};       ///< the name of the optimizer
    std::string_view rule{};            ///< the name of the update rule
    int rules = 1;                      ///< the number of update rules of which `rule` is composed
    bool periodic = false;              ///< true if ranks train on their own between outer steps (DiLoCo)
    bool counts_micro_batches = false;  ///< true if the optimizer decides which micro-batches a step computes
    ModelState::Layout state{};
  };

  Training(const Training&) = delete;
  Training& operator=(const Training&) = delete;
  REEF_INLINE virtual ~Training();

  [[nodiscard]] int rank() const { return progress_->rank(); }
  [[nodiscard]] int ranks() const { return progress_->size(); }
  [[nodiscard]] const run::StepPlan& plan() const& { return plan_; }
  [[nodiscard]] run::StepPlan plan() const&& { return plan_; }
  [[nodiscard]] const run::StepState& progress_state() const& { return state_; }
  [[nodiscard]] run::StepState progress_state() const&& { return state_; }
  [[nodiscard]] comm::Progress& progress() { return *progress_; }
  [[nodiscard]] const PolicyFacts& facts() const& { return facts_; }
  [[nodiscard]] PolicyFacts facts() const&& { return facts_; }

  /// Returns the weights and the optimizer's state of this rank.
  [[nodiscard]] ModelState& model_state() & { return *model_state_; }
  void model_state() && = delete;

  /// Returns true if this rank has a parameter's weights, since its pipeline stage uses it. owns() returns true if its
  /// stage is the first to use the parameter, and so updates it.
  [[nodiscard]] bool holds(std::string_view name) const {
    return model_state_->holds(static_cast<std::size_t>(plan_.dag->parameter(name)));
  }
  [[nodiscard]] bool owns(std::string_view name) const {
    return model_state_->owns(static_cast<std::size_t>(plan_.dag->parameter(name)));
  }

  /// Gathers the weights of the last committed step on all ranks, if the optimizer leaves them on their owners and
  /// computes with weights ahead of them (AccoWp, DpuPredicted, DiLoCo). All ranks call it, between steps; with other
  /// optimizers, or a second time, it does nothing. step() undoes it without communicating.
  virtual void gather_committed_weights() = 0;

  /// Returns the ranges of the optimizer's state on this rank. set_state() copies bytes into a range, which has
  /// range.elements numbers of type range.element, and throws ShapeError for bytes beyond it. A pending gradient has a
  /// range only while it is pending(), weights ahead of the committed ones only while the committed weights are
  /// gathered.
  [[nodiscard]] std::vector<StateRange> state_ranges() const { return model_state_->ranges(); }
  void set_state(const StateRange& range, Bytes offset, std::span<const std::byte> bytes) {
    model_state_->write(range, offset, bytes);
  }

  /// Returns room.size() bytes of a parameter, or of a range (state_bytes), from byte `offset` on: in the training's
  /// memory, valid until the next step, or copied to `room` if the host cannot read that memory. Throws ShapeError for
  /// bytes beyond the parameter or range.
  [[nodiscard]] std::span<const std::byte> parameter_bytes(std::string_view name, Bytes offset,
                                                           std::span<std::byte> room) const& {
    return model_state_->weights(name, offset, room);
  }
  void parameter_bytes(std::string_view, Bytes, std::span<std::byte>) const&& = delete;
  [[nodiscard]] std::span<const std::byte> state_bytes(const StateRange& range, Bytes offset,
                                                       std::span<std::byte> room) const& {
    return model_state_->read(range, offset, room);
  }
  void state_bytes(const StateRange&, Bytes, std::span<std::byte>) const&& = delete;

  /// Returns the memory of a range of optimizer state if the host can read and write it; otherwise null.
  [[nodiscard]] std::byte* host_memory(const StateRange& range) const& {
    return model_state_->host_memory(range);
  }
  void host_memory(const StateRange&) const&& = delete;

  /// Returns a guard object, during whose life all calls by other threads throw OptionError. Throws OptionError, naming
  /// the call, if another thread is in a call. For functions that consist of several calls.
  [[nodiscard]] detail::OneThread::Entry one_thread(std::string_view object,
                                                    std::string_view call) {
    return {one_thread_, object, call};
  }

  /// Returns true if a gradient exists that is computed and not yet applied, as after a step of an optimizer whose
  /// communication overlaps. After set_pending(false) the next step first computes it: from the same micro-batches, or
  /// if counts adapt, from new ones.
  [[nodiscard]] bool pending() const { return model_state_->pending(); }
  void set_pending(bool pending) { model_state_->set_pending(pending); }
  /// Returns the ranges of optimizer state that would exist after set_pending(pending).
  [[nodiscard]] std::vector<StateRange> state_ranges(bool pending) const {
    return model_state_->ranges(pending);
  }

  /// Sets the numbers of committed steps and of micro-batches of all ranks: the last call of a resume, after those that
  /// set parameters and state. `began`, `updates`: as in run::StepState; `updates` may be left out if it is
  /// `committed`.
  void set_progress(std::int64_t committed, const comm::CounterState& micro_batches,
                    std::int64_t began = 0, std::optional<std::int64_t> updates = {});

  /// Sets the compression ratios that a compressor plans while training.
  void set_ratios(run::EdgeRatios ratios) { state_.ratios = std::move(ratios); }

  /// Returns which micro-batches of the job no rank has run, for set_progress() in a resume. All ranks call it. If
  /// ranks choose micro-batches themselves, slow ranks may have left out some before the last one.
  [[nodiscard]] comm::CounterState new_micro_batches();

  /// Returns the lock on a directory that checkpoint::claim() or save() has taken for this job; null: none.
  [[nodiscard]] std::shared_ptr<checkpoint::Claim>& claimed_directory() & {
    return claimed_directory_;
  }
  void claimed_directory() && = delete;

  /// Returns the number of micro-batches that this rank has run since the job began, if ranks run extra ones while they
  /// communicate (adaptive accumulation).
  [[nodiscard]] std::uint64_t taken() const { return taken_; }

protected:
  explicit Training(const PolicyFacts& facts) : facts_(facts) {}

  [[nodiscard]] std::uint64_t replicas() const {
    return static_cast<std::uint64_t>(plan_.topology.replicas);
  }
  /// Throws OptionError on all ranks unless they have the same weights: every parameter that they hold, and the master
  /// weights if each rank keeps all of them. Does not compare the weights of a rank that does not have the committed
  /// ones.
  void require_same_weights();
  /// Returns an OptionError on every rank if the facts of the ranks differ; otherwise null.
  [[nodiscard]] std::exception_ptr difference(const std::string& what, const std::vector<comm::SharedFact>& mine,
                                              const std::string& fix);
  /// Checks this rank's programs `own`, which are in the order of Policies::programs_in, and together with the other
  /// ranks the programs of all. Returns an error on every rank, if there is one; throws an error of this rank alone.
  [[nodiscard]] std::exception_ptr verify_together(const detail::Policies& policies, const TrainerSettings& settings,
                                                   Bytes memory_bytes, std::span<const run::PlacedProgram* const> own);
  /// Returns a text such as "element 3 of 'wte.weight' is nan on rank 0", on the lowest rank with such a weight; empty
  /// if all weights are finite. All ranks call it.
  [[nodiscard]] std::string first_weight_not_finite();
  /// Returns the error text for a step that is not finite, from the `finding` of each rank when the step was repeated.
  /// All ranks call it, or those of a replica that trains on its own. `weighs`: true if some micro-batch has a loss
  /// weight other than 0.
  [[nodiscard]] std::string describe_not_finite(const detail::Policies& policies, const detail::Finding& finding,
                                                bool weighs, optim::NonFinite reaction);
  /// Notes that weights were set; called on all ranks, also those that do not hold the parameter: all compare weights
  /// before the next step, and the steps up to the next outer step are counted anew.
  void weights_were_set(std::string_view parameter);

private:
  [[nodiscard]] std::exception_ptr require_same_plan(const detail::Policies& policies, const TrainerSettings& settings,
                                                     std::span<const run::PlacedProgram* const> own);
  [[nodiscard]] std::string text_of(const ModelState::NotFinite& weight) const;
  /// Returns the first weight that is not finite on the lowest rank that has one, and that rank's number. All ranks
  /// call it.
  [[nodiscard]] std::pair<ModelState::NotFinite, int> lowest_weight_not_finite();
  /// Throws ScheduleError if a program of this rank, or of another rank with the same memory, does not fit into memory.
  /// A rank with more or less memory throws for itself.
  void require_memory(const detail::Policies& policies, Bytes memory_bytes,
                      std::span<const run::PlacedProgram* const> own);

protected:
  PolicyFacts facts_;
  std::unique_ptr<comm::Progress> progress_;
  run::StepPlan plan_;
  run::StepState state_;
  std::optional<ModelState> model_state_;
  std::optional<comm::SharedCounter> counter_;
  std::uint64_t taken_ = 0;    ///< the number of micro-batches that this rank has run, if the rank decides how many
  /// True if weights were compared between the ranks since they were last set from outside.
  bool same_weights_ = false;
  std::string weights_set_{};  ///< the first parameter that was set since the last comparison, if one was
  detail::OneThread one_thread_{};
  std::shared_ptr<checkpoint::Claim> claimed_directory_{};
};

}  // namespace v0
}  // namespace reef

#ifndef REEF_COMPILED
#include <reef/trainer/training.ipp>
#endif
