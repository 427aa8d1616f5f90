#pragma once

#include <mpi.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include <reef/comm/detail/clock.hpp>
#include <reef/comm/error.hpp>
#include <reef/core/text.hpp>
#include <reef/core/thread.hpp>

namespace reef::inline v0::comm::detail {

/// How long a rank waits at start-up for one that gives no sign of life yet; 0: for ever. See
/// Environment.
inline std::atomic<Seconds> start_deadline{600};

/// "rank 2", "ranks 1, 2 and 3".
inline std::string list_ranks(const std::vector<int>& ranks) {
  std::string text = ranks.size() == 1 ? "rank " : "ranks ";
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    if (i > 0) text += i + 1 == ranks.size() ? " and " : ", ";
    text += std::to_string(ranks[i]);
  }
  return text;
}

inline constexpr const char* fix_of_waiting =
    "look at what the other ranks print; if they only need longer, a longer deadline "
    "(comm::Environment's, --deadline of reef-train; 0: none).";

/// Bounds a call of MPI that cannot be given a deadline: where it does not come back by start_deadline,
/// says so on standard error and ends the process, and so the job.
class Watch {
public:
  explicit Watch(std::string call) : call_(std::move(call)) {
    const Seconds patience = start_deadline;
    if (patience <= 0) return;
    try {
      thread_ = make_thread("reef::comm: start-up", [this, patience] { watch(patience); });
    } catch (const Error&) {
      // A system without threads refuses the progress thread too, which tells the others.
    }
  }
  Watch(const Watch&) = delete;
  Watch& operator=(const Watch&) = delete;
  ~Watch() {
    {
      const std::scoped_lock lock(mutex_);
      over_ = true;
    }
    ended_.notify_one();
    if (thread_.joinable()) thread_.join();
  }

private:
  void watch(Seconds patience) {
    std::unique_lock lock(mutex_);
    const std::chrono::duration<double> time(patience);
    if (ended_.wait_for(lock, time, [this] { return over_; })) return;
    std::fprintf(
        stderr,
        "reef::comm: %s has not come back for %s.\n  why: some rank stopped, died, or never "
        "calls it; or MPI lacks what it needs, such as room in /dev/shm.\n  fix: %s\n",
        call_.c_str(), format_seconds(patience).c_str(), fix_of_waiting);
    std::fflush(stderr);
    std::_Exit(1);
  }

  std::string call_;
  std::mutex mutex_;
  std::condition_variable ended_;
  bool over_ = false;
  std::thread thread_;
};

/// Returns when all ranks of `comm` have come here. All of them call it; blocks, mostly asleep.
///
/// | errors | DeadlineError that names who has not come by start_deadline                            |
/// | wire   | an empty message to every other rank                                                   |
inline void meet(MPI_Comm comm, std::string_view where) {
  constexpr int tag = 0x4d45;  // below what every MPI allows
  int rank = 0;
  int size = 1;
  check_mpi(MPI_Comm_rank(comm, &rank), "MPI_Comm_rank");
  check_mpi(MPI_Comm_size(comm, &size), "MPI_Comm_size");
  std::vector<MPI_Request> requests(2 * static_cast<std::size_t>(size), MPI_REQUEST_NULL);
  for (int step = 1; step < size; ++step) {
    const int peer = (rank + step) % size;
    MPI_Request* const of_peer = &requests[2 * static_cast<std::size_t>(peer)];
    check_mpi(MPI_Irecv(nullptr, 0, MPI_BYTE, peer, tag, comm, of_peer), "MPI_Irecv");
    check_mpi(MPI_Isend(nullptr, 0, MPI_BYTE, peer, tag, comm, of_peer + 1), "MPI_Isend");
  }
  const Seconds patience = start_deadline;
  const std::int64_t begin = now_ns();
  while (true) {
    int all = 0;
    check_mpi(
        MPI_Testall(static_cast<int>(requests.size()), requests.data(), &all, MPI_STATUSES_IGNORE),
        "MPI_Testall");
    if (all != 0) return;
    const std::int64_t waited = now_ns() - begin;
    if (patience > 0 && to_seconds(waited) > patience) break;
    std::this_thread::sleep_for(
        std::chrono::nanoseconds(std::clamp<std::int64_t>(waited / 16, 20'000, 2'000'000)));
  }
  std::vector<int> absent;
  for (int peer = 0; peer < size; ++peer) {
    MPI_Request& receive = requests[2 * static_cast<std::size_t>(peer)];
    if (receive == MPI_REQUEST_NULL) continue;
    int here = 0;
    MPI_Test(&receive, &here, MPI_STATUS_IGNORE);
    if (here == 0) absent.push_back(peer);
  }
  throw DeadlineError("reef::comm: rank ", rank, " waits at ", where, " since ",
                      format_seconds(patience), ": ", list_ranks(absent),
                      " did not arrive.\n  why: it stopped, ended, or does something else for so "
                      "long.\n  fix: ",
                      fix_of_waiting);
}

}  // namespace reef::inline v0::comm::detail
