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

/// Rewrites a program so that messages are made of host memory.
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
  struct Landing {
    schedule::Lane lane;
    std::uint32_t before;  ///< number of the instruction in the round before staging
  };

  /// Returns the lane that brings a received value to the device, and the place where it does. Micro-batches are
  /// brought as they come. A reduced value comes late, as may a value that is received by a posted transfer, and all
  /// instructions behind the upload on its lane wait for it too: so the update lane brings it, if that lane reads it,
  /// or the load lane as late as it is needed. In loops, and where nothing in the round needs it, it is brought at
  /// once.
  [[nodiscard]] Landing landing_of(std::uint32_t i) const;

  [[nodiscard]] bool in_loop(std::uint32_t i) const;

  /// True if `one` reads, writes or comes after a storage, or bytes of it, that `other` writes; an empty storage
  /// counts.
  [[nodiscard]] bool touches(const schedule::Instruction& one,
                             const schedule::Instruction& other) const;

  /// True if a loop begins or ends at the instruction. There copies are forgotten: a body knows of no copy from
  /// outside, which an earlier iteration may have made stale, and the outside knows of none from a body, which may not
  /// run.
  [[nodiscard]] bool borders_loop(std::uint32_t i) const;

  static schedule::Instruction transfer(std::string_view kind, schedule::Lane lane,
                                        const schedule::Instruction& of);

  bool on_device(schedule::StorageId id) const {
    return program_.storages[id].place == schedule::Place::device;
  }

  /// Returns the storage in host memory that stands for one on the device; the twin of a part is a part of the twin.
  schedule::StorageId twin(schedule::StorageId id);

  void add_copy(schedule::Instruction& transfer, schedule::StorageId of) const {
    transfer.cost.bytes += program_.storages[of].bytes;
    ++transfer.cost.copies;
  }

  void fetch(schedule::Value& value, schedule::Instruction& download);

  /// Makes an instruction wait for the copy in host memory, if that is current. A value that is only waited for is
  /// never fetched.
  void wait_on_host(schedule::Value& value);

  void bring(schedule::Value& value, schedule::Instruction& upload);

  void give_back(schedule::Value host, schedule::Instruction& upload);

  /// Notes that the twins of storages that a device instruction writes are stale.
  void forget(const schedule::Instruction& instruction);

  [[nodiscard]] ByteRange range_of(schedule::StorageId id) const {
    return {addresses_[id], addresses_[id] + program_.storages[id].bytes};
  }

  /// Notes that twins of the bytes of a written storage are stale from here on.
  void note_write(schedule::StorageId written) {
    if (watched_[written]) writers_.write(range_of(written), written, nullptr);
  }
  /// Finds the storages that messages are made of: only their twins are asked whether they are stale.
  void watch();
  void become_current(schedule::Value value) {
    current_[value.storage] = {value.version, writers_.now()};
  }
  [[nodiscard]] bool is_current(schedule::Value value) const;

  /// The version that a twin was given after so many writes; the twin is stale once its bytes are written again.
  struct Current {
    int version = -1;
    std::uint64_t since = 0;
  };

  /// The bytes of its region that a storage has.
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
  std::vector<schedule::Instruction> round_;  ///< the round before staging; finished instructions are moved out of it
  std::multimap<std::uint32_t, schedule::Instruction>
      late_;  ///< uploads, by the instruction that they stand before
  std::map<schedule::StorageId, schedule::StorageId> twins_;
  std::map<schedule::StorageId, schedule::StorageId> originals_;
  std::vector<Bytes> addresses_;           ///< by storage of the program before staging
  std::vector<Current> current_;           ///< version that the twin holds, by storage of the program before staging
  std::vector<bool> watched_{};            ///< by storage of the program before staging
  schedule::detail::LastWriters writers_;  ///< last writers of bytes on the device
};

}  // namespace detail

/// Gives every instruction that communicates host memory to work on, for a device whose own memory messages cannot be
/// made of.
///
///     Send(x)     becomes   Download(x -> x on the host), Send(x on the host)
///     Receive(x)  becomes   Receive(x on the host), Upload(x on the host -> x)
///
/// Downloads run on the evict lane and uploads on the load lane: the copy engines of swapping. But the result of a
/// reduction must not delay the micro-batches behind it: where the update lane reads it first, that lane brings it,
/// else the load lane does when it is needed. A value whose host copy is still current is not fetched again, except at
/// the borders of a loop. A body grows by the copies of its instructions; its loop still runs until the same
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
