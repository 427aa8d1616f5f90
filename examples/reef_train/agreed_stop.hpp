#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>

#include <reef/comm/functions.hpp>
#include <reef/comm/gather.hpp>
#include <reef/comm/progress.hpp>
#include <reef/comm/stop_request.hpp>
#include <reef/core/text.hpp>

#include "../support/text_source.hpp"
#include "data_watch.hpp"
#include "failures.hpp"
#include "setup.hpp"

namespace reef_examples {

/// Ends a run on all ranks after the same step: for a signal that any of them has, or for data that is no longer what it was.
class AgreedStop {
public:
  /// `say` tells a person why; data that changed is a failure too.
  AgreedStop(const reef::comm::StopRequest& request, const TrainingData& data, Say say, Failures& failures)
      : request_(request), watch_(data), say_(std::move(say)), failures_(failures) {}

  /// Whether this rank has a reason that the others may not know of.
  bool is_wanted_here() { return request_.asked() || watch_.changed(); }

  /// Looks at once whether the data has changed.
  void look() { watch_.look(); }

  /// Whether a signal has come to any rank, or the data of any is no longer what it was: each is told once, as after step
  /// `committed`. All ranks call it.
  bool agree(reef::comm::Progress& progress, std::int64_t committed) {
    if (lost_) return true;
    std::array<float, 2> any{request_.asked() ? 1.0F : 0.0F, watch_.changed() ? 1.0F : 0.0F};
    reef::comm::all_reduce(progress, "stop request", std::span<float>(any));
    if (any[0] > 0 && !std::exchange(asked_, true)) tell_signals(progress, committed);
    if (any[1] > 0 && !std::exchange(lost_, true)) tell_change(progress, committed);
    return is_agreed();
  }

  /// Whether all ranks know that the run ends.
  [[nodiscard]] bool is_agreed() const { return asked_ || lost_; }
  /// Whether all ranks know that it is for a signal.
  [[nodiscard]] bool is_asked() const { return asked_; }
  /// Whether all ranks know that it is for data that is no longer what it was.
  [[nodiscard]] bool is_lost() const { return lost_; }

private:
  void tell_signals(reef::comm::Progress& progress, std::int64_t committed) {
    const auto signals = reef::comm::gather_numbers(progress, "signals", request_.signal());
    std::string text;
    for (std::size_t rank = 0; rank < signals.size(); ++rank) {
      if (signals[rank] == 0) continue;
      text += reef::concat(text.empty() ? "" : ", ", "signal ", signals[rank], " at rank ", rank);
    }
    say_(reef::concat("stopping after step ", committed, ": ", text));
  }

  void tell_change(reef::comm::Progress& progress, std::int64_t committed) {
    const auto changes = reef::comm::gather_texts(progress, "changes of the data", watch_.change());
    const auto found = std::find_if(changes.begin(), changes.end(),
                                    [](const std::string& text) { return !text.empty(); });
    if (found == changes.end()) return;  // rank 0 has them
    say_(reef::concat("stopping after step ", committed, ": the data is no longer what it was"));
    failures_.add("--data", *found +
                                ".\n  why: a run reads files of tokens where they lie.\n  fix: "
                                "put a changed file in place of one by renaming it (mv).");
  }

  const reef::comm::StopRequest& request_;
  DataWatch watch_;
  Say say_;
  Failures& failures_;
  bool asked_ = false;
  bool lost_ = false;
};

}  // namespace reef_examples
