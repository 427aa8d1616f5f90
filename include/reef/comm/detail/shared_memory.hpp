#pragma once

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <string>
#include <system_error>

#if defined(__linux__)
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#endif

#include <reef/comm/communicator.hpp>
#include <reef/core/text.hpp>

namespace reef {
inline namespace v0 {
namespace comm::detail {

/// Memory that the ranks of one machine share, zero at first: an anonymous file of rank 0, which the
/// others open by way of /proc.
///
/// | who   | all ranks of the communicator, collective, block; they agree on whether they have it      |
/// | needs | Linux, and one /proc for all ranks. No room in /dev/shm, and no name is left behind       |
class SharedMemory {
public:
  SharedMemory(const Communicator& ranks, Bytes bytes_of_rank);
  SharedMemory(const SharedMemory&) = delete;
  SharedMemory& operator=(const SharedMemory&) = delete;
  ~SharedMemory();

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

  Offer make();

  void open(const Offer& offer);

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

  void close_file();

  Bytes bytes_of_rank_;
  Bytes total_;
  int file_ = -1;
  std::byte* memory_ = nullptr;
  std::string why_;
  bool usable_ = false;
  bool first_without_ = false;
};

}  // namespace comm::detail
}  // namespace v0
}  // namespace reef

#ifndef REEF_COMPILED
#include <reef/comm/detail/shared_memory.ipp>
#endif
