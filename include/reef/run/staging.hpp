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
    std::uint32_t before;  ///< which instruction of the round as it was
  };

  /// Micro-batches are brought as they come. What is reduced comes late, and so may what is received when it is
  /// posted, and whatever stands behind it on a lane waits for it too: so it is brought by the update lane, if
  /// that reads it, or as late as it is needed. In loops, and where nothing in the round needs it, at once.
  [[nodiscard]] Landing landing_of(std::uint32_t i) const;

  [[nodiscard]] bool in_loop(std::uint32_t i) const;

  /// The one reads or writes a storage, be it empty, or bytes of it that the other writes.
  [[nodiscard]] bool touches(const schedule::Instruction& one,
                             const schedule::Instruction& other) const;

  /// A body knows of no copy from outside, which an iteration before may have made stale, nor does
  /// the outside of one in it, which may not run.
  [[nodiscard]] bool borders_loop(std::uint32_t i) const;

  static schedule::Instruction transfer(std::string_view kind, schedule::Lane lane,
                                        const schedule::Instruction& of);

  bool on_device(schedule::StorageId id) const {
    return program_.storages[id].place == schedule::Place::device;
  }

  /// The storage in host memory that stands for one on the device; a part's is a part.
  schedule::StorageId twin(schedule::StorageId id);

  void add_copy(schedule::Instruction& transfer, schedule::StorageId of) const {
    transfer.cost.bytes += program_.storages[of].bytes;
    ++transfer.cost.copies;
  }

  void fetch(schedule::Value& value, schedule::Instruction& download);

  void bring(schedule::Value& value, schedule::Instruction& upload);

  void give_back(schedule::Value host, schedule::Instruction& upload);

  /// What the device writes, its twin no longer holds.
  void forget(const schedule::Instruction& instruction);

  [[nodiscard]] ByteRange range_of(schedule::StorageId id) const {
    return {addresses_[id], addresses_[id] + program_.storages[id].bytes};
  }

  /// A twin of what lies in those bytes is stale from here on.
  void note_write(schedule::StorageId written) {
    if (watched_[written]) writers_.write(range_of(written), written, nullptr);
  }
  /// Only of what messages are made of does anybody ask whether its twin is stale.
  void watch();
  void become_current(schedule::Value value) {
    current_[value.storage] = {value.version, writers_.now()};
  }
  [[nodiscard]] bool is_current(schedule::Value value) const;

  /// The version that a twin was given after so many writes; it is stale once its bytes have been written.
  struct Current {
    int version = -1;
    std::uint64_t since = 0;
  };

  /// Which bytes of its region a storage is.
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
  std::vector<schedule::Instruction> round_;  ///< as it was; what is done with is moved from
  std::multimap<std::uint32_t, schedule::Instruction>
      late_;  ///< uploads, by what they stand before
  std::map<schedule::StorageId, schedule::StorageId> twins_;
  std::map<schedule::StorageId, schedule::StorageId> originals_;
  std::vector<Bytes> addresses_;           ///< by storage of the program as it was
  std::vector<Current> current_;           ///< by storage of that: what its twin holds
  std::vector<bool> watched_{};            ///< by storage of that
  schedule::detail::LastWriters writers_;  ///< of what is on the device
};

}  // namespace detail

/// Gives every instruction that communicates host memory to work on, where the device's own memory
/// cannot be what messages are made of.
///
///     Send(x)     becomes   Download(x -> x on the host), Send(x on the host)
///     Receive(x)  becomes   Receive(x on the host), Upload(x on the host -> x)
///
/// Downloads run on the evict lane and uploads on the load lane: the copy engines of swapping. But what
/// a reduction leaves must not hold up the micro-batches behind it: where the update lane reads it
/// first, that lane brings it, else the load lane does when it is needed. A value whose host copy is
/// still current is not fetched again, but at the borders of a loop. A body takes in what becomes of its
/// instructions; it still runs until the same instruction.
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
