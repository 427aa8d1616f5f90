#pragma once

// The members of Trainer that say what a step will be, before there is one: plans, estimates, programs. How a plan
// follows from settings is in planning.hpp; this is what policies and devices have part in.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include <reef/device/cores.hpp>
#include <reef/nn/host/products.hpp>
#include <reef/optim/matrix_rule.hpp>
#include <reef/run/chunk_bounds.hpp>
#include <reef/trainer/detail/plan_of_all.hpp>
#include <reef/trainer/detail/planning.hpp>
#include <reef/trainer/trainer.hpp>

namespace reef {
inline namespace v0 {

template <class... Policies>
auto Trainer<Policies...>::planned(const Model& model, Options options, int ranks,
                                   std::vector<int> micro_batches) -> Options {
  validated(options);
  const Model served = model.serving(device::threads_of(options.device));
  detail::write_choice(detail::plan_of(PolicyTable::table, served.dag(), options, ranks, std::move(micro_batches)),
                       options);
  return options;
}

/// All ranks plan for the smallest device and the slowest link, so that they plan the same; also where nothing is
/// swapped, since messages go by host memory if those of one rank do.
template <class... Policies>
auto Trainer<Policies...>::agreed_options() -> Options {
  Options agreed = options_;
  auto& device = agreed.device;
  detail::AgreedDevice own{device.memory_bytes};
  if constexpr (requires { device.link_bytes_per_second; }) {
    own.link_bytes_per_second = device.link_bytes_per_second;
    own.link_latency = device.link_latency;
    own.slowdown = device.slowdown;
  }
  constexpr bool asks_threads = optim::needs_whole_matrices<Rule> && requires { device.threads; };
  if constexpr (asks_threads) own.threads = device_.threads();
  if constexpr (requires { device.poison_freed; }) own.checks_memory = device.poison_freed;
  const detail::AgreedDevice all = detail::agreed_device(*progress_, own);
  device.memory_bytes = all.memory_bytes;
  if constexpr (requires { device.link_bytes_per_second; }) {
    device.link_bytes_per_second = all.link_bytes_per_second;
    device.link_latency = all.link_latency;
    device.slowdown = all.slowdown;
  }
  if constexpr (asks_threads) device.threads = all.threads;
  if constexpr (requires { device.poison_freed; }) device.poison_freed = all.checks_memory;
  return agreed;
}

/// Of the scratch memory, too, all plan for the most: with more threads a rank needs more of it.
template <class... Policies>
run::StepPlan Trainer<Policies...>::agreed_plan() {
  if constexpr (nn::host::lacks_blas && Device::on_host && std::is_same_v<Sum, float>) {
    if (rank() == 0) nn::host::tell_that_blas_lacks(model_.dag());
  }
  model_.enlarge_workspaces(comm::largest_of_ranks(*progress_, "workspaces", model_.workspaces()));
  std::vector<int> counts = detail::counts_of_all(PolicyTable::table, *progress_, options_);
  return detail::plan_of(PolicyTable::table, model_.dag(), agreed_options(), ranks(), std::move(counts));
}

template <class... Policies>
StepEstimate Trainer<Policies...>::estimate(const Model& model, const Options& options, int ranks,
                                            int rank, std::vector<int> micro_batches) {
  validated(options);
  if (ranks < 1 || rank < 0 || rank >= ranks) {
    throw OptionError("reef::Trainer::estimate: rank ", rank, " of ", ranks,
                      " ranks.\n  fix: at least one rank, and one of them.");
  }
  const Model served = model.serving(device::threads_of(options.device));
  const run::StepPlan plan =
      detail::plan_of(PolicyTable::table, served.dag(), options, ranks, std::move(micro_batches));
  return detail::estimate_of(PolicyTable::table, plan, rank);
}

template <class... Policies>
std::vector<StepEstimate> Trainer<Policies...>::estimate_all(const Model& model, const Options& options, int ranks,
                                                        const detail::EachVariant& each) {
  validated(options);
  if (ranks < 1) {
    throw OptionError("reef::Trainer::estimate_all: ", ranks, " ranks.\n  fix: at least one.");
  }
  const Model served = model.serving(device::threads_of(options.device));
  const run::StepPlan plan = detail::plan_of(PolicyTable::table, served.dag(), options, ranks, {});
  return detail::estimate_all(PolicyTable::table, plan, options.profile ? &*options.profile : nullptr, each);
}

template <class... Policies>
std::vector<schedule::Program> Trainer<Policies...>::programs(const Model& model,
                                                              const Options& options, int ranks,
                                                              std::vector<int> micro_batches,
                                                              int variant) {
  validated(options);
  if (ranks < 1) {
    throw OptionError("reef::Trainer::programs: ", ranks, " ranks.\n  fix: at least one.");
  }
  const Model served = model.serving(device::threads_of(options.device));
  const run::StepPlan plan =
      detail::plan_of(PolicyTable::table, served.dag(), options, ranks, std::move(micro_batches));
  std::vector<schedule::Program> programs =
      detail::programs_of(PolicyTable::table, plan, {run::Purpose::training, variant});
  for (schedule::Program& program : programs) {
    if (options.profile) run::set_costs(program, plan, *options.profile);
  }
  return programs;
}

}  // namespace v0
}  // namespace reef
