// Every collective beside MPI's own, on arrays where a Trainer keeps its tensors.
//
//   mpiexec -n 2 build/release/bench/comm_collectives_bench [--benchmark_filter=all_reduce.*/64MiB]
//
// Ours sum in rank order, MPI's promise none. "read": straight from the other ranks' memory; "slots":
// through shared memory, as where the system forbids that; "messages": MPI messages, as between nodes.
// The roof is a memcpy of as many bytes on all ranks at once; of a barrier, an atomic in shared memory
// that all ranks increment and spin on. A time is the slowest rank's, the median of some calls in a row:
// each way has a Progress object of its own, and MPI's calls none beside them. Before and after a call of
// any way, outside its time, ranks meet by MPI's own. Run it with 2 ranks bound to a core each: ranks that
// share a core measure the scheduler.

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <functional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <reef/comm/functions.hpp>
#include <reef/comm/gather.hpp>
#include <reef/comm/mpi.hpp>
#include <reef/device/host.hpp>

#include "support/ranks.hpp"

namespace {

using namespace reef;
using namespace reef::comm;
using reef_bench::Contender;

constexpr int blocks = 3;
constexpr int calls_a_block = 3;
constexpr int small_calls_a_block =
    101;  // a call of some microseconds is as long as what disturbs it
constexpr int barriers_a_call = 200;

enum class By { reading, slots, messages };

/// What one size needs, in the memory of a device, as a Trainer has it.
struct Setting {
  explicit Setting(Bytes bytes)
      : count(static_cast<int>(bytes / sizeof(float))),
        memory{device.allocate(bytes, "array"), device.allocate(bytes, "sum"),
               device.allocate(bytes, "copy")} {
    for (const auto& buffer : memory) std::fill_n(reef_bench::floats_of(buffer), count, 0.0F);
    for (int rank = 0; rank < world.size(); ++rank) {
      const auto at = static_cast<std::size_t>(rank);
      places.push_back(static_cast<int>(offsets[at]));
      counts.push_back(static_cast<int>(offsets[at + 1] - offsets[at]));
    }
  }

  [[nodiscard]] std::span<float> array(int i) const {
    return {reef_bench::floats_of(memory[i]), static_cast<std::size_t>(count)};
  }
  [[nodiscard]] std::span<float> part() const {
    const auto me = static_cast<std::size_t>(world.rank());
    const auto begin = static_cast<std::size_t>(offsets[me]);
    return array(0).subspan(begin, static_cast<std::size_t>(offsets[me + 1]) - begin);
  }

  int count;
  Communicator world;
  device::Host device{{.threads = 1}};
  device::Host::Buffer memory[3];
  std::vector<std::int64_t> offsets = even_offsets(count, world.size());
  std::vector<int> counts, places;
  std::span<float> data = array(0);
  std::span<float> other = array(1);
  std::span<float> shard = part();
  ReduceScatterTask<float> reduce{"reduce", std::span<const float>(data), shard, offsets};
  AllGatherTask<float> gather_all{"gather", std::span<const float>(shard), data, offsets};
  AllReduceTask<float> sum{"sum", data, world.size()};
  SendTask there{"transfer", 1, data};
  ReceiveTask here{"transfer", 0, data};
};

struct Rival {
  std::string name;
  std::function<void()> run;
};

struct Operation {
  std::function<void(Progress&)> ours;
  std::vector<Rival> rivals;
};

void wait(MPI_Request request) { MPI_Wait(&request, MPI_STATUS_IGNORE); }

/// Sums of the whole array, as a data-parallel step needs them.
std::vector<Rival> sums(const Setting& s) {
  std::vector<Rival> rivals;
  rivals.push_back({"MPI_Allreduce", [&s] {
                      MPI_Allreduce(s.data.data(), s.other.data(), s.count, MPI_FLOAT, MPI_SUM,
                                    MPI_COMM_WORLD);
                    }});
  for (const int chunk : {s.count, 1 << 18, 1 << 21}) {
    if (chunk > s.count) continue;
    const std::string how = chunk == s.count ? "" : concat("_by_", chunk >> 18, "MiB");
    rivals.push_back({"MPI_Allreduce_in_place" + how, [&s, chunk] {
                        for (int at = 0; at < s.count; at += chunk) {
                          MPI_Allreduce(MPI_IN_PLACE, s.data.data() + at,
                                        std::min(chunk, s.count - at), MPI_FLOAT, MPI_SUM,
                                        MPI_COMM_WORLD);
                        }
                      }});
  }
  rivals.push_back({"MPI_Iallreduce_in_place", [&s] {
                      MPI_Request request = MPI_REQUEST_NULL;
                      MPI_Iallreduce(MPI_IN_PLACE, s.data.data(), s.count, MPI_FLOAT, MPI_SUM,
                                     MPI_COMM_WORLD, &request);
                      wait(request);
                    }});
  return rivals;
}

Operation reduce_scatter_and_all_gather(Setting& s) {
  return {[&s](Progress& progress) {
            comm::run(progress, s.reduce);
            comm::run(progress, s.gather_all);
          },
          sums(s)};
}

Operation sum(Setting& s) {
  return {[&s](Progress& progress) { comm::run(progress, s.sum); }, sums(s)};
}

Operation scatter(Setting& s) {
  return {[&s](Progress& progress) { comm::run(progress, s.reduce); },
          {{"MPI_Reduce_scatter",
            [&s] {
              MPI_Reduce_scatter(s.data.data(), s.other.data(), s.counts.data(), MPI_FLOAT, MPI_SUM,
                                 MPI_COMM_WORLD);
            }},
           {"MPI_Ireduce_scatter", [&s] {
              MPI_Request request = MPI_REQUEST_NULL;
              MPI_Ireduce_scatter(s.data.data(), s.other.data(), s.counts.data(), MPI_FLOAT,
                                  MPI_SUM, MPI_COMM_WORLD, &request);
              wait(request);
            }}}};
}

Operation collect(Setting& s) {
  return {[&s](Progress& progress) { comm::run(progress, s.gather_all); },
          {{"MPI_Allgatherv_in_place", [&s] {
              MPI_Allgatherv(MPI_IN_PLACE, 0, MPI_FLOAT, s.data.data(), s.counts.data(),
                             s.places.data(), MPI_FLOAT, MPI_COMM_WORLD);
            }}}};
}

Operation spread(Setting& s) {
  return {
      [&s](Progress& progress) { broadcast(progress, "broadcast", 0, s.data); },
      {{"MPI_Bcast", [&s] { MPI_Bcast(s.data.data(), s.count, MPI_FLOAT, 0, MPI_COMM_WORLD); }}}};
}

Operation collect_on_0(Setting& s) {
  return {[&s](Progress& progress) {
            gather<float>(progress, "gather to 0", 0, s.shard, s.data, s.offsets);
          },
          {{"MPI_Gatherv_in_place", [&s] {
              const bool root = s.world.rank() == 0;
              MPI_Gatherv(root ? MPI_IN_PLACE : static_cast<const void*>(s.shard.data()),
                          static_cast<int>(s.shard.size()), MPI_FLOAT, s.data.data(),
                          s.counts.data(), s.places.data(), MPI_FLOAT, 0, MPI_COMM_WORLD);
            }}}};
}

Operation transfer(Setting& s) {
  return {[&s](Progress& progress) {
            if (progress.rank() == 0) comm::run(progress, s.there);
            if (progress.rank() == 1) comm::run(progress, s.here);
          },
          {{"MPI_Send_and_Recv", [&s] {
              if (s.world.rank() == 0) {
                MPI_Send(s.data.data(), s.count, MPI_FLOAT, 1, 0, MPI_COMM_WORLD);
              }
              if (s.world.rank() == 1) {
                MPI_Recv(s.data.data(), s.count, MPI_FLOAT, 0, 0, MPI_COMM_WORLD,
                         MPI_STATUS_IGNORE);
              }
            }}}};
}

/// Seconds of a call, once buffers have grown.
double typical(const std::function<void()>& work, int calls = calls_a_block) {
  std::vector<double> seconds;
  for (int call = -1; call < calls; ++call) {
    const double took = reef_bench::slowest_seconds_of(work);
    if (call >= 0) seconds.push_back(took);
  }
  return reef_bench::median(seconds);
}

double typical(benchmark::State& state, const Communicator& world, By by,
               const std::function<void(Progress&)>& work, int calls = calls_a_block) {
  ProgressOptions options;
  options.deadline = 120;
  options.transport = by == By::messages ? Transport::messages : Transport::window;
  options.read_peers = by == By::reading;
  Progress progress(world, options);
  if (by == By::reading && !progress.reads_peers()) {
    state.SetLabel("refused by the system: slots");
  }
  return typical([&] { work(progress); }, calls);
}

const std::vector<std::pair<std::string, By>> ways{
    {"read", By::reading}, {"slots", By::slots}, {"messages", By::messages}};

void compare(benchmark::State& state, Bytes bytes, By by, Operation (*make)(Setting&)) {
  Setting setting(bytes);
  const Operation operation = make(setting);
  const auto copy = [&] { std::memcpy(setting.array(2).data(), setting.data.data(), bytes); };
  const int calls = bytes < (Bytes{1} << 20) ? small_calls_a_block : calls_a_block;
  std::vector<Contender> contenders{{"roof", [&] { return typical(copy, calls); }}};
  for (const Rival& rival : operation.rivals) {
    contenders.push_back({rival.name, [&rival, calls] { return typical(rival.run, calls); }});
  }
  reef_bench::compare(state,
                      [&] { return typical(state, setting.world, by, operation.ours, calls); },
                      contenders, {.bytes = static_cast<double>(bytes)});
}

void collective(const std::string& name, Bytes bytes, Operation (*make)(Setting&)) {
  const std::string size =
      bytes < (Bytes{1} << 20) ? concat(bytes >> 10, "KiB") : concat(bytes >> 20, "MiB");
  for (const auto& [way, by] : ways) {
    reef_bench::add(concat(name, "/", way, "/", size), blocks,
                    [=, by = by](benchmark::State& state) { compare(state, bytes, by, make); });
  }
}

std::function<void()> in_a_row(const std::function<void()>& one) {
  return [one] {
    for (int i = 0; i < barriers_a_call; ++i) one();
  };
}

void barrier_by(benchmark::State& state, By by) {
  const Communicator world;
  reef_bench::SharedNumber arrivals;
  std::uint64_t all = 0;
  const auto spin = [&] {
    all += static_cast<std::uint64_t>(world.size());
    arrivals.arrive(all);
  };
  const auto ours = [](Progress& progress) { in_a_row([&] { barrier(progress, "barrier"); })(); };
  const auto mpi = [] { MPI_Barrier(MPI_COMM_WORLD); };
  const auto later = [] {
    MPI_Request request = MPI_REQUEST_NULL;
    MPI_Ibarrier(MPI_COMM_WORLD, &request);
    wait(request);
  };
  reef_bench::compare(
      state, [&] { return typical(state, world, by, ours) / barriers_a_call; },
      {{"roof", [&] { return typical(in_a_row(spin)) / barriers_a_call; }},
       {"MPI_Barrier", [&] { return typical(in_a_row(mpi)) / barriers_a_call; }},
       {"MPI_Ibarrier", [&] { return typical(in_a_row(later)) / barriers_a_call; }}},
      {});
}

void register_all() {
  for (const Bytes bytes : {Bytes{64} << 20, Bytes{4} << 20, Bytes{1} << 20, Bytes{256} << 10,
                            Bytes{64} << 10, Bytes{16} << 10, Bytes{4} << 10, Bytes{1} << 10}) {
    collective("reduce_scatter_and_all_gather", bytes, reduce_scatter_and_all_gather);
    collective("all_reduce", bytes, sum);
    collective("reduce_scatter", bytes, scatter);
    collective("all_gather", bytes, collect);
    collective("broadcast", bytes, spread);
    collective("gather", bytes, collect_on_0);
    collective("send_and_receive", bytes, transfer);
  }
  for (const auto& [way, by] : ways) {
    reef_bench::add(
        "barrier/" + way, blocks, [by = by](benchmark::State& state) { barrier_by(state, by); },
        benchmark::kMicrosecond);
  }
}

}  // namespace

int main(int argc, char** argv) { return reef_bench::run_on_ranks(argc, argv, register_all); }
