#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include <reef/core/text.hpp>
#include <reef/optim/detail/rule_kernel.hpp>
#include <reef/optim/detail/synchronous.hpp>
#include <reef/optim/verdict.hpp>

namespace reef::inline v0::optim {

namespace detail {

/// What all ranks' scalars say. The sums run in the order of ranks, buckets and blocks, in fp64.
inline Verdict judge(const ScalarLayout& layout, const double* scalars, std::size_t buckets,
                     const run::StepPlan& plan, const UpdateOptions& options) {
  Verdict verdict;
  double squares = 0;
  const auto ranks = static_cast<std::size_t>(plan.ranks);
  for (std::size_t r = 0; r < ranks; ++r) {
    const double* const pairs = scalars + layout.ranks[r];
    for (int fold = 0; fold < layout.folds_per_rank; ++fold) {
      verdict.weight += pairs[2 * fold];
      verdict.loss += pairs[2 * fold + 1];
    }
  }
  for (std::size_t b = 0; b < buckets; ++b) {
    for (std::size_t r = 0; r < ranks; ++r) {
      const std::int64_t blocks =
          ScalarLayout::blocks(plan.buckets[b].shard_size(static_cast<int>(r)));
      for (std::int64_t i = 0; i < blocks; ++i) squares += scalars[layout.norms[r][b] + i];
    }
  }
  verdict.loss /= verdict.weight;
  verdict.norm = std::sqrt(squares) / verdict.weight;
  verdict.finite = std::isfinite(verdict.loss) && std::isfinite(verdict.norm);
  verdict.commit = verdict.finite;
  verdict.scale = 1 / verdict.weight;
  if (options.clip_norm > 0 && verdict.norm > options.clip_norm) {
    verdict.scale *= options.clip_norm / verdict.norm;
  }
  return verdict;
}

/// Adds the code of the synchronous step for one rule. It knows devices and ranks through the Site
/// alone, so that writing and simulating programs needs neither.
template <class Rule, class Handlers, class Site>
class SynchronousCode {
public:
  using T = typename Site::element_type;
  using Lane = typename Handlers::Lane;
  using Code = typename Handlers::Code;
  using Communication = typename Handlers::Communication;

  SynchronousCode(const Site& site, Rule rule, UpdateOptions options)
      : site_(site),
        rule_(rule),
        options_(options),
        layout_(std::make_shared<ScalarLayout>(site.plan(), site.builder.purpose)) {}

  void add(Handlers& handlers) const {
    handlers.on_wire("ReduceScatter", [*this](const Instruction& i) { return reduce_scatter(i); });
    handlers.on_wire("GatherGradients", [*this](const Instruction& i) { return all_gather(i); });
    handlers.on_wire("GatherWeights", [*this](const Instruction& i) { return all_gather(i); });
    handlers.on_lane("Norms", [*this](const Instruction& i) { return norms(i); });
    handlers.on_wire("Scalars", [*this](const Instruction& i) { return scalars(i); });
    handlers.on_wire("Decide", [*this](const Instruction& i) { return decide(i); });
    handlers.on_lane("Update", [*this](const Instruction& i) { return update(i); });
  }

private:
  [[nodiscard]] const run::Bucket& bucket(const Instruction& instruction) const {
    return site_.plan().buckets[static_cast<std::size_t>(instruction.index)];
  }

  /// Where this rank's shard begins in a storage of the whole bucket, or of the shard alone.
  [[nodiscard]] std::int64_t shard_begin(const Instruction& instruction, run::Value value) const {
    const run::Bucket& b = bucket(instruction);
    return site_.elements(value) == b.size() ? b.shards[static_cast<std::size_t>(site_.rank())] : 0;
  }

  [[nodiscard]] Communication reduce_scatter(const Instruction& i) const {
    return site_.reduce_scatter(concat("gradients ", i.index), i.reads[0], i.writes[0],
                                bucket(i).shards);
  }

  [[nodiscard]] Communication all_gather(const Instruction& i) const {
    const std::string what = i.kind == "GatherWeights" ? "weights " : "gradients ";
    return site_.template all_gather<T>(concat(what, i.index), site_.span(i.reads[0]),
                                        site_.span(i.writes[0]), bucket(i).shards);
  }

  [[nodiscard]] Code norms(const Instruction& i) const {
    const T* const gradient = site_.at(i.reads[0]) + shard_begin(i, i.reads[0]);
    auto* const sums = site_.memory.template at<double>(i.writes[0].storage);
    return [gradient, sums, n = bucket(i).shard_size(site_.rank())](Lane& lane) {
      block_sums_of_squares(lane, n, gradient, sums, run::norm_block);
    };
  }

  /// Before the gather each rank writes its own numbers to their place among all.
  [[nodiscard]] Communication scalars(const Instruction& i) const {
    const run::StepPlan& plan = site_.plan();
    const auto rank = static_cast<std::size_t>(site_.rank());
    const std::span<double> table = site_.template span<double>(i.writes[0]);
    double* const all = table.data();
    const std::int64_t begin = layout_->ranks[rank];
    const auto mine = static_cast<std::size_t>(layout_->ranks[rank + 1] - begin);
    Communication gather = site_.template all_gather<double>(
        "scalars", std::span<const double>(all + begin, mine), table, layout_->ranks);

    const auto count = static_cast<std::size_t>(plan.micro_batches_of(site_.rank()));
    std::vector<const T*> losses;
    std::vector<const T*> weights;
    for (std::size_t j = 0; j < count; ++j) {
      losses.push_back(site_.at(i.reads[j]));
      weights.push_back(site_.at(i.reads[count + j]));
    }
    struct Sums {
      const double* from;
      std::int64_t to;
      std::size_t blocks;
    };
    std::vector<Sums> sums;
    for (std::size_t k = 2 * count; k < i.reads.size(); ++k) {
      const std::size_t b = k - 2 * count;
      sums.push_back({site_.memory.template at<double>(i.reads[k].storage), layout_->norms[rank][b],
                      static_cast<std::size_t>(site_.storage(i.reads[k]).bytes / sizeof(double))});
    }
    std::vector<int> folds;
    const auto [first, last] = plan.folds_of(site_.rank());
    for (int fold = first; fold < last; ++fold) {
      folds.push_back(plan.micro_batches[static_cast<std::size_t>(fold)]);
    }
    gather.begin = [all, begin, losses, weights, sums, folds] {
      std::size_t j = 0;
      double* pair = all + begin;
      for (const int fold : folds) {
        pair[0] = 0;
        pair[1] = 0;
        for (int k = 0; k < fold; ++k, ++j) {
          const auto weight = static_cast<double>(*weights[j]);
          pair[0] += weight;
          pair[1] += weight * static_cast<double>(*losses[j]);
        }
        pair += 2;
      }
      for (const Sums& s : sums) std::copy_n(s.from, s.blocks, all + s.to);
    };
    return gather;
  }

  [[nodiscard]] Communication decide(const Instruction& i) const {
    const auto* const all = site_.memory.template at<double>(i.reads[0].storage);
    auto* const verdict = site_.memory.template at<Verdict>(i.writes[0].storage);
    const run::StepPlan& plan = site_.plan();
    const bool trains = site_.builder.purpose == run::Purpose::training;
    const std::size_t buckets = trains ? plan.buckets.size() : 0;
    return site_.call("decide",
                      [all, verdict, &plan, buckets, layout = layout_, options = options_] {
                        *verdict = judge(*layout, all, buckets, plan, options);
                      });
  }

  /// One kernel for each run of weights that decay or do not.
  [[nodiscard]] Code update(const Instruction& i) const {
    const auto* const verdict = site_.memory.template at<const Verdict>(i.reads[1].storage);
    const std::int64_t n = std::min(site_.elements(i.reads[0]), site_.elements(i.writes[0]));
    const run::Bucket& b = bucket(i);
    const std::int64_t begin = n == b.size() ? 0 : b.shards[static_cast<std::size_t>(site_.rank())];
    struct Run {
      bool decays;
      std::int64_t elements;
      RuleKernel<Rule, T> kernel;
    };
    std::vector<Run> runs;
    for (std::size_t p = 0; p < site_.plan().dag->parameters.size(); ++p) {
      if (site_.plan().bucket_of_parameter[p] != i.index) continue;
      const graph::Parameter& parameter = site_.plan().dag->parameters[p];
      const std::int64_t at = site_.plan().layout.parameters[p] - b.begin;
      const std::int64_t from = std::max(at, begin);
      const std::int64_t to = std::min(at + parameter.spec.shape.size(), begin + n);
      if (from >= to) continue;
      Run run{parameter.decay, to - from, {}};
      run.kernel.w = site_.at(i.writes[0]) + (from - begin);
      run.kernel.g = site_.at(i.reads[0]) + (from - begin);
      for (std::size_t k = 0; k < i.accumulates.size(); ++k) {
        run.kernel.state[k] = site_.at(i.accumulates[k]) + (from - begin);
      }
      runs.push_back(run);
    }
    return [runs = std::move(runs), verdict, &state = site_.state, rule = rule_](Lane& lane) {
      if (!verdict->commit) return;
      const std::int64_t t = state.committed + 1;
      const auto decaying = rule.template coefficients<T>(t, state.learning_rate, true);
      const auto plain = rule.template coefficients<T>(t, state.learning_rate, false);
      for (const Run& run : runs) {
        RuleKernel<Rule, T> kernel = run.kernel;
        kernel.scale = static_cast<T>(verdict->scale);
        kernel.c = run.decays ? decaying : plain;
        transform_vectors<T>(lane, run.elements, kernel);
      }
    };
  }

  const Site& site_;
  Rule rule_;
  UpdateOptions options_;
  std::shared_ptr<const ScalarLayout> layout_;
};

}  // namespace detail

}  // namespace reef::inline v0::optim
