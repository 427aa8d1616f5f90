#pragma once

#include <mpi.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <system_error>
#include <utility>

#if defined(__linux__)
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#endif

#include <reef/comm/communicator.hpp>
#include <reef/comm/detail/clock.hpp>
#include <reef/comm/detail/start.hpp>
#include <reef/comm/message.hpp>
#include <reef/core/text.hpp>

namespace reef::inline v0::comm::detail {

/// Memory that the ranks of one machine share, zero at first: an anonymous file of rank 0, which the
/// others open by way of /proc.
///
/// | who   | all ranks of the communicator, collective, block; they agree on whether they have it      |
/// | needs | Linux, and one /proc for all ranks. No room in /dev/shm, and no name is left behind       |
class SharedMemory {
public:
  SharedMemory(const Communicator& ranks, Bytes bytes_of_rank)
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
  SharedMemory(const SharedMemory&) = delete;
  SharedMemory& operator=(const SharedMemory&) = delete;
  ~SharedMemory() {
#if defined(__linux__)
    if (memory_ != nullptr) munmap(memory_, total_);
#endif
  }

  /// All ranks have it.
  [[nodiscard]] bool usable() const { return usable_; }
  /// Why this rank does not; empty if it does.
  [[nodiscard]] const std::string& why_not() const { return why_; }
  /// No rank before this one lacks it, this one does: who speaks for all.
  [[nodiscard]] bool first_without() const { return first_without_; }
  /// What belongs to that rank; page-aligned.
  [[nodiscard]] std::byte* of(int rank) const {
    return memory_ + page + static_cast<Bytes>(rank) * bytes_of_rank_;
  }

private:
  static constexpr Bytes page = 4096;

  /// Where rank 0's file is, and by what the others know it.
  struct Offer {
    std::int64_t process = 0;
    std::int64_t file = -1;
    std::uint64_t secret = 0;
  };

  Offer make() {
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

  void open([[maybe_unused]] const Offer& offer) {
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

#if defined(__linux__)
  void map(int file) {
    void* const memory = mmap(nullptr, total_, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (memory == MAP_FAILED) return refuse("mmap");
    memory_ = static_cast<std::byte*>(memory);
  }

  void refuse(const std::string& call) {
    why_ = concat(call, ": ", std::generic_category().message(errno));
  }
#endif

  void close_file() {
#if defined(__linux__)
    if (file_ >= 0) close(file_);
#endif
    file_ = -1;
  }

  Bytes bytes_of_rank_;
  Bytes total_;
  int file_ = -1;
  std::byte* memory_ = nullptr;
  std::string why_;
  bool usable_ = false;
  bool first_without_ = false;
};

}  // namespace reef::inline v0::comm::detail
