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

/// The part of a Trainer that no policy changes: its progress, and the state that it keeps. Checkpoints are made of a
/// Training.
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

  /// Facts about the training that the composition of policies decides.
  struct Facts {
    std::string_view optimizer{};  ///< name of the optimizer
    std::string_view rule{};       ///< name of the update rule
    int rules = 1;                 ///< number of update rules in `rule`
    bool periodic = false;         ///< true if ranks step on their own between outer steps
    ModelState::Facts state{};
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
  [[nodiscard]] const Facts& facts() const& { return facts_; }
  [[nodiscard]] Facts facts() const&& { return facts_; }

  /// Returns the weights and the optimizer's state of this rank.
  [[nodiscard]] ModelState& model_state() & { return *model_state_; }
  void model_state() && = delete;

  /// True if this rank has a parameter's weights, since its stage uses it. `owns`: true if its stage is the first to
  /// use the parameter, and so updates it.
  [[nodiscard]] bool holds(std::string_view name) const {
    return model_state_->holds(static_cast<std::size_t>(plan_.dag->parameter(name)));
  }
  [[nodiscard]] bool owns(std::string_view name) const {
    return model_state_->owns(static_cast<std::size_t>(plan_.dag->parameter(name)));
  }

  /// Brings the weights of the last committed step to all ranks, where a policy leaves them on their owners and works
  /// on weights ahead of them (AccoWp, DpuPredicted, DiLoCo). All ranks call it, between steps; with other policies, or
  /// a second time, it does nothing. step() undoes it without communicating.
  virtual void gather_committed_weights() = 0;

  /// Returns the ranges of the optimizer's state on this rank; set_state() copies bytes into a range, which is
  /// range.elements numbers of type range.element. A pending gradient and weights ahead have a range only while they
  /// are kept; predicted weights only while the committed ones are gathered. Throws ShapeError for bytes beyond the
  /// range.
  [[nodiscard]] std::vector<StateRange> state_ranges() const { return model_state_->ranges(); }
  void set_state(const StateRange& range, Bytes offset, std::span<const std::byte> bytes) {
    model_state_->write(range, offset, bytes);
  }

  /// Returns as many bytes of a parameter or a range as `room` has, from byte `offset` on: in the training's memory,
  /// valid until the next step, or copied to `room` if the host cannot read that memory. Throws ShapeError for bytes
  /// beyond its end.
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

  /// Returns a range's memory, if the host can read and write it; else null.
  [[nodiscard]] std::byte* host_memory(const StateRange& range) const& {
    return model_state_->host_memory(range);
  }
  void host_memory(const StateRange&) const&& = delete;

  /// Refuses calls of other threads, with an OptionError, while the result lives; throws an OptionError that names the
  /// call if another thread is in such a call. For functions that make several calls.
  [[nodiscard]] detail::OneThread::Entry one_thread(std::string_view object,
                                                    std::string_view call) {
    return {one_thread_, object, call};
  }

  /// True if the gradient with which an overlapping round begins is there, as after a step. After set_pending(false)
  /// the next step takes that gradient first: of the same micro-batches where counts are fixed, else of new ones.
  [[nodiscard]] bool pending() const { return model_state_->pending(); }
  void set_pending(bool pending) { model_state_->set_pending(pending); }
  /// Returns the ranges of state that there would be after set_pending(pending).
  [[nodiscard]] std::vector<StateRange> state_ranges(bool pending) const {
    return model_state_->ranges(pending);
  }

  /// Sets the progress to so many committed steps and micro-batches of all ranks: the end of a resume, once parameters
  /// and state are set. `updates`: the number of updates of a weight, where it differs from the number of steps.
  void set_progress(std::int64_t committed, const comm::CounterState& micro_batches,
                    std::int64_t began = 0, std::optional<std::int64_t> updates = {});

  /// Sets the ratios that a compressor plans again while training.
  void set_ratios(run::EdgeRatios ratios) { state_.ratios = std::move(ratios); }

  /// Returns the micro-batches of the job that no rank has taken, which a resume gives to set_progress. All ranks call
  /// it. Where ranks take micro-batches in an order of their own, slow ranks leave some out that come before.
  [[nodiscard]] comm::CounterState new_micro_batches();

  /// Returns the directory that checkpoint::claim and save have made this job's own.
  [[nodiscard]] std::shared_ptr<checkpoint::Claim>& claimed_directory() & {
    return claimed_directory_;
  }
  void claimed_directory() && = delete;

  /// Returns the number of micro-batches that this rank has taken since the job began, where accumulation adapts.
  [[nodiscard]] std::uint64_t taken() const { return taken_; }

protected:
  explicit Training(const Facts& facts) : facts_(facts) {}

  [[nodiscard]] std::uint64_t replicas() const {
    return static_cast<std::uint64_t>(plan_.topology.replicas);
  }
  /// Throws OptionError on all ranks unless they have the same weights: every parameter that they hold, and the master
  /// weights where each rank keeps all of them. Does not compare weights on a rank that does not have them as they were
  /// committed.
  void require_same_weights();
  /// Returns an OptionError on every rank if the facts of the ranks are not alike; else null.
  [[nodiscard]] std::exception_ptr difference(const std::string& what, const std::vector<comm::Alike>& mine,
                                              const std::string& fix);
  /// Proves this rank's programs, `own`, in the order of Policies::programs_in, and with the other ranks the programs
  /// of all. Returns an error on every rank, if there is one; throws an error that this rank alone has found.
  [[nodiscard]] std::exception_ptr verify_together(const detail::Policies& policies, const TrainerSettings& settings,
                                                   Bytes memory_bytes, std::span<const run::PlacedProgram* const> own);
  /// Returns "element 3 of 'wte.weight' is nan on rank 0", of the lowest rank that has such a weight; empty if all
  /// weights are finite. All ranks call it.
  [[nodiscard]] std::string first_weight_not_finite();
  /// Returns the description of a step that is not finite, from what each rank has found when it was repeated. All
  /// ranks call it, or those of a replica that steps on its own. `weighs`: some micro-batch has a loss weight that is
  /// not 0.
  [[nodiscard]] std::string describe_not_finite(const detail::Policies& policies, const detail::Finding& finding, bool weighs,
                                                optim::NonFinite reaction);
  /// Notes that weights were set, on all ranks, also those that do not hold the parameter: all compare weights before
  /// the next step, and a round of several steps begins anew.
  void weights_were_set(std::string_view parameter);

private:
  [[nodiscard]] std::exception_ptr require_same_plan(const detail::Policies& policies, const TrainerSettings& settings,
                                                     std::span<const run::PlacedProgram* const> own);
  [[nodiscard]] std::string text_of(const ModelState::NotFinite& weight) const;
  /// Returns the first weight that is not finite on the lowest rank that has one, and that rank. All ranks call it.
  [[nodiscard]] std::pair<ModelState::NotFinite, int> lowest_weight_not_finite();
  /// Throws ScheduleError if a program does not fit into memory, of this rank or of another with as much memory. A rank
  /// with more or less memory throws for itself.
  void require_memory(const detail::Policies& policies, Bytes memory_bytes, std::span<const run::PlacedProgram* const> own);

protected:
  Facts facts_;
  std::unique_ptr<comm::Progress> progress_;
  run::StepPlan plan_;
  run::StepState state_;
  std::optional<ModelState> model_state_;
  std::optional<comm::SharedCounter> counter_;
  std::uint64_t taken_ = 0;    ///< number of micro-batches that this rank has taken, where it decides how many
  bool same_weights_ = false;  ///< true if weights were compared between the ranks since they were last set from outside
  std::string weights_set_{};  ///< the first parameter that was set since the last comparison, if one was
  detail::OneThread one_thread_{};
  std::shared_ptr<checkpoint::Claim> claimed_directory_{};
};

}  // namespace v0
}  // namespace reef

#ifndef REEF_COMPILED
#include <reef/trainer/training.ipp>
#endif
