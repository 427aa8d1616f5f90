#pragma once

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include <reef/core/text.hpp>
#include <reef/optim/concept.hpp>
#include <reef/optim/detail/rule_kernel.hpp>
#include <reef/optim/verdict.hpp>
#include <reef/run/step_builder.hpp>

/// \file
/// The end that optimizer policies share: the state of an update rule, and `Update(b)`, the
/// instruction that applies the rule to a bucket's weights, or to this rank's shard of them.

namespace reef::inline v0::optim {

namespace detail {

inline std::string state_name(int state, std::size_t bucket) {
  return concat("state ", state, " of weights ", bucket);
}

/// The storage of that name. Throws ScheduleError when there is none.
inline run::StorageId find(const schedule::Program& program, const std::string& name) {
  for (std::size_t id = 0; id < program.storages.size(); ++id) {
    if (program.storages[id].name == name) return static_cast<run::StorageId>(id);
  }
  throw ScheduleError("reef::optim: no storage '", name, "' was reserved.");
}

}  // namespace detail

/// Reserves what a rule keeps from step to step: of the weights in this rank's shards, or of all.
inline void reserve_states(run::StepBuilder& builder, int states, bool sharded) {
  for (std::size_t b = 0; b < builder.plan.buckets.size(); ++b) {
    const run::Bucket& bucket = builder.plan.buckets[b];
    const std::int64_t elements = sharded ? bucket.shard_size(builder.rank()) : bucket.size();
    for (int state = 0; state < states; ++state) {
      builder.program.add_storage(detail::state_name(state, b),
                                  static_cast<Bytes>(elements) * builder.plan.element_bytes(),
                                  run::Place::device, run::Life::persistent);
    }
  }
}

/// Where the states lie that reserve_states has reserved, for checkpoints.
inline std::vector<StateRange> state_ranges(const run::StepBuilder& builder, int states,
                                            bool sharded) {
  std::vector<StateRange> ranges;
  for (int state = 0; state < states; ++state) {
    for (std::size_t b = 0; b < builder.plan.buckets.size(); ++b) {
      const run::Bucket& bucket = builder.plan.buckets[b];
      const auto rank = static_cast<std::size_t>(builder.rank());
      ranges.push_back({detail::find(builder.program, detail::state_name(state, b)),
                        concat("state.", state), bucket.begin + (sharded ? bucket.shards[rank] : 0),
                        sharded ? bucket.shard_size(builder.rank()) : bucket.size()});
    }
  }
  return ranges;
}

/// Appends `Update(b)`. `target` is the storage of the bucket's weights, or a part of it, this rank's
/// shard; `gradient` holds the summed gradient of the whole bucket or of that shard.
///
///     reads        gradient, builder.verdict, weights        writes  target, version 1
///     accumulates  the rule's states
inline void add_update(run::StepBuilder& builder, std::size_t b, run::Value gradient,
                       run::StorageId target, int states) {
  schedule::Program& program = builder.program;
  schedule::Instruction& update = program.add("Update", run::Lane::compute, static_cast<int>(b));
  update.reads = {gradient, {builder.verdict, 0}, {builder.weights[b], 0}};
  update.writes = {{target, 1}};
  for (int state = 0; state < states; ++state) {
    update.accumulates.push_back({detail::find(program, detail::state_name(state, b)), 0});
  }
  update.cost.bytes = program.storages[target].bytes * static_cast<Bytes>(3 + 2 * states);
}

/// Adds the code of Update: the rule on each run of weights that decay or do not, with the gradient
/// times the verdict's scale; nothing if the verdict does not commit.
template <class Handlers, class Site, update_rule Rule>
void add_update_code(Handlers& handlers, const Site& site, Rule rule) {
  using T = typename Site::element_type;
  using Lane = typename Handlers::Lane;
  handlers.on_lane(
      "Update", [&site, rule](const schedule::Instruction& i) -> typename Handlers::Code {
        const run::StepPlan& plan = site.plan();
        const auto* const verdict = site.memory.template at<const Verdict>(i.reads[1].storage);
        const std::int64_t n = std::min(site.elements(i.reads[0]), site.elements(i.writes[0]));
        const run::Bucket& bucket = plan.buckets[static_cast<std::size_t>(i.index)];
        const std::int64_t begin =
            n == bucket.size() ? 0 : bucket.shards[static_cast<std::size_t>(site.rank())];
        struct Run {
          bool decays;
          std::int64_t elements;
          detail::RuleKernel<Rule, T> kernel;
        };
        std::vector<Run> runs;
        for (std::size_t p = 0; p < plan.dag->parameters.size(); ++p) {
          if (plan.bucket_of_parameter[p] != i.index) continue;
          const graph::Parameter& parameter = plan.dag->parameters[p];
          const std::int64_t at = plan.layout.parameters[p] - bucket.begin;
          const std::int64_t from = std::max(at, begin);
          const std::int64_t to = std::min(at + parameter.spec.shape.size(), begin + n);
          if (from >= to) continue;
          Run run{parameter.decay, to - from, {}};
          run.kernel.w = site.at(i.writes[0]) + (from - begin);
          run.kernel.g = site.at(i.reads[0]) + (from - begin);
          for (std::size_t k = 0; k < i.accumulates.size(); ++k) {
            run.kernel.state[k] = site.at(i.accumulates[k]) + (from - begin);
          }
          runs.push_back(run);
        }
        return [runs = std::move(runs), verdict, &state = site.state, rule](Lane& lane) {
          if (!verdict->commit) return;
          const std::int64_t t = state.committed + 1;
          const auto decaying = rule.template coefficients<T>(t, state.learning_rate, true);
          const auto plain = rule.template coefficients<T>(t, state.learning_rate, false);
          for (const Run& run : runs) {
            detail::RuleKernel<Rule, T> kernel = run.kernel;
            kernel.scale = static_cast<T>(verdict->scale);
            kernel.c = run.decays ? decaying : plain;
            transform_vectors<T>(lane, run.elements, kernel);
          }
        };
      });
}

}  // namespace reef::inline v0::optim
