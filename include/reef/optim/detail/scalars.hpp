#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <span>
#include <utility>
#include <vector>

#include <reef/core/config.hpp>
#include <reef/core/error.hpp>
#include <reef/core/product.hpp>
#include <reef/optim/verdict.hpp>
#include <reef/optim/views.hpp>
#include <reef/run/step_builder.hpp>

/// \file
/// What ranks count and tell each other before a Verdict, and what it says.

namespace reef {
inline namespace v0 {
namespace optim::detail {

/// What ranks tell each other once a step, in doubles, rank after rank:
///
///     (loss weight, weight * loss, micro-batches) of each fold | sums of squares, bucket after bucket
///
/// A rank that computes no loss has zeros for its folds, and of buckets each has the sums of those that it
/// holds. Read replica by replica, and bucket by bucket in the order of ranks, the numbers come in one
/// order, whatever the numbers of replicas and stages are: that of the flat parameter layout.
struct ScalarLayout {
  static constexpr int counts = 3;  ///< of a fold

  int folds_per_rank = 1;
  std::vector<std::int64_t> ranks{0};  ///< P + 1 offsets
  std::vector<std::vector<std::int64_t>>
      norms;  ///< by rank, by bucket: offset of the first sum; and the end

  ScalarLayout(const run::StepPlan& plan, bool trains);

  [[nodiscard]] std::int64_t size() const { return ranks.back(); }
};

/// Adds a micro-batch to what is counted of its fold:
///
///     (sum of weights, sum of weight * loss, number)
template <real T>
struct CountKernel {
  double* counts;
  const T* loss;
  const T* weight;
  bool first;  ///< of the fold

  template <class At>
  REEF_HOST_DEVICE void operator()(const At&) const {
    const auto w = static_cast<double>(*weight);
    const double terms[] = {w, product(w, static_cast<double>(*loss)), 1};
    for (int i = 0; i < ScalarLayout::counts; ++i) counts[i] = (first ? 0 : counts[i]) + terms[i];
  }
};

/// What a process counts of its micro-batches, fold after fold.
template <real T>
struct Counts {
  std::vector<const T*> losses;
  std::vector<const T*> weights;
  std::vector<int> folds;  ///< micro-batches of each

  /// Of the micro-batches that a Scalars or an OwnDecide reads.
  template <class RankContext>
  Counts(const RankContext& context, const ScalarsView<const schedule::Instruction>& view) {
    const std::size_t count = view.losses.size();
    for (std::size_t j = 0; j < count; ++j) {
      losses.push_back(context.at(view.losses[j]));
      weights.push_back(context.at(view.loss_weights[j]));
    }
    const auto [first, last] = context.plan().folds_of(context.rank());
    for (int fold = first; fold < last; ++fold) {
      folds.push_back(context.plan().micro_batches[static_cast<std::size_t>(fold)]);
    }
    const auto planned = static_cast<std::size_t>(std::accumulate(folds.begin(), folds.end(), 0));
    if (count == 0 || count == planned) return;
    throw ScheduleError("reef::optim: a decision is about ", count, " micro-batches, but a phase has ",
                        planned,
                        ".\n  why: they are counted fold by fold, as the plan has them.\n"
                        "  fix: one phase before the decision, or counts of one's own: add_count.");
  }

  /// Zeros where no loss is computed.
  void write_to(double* counts) const {
    if (losses.empty()) {
      std::fill_n(counts, folds.size() * ScalarLayout::counts, 0.0);
      return;
    }
    std::size_t j = 0;
    for (const int fold : folds) {
      for (int k = 0; k < fold; ++k, ++j) {
        CountKernel<T>{counts, losses[j], weights[j], k == 0}(0);
      }
      counts += ScalarLayout::counts;
    }
  }
};

/// Says what a Scalars or an OwnDecide counts: the program's micro-batches, where this rank computes their losses.
void count_micro_batches(schedule::Instruction& scalars, const run::StepBuilder& builder);

/// Reads the losses of the program's micro-batches, or twice their weights, and their weights.
void read_losses(const ScalarsView<schedule::Instruction>& view,
                 const run::StepBuilder& builder, bool losses = true);

/// The sums of squares of pieces of a gradient, block after block.
template <class Lane, class T>
void sum_squares(Lane& lane, const T* gradient,
                 std::span<const std::pair<std::int64_t, std::int64_t>> pieces, double* sums) {
  for (const auto& [begin, end] : pieces) {
    block_sums_of_squares(lane, end - begin, gradient + begin, sums, run::norm_block);
    sums += run::norm_blocks(end - begin);
  }
}

/// What all ranks' scalars say. The sums run in the order of ranks, buckets and blocks, in fp64.
inline Verdict judge_scalars(const ScalarLayout& layout, const double* scalars,
                             const run::StepPlan& plan, const UpdateOptions& options) {
  double weight = 0;
  double weighted_loss = 0;
  double micro_batches = 0;
  double squares = 0;
  for (int replica = 0; replica < plan.topology.replicas; ++replica) {
    for (int stage = 0; stage < plan.topology.stages; ++stage) {
      const double* counts =
          scalars + layout.ranks[static_cast<std::size_t>(plan.topology.rank(replica, stage))];
      for (int fold = 0; fold < layout.folds_per_rank; ++fold, counts += ScalarLayout::counts) {
        weight += counts[0];
        weighted_loss += counts[1];
        micro_batches += counts[2];
      }
    }
  }
  const std::size_t buckets = layout.norms[0].empty() ? 0 : plan.buckets.size();
  for (std::size_t b = 0; b < buckets; ++b) {
    for (const int member : plan.buckets[b].group.members) {
      const auto r = static_cast<std::size_t>(member);
      for (std::int64_t i = layout.norms[r][b]; i < layout.norms[r][b + 1]; ++i) {
        squares += scalars[i];
      }
    }
  }
  Verdict verdict = judge(weight, weighted_loss, squares, options);
  verdict.micro_batches = static_cast<std::int64_t>(micro_batches);
  return verdict;
}

}  // namespace optim::detail
}  // namespace v0
}  // namespace reef

#ifndef REEF_COMPILED
#include <reef/optim/detail/scalars.ipp>
#endif
