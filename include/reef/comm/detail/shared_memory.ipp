#pragma once

#include <cstring>
#include <utility>

#include <reef/comm/detail/clock.hpp>
#include <reef/comm/detail/shared_memory.hpp>
#include <reef/comm/detail/start.hpp>
#include <reef/comm/message.hpp>
#include <reef/comm/mpi.hpp>
#include <reef/core/inline.hpp>

namespace reef {
inline namespace v0 {
namespace comm::detail {

REEF_INLINE SharedMemory::SharedMemory(const Communicator& ranks, Bytes bytes_of_rank)
    : bytes_of_rank_(round_up(bytes_of_rank, page)),
      total_(page + static_cast<Bytes>(ranks.size()) * bytes_of_rank_) {
  Offer offer;
  if (ranks.rank() == 0) offer = make();
  const Watch watch("setting up the memory that ranks share");
  check_mpi(MPI_Bcast(&offer, sizeof offer, MPI_BYTE, 0, ranks.handle()), "MPI_Bcast");
  if (ranks.rank() != 0) open(offer);
  // Also the barrier after which rank 0 may close its file.
  int first = why_.empty() ? ranks.size() : ranks.rank();
  check_mpi(MPI_Allreduce(MPI_IN_PLACE, &first, 1, MPI_INT, MPI_MIN, ranks.handle()),
            "MPI_Allreduce");
  close_file();
  usable_ = first == ranks.size();
  first_without_ = first == ranks.rank();
}

REEF_INLINE SharedMemory::~SharedMemory() {
#if defined(__linux__)
  if (memory_ != nullptr) munmap(memory_, total_);
#endif
}

REEF_INLINE SharedMemory::Offer SharedMemory::make() {
  Offer offer;
#if defined(__linux__)
  file_ = memfd_create("reef-comm", MFD_CLOEXEC);
  if (file_ < 0 || ftruncate(file_, static_cast<off_t>(total_)) != 0) {
    refuse("memfd_create");
    return offer;
  }
  map(file_);
  if (memory_ == nullptr) return offer;
  offer = {getpid(), file_, mix(static_cast<std::uint64_t>(now_ns())) | 1};
  std::memcpy(memory_, &offer.secret, sizeof offer.secret);
#else
  why_ = "this system has no memory that processes share by /proc";
#endif
  return offer;
}

REEF_INLINE void SharedMemory::open([[maybe_unused]] const Offer& offer) {
#if defined(__linux__)
  if (offer.file < 0) {
    why_ = "rank 0 has none";
    return;
  }
  const std::string path = concat("/proc/", offer.process, "/fd/", offer.file);
  file_ = ::open(path.c_str(), O_RDWR | O_CLOEXEC);
  struct stat found {};
  if (file_ < 0 || fstat(file_, &found) != 0) return refuse(path);
  if (found.st_size != static_cast<off_t>(total_)) {
    why_ = path + " is another file";  // the process number means another process here
    return;
  }
  map(file_);
  std::uint64_t secret = 0;
  if (memory_ != nullptr) std::memcpy(&secret, memory_, sizeof secret);
  if (memory_ != nullptr && secret != offer.secret) why_ = path + " is another file";
#else
  why_ = "this system has no memory that processes share by /proc";
#endif
}

REEF_INLINE void SharedMemory::close_file() {
#if defined(__linux__)
  if (file_ >= 0) close(file_);
#endif
  file_ = -1;
}

}  // namespace comm::detail
}  // namespace v0
}  // namespace reef
