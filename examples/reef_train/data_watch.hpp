#pragma once

#include <chrono>
#include <string>

#include "../support/text_source.hpp"

namespace reef_examples {

/// Sees whether somebody cuts or rewrites the files that a run reads where they lie: the tokens after that would be
/// others, and those that were cut off cannot be read (reef::io::MappedFile).
class DataWatch {
public:
  explicit DataWatch(const TrainingData& data) : data_(data) {}

  /// Looks, unless that would take more than a hundredth of the time: it asks the file system of each file.
  bool changed() {
    if (Clock::now() >= next_) look();
    return !change_.empty();
  }
  /// Looks at once.
  void look() {
    if (!change_.empty()) return;
    const auto begin = Clock::now();
    change_ = data_.change();
    const auto end = Clock::now();
    next_ = end + 99 * (end - begin);
  }

  /// What has changed, with its file; empty where nothing has.
  [[nodiscard]] const std::string& change() const { return change_; }

private:
  using Clock = std::chrono::steady_clock;

  const TrainingData& data_;
  std::string change_;
  Clock::time_point next_;
};

}  // namespace reef_examples
