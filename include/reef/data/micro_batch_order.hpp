#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <reef/core/error.hpp>

namespace reef::inline v0::data {

/// Which samples each rank takes: a step takes k_r micro-batches of B samples on rank r, rank after
/// rank, so the samples of a step are the same however they are spread.
///
///     first(s, r, j) = (s sum(k) + k_0 + ... + k_{r-1} + j) B
///
/// Counts may differ between ranks and may be 0. Throws OptionError if none is positive.
class MicroBatchOrder {
public:
  MicroBatchOrder(std::vector<std::int64_t> counts, std::int64_t batch)
      : counts_(std::move(counts)), batch_(batch) {
    before_.push_back(0);
    bool valid = batch >= 1;
    for (const std::int64_t count : counts_) {
      valid = valid && count >= 0;
      before_.push_back(before_.back() + count);
    }
    if (!valid || before_.back() < 1) {
      throw OptionError("reef::data::MicroBatchOrder: B = ", batch, ", ", before_.back(),
                        " micro-batches a step.\n  fix: B >= 1, no negative count, and at least "
                        "one micro-batch on some rank.");
    }
  }

  [[nodiscard]] std::int64_t ranks() const { return static_cast<std::int64_t>(counts_.size()); }
  [[nodiscard]] std::int64_t batch() const { return batch_; }
  /// k_r.
  [[nodiscard]] std::int64_t count(int rank) const {
    return counts_.at(static_cast<std::size_t>(rank));
  }
  /// How many micro-batches, and how many samples, all ranks take in a step.
  [[nodiscard]] std::int64_t step_micro_batches() const { return before_.back(); }
  [[nodiscard]] std::uint64_t step_samples() const {
    return static_cast<std::uint64_t>(before_.back() * batch_);
  }

  /// The global index of the first sample of micro-batch j of `rank`, counted from the step's first
  /// sample.
  [[nodiscard]] std::uint64_t offset(int rank, std::int64_t j) const {
    return static_cast<std::uint64_t>((before_.at(static_cast<std::size_t>(rank)) + j) * batch_);
  }
  /// The same from the run's first sample, where every step so far had these counts.
  [[nodiscard]] std::uint64_t first(std::uint64_t step, int rank, std::int64_t j) const {
    return step * step_samples() + offset(rank, j);
  }

private:
  std::vector<std::int64_t> counts_;
  std::int64_t batch_;
  std::vector<std::int64_t> before_;
};

}  // namespace reef::inline v0::data
