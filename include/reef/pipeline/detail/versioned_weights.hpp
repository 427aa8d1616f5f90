#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include <reef/core/error.hpp>
#include <reef/run/instructions.hpp>
#include <reef/run/step_builder.hpp>
#include <reef/run/tied.hpp>

namespace reef {
inline namespace v0 {
namespace pipeline::detail {

/// Throws OptionError where a pipeline that updates within a step cannot have it drained at its end, or would need what
/// only a whole step knows.
void require_drained(const run::StepPlan& plan);

/// The versions of some weights within a step, in a ring of storages. The first is where the step begins and ends.
struct WeightRing {
  std::vector<run::StorageId> storages{};

  [[nodiscard]] int size() const { return static_cast<int>(storages.size()); }
  /// A version of a Value counts how often its storage was written: the weights are there when the step begins.
  [[nodiscard]] run::Value at(int version) const {
    return {storages[static_cast<std::size_t>(version % size())], version / size()};
  }
  /// The last, where `newest` is the highest that was written before.
  [[nodiscard]] run::Value last(int newest) const {
    return {storages.front(), newest / size() + 1};
  }
};

/// Writes the updates of a stage within a step, and says which weights a micro-batch has: while it lives, those are
/// what the builder has for weights.
///
/// A parameter that other stages use too is everywhere of the version that its owner has for the micro-batch: its
/// gradients go to the owner for each update, and weights come back before the first forward that reads them.
class VersionedWeights {
public:
  /// `first`: of the program's micro-batches, the first of the step, which has so many.
  VersionedWeights(run::StepBuilder& builder, int first, int micro_batches, int fold);
  ~VersionedWeights();
  VersionedWeights(const VersionedWeights&) = delete;
  VersionedWeights& operator=(const VersionedWeights&) = delete;

  /// Micro-batch j of the step is written next.
  void select(int j);

  [[nodiscard]] bool begins_update(int j) const { return j % versions_.every == 0; }

  /// Behind the backward of micro-batch j: the update, if that was the last that it waits for.
  void update_behind(int j);

private:
  struct Copy {
    run::TiedCopy tied{};
    int owner = 0;
    int version = 0;  ///< the highest that has come
    WeightRing ring{};
  };

  [[nodiscard]] int newest_read(int stage) const { return versions_.version_of(stage, last_); }

  WeightRing ring(const std::string& name, run::StorageId first, int size);

  void receive(const Copy& copy, run::Value to) { run::add_tied_copy(builder_, copy.tied, {}, to); }

  run::StepBuilder& builder_;
  const run::StepPlan& plan_;
  const run::WeightVersions& versions_;
  int first_;
  int last_;  ///< micro-batch of the step
  int fold_;
  int updates_;
  std::vector<run::StorageId> weights_;
  std::vector<run::StorageId> tied_weights_;
  run::AccumulationPhase phase_;
  std::vector<WeightRing> rings_{};  ///< by bucket
  std::vector<Copy> copies_{};
};

}  // namespace pipeline::detail
}  // namespace v0
}  // namespace reef

#ifndef REEF_COMPILED
#include <reef/pipeline/detail/versioned_weights.ipp>
#endif
