#pragma once

#include <algorithm>
#include <iterator>
#include <utility>

#include <reef/core/error.hpp>
#include <reef/core/inline.hpp>
#include <reef/core/text.hpp>
#include <reef/io/checksum.hpp>
#include <reef/swarm/core/server_bans.hpp>
#include <reef/swarm/core/session_client.hpp>

namespace reef {
inline namespace v0 {
namespace swarm {
namespace core {

REEF_INLINE SessionClient::SessionClient(SessionClientOptions options)
    : options_(std::move(options)) {
  const auto require_positive = [](const char* name, std::int64_t value) {
    if (value > 0) return;
    throw OptionError("reef::swarm::core::SessionClientOptions: ", name, " is ", value,
                      ".\n  fix: 1 or more.");
  };
  require_positive("blocks", options_.blocks);
  require_positive("batch", options_.batch);
  require_positive("max_length", options_.max_length);
  require_positive("row", static_cast<std::int64_t>(options_.row));
  require_positive("attempts", options_.attempts);
  if (options_.batch > max_session_batch) {
    throw OptionError("reef::swarm::core::SessionClientOptions: batch is ", options_.batch,
                      ".\n  fix: ", max_session_batch, " or fewer.");
  }
  Hop all{{}, {0, options_.blocks}, detail::RowHistory(options_.batch, options_.row)};
  all.answered = true;
  all.routing = true;
  hops_.push_back(std::move(all));
}

/// Ends the session at a server, so that it is opened anew, with no rows.
REEF_INLINE void SessionClient::forget(Hop& hop, Actions& actions) {
  if (!hop.session.empty()) actions.push_back(ask::Send{hop.server, CloseSession{hop.session}});
  hop.session.clear();
  hop.ready = false;
}

REEF_INLINE std::vector<RouteHop> SessionClient::chain() const {
  std::vector<RouteHop> chain;
  for (const Hop& hop : hops_)
    chain.push_back({hop.routing ? std::string() : hop.server, hop.blocks});
  return chain;
}

REEF_INLINE void SessionClient::require_step(std::int64_t keep,
                                             const std::vector<std::int64_t>& reorder,
                                             std::int64_t rows, const Bulk& bytes) const {
  const auto require_that = [](bool holds, const auto&... what) {
    if (!holds) throw OptionError("reef::swarm::core::SessionClient::begin: ", what...);
  };
  require_that(failed_.empty(), "the session has failed.\n  why: ", failed_,
               "\n  fix: a new session.");
  require_that(!running_, "a step is in progress.\n  fix: wait for ask::Accepted.");
  require_that(keep >= 0 && keep <= length_, keep, " positions are kept of ", length_,
               ".\n  fix: 0 to as many.");
  require_that(rows >= 1 && keep + rows <= options_.max_length, rows, " rows behind ", keep,
               " of at most ", options_.max_length, ".\n  fix: a session of a larger max_length.");
  require_that(bytes && bytes->size() == static_cast<Bytes>(options_.batch * rows) * options_.row,
               "rows of another size.\n  fix: batch * rows * row bytes.");
  require_that(reorder.empty() || static_cast<std::int64_t>(reorder.size()) == options_.batch,
               "an order of another number of sequences.\n  fix: one number for each.");
  for (const std::int64_t from : reorder)
    require_that(from >= 0 && from < options_.batch, "sequence ", from,
                 " does not exist.\n  fix: 0 to batch - 1.");
}

REEF_INLINE SessionClient::Actions SessionClient::begin(std::int64_t keep,
                                                        std::vector<std::int64_t> reorder,
                                                        std::int64_t rows, Bulk bytes,
                                                        Seconds now) {
  require_step(keep, reorder, rows, bytes);
  Actions actions;
  running_ = true;
  ++step_;
  keep_ = keep;
  reorder_ = std::move(reorder);
  rows_ = rows;
  attempts_ = 0;
  refusals_ = 0;
  begun_ = now;
  for (Hop& hop : hops_) {
    hop.answered = false;
    hop.early.reset();
    if (!hop.knows_input) continue;
    hop.input.keep(keep_);
    hop.input.reorder(reorder_);
  }
  hops_.front().input.append(*bytes);
  sent_to_ = 0;
  if (epoch_ == 0) {
    epoch_ = 1;
    route_attempts_ = 0;
    route_later(now);
    actions.push_back(ask::Route{{0, options_.blocks}, {}, HopFailure::lost});
  }
  waiting_since_ = now;
  asked_again_ = false;
  advance(now, actions);
  return actions;
}

REEF_INLINE void SessionClient::ask_route(const Hop& hop, HopFailure why, Actions& actions) {
  actions.push_back(ask::Route{hop.blocks, hop.server, why});
}

REEF_INLINE void SessionClient::fail(std::size_t at, HopFailure why, Seconds now,
                                     Actions& actions) {
  Hop& hop = hops_[at];
  if (hop.routing) return;
  if (running_ && ++attempts_ > options_.attempts)
    return end(concat("after ", attempts_ - 1, " repairs"), actions);
  ++repairs_;
  hop.routing = true;
  forget(hop, actions);
  // Who is refused once looks further at once; where many refuse, time is what helps.
  const bool is_refusal = why == HopFailure::refused || why == HopFailure::evicted ||
                          why == HopFailure::overload;
  const bool is_first = !is_refusal || refusals_++ == 0;
  if (is_first) route_attempts_ = 0;
  route_later(now);
  if (is_first) ask_route(hop, why, actions);
}

/// Sets the time at which a route is asked for again.
REEF_INLINE void SessionClient::route_later(Seconds now) {
  route_at_ =
      now + wait_before(++route_attempts_, options_.route_again, 16 * options_.route_again);
}

REEF_INLINE SessionClient::Actions SessionClient::routed(const BlockRange& blocks,
                                                         const std::vector<RouteHop>& route,
                                                         Seconds now) {
  Actions actions;
  if (!failed_.empty() || route.empty()) return actions;
  const auto hop = std::find_if(hops_.begin(), hops_.end(), [&](const Hop& one) {
    return one.routing && one.blocks == blocks;
  });
  if (hop == hops_.end()) return actions;
  if (!is_chain(route, blocks)) return actions;
  std::vector<Hop> hops =
      detail::hops_in_place_of(*hop, route, detail::RowHistory(options_.batch, options_.row));
  const auto at = hops_.erase(hop);
  hops_.insert(at, std::make_move_iterator(hops.begin()), std::make_move_iterator(hops.end()));
  if (std::none_of(hops_.begin(), hops_.end(), [](const Hop& one) { return one.routing; }))
    new_epoch(now, actions);
  return actions;
}

REEF_INLINE void SessionClient::new_epoch(Seconds now, Actions& actions) {
  ++epoch_;
  const std::size_t first = first_unanswered();
  sent_to_ = first;
  for (std::size_t i = 0; i < hops_.size(); ++i) {
    Hop& hop = hops_[i];
    hop.ready = false;
    hop.early.reset();
    const std::int64_t accepted = hop.answered ? step_ : step_ - 1;
    // Of a boundary that is new the client gets all rows from the server before it, which then needs all of its own.
    if (i + 1 < hops_.size() && !hops_[i + 1].knows_input) forget(hop, actions);
    if (!hop.session.empty()) {
      actions.push_back(ask::Send{hop.server, SessionEpoch{hop.session, epoch_, accepted}});
    } else {
      hop.session = concat(options_.session, ".", ++opened_);
      actions.push_back(
          ask::Send{hop.server, OpenSession{hop.session, epoch_, options_.model, hop.blocks,
                                            options_.batch, options_.max_length, accepted}});
    }
  }
  waiting_since_ = now;
  asked_again_ = false;
}

REEF_INLINE Bulk SessionClient::rows_for(const Hop& hop) const {
  return hop.input.last(hop.whole ? keep_ + rows_ : rows_);
}

REEF_INLINE void SessionClient::send_step(std::size_t first, Actions& actions) {
  SessionStep step{
      hops_[first].session, epoch_, step_, keep_, reorder_, rows_, false, false, {}, {}};
  std::size_t last = first;
  for (std::size_t i = first; i < hops_.size(); ++i) {
    Hop& hop = hops_[i];
    hop.whole = hop.fresh;
    if (i > first && hop.whole && !hops_[i - 1].whole)
      break;  // the one before has not all rows to send on
    last = i + 1;
  }
  for (std::size_t i = first; i < last; ++i) {
    // The client keeps the rows of each boundary: of one that is new, all.
    const bool answers_whole = hops_[i].whole && i + 1 < hops_.size() && !hops_[i + 1].knows_input;
    if (i == first) {
      step.whole = hops_[i].whole;
      step.answers_whole = answers_whole;
    } else {
      step.next.push_back({hops_[i].server, hops_[i].session, hops_[i].whole, answers_whole});
    }
  }
  step.bytes = rows_for(hops_[first]);
  sent_to_ = last;
  actions.push_back(ask::Send{hops_[first].server, std::move(step)});
}

REEF_INLINE void SessionClient::advance(Seconds now, Actions& actions) {
  if (!running_ || !failed_.empty()) return;
  const auto is_out = [](const Hop& hop) { return hop.is_out(); };
  if (std::any_of(hops_.begin(), hops_.end(), is_out)) return;
  take_answers(now, actions);
  if (!running_ || !failed_.empty() || std::any_of(hops_.begin(), hops_.end(), is_out)) return;
  const std::size_t first = first_unanswered();
  if (first < hops_.size()) {
    if (first >= sent_to_) send_step(first, actions);
    return;
  }
  running_ = false;
  length_ = keep_ + rows_;
  actions.push_back(ask::Accepted{step_, std::move(result_)});
}

REEF_INLINE void SessionClient::take_answers(Seconds now, Actions& actions) {
  for (std::size_t i = first_unanswered(); i < hops_.size() && hops_[i].early; ++i) {
    Hop& hop = hops_[i];
    const StepDone done = std::move(*hop.early);
    hop.early.reset();
    const bool has_next = i + 1 < hops_.size();
    const bool is_whole = hop.whole && has_next && !hops_[i + 1].knows_input;
    const std::int64_t positions = is_whole ? keep_ + rows_ : rows_;
    const bool fits =
        done.bytes &&
        done.bytes->size() == static_cast<Bytes>(options_.batch * positions) * options_.row;
    if (!fits || done.input != io::crc32c(*rows_for(hop))) {
      // Somebody between has changed them: the client's own copy is sent, and after a second time another server is.
      if (!fits || ++hop.faults > 1) return fail(i, HopFailure::checksum, now, actions);
      if (++attempts_ > options_.attempts)
        return end("rows arrive damaged, again and again", actions);
      ++repairs_;
      if (hop.whole) forget(hop, actions);  // the rows before may be damaged as well
      return new_epoch(now, actions);
    }
    hop.answered = true;
    hop.fresh = false;
    hop.faults = 0;
    waiting_since_ = now;
    asked_again_ = false;
    if (!has_next) {
      result_ = done.bytes;
      continue;
    }
    Hop& next = hops_[i + 1];
    next.input.append(*done.bytes);
    next.knows_input = true;
  }
}

REEF_INLINE SessionClient::Actions SessionClient::receive(const std::string& from,
                                                          const SessionMessage& message,
                                                          Seconds now) {
  Actions actions;
  const std::size_t at = detail::find_hop(
      hops_, from, std::visit([](const auto& m) { return m.session; }, message));
  if (at == hops_.size() || !failed_.empty()) return actions;
  Hop& hop = hops_[at];
  if (const auto* const done = std::get_if<StepDone>(&message)) {
    if (running_ && done->epoch == epoch_ && done->step == step_ && !hop.answered && !hop.early)
      hop.early = *done;
  } else if (const auto* const ready = std::get_if<SessionReady>(&message)) {
    if (ready->epoch == epoch_ && !hop.ready) {
      hop.ready = true;
      hop.fresh = ready->length == 0;
      waiting_since_ = now;
      asked_again_ = false;
    }
  } else if (const auto* const refused = std::get_if<SessionRefused>(&message)) {
    const bool is_of_now =
        refused->epoch == epoch_ &&
        (refused->step == 0 ? !hop.ready : refused->step == step_ && !hop.answered);
    if (!is_of_now) {
      // A late answer to an earlier request.
    } else if (is_of_client(refused->why)) {
      end(concat(from, " refuses the request as ",
                 refused->why == SessionRefusal::step ? "a step out of turn" : "malformed",
                 ": an error of this client"),
          actions);
    } else {
      fail(at, failure_of(refused->why), now, actions);
    }
  }
  advance(now, actions);
  return actions;
}

REEF_INLINE bool SessionClient::can_move() const {
  return !running_ && failed_.empty() && epoch_ > 0 &&
         std::none_of(hops_.begin(), hops_.end(), [](const Hop& hop) { return hop.is_out(); });
}

REEF_INLINE SessionClient::Actions SessionClient::move(const std::vector<RouteHop>& chain,
                                                       Seconds now) {
  Actions actions;
  if (!can_move() || !is_chain(chain, {0, options_.blocks}) || chain == this->chain())
    return actions;
  std::vector<Hop> hops =
      detail::moved_hops(hops_, chain, detail::RowHistory(options_.batch, options_.row));
  for (Hop& hop : hops_) forget(hop, actions);
  hops_ = std::move(hops);
  ++moves_;
  new_epoch(now, actions);
  return actions;
}

REEF_INLINE SessionClient::Actions SessionClient::lost(const std::string& server, Seconds now) {
  Actions actions;
  for (std::size_t i = 0; i < hops_.size() && failed_.empty(); ++i) {
    if (hops_[i].server == server && !hops_[i].session.empty())
      fail(i, HopFailure::lost, now, actions);
  }
  return actions;
}

REEF_INLINE SessionClient::Actions SessionClient::tick(Seconds now) {
  Actions actions;
  if (!failed_.empty()) return actions;
  if (running_ && now - begun_ > options_.step) {
    end(concat("a step has taken ", options_.step, " s; it waits ", waits_for()), actions);
    return actions;
  }
  bool is_routing = false;
  for (Hop& hop : hops_) is_routing = is_routing || (hop.routing && epoch_ > 0);
  if (is_routing) {
    if (now < route_at_) return actions;
    route_later(now);
    for (Hop& hop : hops_) {
      if (hop.routing) ask_route(hop, HopFailure::refused, actions);
    }
    return actions;
  }
  const bool is_waiting = running_ || std::any_of(hops_.begin(), hops_.end(), [](const Hop& hop) {
                            return !hop.ready && !hop.session.empty();
                          });
  if (!is_waiting || now - waiting_since_ < options_.answer) return actions;
  const auto silent =
      std::find_if(hops_.begin(), hops_.end(), [](const Hop& hop) { return !hop.ready; });
  const std::size_t at =
      silent != hops_.end() ? static_cast<std::size_t>(silent - hops_.begin()) : first_unanswered();
  if (asked_again_ || silent != hops_.end()) {
    fail(at, HopFailure::silent, now, actions);
  } else {
    asked_again_ = true;
    waiting_since_ = now;
    send_step(at, actions);
  }
  return actions;
}

REEF_INLINE SessionClient::Actions SessionClient::close() {
  Actions actions;
  for (const Hop& hop : hops_) {
    if (!hop.session.empty()) actions.push_back(ask::Send{hop.server, CloseSession{hop.session}});
  }
  if (failed_.empty()) failed_ = "it is closed";
  return actions;
}

REEF_INLINE void SessionClient::end(std::string why, Actions& actions) {
  actions.push_back(ask::Failed{why});
  for (ask::Action& action : close()) actions.push_back(std::move(action));
  failed_ = std::move(why);
  running_ = false;
}

REEF_INLINE std::string SessionClient::waits_for() const {
  return running_ ? detail::what_is_waited_for(hops_) : std::string();
}

}  // namespace core
}  // namespace swarm
}  // namespace v0
}  // namespace reef
