// Purpose  Uses one primitive of Reef alone: an all-reduce that gives the same bits on every run,
//          where MPI_Allreduce promises no order of summation. Nothing else of Reef is included.
// Command  mpiexec -n 4 build/release/examples/one-primitive
// Output   sum of 1000003 floats over 4 ranks, 10 times
//          bits equal from run to run and on all ranks: yes
//          sent by rank 0 per all-reduce: 0 messages, 0 B; through shared memory: 3.81 MiB
// ranks: 4
// prints: sum of 1000003 floats over 4 ranks, 10 times
// prints: bits equal from run to run and on all ranks: yes

#include <cstdio>
#include <cstring>
#include <exception>
#include <span>
#include <string>
#include <vector>

#include <reef/comm/functions.hpp>

int main(int argc, char** argv) try {
  const reef::comm::Environment environment(argc, argv);
  const reef::comm::Communicator world;
  reef::comm::Progress progress(world);

  constexpr std::size_t n = 1'000'003;
  std::vector<float> input(n);
  for (std::size_t i = 0; i < n; ++i) {
    input[i] = 1.0F / static_cast<float>(i + 1 + static_cast<std::size_t>(world.rank()) * n);
  }

  // One task, submitted ten times: the second time and later nothing is allocated.
  std::vector<float> first;
  std::vector<float> data(n);
  reef::comm::AllReduceTask<float> task("sum", std::span(data), world.size());
  reef::comm::Queue& queue = progress.queue("reduce");
  bool equal = true;
  for (int run = 0; run < 10; ++run) {
    data = input;
    progress.submit(queue, task);
    // ... anything else can be computed here, while the progress thread communicates ...
    progress.wait(task);
    if (first.empty()) first = data;
    equal = equal && std::memcmp(first.data(), data.data(), n * sizeof(float)) == 0;
  }
  const reef::comm::Cost sent = progress.meter().of(reef::comm::Kind::all_reduce);

  // Rank 0's bits, given to all, must be everyone's.
  std::vector<std::int64_t> rank_0_owns_all(static_cast<std::size_t>(world.size()) + 1,
                                            static_cast<std::int64_t>(n));
  rank_0_owns_all.front() = 0;
  const std::span<const float> shard(first.data(), world.rank() == 0 ? n : 0);
  reef::comm::all_gather(progress, "compare", shard, std::span(data), rank_0_owns_all);
  double different = std::memcmp(first.data(), data.data(), n * sizeof(float)) == 0 ? 0 : 1;
  reef::comm::all_reduce(progress, "different", std::span(&different, 1));

  if (world.rank() == 0) {
    std::printf("sum of %zu floats over %d ranks, 10 times\n", n, world.size());
    std::printf("bits equal from run to run and on all ranks: %s\n",
                equal && different == 0 ? "yes" : "NO");
    std::printf("sent by rank 0 per all-reduce: %llu messages, %s; through shared memory: %s\n",
                static_cast<unsigned long long>(sent.messages / 10),
                reef::format_bytes(sent.bytes / 10).c_str(),
                reef::format_bytes(sent.window_bytes / 10).c_str());
  }
  return equal && different == 0 ? 0 : 1;
} catch (const std::exception& error) {
  return reef::comm::report_failure("one-primitive", error);
}
