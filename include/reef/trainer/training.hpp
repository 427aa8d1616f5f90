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

/// What of a Trainer no policy changes: where its training stands, and what it keeps. What checkpoints are of.
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

  /// What a composition makes of it.
  struct Facts {
    std::string_view optimizer{};  ///< its name
    std::string_view rule{};       ///< its name
    int rules = 1;                 ///< how many update rules that is
    bool periodic = false;         ///< ranks step on their own between outer steps
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

  /// The weights and the optimizer's state of this rank.
  [[nodiscard]] ModelState& model_state() & { return *model_state_; }
  void model_state() && = delete;

  /// This rank has a parameter's weights: its stage uses it. It owns them where that is the first stage to do so, which
  /// updates them.
  [[nodiscard]] bool holds(std::string_view name) const {
    return model_state_->holds(static_cast<std::size_t>(plan_.dag->parameter(name)));
  }
  [[nodiscard]] bool owns(std::string_view name) const {
    return model_state_->owns(static_cast<std::size_t>(plan_.dag->parameter(name)));
  }

  /// Brings the weights of the last committed step to all ranks, where a policy leaves them on their
  /// owners and works on weights ahead of them (AccoWp, DpuPredicted, DiLoCo). All ranks, between steps;
  /// elsewhere, or a second time, it does nothing. step() takes it back without communicating.
  virtual void gather_committed_weights() = 0;

  /// The optimizer's state on this rank as it is, and some bytes of a range copied in: it is
  /// range.elements numbers of type range.element. What is pending or ahead is there only while it is
  /// kept; of predicted weights only while the committed ones are gathered. Throws ShapeError for
  /// bytes beyond the range.
  [[nodiscard]] std::vector<StateRange> state_ranges() const { return model_state_->ranges(); }
  void set_state(const StateRange& range, Bytes offset, std::span<const std::byte> bytes) {
    model_state_->write(range, offset, bytes);
  }

  /// As many bytes of a parameter or a range as `room` has, from byte `offset` on: where they are until
  /// the next step, or in `room` if the host cannot read them there. Throws ShapeError beyond its end.
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

  /// A range's memory, if the host can read and write it; else null.
  [[nodiscard]] std::byte* host_memory(const StateRange& range) const& {
    return model_state_->host_memory(range);
  }
  void host_memory(const StateRange&) const&& = delete;

  /// Refuses calls of other threads, with an OptionError, while the result lives; throws one, that names the call, where another
  /// thread is in such a call. For functions that take several calls.
  [[nodiscard]] detail::OneThread::Entry one_thread(std::string_view object,
                                                    std::string_view call) {
    return {one_thread_, object, call};
  }

  /// Whether the gradient that an overlapping round begins with is there, as it is after a step. If set to
  /// false, the next step takes that gradient first: of the same micro-batches where counts are fixed, else
  /// of new ones.
  [[nodiscard]] bool pending() const { return model_state_->pending(); }
  void set_pending(bool pending) { model_state_->set_pending(pending); }
  /// The state that there is after set_pending(pending).
  [[nodiscard]] std::vector<StateRange> state_ranges(bool pending) const {
    return model_state_->ranges(pending);
  }

  /// Goes on as after so many steps and micro-batches of all ranks: with parameters and state set,
  /// the end of a resume. `updates`: of a weight, where they are not as many as steps.
  void set_progress(std::int64_t committed, const comm::CounterState& micro_batches,
                    std::int64_t began = 0, std::optional<std::int64_t> updates = {});

  /// Those that a compressor plans again while training.
  void set_ratios(run::EdgeRatios ratios) { state_.ratios = std::move(ratios); }

  /// The micro-batches of the job that no rank has taken: what a resume gives to set_progress. All ranks. Where
  /// ranks take micro-batches in an order of their own, slow ranks leave some out that come before.
  [[nodiscard]] comm::CounterState new_micro_batches();

  /// The directory that checkpoint::claim and save have made this job's own.
  [[nodiscard]] std::shared_ptr<checkpoint::Claim>& claimed_directory() & {
    return claimed_directory_;
  }
  void claimed_directory() && = delete;

  /// For accumulation that adapts: the number of micro-batches that this rank has taken since the job began.
  [[nodiscard]] std::uint64_t taken() const { return taken_; }

protected:
  explicit Training(const Facts& facts) : facts_(facts) {}

  [[nodiscard]] std::uint64_t replicas() const {
    return static_cast<std::uint64_t>(plan_.topology.replicas);
  }
  /// Throws OptionError on all ranks unless they have the same weights: every parameter that they hold, and the master
  /// weights where each rank keeps all of them. Weights that are not here as they were committed are not compared.
  void require_same_weights();
  /// An OptionError for every rank, if what they have is not alike; else none.
  [[nodiscard]] std::exception_ptr difference(const std::string& what, const std::vector<comm::Alike>& mine,
                                              const std::string& fix);
  /// Proves this rank's programs, `own`, in the order of Policies::programs_in, and with the others those of all. An error for
  /// every rank, if there is one; throws what this rank alone has found.
  [[nodiscard]] std::exception_ptr verify_together(const detail::Policies& policies, const TrainerSettings& settings,
                                                   Bytes memory_bytes, std::span<const run::PlacedProgram* const> own);
  /// "element 3 of 'wte.weight' is nan on rank 0": of the lowest rank that has one; empty if all weights are finite. All ranks.
  [[nodiscard]] std::string first_weight_not_finite();
  /// What a step that is not finite came to, by what each rank has found when it was repeated. All ranks, or those of a replica that
  /// steps on its own. `weighs`: some micro-batch did.
  [[nodiscard]] std::string describe_not_finite(const detail::Policies& policies, const detail::Finding& finding, bool weighs,
                                                optim::NonFinite reaction);
  /// On all ranks, also those that do not hold what was set: all compare weights before the next step, and a round of
  /// several steps begins anew.
  void weights_were_set(std::string_view parameter);

private:
  [[nodiscard]] std::exception_ptr require_same_plan(const detail::Policies& policies, const TrainerSettings& settings,
                                                     std::span<const run::PlacedProgram* const> own);
  [[nodiscard]] std::string text_of(const ModelState::NotFinite& weight) const;
  /// That of the lowest rank that has one, and which rank that is; else none. All ranks.
  [[nodiscard]] std::pair<ModelState::NotFinite, int> lowest_weight_not_finite();
  /// Throws ScheduleError where a program of this rank, or of another with as much memory, does not fit. A rank that has
  /// more or less speaks for itself.
  void require_memory(const detail::Policies& policies, Bytes memory_bytes, std::span<const run::PlacedProgram* const> own);

protected:
  Facts facts_;
  std::unique_ptr<comm::Progress> progress_;
  run::StepPlan plan_;
  run::StepState state_;
  std::optional<ModelState> model_state_;
  std::optional<comm::SharedCounter> counter_;
  std::uint64_t taken_ = 0;    ///< micro-batches of this rank, where it decides how many
  bool same_weights_ = false;  ///< compared between the ranks since they were last set from outside
  std::string weights_set_{};  ///< the parameter that was set first since then, if one was
  detail::OneThread one_thread_{};
  std::shared_ptr<checkpoint::Claim> claimed_directory_{};
};

}  // namespace v0
}  // namespace reef

#ifndef REEF_COMPILED
#include <reef/trainer/training.ipp>
#endif
