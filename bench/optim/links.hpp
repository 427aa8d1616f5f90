#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <reef/comm/collectives.hpp>
#include <reef/comm/communicator.hpp>
#include <reef/comm/functions.hpp>
#include <reef/comm/mpi.hpp>
#include <reef/trace/overlap.hpp>
#include <reef/trace/sink.hpp>

#include "optim/recipes.hpp"
#include "support/measure.hpp"

/// Links of which the model takes as long as is wished, and how long steps take over them.
namespace reef_bench {

/// The largest over all ranks of each number. While no Training lives, whose thread makes MPI's calls.
inline std::vector<double> slowest(std::vector<double> seconds) {
  MPI_Allreduce(MPI_IN_PLACE, seconds.data(), static_cast<int>(seconds.size()), MPI_DOUBLE, MPI_MAX,
                MPI_COMM_WORLD);
  return seconds;
}

inline double mean_over_ranks(double mine) {
  int ranks = 1;
  double sum = 0;
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  MPI_Allreduce(&mine, &sum, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
  return sum / ranks;
}

/// What some steps of a training came to.
struct Steps {
  std::vector<double> seconds;  ///< of each, on the slowest rank
  double wall = 0;  ///< seconds a step by the clock: steps of which now one rank's is longer, now another's
  double exposed = 0;  ///< seconds a step in which a rank communicates and computes nothing
  double sent = 0;     ///< bytes a step, of a rank
  double samples = 0;  ///< a step, of all ranks
};

/// Steps after others that are not counted; wall, exposed and sent are means over ranks.
inline Steps time_steps(const Recipe& recipe, Setting setting,
                        const reef::comm::Communicator& ranks, int steps) {
  constexpr int warm_up = 2;
  reef::trace::Sink sink(ranks.rank());
  Steps result;
  MPI_Barrier(MPI_COMM_WORLD);
  {
    setting.trace = &sink;
    const auto training = recipe.make(std::move(setting), ranks);
    for (int i = 0; i < warm_up; ++i) training->step();
    reef::trace::Recording recording;
    sink.collect(recording);
    recording.spans.clear();
    const auto before = training->progress().meter().operations();
    const double begin = now();
    for (int i = 0; i < steps; ++i) {
      const reef::StepResult step = training->step();
      result.seconds.push_back(step.seconds);
      result.samples += static_cast<double>(step.samples) / steps;
    }
    const double end = now();
    result.wall = (end - begin) / steps;
    const auto sent = training->progress().meter().operations() - before;
    sink.collect(recording);
    result.exposed = reef::trace::analyze(recording.spans, begin, end).exposed / steps;
    result.sent = static_cast<double>(sent.bytes) / steps;
  }
  result.seconds = slowest(std::move(result.seconds));
  result.wall = mean_over_ranks(result.wall);
  result.exposed = mean_over_ranks(result.exposed);
  result.sent = mean_over_ranks(result.sent);
  return result;
}

/// The Setting of a step with so many micro-batches on each rank, over those links.
using MakeSetting = std::function<Setting(int micro_batches, reef::profile::Network links)>;

/// c: seconds of one micro-batch, while all ranks compute and none communicates. What a step has beside
/// its micro-batches falls out. The same number on all ranks, as m is.
inline double micro_batch_seconds(const MakeSetting& setting,
                                  const reef::comm::Communicator& self) {
  constexpr int many = 9;
  const auto alone = [&](int count) {
    return median(time_steps(recipe_of("ddp"), setting(count, {}), self, 4).seconds);
  };
  return (alone(many) - alone(1)) / (many - 1);
}

/// m: seconds in which the gradient is reduced to its shards and the model gathered from them, bucket by
/// bucket as in a step, while no rank computes.
inline double exchange_seconds(Setting setting, const reef::comm::Communicator& ranks) {
  using namespace reef::comm;
  std::vector<double> seconds;
  {
    const auto training = recipe_of("zero1").make(std::move(setting), ranks);
    Progress& progress = training->progress();
    Queue& queue = progress.queue("alone");
    const auto rank = static_cast<std::size_t>(ranks.rank());
    const auto& buckets = training->plan().buckets;
    std::vector<std::vector<float>> data;
    std::vector<std::unique_ptr<ReduceScatterTask<float>>> reductions;
    std::vector<std::unique_ptr<AllGatherTask<float>>> gatherings;
    for (const reef::run::Bucket& bucket : buckets) {
      data.emplace_back(static_cast<std::size_t>(bucket.size()));
      const std::span<float> all = data.back();
      const auto own = all.subspan(static_cast<std::size_t>(bucket.shards[rank]),
                                   static_cast<std::size_t>(bucket.shard_size(ranks.rank())));
      const std::string name = std::to_string(data.size());
      reductions.push_back(std::make_unique<ReduceScatterTask<float>>(
          "reduced alone " + name, std::span<const float>(all), own, bucket.shards));
      gatherings.push_back(std::make_unique<AllGatherTask<float>>(
          "gathered alone " + name, std::span<const float>(own), all, bucket.shards));
    }
    const auto run_all = [&](auto& tasks) {
      for (auto& task : tasks) progress.submit(queue, *task);
      for (auto& task : tasks) progress.wait(*task);
    };
    for (int repeat = 0; repeat < 4; ++repeat) {
      barrier(progress, "start");
      seconds.push_back(seconds_of([&] {
        run_all(reductions);
        run_all(gatherings);  // the update between them needs the norm of all
      }));
    }
  }
  seconds.erase(seconds.begin());  // buffers grow and connections open once
  return median(slowest(std::move(seconds)));
}

/// Links between all ranks, of a bandwidth with which m is about `target` seconds. No latency.
inline reef::profile::Network links_for(double target, const MakeSetting& setting,
                                          const reef::comm::Communicator& ranks) {
  const auto of = [&](double bandwidth) {
    return reef::profile::Network::uniform(ranks.size(), 0, bandwidth);
  };
  const auto parameters = static_cast<double>(setting(1, {}).model.dag().parameter_count());
  const double even = 2 * parameters * sizeof(float) / ranks.size() / target;
  // Shards are not quite even, and summing takes its time.
  return of(even * exchange_seconds(setting(1, of(even)), ranks) / target);
}

}  // namespace reef_bench
