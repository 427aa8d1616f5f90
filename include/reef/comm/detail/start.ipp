#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <numeric>
#include <utility>

#include <reef/comm/detail/clock.hpp>
#include <reef/comm/detail/ranks.hpp>
#include <reef/comm/detail/start.hpp>
#include <reef/comm/error.hpp>
#include <reef/core/inline.hpp>
#include <reef/core/text.hpp>
#include <reef/core/thread.hpp>

namespace reef {
inline namespace v0 {
namespace comm::detail {

REEF_INLINE Watch::Watch(std::string call) : call_(std::move(call)) {
  const Seconds patience = start_deadline;
  if (patience <= 0) return;
  try {
    thread_ = make_thread("reef::comm: start-up", [this, patience] { watch(patience); });
  } catch (const Error&) {
    // A system without threads refuses the progress thread too, which tells the others.
  }
}

REEF_INLINE Watch::~Watch() {
  {
    const std::scoped_lock lock(mutex_);
    over_ = true;
  }
  ended_.notify_one();
  if (thread_.joinable()) thread_.join();
}

REEF_INLINE void Watch::watch(Seconds patience) {
  std::unique_lock lock(mutex_);
  const std::chrono::duration<double> time(patience);
  if (ended_.wait_for(lock, time, [this] { return over_; })) return;
  std::fprintf(stderr,
               "reef::comm: %s has not come back for %s.\n  why: some rank stopped, died, or never "
               "calls it; or MPI lacks what it needs, such as room in /dev/shm.\n  fix: %s\n",
               call_.c_str(), format_seconds(patience).c_str(), fix_of_waiting);
  std::fflush(stderr);
  std::_Exit(1);
}

REEF_INLINE std::vector<int> ranks_at_meeting_place(MPI_Comm comm, int size) {
  if (meeting_place == MPI_COMM_NULL) return {};
  MPI_Group from = MPI_GROUP_NULL;
  MPI_Group to = MPI_GROUP_NULL;
  check_mpi(MPI_Comm_group(comm, &from), "MPI_Comm_group");
  check_mpi(MPI_Comm_group(meeting_place, &to), "MPI_Comm_group");
  std::vector<int> ranks(static_cast<std::size_t>(size));
  std::iota(ranks.begin(), ranks.end(), 0);
  std::vector<int> there(ranks.size());
  check_mpi(MPI_Group_translate_ranks(from, size, ranks.data(), to, there.data()),
            "MPI_Group_translate_ranks");
  MPI_Group_free(&from);
  MPI_Group_free(&to);
  if (std::find(there.begin(), there.end(), MPI_UNDEFINED) != there.end()) return {};
  return there;
}

REEF_INLINE void meet(MPI_Comm comm, std::string_view where) {
  constexpr int tag = 0x4d45;  // below what every MPI allows
  int rank = 0;
  int size = 1;
  check_mpi(MPI_Comm_rank(comm, &rank), "MPI_Comm_rank");
  check_mpi(MPI_Comm_size(comm, &size), "MPI_Comm_size");
  const std::vector<int> there = ranks_at_meeting_place(comm, size);
  std::vector<MPI_Request> requests(2 * static_cast<std::size_t>(size), MPI_REQUEST_NULL);
  if (there.empty()) {
    check_mpi(MPI_Ibarrier(comm, requests.data()), "MPI_Ibarrier");
  }
  for (int step = 1; step < size && !there.empty(); ++step) {
    const auto peer = static_cast<std::size_t>((rank + step) % size);
    MPI_Request* const of_peer = &requests[2 * peer];
    check_mpi(MPI_Irecv(nullptr, 0, MPI_BYTE, there[peer], tag, meeting_place, of_peer),
              "MPI_Irecv");
    check_mpi(MPI_Isend(nullptr, 0, MPI_BYTE, there[peer], tag, meeting_place, of_peer + 1),
              "MPI_Isend");
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
  for (int peer = 0; peer < size && !there.empty(); ++peer) {
    MPI_Request& receive = requests[2 * static_cast<std::size_t>(peer)];
    if (receive == MPI_REQUEST_NULL) continue;
    int here = 0;
    MPI_Test(&receive, &here, MPI_STATUS_IGNORE);
    if (here == 0) absent.push_back(peer);
  }
  throw DeadlineError("reef::comm: rank ", rank, " waits at ", where, " since ",
                      format_seconds(patience), ": ",
                      there.empty() ? "some rank" : name_ranks(absent),
                      " did not arrive.\n  why: it stopped, ended, or does something else for so "
                      "long.\n  fix: ",
                      fix_of_waiting);
}

}  // namespace comm::detail
}  // namespace v0
}  // namespace reef
