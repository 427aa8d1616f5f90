#pragma once

#include <reef/comm/mpi.hpp>
#include <reef/core/config.hpp>
#include <reef/core/units.hpp>

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

namespace reef {
inline namespace v0 {
namespace comm::detail {

/// How long a rank waits at start-up for one that gives no sign of life yet; 0: for ever. See
/// Environment.
REEF_OF_THE_PROCESS inline std::atomic<Seconds> start_deadline{600};

inline constexpr const char* fix_of_waiting =
    "look at what the other ranks print; if they only need longer, a longer deadline "
    "(comm::Environment's, --deadline of reef-train; 0: none).";

/// Bounds a call of MPI that cannot be given a deadline: where it does not come back by start_deadline,
/// says so on standard error and ends the process, and so the job.
class Watch {
public:
  explicit Watch(std::string call);
  Watch(const Watch&) = delete;
  Watch& operator=(const Watch&) = delete;
  ~Watch();

private:
  void watch(Seconds patience);

  std::string call_;
  std::mutex mutex_;
  std::condition_variable ended_;
  bool over_ = false;
  std::thread thread_;
};

/// A duplicate of MPI_COMM_WORLD that only meet() sends over, so that no receive of the program's own takes its
/// messages. Made by the Environment that starts MPI; null elsewhere.
REEF_OF_THE_PROCESS inline MPI_Comm meeting_place = MPI_COMM_NULL;

/// The ranks of `comm` by their numbers in the meeting place; none where it is not there, or one of them is not in
/// it.
std::vector<int> ranks_at_meeting_place(MPI_Comm comm, int size);

/// Returns when all ranks of `comm` have come here. All of them call it; blocks, mostly asleep.
///
/// | errors | DeadlineError, by start_deadline. It names who has not come, but in a program that has |
/// |        | started MPI itself                                                                     |
/// | wire   | an empty message to every other rank, in the meeting place; without it a barrier       |
void meet(MPI_Comm comm, std::string_view where);

}  // namespace comm::detail
}  // namespace v0
}  // namespace reef

#ifndef REEF_COMPILED
#include <reef/comm/detail/start.ipp>
#endif
