#pragma once

#include <cstdint>
#include <map>
#include <string_view>
#include <utility>
#include <vector>

#include <reef/core/first_fit.hpp>
#include <reef/run/kinds.hpp>
#include <reef/run/transfers.hpp>
#include <reef/schedule/detail/last_writers.hpp>
#include <reef/schedule/placement.hpp>
#include <reef/schedule/program.hpp>

namespace reef {
inline namespace v0 {
namespace run {

namespace detail {

/// A rewriter of a rank's program, after which messages are sent from and received in host memory.
class Stager {
public:
  explicit Stager(schedule::Program program)
      : program_(std::move(program)),
        addresses_(schedule::detail::addresses_by_region(program_)),
        current_(program_.storages.size()) {
    watch();
  }

  schedule::Program run();

private:
  struct UploadPoint {
    schedule::Lane lane;
    std::uint32_t before;  ///< index of the instruction that the upload precedes, in the program without uploads
  };

  /// Returns the queue that uploads a received value, and the instruction before which it does. Values of micro-batches
  /// are uploaded as they arrive. A reduced value arrives late, as may a value of a posted transfer, and all
  /// instructions behind its upload on that queue wait for it, too: so the update queue uploads it if it reads it, or
  /// the load queue as late as possible. In loops, and if no instruction reads it, it is uploaded at once.
  [[nodiscard]] UploadPoint upload_point_of(std::uint32_t i) const;

  [[nodiscard]] bool in_loop(std::uint32_t i) const;

  /// Returns true if `one` reads, writes or waits for a storage (block of memory) that overlaps one which `other`
  /// writes; storages of 0 bytes count, too.
  [[nodiscard]] bool touches(const schedule::Instruction& one,
                             const schedule::Instruction& other) const;

  /// Returns true if a loop begins or ends at the instruction. All host copies count as stale there: earlier iterations
  /// may have overwritten values copied outside of the body, and a copy in a body is missing after it if the body does
  /// not run.
  [[nodiscard]] bool borders_loop(std::uint32_t i) const;

  static schedule::Instruction transfer(std::string_view kind, schedule::Lane lane,
                                        const schedule::Instruction& of);

  bool on_device(schedule::StorageId id) const {
    return program_.storages[id].place == schedule::Place::device;
  }

  /// Returns the copy in host memory (twin) of a storage on the device. The twin of a part is a part of the twin.
  schedule::StorageId twin(schedule::StorageId id);

  void add_copy(schedule::Instruction& transfer, schedule::StorageId of) const {
    transfer.cost.bytes += program_.storages[of].bytes;
    ++transfer.cost.copies;
  }

  void fetch(schedule::Value& value, schedule::Instruction& download);

  /// Makes an instruction wait for the copy of a value in host memory, if that is current. A value that is only waited
  /// for is never downloaded.
  void wait_on_host(schedule::Value& value);

  void bring(schedule::Value& value, schedule::Instruction& upload);

  void give_back(schedule::Value host, schedule::Instruction& upload);

  /// Notes that the host copies of memory blocks (storages) that a device instruction writes are stale.
  void forget(const schedule::Instruction& instruction);

  [[nodiscard]] ByteRange range_of(schedule::StorageId id) const {
    return {addresses_[id], addresses_[id] + program_.storages[id].bytes};
  }

  /// Notes that from here on the host copies of all memory blocks (storages) that share bytes with the written one are
  /// stale.
  void note_write(schedule::StorageId written) {
    if (watched_[written]) writers_.write(range_of(written), written, nullptr);
  }
  /// Finds the memory blocks (storages) that messages send or receive. Only for these are stale host copies recorded.
  void watch();
  void become_current(schedule::Value value) {
    current_[value.storage] = {value.version, writers_.now()};
  }
  [[nodiscard]] bool is_current(schedule::Value value) const;

  /// The version of the data in a host copy, and the number of writes when it was copied: it is stale after a later
  /// write.
  struct TwinState {
    int version = -1;
    std::uint64_t since = 0;
  };

  /// The range of bytes of a storage (block of memory) in the region that contains it.
  struct Extent {
    schedule::StorageId region;
    Bytes begin, end;

    [[nodiscard]] bool overlaps(const Extent& other) const {
      return region == other.region && begin < other.end && other.begin < end;
    }
  };

  [[nodiscard]] Extent extent_of(schedule::StorageId id) const {
    const auto [region, begin] = program_.region_of(id);
    return {region, begin, begin + program_.storages[id].bytes};
  }

  schedule::Program program_;
  /// The program before rewriting; finished instructions are moved out of it.
  std::vector<schedule::Instruction> round_;
  std::multimap<std::uint32_t, schedule::Instruction>
      late_;  ///< upload instructions, by the instruction before which they run
  std::map<schedule::StorageId, schedule::StorageId> twins_;
  std::map<schedule::StorageId, schedule::StorageId> originals_;
  std::vector<Bytes> addresses_;           ///< the addresses of the storages (blocks of memory) before rewriting
  std::vector<TwinState> current_;         ///< version in the host copy of each memory block (storage) before rewriting
  std::vector<bool> watched_{};            ///< true for each memory block (storage) before rewriting that messages use
  schedule::detail::LastWriters writers_;  ///< the last writers of each range of device memory
};

}  // namespace detail

/// Returns the program with operands in host memory for all instructions that communicate, for a device from whose
/// memory messages cannot be sent.
///
///     Send(x)     becomes   Download(x -> x on the host), Send(x on the host)
///     Receive(x)  becomes   Receive(x on the host), Upload(x on the host -> x)
///
/// Downloads run on the evict queue and uploads on the load queue: the copy engines of swapping. But the result of a
/// reduction must not delay the micro-batches behind it: if the update queue reads it first, that queue uploads it,
/// otherwise the load queue when it is needed. A value whose host copy is still current is not downloaded again, except
/// at the borders of a loop. A body grows by the copies of its instructions; its loop still runs until the same
/// instruction.
///
/// \code
/// // given: schedule::Program& program
/// program = run::stage_transfers(std::move(program));
/// \endcode
inline schedule::Program stage_transfers(schedule::Program program) {
  return detail::Stager(std::move(program)).run();
}

}  // namespace run
}  // namespace v0
}  // namespace reef

#ifndef REEF_COMPILED
#include <reef/run/staging.ipp>
#endif
