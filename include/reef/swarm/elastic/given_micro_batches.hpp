#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <span>

#include <reef/core/error.hpp>
#include <reef/core/language.hpp>

namespace reef {
inline namespace v0 {
namespace swarm {

/// The micro-batches that a trainer is to compute next, given before each step by whoever calls it: OuterRounds.
///
/// | life | what next() returns keeps the list by itself |
///
/// \code
/// // given: TrainerSettings& options
/// swarm::GivenMicroBatches given;
/// options.next_micro_batch = given.next();
/// \endcode
class GivenMicroBatches {
public:
  /// Appends indices of micro-batches in the job. Any thread.
  void give(std::span<const std::int64_t> indices) {
    const std::scoped_lock lock(list_->mutex);
    for (const std::int64_t index : indices) list_->indices.push_back(static_cast<std::uint64_t>(index));
  }

  /// Returns a function that takes the first of the list, for TrainerOptions::next_micro_batch. The function throws
  /// OptionError if there is none.
  [[nodiscard]] std::function<std::uint64_t()> next() const {
    return [list = list_] {
      const std::scoped_lock lock(list->mutex);
      if (list->indices.empty()) {
        throw OptionError("reef::swarm::GivenMicroBatches: a step without micro-batches.\n"
                          "  fix: steps are taken by OuterRounds::round() alone.");
      }
      const std::uint64_t index = list->indices.front();
      list->indices.pop_front();
      return index;
    };
  }

private:
  struct List {
    std::mutex mutex;
    std::deque<std::uint64_t> indices;
  };

  std::shared_ptr<List> list_ = std::make_shared<List>();
};

}  // namespace swarm
}  // namespace v0
}  // namespace reef
