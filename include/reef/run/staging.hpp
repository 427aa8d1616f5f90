#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <reef/core/first_fit.hpp>
#include <reef/run/kinds.hpp>
#include <reef/run/transfers.hpp>
#include <reef/schedule/detail/last_writers.hpp>
#include <reef/schedule/placement.hpp>
#include <reef/schedule/program.hpp>

namespace reef::inline v0::run {

namespace detail {

/// Rewrites a program so that messages are made of host memory.
class Stager {
public:
  explicit Stager(schedule::Program program)
      : program_(std::move(program)),
        addresses_(schedule::detail::addresses_by_region(program_)),
        current_(program_.storages.size()) {}

  schedule::Program run() {
    round_.swap(program_.round);
    // By its old place: where an instruction stands, and where begins what became of it.
    std::vector<std::uint32_t> itself;
    std::vector<std::uint32_t> first;
    const auto here = [&] { return static_cast<std::uint32_t>(program_.round.size()); };
    for (std::uint32_t i = 0; i < round_.size(); ++i) {
      schedule::Instruction& instruction = round_[i];
      if (borders_loop(i)) current_.assign(current_.size(), {});
      first.push_back(here());
      for (auto late = late_.find(i); late != late_.end(); late = late_.find(i)) {
        program_.round.push_back(std::move(late->second));
        late_.erase(late);
      }
      if (!schedule::communicates(instruction.lane)) {
        forget(instruction);
        itself.push_back(here());
        program_.round.push_back(std::move(instruction));
        continue;
      }
      const auto [lane, before] = landing_of(i);
      schedule::Instruction download = transfer(kinds::download, schedule::Lane::evict, instruction);
      for (schedule::Value& value : instruction.reads) fetch(value, download);
      for (schedule::Value& value : instruction.accumulates) fetch(value, download);
      if (!download.reads.empty()) program_.round.push_back(std::move(download));

      schedule::Instruction upload = transfer(kinds::upload, lane, instruction);
      for (schedule::Value& value : instruction.writes) bring(value, upload);
      for (const schedule::Value value : instruction.accumulates) give_back(value, upload);
      itself.push_back(here());
      program_.round.push_back(std::move(instruction));
      if (upload.reads.empty()) continue;
      if (before == i + 1) {
        program_.round.push_back(std::move(upload));
      } else {
        late_.emplace(before, std::move(upload));
      }
    }
    first.push_back(here());
    for (schedule::Repeat& repeat : program_.repeats) {
      repeat = {first[repeat.begin], first[repeat.end], itself[repeat.until], repeat.max};
    }
    return std::move(program_);
  }

private:
  struct Landing {
    schedule::Lane lane;
    std::uint32_t before;  ///< which instruction of the round as it was
  };

  /// Micro-batches are brought as they come. What is reduced comes late, and so may what is received when it is
  /// posted, and whatever stands behind it on a lane waits for it too: so it is brought by the update lane, if
  /// that reads it, or as late as it is needed. In loops, and where nothing in the round needs it, at once.
  [[nodiscard]] Landing landing_of(std::uint32_t i) const {
    const Landing at_once{schedule::Lane::load, i + 1};
    const bool changes = !round_[i].writes.empty() || !round_[i].accumulates.empty();
    const bool late = round_[i].lane == schedule::Lane::reduce || round_[i].is_posted();
    if (!late || !changes || in_loop(i)) return at_once;
    std::uint32_t use = i + 1;
    while (use < round_.size() && !touches(round_[use], round_[i])) ++use;
    if (use == round_.size() || in_loop(use)) return at_once;
    if (round_[use].lane == schedule::Lane::update) return {schedule::Lane::update, i + 1};
    return {schedule::Lane::load, use};
  }

  [[nodiscard]] bool in_loop(std::uint32_t i) const {
    return std::any_of(
        program_.repeats.begin(), program_.repeats.end(),
        [i](const schedule::Repeat& repeat) { return repeat.begin <= i && i < repeat.end; });
  }

  /// The one reads or writes a storage, be it empty, or bytes of it that the other writes.
  [[nodiscard]] bool touches(const schedule::Instruction& one,
                             const schedule::Instruction& other) const {
    for (const auto* written : {&other.writes, &other.accumulates}) {
      for (const schedule::Value w : *written) {
        const Extent bytes = extent_of(w.storage);
        for (const auto* list : {&one.reads, &one.writes, &one.accumulates}) {
          for (const schedule::Value value : *list) {
            if (value.storage == w.storage || bytes.overlaps(extent_of(value.storage))) return true;
          }
        }
      }
    }
    return false;
  }

  /// A body knows of no copy from outside, which an iteration before may have made stale, nor does
  /// the outside of one in it, which may not run.
  [[nodiscard]] bool borders_loop(std::uint32_t i) const {
    return std::any_of(
        program_.repeats.begin(), program_.repeats.end(),
        [i](const schedule::Repeat& repeat) { return i == repeat.begin || i == repeat.end; });
  }

  static schedule::Instruction transfer(std::string_view kind, schedule::Lane lane,
                                        const schedule::Instruction& of) {
    schedule::Instruction result;
    result.kind = kind;
    result.lane = lane;
    result.index = of.index;
    result.micro_batch = of.micro_batch;
    return result;
  }

  bool on_device(schedule::StorageId id) const {
    return program_.storages[id].place == schedule::Place::device;
  }

  /// The storage in host memory that stands for one on the device; a part's is a part.
  schedule::StorageId twin(schedule::StorageId id) {
    if (const auto found = twins_.find(id); found != twins_.end()) return found->second;
    const schedule::Storage original = program_.storages[id];
    const std::string name = original.name + " on the host";
    schedule::StorageId copy = schedule::no_storage;
    if (original.parent == schedule::no_storage) {
      // A twin never holds a value from round to round, only its region's bytes.
      copy =
          program_.add_storage(name, original.bytes, schedule::Place::host,
                               original.life == schedule::Life::round ? schedule::Life::round
                                                                      : schedule::Life::reserved);
    } else {
      copy = program_.add_part(name, twin(original.parent), original.offset, original.bytes);
    }
    twins_[id] = copy;
    originals_[copy] = id;
    return copy;
  }

  void add_copy(schedule::Instruction& transfer, schedule::StorageId of) const {
    transfer.cost.bytes += program_.storages[of].bytes;
    ++transfer.cost.copies;
  }

  void fetch(schedule::Value& value, schedule::Instruction& download) {
    if (!on_device(value.storage)) return;
    const schedule::Value host{twin(value.storage), value.version};
    if (!is_current(value)) {
      add_copied(download, value, host);
      add_copy(download, value.storage);
      become_current(value);
    }
    value = host;
  }

  void bring(schedule::Value& value, schedule::Instruction& upload) {
    if (!on_device(value.storage)) return;
    const schedule::Value host{twin(value.storage), value.version};
    add_copied(upload, host, value);
    add_copy(upload, value.storage);
    note_write(value.storage);
    become_current(value);
    value = host;
  }

  void give_back(schedule::Value host, schedule::Instruction& upload) {
    const auto found = originals_.find(host.storage);
    if (found == originals_.end()) return;
    add_copied(upload, host, {found->second, host.version});
    add_copy(upload, host.storage);
    note_write(found->second);
    become_current({found->second, host.version});
  }

  /// What the device writes, its twin no longer holds.
  void forget(const schedule::Instruction& instruction) {
    for (const auto* list : {&instruction.writes, &instruction.accumulates}) {
      for (const schedule::Value value : *list) note_write(value.storage);
    }
  }

  [[nodiscard]] ByteRange range_of(schedule::StorageId id) const {
    return {addresses_[id], addresses_[id] + program_.storages[id].bytes};
  }

  /// A twin of what lies in those bytes is stale from here on.
  void note_write(schedule::StorageId written) {
    writers_.write(range_of(written), written, nullptr);
  }
  void become_current(schedule::Value value) {
    current_[value.storage] = {value.version, writers_.now()};
  }
  [[nodiscard]] bool is_current(schedule::Value value) const {
    const Current& held = current_[value.storage];
    return held.version == value.version &&
           writers_.last_time(range_of(value.storage)) <= held.since;
  }

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

}  // namespace reef::inline v0::run
