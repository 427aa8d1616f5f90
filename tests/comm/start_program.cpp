// A job whose start is looked at: start_test starts it.
//
//   start_program alone                  says which rank of how many this is
//   start_program sum TRANSPORT          sums several MiB; TRANSPORT is any, messages, window or slots
//   start_program absent                 rank 1 comes half a minute late, the deadline is five seconds
//   start_program stop                   the same, but rank 1 stops itself
//   start_program split                  rank 1 is late for a part of the ranks
//   start_program init                   rank 1 is late for MPI_Init

#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include <reef/comm/detail/start.hpp>
#include <reef/comm/functions.hpp>
#include <reef/comm/mpi.hpp>

namespace {

using namespace reef::comm;

void come_late() { std::this_thread::sleep_for(std::chrono::seconds(30)); }

/// Those that are not late are here together, and wait for five seconds from now on.
void all_but_rank_1_go_on(int rank) {
  MPI_Barrier(MPI_COMM_WORLD);
  if (rank != 1) reef::comm::detail::start_deadline = 5;
}

/// By the launcher, before MPI says it.
bool is_rank_1() {
  for (const char* const name : {"OMPI_COMM_WORLD_RANK", "PMI_RANK"}) {
    const char* const value = std::getenv(name);
    if (value != nullptr && std::strcmp(value, "1") == 0) return true;
  }
  return false;
}

int sum(const std::string& transport) {
  const Communicator world;
  ProgressOptions options;
  if (transport == "messages") options.transport = Transport::messages;
  if (transport == "window" || transport == "slots") options.transport = Transport::window;
  options.read_peers = transport != "slots";
  Progress progress(world, options);
  std::vector<float> data(std::size_t{1} << 19);
  bool right = true;
  for (int round = 0; round < 2; ++round) {
    data.assign(data.size(), static_cast<float>(world.rank()));
    all_reduce(progress, "sum", std::span(data));
    for (const float value : data) {
      right = right && value == static_cast<float>(world.size() * (world.size() - 1) / 2);
    }
  }
  if (!right) return 1;
  if (world.rank() == 0) {
    std::printf("all sums are there, by %s\n",
                progress.transport() == Transport::window ? "window" : "messages");
  }
  return 0;
}

int run(const std::string& mode, const std::string& transport, int argc, char** argv) {
  if (mode == "init" && is_rank_1()) come_late();
  const Environment environment(argc, argv, mode == "init" ? 2 : 120);
  if (mode == "sum") return sum(transport);
  int rank = 0;
  int size = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  if (mode == "absent" || mode == "stop") all_but_rank_1_go_on(rank);
  if (mode == "absent" && rank == 1) come_late();
  if (mode == "stop" && rank == 1) std::raise(SIGSTOP);
  const Communicator world;
  if (mode == "split") {
    all_but_rank_1_go_on(rank);
    if (rank == 1) come_late();
    const Communicator part = world.split(rank % 2, 0, "part");
  }
  std::printf("rank %d of %d\n", rank, size);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run(argv[1], argc > 2 ? argv[2] : "any", argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
