#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include <reef/compress/watch.hpp>
#include <reef/core/shape.hpp>

#include "failures.hpp"
#include "options.hpp"

namespace reef_examples {

/// --record-edges: what codecs make of the messages of one step, in a file of each rank.
///
///     activation 3, micro-batch 2, before      as it was
///     activation 3, micro-batch 2, after       as receivers have it
class EdgeRecorder {
public:
  /// Throws where this rank's file could not be written, or holds something else: before anything is trained.
  EdgeRecorder(const TrainOptions& options, int rank, int ranks, Failures& failures);

  [[nodiscard]] bool records() const { return step_ > 0; }

  /// What a Trainer is to do for it. Lives as long.
  [[nodiscard]] reef::compress::Watch watch(bool measures_error);

  /// Before the first step, which comes after so many: throws where the one to be recorded is among these.
  void start(std::int64_t committed) const;

  /// Before each step: what was kept of one that was skipped is of no use.
  void begin_step() { by_name_.clear(); }

  /// After a step that was committed, as that of this number. Returns the file that was written; empty if none.
  std::string end_step(std::int64_t step);

private:
  struct Numbers {
    reef::Shape shape;
    std::vector<float> before, after;
  };

  void keep(const reef::compress::Coded& coded);
  void write() const;

  std::int64_t step_;
  std::filesystem::path file_;
  Failures& failures_;
  std::mutex mutex_;  // lanes come with messages
  std::map<std::string, Numbers> by_name_;
};

}  // namespace reef_examples
