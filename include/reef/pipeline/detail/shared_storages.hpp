#pragma once

#include <cstddef>
#include <deque>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include <reef/run/step_builder.hpp>

namespace reef {
inline namespace v0 {
namespace pipeline::detail {

/// A tensor that crosses stages, or its gradient.
using Crossing = std::pair<int, bool>;

/// By tensor, the places that its micro-batches have on the device, from phase to phase.
struct FreeStorages {
  std::map<Crossing, std::deque<run::StorageId>> free{};
};

/// Has the micro-batches of a phase share the places of tensors between stages, one after the other: in the order of
/// the program, as many as are in use at one time, and one more, into which the next lands meanwhile. Copies run beside
/// what is computed, so nothing else would order one micro-batch's tensor behind another's.
class PlaceSharer {
public:
  /// `first`, `count`: of the program's micro-batches.
  PlaceSharer(run::StepBuilder& builder, int first, int count, const std::set<Crossing>& crossing)
      : builder_(builder), places_(builder.scratch<FreeStorages>()) {
    for (const Crossing& which : crossing) {
      for (int j = first; j < first + count; ++j) {
        run::StorageId& storage = storage_of(which, j);
        if (storage != run::no_storage) owners_[storage] = {which, j};
      }
    }
  }

  void run() {
    std::map<run::StorageId, std::size_t> last;
    std::vector<schedule::Instruction>& round = builder_.program.round;
    for (std::size_t i = 0; i < round.size(); ++i) {
      schedule::for_each_value(round[i], [&](const schedule::Value& value) {
        if (owners_.contains(value.storage)) last[value.storage] = i;
      });
    }
    std::map<run::StorageId, run::StorageId> place_of;
    for (std::size_t i = 0; i < round.size(); ++i) {
      std::set<run::StorageId> ended;
      schedule::for_each_value(round[i], [&](schedule::Value& value) {
        const auto owner = owners_.find(value.storage);
        if (owner == owners_.end()) return;
        const auto [place, is_new] = place_of.emplace(value.storage, value.storage);
        if (is_new) place->second = taken(owner->second.first, value.storage);
        if (last.at(value.storage) == i) ended.insert(value.storage);
        value.storage = place->second;
      });
      for (const run::StorageId storage : ended) {
        places_.free[owners_.at(storage).first].push_back(place_of.at(storage));
      }
    }
    for (const auto& [storage, place] : place_of) {
      const auto& [which, j] = owners_.at(storage);
      storage_of(which, j) = place;
    }
  }

private:
  run::StorageId& storage_of(const Crossing& which, int j) {
    run::StepBuilder::MicroBatch& storages = builder_.micro_batches[static_cast<std::size_t>(j)];
    return (which.second ? storages.gradients : storages.tensors)[static_cast<std::size_t>(which.first)];
  }

  /// The one that has been free for longest, where another stays free; else the micro-batch's own.
  run::StorageId taken(const Crossing& which, run::StorageId own) {
    std::deque<run::StorageId>& free = places_.free[which];
    if (free.size() < 2) return own;
    const run::StorageId place = free.front();
    free.pop_front();
    return place;
  }

  run::StepBuilder& builder_;
  FreeStorages& places_;
  std::map<run::StorageId, std::pair<Crossing, int>> owners_{};
};

}  // namespace pipeline::detail
}  // namespace v0
}  // namespace reef
