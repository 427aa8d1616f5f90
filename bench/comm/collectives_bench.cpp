// Every collective beside MPI's own, on arrays where a Trainer keeps its tensors.
//
//   mpiexec -n 2 build/release/bench/comm_collectives_bench [BYTES...]
//
// Ours sum in rank order, MPI's promise none. "read": straight from the other ranks' memory; "slots":
// through shared memory, as where the system forbids that; "messages": MPI messages, as between nodes.
// The roof is a memcpy of as many bytes on all ranks at once. Medians over rounds in which the ways
// take turns; times are the slowest rank's. "against" is a way's time over the best of ours, "of roof"
// the roof's time over its own. Run it with 2 ranks bound to a core each: ranks that share a core
// measure the scheduler.

#include <mpi.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <reef/comm/functions.hpp>
#include <reef/comm/gather.hpp>
#include <reef/device/host.hpp>

#include "support/measure.hpp"

namespace {

using namespace reef;
using namespace reef::comm;
using reef_bench::median;

constexpr int blocks = 3;
constexpr int rounds_per_block = 5;

enum class By { reading, slots, messages, mpi, memory };

struct Way {
  std::string name;
  By by;
  std::function<void()> run;
  std::vector<double> seconds{};
};

/// Arrays in the memory of a device, as a Trainer has them.
class Arrays {
public:
  explicit Arrays(Bytes bytes)
      : count(bytes / sizeof(float)),
        memory_{device_.allocate(bytes, "array"), device_.allocate(bytes, "sum"),
                device_.allocate(bytes, "copy")} {
    for (int i = 0; i < 3; ++i) std::fill_n(array(i).data(), count, 0.0F);
  }
  [[nodiscard]] std::span<float> array(int i) const {
    return {static_cast<float*>(memory_[i].data()), count};
  }

  std::size_t count;

private:
  device::Host device_{{.threads = 1}};
  device::Host::Buffer memory_[3];
};

class Bench {
public:
  void run(Bytes bytes) {
    const Arrays arrays(bytes);
    const auto n = static_cast<std::int64_t>(arrays.count);
    const int ranks = world_.size();
    const int me = world_.rank();
    const auto offsets = even_offsets(n, ranks);
    const auto begin = static_cast<std::size_t>(offsets[static_cast<std::size_t>(me)]);
    const auto length = static_cast<std::size_t>(offsets[static_cast<std::size_t>(me) + 1]) - begin;
    const std::span<float> data = arrays.array(0);
    const std::span<float> other = arrays.array(1);
    const std::span<float> shard = data.subspan(begin, length);
    const int count = static_cast<int>(n);
    std::vector<int> counts;
    std::vector<int> places;
    for (int rank = 0; rank < ranks; ++rank) {
      const auto at = static_cast<std::size_t>(rank);
      places.push_back(static_cast<int>(offsets[at]));
      counts.push_back(static_cast<int>(offsets[at + 1] - offsets[at]));
    }
    const Way roof{"memcpy", By::memory,
                   [&, bytes] { std::memcpy(arrays.array(2).data(), data.data(), bytes); }};
    const auto mpi = [](std::string name, std::function<void()> run) {
      return Way{std::move(name), By::mpi, std::move(run)};
    };
    const auto wait = [](MPI_Request request) { MPI_Wait(&request, MPI_STATUS_IGNORE); };

    // Reductions of the whole array, as a data-parallel step needs them.
    std::vector<Way> sums;
    sums.push_back(mpi("MPI_Allreduce", [&, count] {
      MPI_Allreduce(data.data(), other.data(), count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
    }));
    for (const int chunk : {count, 1 << 18, 1 << 21}) {
      if (chunk > count) continue;
      const std::string how = chunk == count ? "" : concat(", ", chunk >> 18, " MiB at a time");
      sums.push_back(mpi("MPI_Allreduce in place" + how, [&, count, chunk] {
        for (int at = 0; at < count; at += chunk) {
          MPI_Allreduce(MPI_IN_PLACE, data.data() + at, std::min(chunk, count - at), MPI_FLOAT,
                        MPI_SUM, MPI_COMM_WORLD);
        }
      }));
    }
    sums.push_back(mpi("MPI_Iallreduce in place, MPI_Wait", [&, count, wait] {
      MPI_Request request = MPI_REQUEST_NULL;
      MPI_Iallreduce(MPI_IN_PLACE, data.data(), count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD,
                     &request);
      wait(request);
    }));

    ReduceScatterTask<float> reduce("reduce", std::span<const float>(data), shard, offsets);
    AllGatherTask<float> gather_all("gather", std::span<const float>(shard), data, offsets);
    AllReduceTask<float> sum("sum", data, ranks);
    compare("reduce-scatter and all-gather", bytes, ours([&](Progress& progress) {
              comm::run(progress, reduce);
              comm::run(progress, gather_all);
            }),
            sums, roof);
    compare("all-reduce", bytes, ours([&](Progress& progress) { comm::run(progress, sum); }), sums,
            roof);
    compare("reduce-scatter", bytes, ours([&](Progress& progress) { comm::run(progress, reduce); }),
            {mpi("MPI_Reduce_scatter",
                 [&] {
                   MPI_Reduce_scatter(data.data(), other.data(), counts.data(), MPI_FLOAT, MPI_SUM,
                                      MPI_COMM_WORLD);
                 }),
             mpi("MPI_Ireduce_scatter, MPI_Wait",
                 [&] {
                   MPI_Request request = MPI_REQUEST_NULL;
                   MPI_Ireduce_scatter(data.data(), other.data(), counts.data(), MPI_FLOAT, MPI_SUM,
                                       MPI_COMM_WORLD, &request);
                   wait(request);
                 })},
            roof);
    compare("all-gather", bytes, ours([&](Progress& progress) { comm::run(progress, gather_all); }),
            {mpi("MPI_Allgatherv in place",
                 [&] {
                   MPI_Allgatherv(MPI_IN_PLACE, 0, MPI_FLOAT, data.data(), counts.data(),
                                  places.data(), MPI_FLOAT, MPI_COMM_WORLD);
                 })},
            roof);
    compare("broadcast", bytes,
            ours([&](Progress& progress) { broadcast(progress, "broadcast", 0, data); }),
            {mpi("MPI_Bcast",
                 [&, count] { MPI_Bcast(data.data(), count, MPI_FLOAT, 0, MPI_COMM_WORLD); })},
            roof);
    compare("gather", bytes, ours([&](Progress& progress) {
              gather<float>(progress, "gather to 0", 0, shard, data, offsets);
            }),
            {mpi("MPI_Gatherv in place",
                 [&, me] {
                   MPI_Gatherv(me == 0 ? MPI_IN_PLACE : static_cast<const void*>(shard.data()),
                               static_cast<int>(length), MPI_FLOAT, data.data(), counts.data(),
                               places.data(), MPI_FLOAT, 0, MPI_COMM_WORLD);
                 })},
            roof);
    SendTask there("transfer", 1, data);
    ReceiveTask here("transfer", 0, data);
    compare("send and receive", bytes, ours([&](Progress& progress) {
              if (progress.rank() == 0) comm::run(progress, there);
              if (progress.rank() == 1) comm::run(progress, here);
            }),
            {mpi("MPI_Send, MPI_Recv",
                 [&, count, me] {
                   if (me == 0) MPI_Send(data.data(), count, MPI_FLOAT, 1, 0, MPI_COMM_WORLD);
                   if (me == 1) {
                     MPI_Recv(data.data(), count, MPI_FLOAT, 0, 0, MPI_COMM_WORLD,
                              MPI_STATUS_IGNORE);
                   }
                 })},
            roof);
  }

  [[nodiscard]] const Communicator& world() const { return world_; }

private:
  /// One Progress object at a time. Collective.
  void use(By by) {
    progress_.reset();
    ProgressOptions options;
    options.deadline = 120;
    options.transport = by == By::messages ? Transport::messages : Transport::window;
    options.read_peers = by == By::reading;
    progress_ = std::make_unique<Progress>(world_, options);
  }

  std::vector<Way> ours(const std::function<void(Progress&)>& work) {
    std::vector<Way> ways;
    for (const auto& [name, by] : {std::pair{"reef, read", By::reading},
                                   {"reef, slots", By::slots},
                                   {"reef, messages", By::messages}}) {
      ways.push_back({name, by, [this, work] { work(*progress_); }});
    }
    return ways;
  }

  double slowest(double mine) const {
    double result = 0;
    MPI_Allreduce(&mine, &result, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    return result;
  }

  void compare(const char* operation, Bytes bytes, std::vector<Way> ways,
               const std::vector<Way>& rivals, Way roof) {
    ways.insert(ways.end(), rivals.begin(), rivals.end());
    ways.push_back(std::move(roof));
    for (int block = 0; block < blocks; ++block) {
      for (Way& way : ways) {
        if (way.by == By::mpi || way.by == By::memory) {
          progress_.reset();
        } else {
          use(way.by);
          if (way.by == By::reading && !progress_->reads_peers()) {
            way.name = "reef, read (refused by the system: slots)";
          }
        }
        for (int round = -1; round < rounds_per_block; ++round) {
          MPI_Barrier(MPI_COMM_WORLD);
          const double took = slowest(reef_bench::seconds_of(way.run));
          if (round >= 0) way.seconds.push_back(took);  // the first one grows buffers
        }
      }
    }
    progress_.reset();
    if (world_.rank() == 0) print(operation, bytes, ways);
  }

  static void print(const char* operation, Bytes bytes, const std::vector<Way>& ways) {
    double best = 1e9;
    for (const Way& way : ways) {
      if (way.by != By::mpi && way.by != By::memory) best = std::min(best, median(way.seconds));
    }
    const double roof = median(ways.back().seconds);
    std::printf("\n| %s, %s | ms | against | of roof |\n|---|---|---|---|\n", operation,
                format_bytes(bytes).c_str());
    for (const Way& way : ways) {
      const double seconds = median(way.seconds);
      std::printf("| %s%s | %.3f | %.2f | %.2f |\n", way.by == By::memory ? "roof: " : "",
                  way.name.c_str(), seconds * 1e3, seconds / best, roof / seconds);
    }
    std::fflush(stdout);
  }

  Communicator world_;
  std::unique_ptr<Progress> progress_;
};

}  // namespace

int main(int argc, char** argv) {
  const Environment environment(argc, argv);
  Bench bench;
  if (bench.world().size() < 2) {
    std::fprintf(stderr, "collectives_bench: one rank has nobody to talk to; start 2.\n");
    return 2;
  }
  std::vector<Bytes> sizes;
  for (int i = 1; i < argc; ++i) sizes.push_back(std::strtoull(argv[i], nullptr, 10));
  if (sizes.empty()) sizes = {Bytes{64} << 20, Bytes{4} << 20, Bytes{64} << 10};
  for (const Bytes bytes : sizes) bench.run(bytes);
  return 0;
}
