#pragma once

#include <iterator>
#include <memory>

#include <reef/comm/collectives.hpp>
#include <reef/comm/detail/direct_exchange.hpp>
#include <reef/comm/detail/message_exchange.hpp>
#include <reef/comm/detail/window_exchange.hpp>
#include <reef/core/inline.hpp>
#include <reef/core/text.hpp>

namespace reef {
inline namespace v0 {
namespace comm {

namespace detail {

struct ExchangeTask::Exchanges {
  MessageExchange by_messages;
  WindowExchange by_window;
  DirectExchange by_reading;
};

REEF_INLINE ExchangeTask::ExchangeTask(Kind kind, std::string name, ExchangePlan plan,
                                       std::optional<Group> group)
    : Task(kind, std::move(name), std::move(group)),
      plan_(std::move(plan)),
      exchanges_(std::make_unique<Exchanges>()) {
  if (this->group()) {
    check_ranks(this->name(), std::ssize(plan_.offsets) - 1, this->group()->size());
  }
}

REEF_INLINE ExchangeTask::~ExchangeTask() = default;

REEF_INLINE void ExchangeTask::start(const Station& station) {
  check_ranks(name(), plan_.ranks(), station.size());
  place(station.position);
  station_.emplace(station);
  exchange_ = &chosen(station);
  exchange_->start(*station_, plan_, header(station, 0, 0), kind(),
                   concat(name_of(kind()), " '", name(), "'",
                          group() ? concat(" of group '", group()->name, "'") : ""));
}

REEF_INLINE Exchange& ExchangeTask::chosen(const Station& station) {
  if (station.window == nullptr) return exchanges_->by_messages;  // also where one rank is alone
  // Copying what fits into a slot takes less time than the system calls of reading.
  const bool fits_a_slot = payload() <= station.window->slot_bytes() / 2;
  if (station.window->peers().usable() && !fits_a_slot) return exchanges_->by_reading;
  return exchanges_->by_window;
}

REEF_INLINE void check_length(const std::string& name, std::size_t have, std::int64_t need,
                              std::string_view what) {
  if (have == static_cast<std::size_t>(need)) return;
  throw OptionError("reef::comm: the ", what, " of '", name, "' has ", have,
                    " elements; its offsets say ", need, ".");
}

}  // namespace detail

}  // namespace comm
}  // namespace v0
}  // namespace reef
