#pragma once

#include <future>
#include <iterator>
#include <memory>
#include <utility>

#include <reef/core/inline.hpp>
#include <reef/swarm/log/blocking_log.hpp>

namespace reef {
inline namespace v0 {
namespace swarm {

REEF_INLINE Appended BlockingLog::append(LogIndex at, std::string entry) {
  const auto promise = std::make_shared<std::promise<Appended>>();  // outlives this call in the log's thread
  log_.append(at, std::move(entry), [promise](Appended answer) { promise->set_value(std::move(answer)); });
  return promise->get_future().get();
}

REEF_INLINE LogPage BlockingLog::page(LogIndex from) {
  const auto promise = std::make_shared<std::promise<LogPage>>();
  log_.read(from, [promise](LogPage page) { promise->set_value(std::move(page)); });
  return promise->get_future().get();
}

REEF_INLINE std::vector<std::string> BlockingLog::read(LogIndex from) {
  std::vector<std::string> all;
  for (;;) {
    LogPage next = page(from);
    if (!next.answered) throw Error(next.why);
    if (next.entries.empty()) return all;
    from = next.from + next.entries.size();
    all.insert(all.end(), std::make_move_iterator(next.entries.begin()), std::make_move_iterator(next.entries.end()));
  }
}

}  // namespace swarm
}  // namespace v0
}  // namespace reef
