#pragma once

#include <algorithm>
#include <utility>

#include <reef/core/inline.hpp>
#include <reef/swarm/core/session_server.hpp>

namespace reef {
inline namespace v0 {
namespace swarm {
namespace core {

REEF_INLINE std::int64_t SessionServer::pages_of(const OpenSession& open) const {
  return open.blocks.count() * open.batch * ((open.max_length + options_.page - 1) / options_.page);
}

REEF_INLINE std::size_t SessionServer::sessions() const {
  return static_cast<std::size_t>(std::count_if(
      open_.begin(), open_.end(), [](const auto& one) { return !one.second.evicted; }));
}

REEF_INLINE void SessionServer::open(const std::string& from, const OpenSession& wanted,
                                     Seconds now, Actions& actions) {
  const auto refuse = [&](SessionRefusal why) {
    actions.push_back(serve::Send{from, SessionRefused{wanted.session, wanted.epoch, 0, why}});
  };
  constexpr std::int64_t most = std::int64_t{1} << 40;
  const auto found = open_.find(wanted.session);
  if (found != open_.end()) {
    const ServedSession& session = found->second.session;
    if (found->second.client != from || wanted != session.opened())
      return refuse(SessionRefusal::malformed);
    if (found->second.evicted) return refuse(SessionRefusal::evicted);
    actions.push_back(
        serve::Send{from, SessionReady{wanted.session, wanted.epoch, session.length()}});
    return;  // a second copy
  }
  if (wanted.batch < 1 || wanted.max_length < 1 || wanted.batch > most / wanted.max_length ||
      wanted.step < 0)
    return refuse(SessionRefusal::malformed);
  const BlockRange& blocks = wanted.blocks;
  const bool has_blocks =
      blocks.first >= options_.blocks.first && blocks.last <= options_.blocks.last;
  if (wanted.model != options_.model || !has_blocks || blocks.count() < 1)
    return refuse(SessionRefusal::model);
  if (draining_) return refuse(SessionRefusal::draining);
  if (wanted.max_length > options_.longest || pages_of(wanted) > capacity() - pages_)
    return refuse(SessionRefusal::room);
  pages_ += pages_of(wanted);
  open_.emplace(wanted.session, Open{ServedSession(wanted, options_.row), from, now});
  actions.push_back(serve::OpenCache{wanted.session, blocks, wanted.batch, wanted.max_length});
  actions.push_back(serve::Send{from, SessionReady{wanted.session, wanted.epoch, 0}});
}

REEF_INLINE void SessionServer::close(const std::string& session, Actions& actions) {
  const auto found = open_.find(session);
  if (found == open_.end()) return;
  if (!found->second.evicted) {
    pages_ -= pages_of(found->second.session.opened());
    actions.push_back(serve::CloseCache{session});
  }
  open_.erase(found);
}

REEF_INLINE void SessionServer::handle(Open& open, const SessionStep& step, Actions& actions) {
  ServedSession::Verdict verdict = open.session.take(step);
  if (auto* const compute = std::get_if<ServedSession::Compute>(&verdict)) {
    open.computing = true;
    actions.push_back(
        serve::Run{step.session, std::move(compute->cache), std::move(compute->bytes)});
  } else if (auto* const done = std::get_if<StepDone>(&verdict)) {
    actions.push_back(serve::Send{open.client, std::move(*done)});
  } else {
    actions.push_back(serve::Send{open.client, std::get<SessionRefused>(verdict)});
  }
}

REEF_INLINE void SessionServer::handle(Open& open, const SessionEpoch& epoch, Actions& actions) {
  const auto answer = open.session.take(epoch);
  if (const auto* const ready = std::get_if<SessionReady>(&answer)) {
    actions.push_back(serve::CutCache{epoch.session, open.session.length()});
    actions.push_back(serve::Send{open.client, *ready});
  } else {
    actions.push_back(serve::Send{open.client, std::get<SessionRefused>(answer)});
  }
}

REEF_INLINE std::vector<serve::Action> SessionServer::receive(const std::string& from,
                                                              const SessionMessage& message,
                                                              Seconds now) {
  Actions actions;
  const std::string& name =
      std::visit([](const auto& m) -> const std::string& { return m.session; }, message);
  const auto* const wanted = std::get_if<OpenSession>(&message);
  const auto found = open_.find(name);
  if (found != open_.end()) {
    Open& open = found->second;
    open.used = now;
    if (open.computing) {
      // In the order in which they came; the answer to the step that is computed goes first.
      if (open.waiting.size() < options_.waiting) open.waiting.emplace_back(from, message);
      return actions;
    }
    if (open.evicted && wanted == nullptr && !std::holds_alternative<CloseSession>(message)) {
      const auto* const step = std::get_if<SessionStep>(&message);
      const std::int64_t epoch = step != nullptr ? step->epoch : 0;
      if (const auto* const next = std::get_if<SessionEpoch>(&message))
        actions.push_back(serve::Send{
            open.client, SessionRefused{name, next->epoch, 0, SessionRefusal::evicted}});
      if (step != nullptr)
        actions.push_back(serve::Send{
            open.client, SessionRefused{name, epoch, step->step, SessionRefusal::evicted}});
      return actions;
    }
  }
  if (wanted != nullptr) {
    open(from, *wanted, now, actions);
  } else if (std::holds_alternative<CloseSession>(message)) {
    if (found != open_.end() && found->second.client == from) close(name, actions);
  } else if (const auto* const step = std::get_if<SessionStep>(&message)) {
    // A server before this one cannot be told that a session is unknown; its client will ask.
    if (found == open_.end())
      actions.push_back(serve::Send{
          from, SessionRefused{name, step->epoch, step->step, SessionRefusal::unknown}});
    else
      handle(found->second, *step, actions);
  } else if (const auto* const epoch = std::get_if<SessionEpoch>(&message)) {
    if (found == open_.end())
      actions.push_back(
          serve::Send{from, SessionRefused{name, epoch->epoch, 0, SessionRefusal::unknown}});
    else if (found->second.client == from)
      handle(found->second, *epoch, actions);
  }
  return actions;
}

REEF_INLINE std::vector<serve::Action> SessionServer::computed(const std::string& session,
                                                               const Bulk& rows, Seconds now) {
  Actions actions;
  const auto found = open_.find(session);
  if (found == open_.end()) return actions;
  Open& open = found->second;
  open.computing = false;
  ServedSession::Answer answer = open.session.computed(rows);
  actions.push_back(serve::Send{open.client, std::move(answer.done)});
  if (!answer.next.empty()) actions.push_back(serve::Send{answer.next, std::move(answer.push)});
  std::deque<std::pair<std::string, SessionMessage>> waiting;
  waiting.swap(open.waiting);
  for (const auto& [from, message] : waiting) {  // `open` may be closed by one of them
    for (serve::Action& action : receive(from, message, now)) actions.push_back(std::move(action));
  }
  return actions;
}

REEF_INLINE std::vector<serve::Action> SessionServer::evict(const std::string& session) {
  Actions actions;
  const auto found = open_.find(session);
  if (found == open_.end() || found->second.evicted || found->second.computing) return actions;
  found->second.evicted = true;
  pages_ -= pages_of(found->second.session.opened());
  actions.push_back(serve::CloseCache{session});
  return actions;
}

REEF_INLINE std::vector<serve::Action> SessionServer::tick(Seconds now) {
  Actions actions;
  std::vector<std::string> old;
  for (const auto& [name, open] : open_) {
    if (!open.computing && now - open.used > options_.idle) old.push_back(name);
  }
  for (const std::string& name : old) close(name, actions);
  return actions;
}

}  // namespace core
}  // namespace swarm
}  // namespace v0
}  // namespace reef
