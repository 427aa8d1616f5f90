#pragma once

#include <algorithm>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include <reef/core/config.hpp>
#include <reef/core/text.hpp>
#include <reef/optim/verdict.hpp>
#include <reef/run/messages.hpp>
#include <reef/run/step_builder.hpp>

/// \file
/// How ranks come to one Verdict, for optimizer policies to share: `Norms(b)`, `Scalars`, `Decide`; and
/// how a rank comes to its own: `OwnNorms(b)`, `OwnDecide`.

namespace reef::inline v0::optim {

namespace detail {

/// What ranks tell each other once a step, in doubles, rank after rank:
///
///     (loss weight, weight * loss, micro-batches) of each fold | sums of squares, bucket after bucket
///
/// Read rank by rank and bucket by bucket the numbers come in one order, whatever P is.
struct ScalarLayout {
  static constexpr int counts = 3;  ///< of a fold

  int folds_per_rank = 1;
  std::vector<std::int64_t> ranks{0};  ///< P + 1 offsets
  std::vector<std::vector<std::int64_t>>
      norms;  ///< by rank, by bucket: offset of the first sum; and the end

  ScalarLayout(const run::StepPlan& plan, bool trains) : folds_per_rank(plan.virtual_ranks) {
    std::int64_t end = 0;
    for (int rank = 0; rank < plan.ranks; ++rank) {
      end += counts * folds_per_rank;
      norms.emplace_back();
      if (trains) {
        for (const run::Bucket& bucket : plan.buckets) {
          norms.back().push_back(end);
          end += run::norm_blocks(bucket.pieces_of(rank));
        }
        norms.back().push_back(end);
      }
      ranks.push_back(end);
    }
  }

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
    const double terms[] = {w, w * static_cast<double>(*loss), 1};
    for (int i = 0; i < ScalarLayout::counts; ++i) counts[i] = (first ? 0 : counts[i]) + terms[i];
  }
};

/// What a process counts of its micro-batches, fold after fold.
template <real T>
struct Counts {
  std::vector<const T*> losses;
  std::vector<const T*> weights;
  std::vector<int> folds;  ///< micro-batches of each

  /// Of the micro-batches whose losses are `values`, then their weights.
  template <class RankContext>
  Counts(const RankContext& context, std::span<const run::Value> values) {
    const std::size_t count = values.size() / 2;
    for (std::size_t j = 0; j < count; ++j) {
      losses.push_back(context.at(values[j]));
      weights.push_back(context.at(values[count + j]));
    }
    const auto [first, last] = context.plan().folds_of(context.rank());
    for (int fold = first; fold < last; ++fold) {
      folds.push_back(context.plan().micro_batches[static_cast<std::size_t>(fold)]);
    }
  }

  void write_to(double* counts) const {
    std::size_t j = 0;
    for (const int fold : folds) {
      for (int k = 0; k < fold; ++k, ++j) {
        CountKernel<T>{counts, losses[j], weights[j], k == 0}(0);
      }
      counts += ScalarLayout::counts;
    }
  }
};

/// The losses of the program's micro-batches, or twice their weights, then their weights.
inline void add_losses(std::vector<run::Value>& values, const run::StepBuilder& builder,
                       bool losses = true) {
  for (const auto& counted : builder.micro_batches) {
    values.push_back({losses ? counted.loss : counted.loss_weight, 0});
  }
  for (const auto& counted : builder.micro_batches) values.push_back({counted.loss_weight, 0});
}

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
  const auto ranks = static_cast<std::size_t>(plan.ranks);
  for (std::size_t r = 0; r < ranks; ++r) {
    const double* counts = scalars + layout.ranks[r];
    for (int fold = 0; fold < layout.folds_per_rank; ++fold, counts += ScalarLayout::counts) {
      weight += counts[0];
      weighted_loss += counts[1];
      micro_batches += counts[2];
    }
  }
  for (std::size_t b = 0; b + 1 < layout.norms[0].size(); ++b) {
    for (std::size_t r = 0; r < ranks; ++r) {
      for (std::int64_t i = layout.norms[r][b]; i < layout.norms[r][b + 1]; ++i) {
        squares += scalars[i];
      }
    }
  }
  Verdict verdict = judge(weight, weighted_loss, squares, options);
  verdict.micro_batches = static_cast<std::int64_t>(micro_batches);
  return verdict;
}

}  // namespace detail

/// What a decision is about. Without counts, the micro-batches that the program has so far.
struct DecisionOptions {
  bool beside = false;  ///< Norms run on the update lane, not only of what lives in host memory
  bool norms = true;    ///< without, or where the plan does not check, the norm is 0
  bool losses = true;   ///< without, weights stand in their place: there are no losses yet
  std::vector<run::Value> counts{};  ///< by fold of this process: what `Count` has written
};

/// Appends `Count(j)`: it adds micro-batch j to `counts`, 3 doubles, or begins them with it.
///
///     reads   loss, loss weight            writes, accumulates   counts
inline void add_count(run::StepBuilder& builder, std::size_t j, run::Value counts, bool first) {
  const auto& storages = builder.micro_batches[j];
  schedule::Instruction& count =
      builder.program.add("Count", run::Lane::compute, -1, static_cast<int>(j));
  count.reads = {{storages.loss, 0}, {storages.loss_weight, 0}};
  (first ? count.writes : count.accumulates) = {counts};
}

/// Appends what ends in the step's Verdict, and sets builder.verdict; an evaluation has no Norms.
///
///     Norms(b)   sums of squares of this rank's shard of the reduced gradient, block by block
///     Scalars    all ranks tell each other their losses, loss weights and sums
///     Decide     folds them in one order, so that all ranks have the same bits
///
/// `gradients[b]` holds the reduced gradient of bucket b, whole or this rank's shard of it; version 0.
inline void add_decision(run::StepBuilder& builder, std::uint32_t channel,
                         const std::vector<run::StorageId>& gradients,
                         const DecisionOptions& about = {}) {
  using run::Lane;
  using run::Place;
  const run::StepPlan& plan = builder.plan;
  schedule::Program& program = builder.program;
  const bool norms = builder.trains() && about.norms && plan.waits_for_global_norm;
  std::vector<run::Value> sums;
  for (std::size_t b = 0; norms && b < plan.buckets.size(); ++b) {
    const run::Bucket& bucket = plan.buckets[b];
    const auto blocks = static_cast<Bytes>(run::norm_blocks(bucket.pieces_of(builder.rank())));
    sums.push_back(
        {program.add_storage(concat("sums of squares ", b), blocks * sizeof(double), Place::device),
         0});
    const bool beside = about.beside || plan.place_of(b) == Place::host;
    schedule::Instruction& squares =
        program.add("Norms", beside ? Lane::update : Lane::compute, static_cast<int>(b));
    squares.reads = {{gradients[b], 0}};
    squares.writes = {sums.back()};
    squares.cost.bytes = static_cast<Bytes>(bucket.shard_size(builder.rank())) * plan.sum_bytes();
  }

  const detail::ScalarLayout layout(plan, norms);
  const run::Value all{
      program.add_storage("scalars", static_cast<Bytes>(layout.size()) * sizeof(double),
                          Place::host),
      0};
  schedule::Instruction& scalars = program.add("Scalars", Lane::reduce);
  scalars.reads = about.counts;
  if (about.counts.empty()) detail::add_losses(scalars.reads, builder, about.losses);
  scalars.reads.insert(scalars.reads.end(), sums.begin(), sums.end());
  scalars.writes = {all};
  run::add_all_gather_messages(scalars, builder, sizeof(double), channel, layout.ranks);

  builder.verdict = program.add_storage("verdict", sizeof(Verdict), Place::host);
  schedule::Instruction& decide = program.add("Decide", Lane::reduce);
  decide.reads = {all};
  decide.writes = {{builder.verdict, 0}};
}

/// Appends what ends in this rank's own Verdict on its micro-batches, and sets builder.verdict. Nobody
/// is told.
///
///     OwnNorms(b)   sums of squares of the gradient of bucket b, block by block
///     OwnDecide     folds losses, loss weights and sums; behind the Batches, not behind messages
inline void add_own_decision(run::StepBuilder& builder) {
  using run::Place;
  schedule::Program& program = builder.program;
  std::vector<run::Value> sums;
  for (std::size_t b = 0; b < builder.plan.buckets.size(); ++b) {
    const run::Bucket& bucket = builder.plan.buckets[b];
    const std::int64_t blocks = run::norm_blocks(bucket.pieces(0, bucket.size()));
    sums.push_back({program.add_storage(concat("sums of squares ", b),
                                        static_cast<Bytes>(blocks) * sizeof(double), Place::device),
                    0});
    schedule::Instruction& norms = program.add("OwnNorms", run::Lane::compute, static_cast<int>(b));
    norms.reads = {{builder.reduced[b], 0}};
    norms.writes = {sums.back()};
    norms.cost.bytes = builder.sum_bytes(b);
  }
  builder.verdict = program.add_storage("verdict", sizeof(Verdict), Place::host);
  schedule::Instruction& decide = program.add("OwnDecide", run::Lane::receive);
  detail::add_losses(decide.reads, builder);
  decide.reads.insert(decide.reads.end(), sums.begin(), sums.end());
  decide.writes = {{builder.verdict, 0}};
}

/// Adds the code of OwnNorms and OwnDecide.
template <class Handlers, class RankContext>
void add_own_decision_code(Handlers& handlers, const RankContext& context, UpdateOptions options) {
  using T = typename RankContext::sum_type;
  handlers.on_lane(
      "OwnNorms", [&context](const schedule::Instruction& i) -> typename Handlers::Code {
        const run::Bucket& bucket = context.plan().buckets[static_cast<std::size_t>(i.index)];
        return [gradient = context.at(i.reads[0]), pieces = bucket.pieces(0, bucket.size()),
                sums = context.memory.template at<double>(i.writes[0].storage)](
                   typename Handlers::Lane& lane) {
          detail::sum_squares(lane, gradient, pieces, sums);
        };
      });
  handlers.on_wire(
      "OwnDecide",
      [&context, options](const schedule::Instruction& i) -> typename Handlers::Communication {
        const std::size_t counted = i.reads.size() - context.plan().buckets.size();
        std::vector<std::span<const double>> sums;
        for (std::size_t k = counted; k < i.reads.size(); ++k) {
          sums.push_back(context.template span<double>(i.reads[k]));
        }
        auto* const verdict = context.memory.template at<Verdict>(i.writes[0].storage);
        const detail::Counts<T> micro_batches(context, std::span(i.reads).first(counted));
        return context.call("decide", [sums, verdict, options, micro_batches] {
          double counts[detail::ScalarLayout::counts] = {};
          micro_batches.write_to(counts);
          double squares = 0;
          for (const std::span<const double> blocks : sums) {
            for (const double sum : blocks) squares += sum;
          }
          *verdict = judge(counts[0], counts[1], squares, options);
          verdict->micro_batches = static_cast<std::int64_t>(counts[2]);
        });
      });
}

/// Adds the code of Norms, Scalars, Decide and Count.
template <class Handlers, class RankContext>
void add_decision_code(Handlers& handlers, const RankContext& context, UpdateOptions options) {
  using T = typename RankContext::sum_type;
  using Lane = typename Handlers::Lane;
  using Code = typename Handlers::Code;
  using Communication = typename Handlers::Communication;
  using schedule::Instruction;
  const bool with_norms = context.builder.trains() && context.plan().waits_for_global_norm;
  const auto layout = std::make_shared<const detail::ScalarLayout>(context.plan(), with_norms);

  handlers.on_lane("Norms", [&context](const Instruction& i) -> Code {
    const run::Bucket& bucket = context.plan().buckets[static_cast<std::size_t>(i.index)];
    auto pieces = bucket.pieces_of(context.rank());
    if (context.elements(i.reads[0]) != bucket.size()) {
      for (auto& [begin, end] : pieces) {
        begin -= bucket.shards[static_cast<std::size_t>(context.rank())];
        end -= bucket.shards[static_cast<std::size_t>(context.rank())];
      }
    }
    return [gradient = context.at(i.reads[0]), pieces = std::move(pieces),
            sums = context.memory.template at<double>(i.writes[0].storage)](Lane& lane) {
      detail::sum_squares(lane, gradient, pieces, sums);
    };
  });

  // Before the gather each rank writes its own numbers to their place among all.
  handlers.on_wire("Scalars", [&context, layout](const Instruction& i) -> Communication {
    const auto rank = static_cast<std::size_t>(context.rank());
    const std::span<double> table = context.template span<double>(i.writes[0]);
    double* const all = table.data();
    const std::int64_t begin = layout->ranks[rank];
    const auto mine = static_cast<std::size_t>(layout->ranks[rank + 1] - begin);
    Communication gather = context.template all_gather<double>(
        "scalars", std::span<const double>(all + begin, mine), table, layout->ranks);

    // Sums of squares come last. Before them are the counts of each fold, or losses and weights of
    // micro-batches, of which each fold has one at least.
    const std::size_t buckets = layout->norms[rank].empty() ? 0 : layout->norms[rank].size() - 1;
    const std::span<const run::Value> counted = std::span(i.reads).first(i.reads.size() - buckets);
    const auto folds = static_cast<std::size_t>(layout->folds_per_rank);
    std::vector<const double*> counts;
    std::optional<detail::Counts<T>> micro_batches;
    if (counted.size() == folds) {
      for (const run::Value value : counted) {
        counts.push_back(context.memory.template at<double>(value.storage));
      }
    } else {
      micro_batches.emplace(context, counted);
    }
    struct Sums {
      const double* from;
      std::int64_t to;
      std::size_t blocks;
    };
    std::vector<Sums> sums;
    for (std::size_t b = 0; b < buckets; ++b) {
      const std::size_t k = i.reads.size() - buckets + b;
      sums.push_back(
          {context.memory.template at<double>(i.reads[k].storage), layout->norms[rank][b],
           static_cast<std::size_t>(context.storage(i.reads[k]).bytes / sizeof(double))});
    }
    gather.begin = [own = all + begin, all, counts, micro_batches, sums] {
      double* to = own;
      for (const double* const from : counts) {
        to = std::copy_n(from, detail::ScalarLayout::counts, to);
      }
      if (micro_batches) micro_batches->write_to(own);
      for (const Sums& s : sums) std::copy_n(s.from, s.blocks, all + s.to);
    };
    return gather;
  });

  handlers.on_lane("Count", [&context](const Instruction& i) -> Code {
    const bool first = i.accumulates.empty();
    const run::Value counts = first ? i.writes[0] : i.accumulates[0];
    const detail::CountKernel<T> kernel{context.memory.template at<double>(counts.storage),
                                        context.at(i.reads[0]), context.at(i.reads[1]), first};
    return [kernel](Lane& lane) { transform_vectors<double>(lane, 1, kernel); };
  });

  handlers.on_wire("Decide", [&context, layout, options](const Instruction& i) -> Communication {
    const auto* const all = context.memory.template at<double>(i.reads[0].storage);
    auto* const verdict = context.memory.template at<Verdict>(i.writes[0].storage);
    const run::StepPlan& plan = context.plan();
    return context.call("decide", [all, verdict, &plan, layout, options] {
      *verdict = detail::judge_scalars(*layout, all, plan, options);
    });
  });
}

}  // namespace reef::inline v0::optim
