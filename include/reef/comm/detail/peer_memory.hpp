#pragma once

#include <cstdint>
#include <vector>

#include <reef/comm/detail/clock.hpp>
#include <reef/comm/message.hpp>

namespace reef {
inline namespace v0 {
namespace comm::detail {

/// Reads the memory of the other processes of a node: one copy, by the kernel, from where it is.
///
/// | needs  | Linux, and the right to trace the others: containers and Yama may withhold it            |
/// | cost   | read(): a system call, then the speed of memcpy; a quarter of it where the two addresses |
/// |        | differ in their last six bits                                                            |
class PeerMemory {
public:
  /// What a rank tells the others: its process, and a number in its memory by which they know it.
  struct Place {
    std::int64_t process;
    std::uintptr_t probe;
    std::uint64_t secret;
  };

  explicit PeerMemory(int rank) : probe_(secret(rank)) {}
  PeerMemory(const PeerMemory&) = delete;
  PeerMemory& operator=(const PeerMemory&) = delete;

  [[nodiscard]] Place mine() const {
    return {process(), reinterpret_cast<std::uintptr_t>(&probe_), probe_};
  }

  /// The places of all ranks, in order. True if all can be read; usable() if the ranks agree.
  [[nodiscard]] bool connect(std::vector<Place> places);
  void use(bool agreed) { usable_ = agreed; }

  [[nodiscard]] bool usable() const { return usable_; }

  /// Copies `bytes` bytes at `from` in the memory of `rank`. 0, or with `to` unspecified an errno:
  /// ESRCH if the process is gone, EFAULT if it has no such memory any more.
  [[nodiscard]] int read(int rank, void* to, std::uintptr_t from, Bytes bytes) const;

  /// 0 if the process of `rank` is still the one that said its place; else an errno, ESRCH if its
  /// number means another one.
  [[nodiscard]] int probe(int rank) const;

private:
  static std::int64_t process();

  // The same process number may mean another process where ranks live in different containers.
  static std::uint64_t secret(int rank) {
    return mix(static_cast<std::uint64_t>(now_ns()) + static_cast<std::uint64_t>(rank)) | 1;
  }

  const std::uint64_t probe_;
  std::vector<Place> places_;
  bool usable_ = false;
};

}  // namespace comm::detail
}  // namespace v0
}  // namespace reef

#ifndef REEF_COMPILED
#include <reef/comm/detail/peer_memory.ipp>
#endif
