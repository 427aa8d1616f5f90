#pragma once

#include <algorithm>
#include <optional>
#include <utility>
#include <variant>

#include <reef/core/inline.hpp>
#include <reef/core/text.hpp>
#include <reef/swarm/core/detail/simulated_job.hpp>
#include <reef/swarm/core/detail/simulated_run.hpp>

namespace reef {
inline namespace v0 {
namespace swarm {
namespace core {
namespace detail {

REEF_INLINE SimulationResult Simulation::run() {
  while (!queue_.empty() && result_.violation.empty()) {
    const std::function<void()> run = queue_.next();
    if (now() > world_.time_limit) {
      result_.violation = concat("progress: ", log_state_.round(), " of ", plan_.rounds, " rounds in ",
                                 world_.time_limit, " s", waits());
      break;
    }
    constexpr std::uint64_t max_events = 200'000;
    if (++result_.events > max_events) {
      result_.violation = concat("progress: ", max_events, " events by ", now(), " s", waits());
      break;
    }
    run();
    if (finished()) break;
  }
  if (queue_.empty() && !finished() && result_.violation.empty())
    result_.violation = "progress: nothing is left to happen";
  result_.at = now();
  result_.rounds = log_state_.round();
  result_.views = log_state_.epoch;
  result_.ignored = log_state_.ignored;
  result_.retried = account_.retried();
  result_.quarantined = log_state_.ledger.quarantined().count();
  return result_;
}

REEF_INLINE void Simulation::start(int number, std::uint64_t incarnation) {
  auto process = std::make_shared<Process>();
  process->number = number;
  process->id = {concat("p", number), incarnation};
  process->weights.resize(static_cast<std::size_t>(world_.pieces));
  PeerOptions options;
  options.self = {process->id, concat("10.0.0.", number), 0, 0};
  options.genesis.job = "simulated";
  options.genesis.global_batch = world_.global_batch;
  options.genesis.parameters = world_.pieces;
  options.genesis.piece = 1;
  options.genesis.checkpoint = world_.checkpoint;
  options.deadlines = world_.deadlines;
  options.functions = simulated_functions();
  options.seed = draws_.next();
  options.first_members = (std::min)(2, plan_.peers);
  process->peer = std::make_unique<Peer>(std::move(options));
  processes_.push_back(process);
  for (const event::StateFound& state : disks_.found_by(number)) hear(process, state);
  after(drawn(world_.log), [this, process] { hear(process, event::LogEnd{log_end()}); });
  after(drawn(world_.log), [this, process] { tick(process); });
  read_next(process);
}

REEF_INLINE void Simulation::tick(const std::shared_ptr<Process>& process) {
  if (!process->alive) return;
  hear(process, event::Tick{});
  after(world_.deadlines.beat * draws_.between(0.5, 1), [this, process] { tick(process); });
  begin_micro_batch(process);
}

REEF_INLINE void Simulation::hear(const std::shared_ptr<Process>& process, Event event) {
  if (!process->alive) return;
  if (process->paused_until > now()) {
    at(process->paused_until,
       [this, process, event = std::move(event)]() mutable { hear(process, std::move(event)); });
    return;
  }
  std::vector<Action> actions = process->peer->on(event, now());
  weigh(*process);
  for (Action& action : actions) {
    if (!process->alive) break;
    std::visit([&](auto& what) { act(process, what); }, action);
  }
  if (process->alive) strike(process);
  check();
}

REEF_INLINE void Simulation::act(const std::shared_ptr<Process>& from, action::Send& send) {
  const auto to = std::find_if(processes_.begin(), processes_.end(), [&](const auto& p) { return p->id == send.to; });
  if (to == processes_.end() || !(*to)->alive) return;
  if (from->corrupts) {
    if (auto* const part = std::get_if<Part>(&send.message)) {
      part->bytes = corrupted(part->bytes, draws_);
      from->corrupts = false;
    }
  }
  const int copies = draws_.between(0, 1) < world_.doubled ? 2 : 1;
  for (int copy = 0; copy < copies; ++copy) {
    if (draws_.between(0, 1) < world_.lost) continue;
    const bool stays = std::holds_alternative<Part>(send.message);
    const Seconds sent = stays ? (std::max)(now(), from->slow_until) : now();
    at(sent + drawn(world_.link), [this, from, to = *to, message = send.message]() mutable {
      if (linked(*from, *to)) hear(to, event::Received{from->id, std::move(message)});
    });
  }
}

REEF_INLINE void Simulation::act(const std::shared_ptr<Process>& from, action::Append& append) {
  after(drawn(world_.log), [this, from, append = std::move(append)]() mutable {
    const auto answer = [&](bool won) {
      const bool lost = from->no_answer_until > now() || !reaches_log(*from);
      after(lost ? 5 : drawn(world_.log), [this, from, index = append.index, won = won && !lost] {
        hear(from, event::Appended{index, won});
      });
    };
    if (!reaches_log(*from)) {
      // It may land later, also when its author has ended.
      if (draws_.below(2) == 0) {
        after(draws_.between(0, 10), [this, append]() mutable { land(append.index, std::move(append.entry)); });
      }
      answer(false);
      return;
    }
    answer(land(append.index, std::move(append.entry)));
  });
}

REEF_INLINE bool Simulation::land(std::int64_t index, Entry entry) {
  if (index != log_end()) return false;
  log_.push_back(entry);
  const std::int64_t before = log_state_.round();
  const std::size_t dealt = log_state_.dealing.members().size();
  const std::string why = apply(log_state_, entry);
  if (why.empty() && std::holds_alternative<Exclude>(entry.what)) ++result_.excluded;
  if (const auto* const checkpoint = std::get_if<LogCheckpoint>(&entry.what); checkpoint != nullptr && why.empty()) {
    ++result_.checkpoints;
    result_.violation = disks_.broken_by(*checkpoint, account_.weights_after(checkpoint->rounds));
    if (!checkpoint->summary.empty() && draws_.below(2) == 0)
      after(draws_.between(0, 5), [this, index] { drop(index); });
  }
  if (log_state_.round() > before)
    result_.violation = account_.commit(std::get<Commit>(entry.what), dealt, log_state_.ledger);
  for (const auto& process : processes_) read_next(process);
  return true;
}

REEF_INLINE void Simulation::read_next(const std::shared_ptr<Process>& process) {
  if (process->reading || !process->alive) return;
  if (process->peer->state().entries >= log_end()) return;
  process->reading = true;
  const Seconds from = (std::max)({process->no_log_until, process->paused_until, now()});
  at(from + drawn(world_.log), [this, process] {
    process->reading = false;
    if (reaches_log(*process) && process->paused_until <= now()) {
      const std::int64_t next = (std::max)(process->peer->state().entries, dropped_);
      if (next > process->peer->state().entries) ++result_.begun;
      hear(process, event::Read{log_[static_cast<std::size_t>(next - dropped_)], next});
      compare(*process);
    }
    read_next(process);
  });
}

REEF_INLINE void Simulation::act(const std::shared_ptr<Process>& from, action::Announce& announce) {
  after(drawn(world_.log), [this, from, presence = announce.presence] {
    if (!from->alive || !reaches_log(*from)) return;
    presences_[from->id] = presence;
    tell_presences();
  });
}

REEF_INLINE void Simulation::tell_presences() {
  for (const auto& process : processes_) {
    if (!process->alive || !reaches_log(*process)) continue;
    event::Present present;
    for (const auto& [id, presence] : presences_) present.all.push_back(presence);
    after(drawn(world_.log), [this, process, present = std::move(present)] { hear(process, present); });
  }
}

REEF_INLINE void Simulation::expire(const std::shared_ptr<Process>& process) {
  after(world_.lease, [this, process] {
    if (process->alive && reaches_log(*process)) return;
    if (presences_.erase(process->id) > 0) tell_presences();
  });
}

REEF_INLINE void Simulation::announce_again(const std::shared_ptr<Process>& process, Seconds when) {
  after(when, [this, process] {
    if (!process->alive || !reaches_log(*process)) return;
    presences_[process->id] = process->peer->presence(now());
    tell_presences();
  });
}

REEF_INLINE void Simulation::begin_micro_batch(const std::shared_ptr<Process>& process) {
  if (!process->alive || process->computing || process->closing || process->stalled_until > now() ||
      process->paused_until > now())
    return;
  const std::optional<std::int64_t> index = process->peer->take();
  if (!index) return;
  if (std::exchange(process->spoils, false)) process->spoiled.insert(*index);
  if (std::exchange(process->poisons, false)) account_.poison(*index);
  process->computing = true;
  compute(process, *index, now() + drawn(world_.micro_batch));
}

REEF_INLINE void Simulation::compute(const std::shared_ptr<Process>& process, std::int64_t index, Seconds until) {
  at(until, [this, process, index] {
    if (!process->alive) return;
    const Seconds standing = (std::max)(process->stalled_until, process->paused_until);
    if (standing > now()) {
      compute(process, index, standing);
      return;
    }
    process->computing = false;
    if (!std::exchange(process->is_void, false)) {
      process->indices.push_back(index);
      hear(process, event::Computed{process->peer->state().round(), process->peer->state().attempt});
    }
    if (process->closing) contribute(process);
    begin_micro_batch(process);
  });
}

REEF_INLINE void Simulation::act(const std::shared_ptr<Process>& from, action::Restart& /*restart*/) {
  from->begin_round();
}

REEF_INLINE void Simulation::contribute(const std::shared_ptr<Process>& process) {
  if (!process->alive || !process->closing || process->computing) return;
  const bool finite = std::none_of(process->indices.begin(), process->indices.end(), [&](std::int64_t index) {
    return process->spoiled.contains(index) || account_.is_poisoned(index);
  });
  const action::Close closing = *std::exchange(process->closing, std::nullopt);
  hear(process, event::Contributed{closing.round, closing.attempt,
                                   simulated_contribution(std::exchange(process->indices, {}), world_.pieces, finite)});
}

REEF_INLINE void Simulation::act(const std::shared_ptr<Process>& from, action::Apply& apply) {
  after(drawn(world_.update), [this, from, apply = std::move(apply)] {
    if (!from->alive) return;
    if (from->applied != apply.round) {
      result_.violation =
          concat("agreement: ", to_text(from->id), " is given round ", apply.round, " after ", from->applied);
      return;
    }
    for (std::size_t piece = 0; piece < from->weights.size() && apply.verdict.finite; ++piece) {
      from->weights[piece] = next_weight(from->weights[piece], value_of(apply.results[piece]));
    }
    applied(from, apply.round + 1);
  });
}

REEF_INLINE void Simulation::applied(const std::shared_ptr<Process>& process, std::int64_t rounds) {
  process->applied = rounds;
  process->begin_round();
  if (process->weights != account_.weights_after(rounds)) {
    result_.violation =
        concat("replay: ", to_text(process->id), " has other weights after ", rounds, " rounds than the ledger");
    return;
  }
  if (world_.checkpoint > 0 && rounds % world_.checkpoint == 0)
    hear(process, disks_.keep(process->number, rounds, process->weights));
  hear(process, event::Applied{rounds});
  begin_micro_batch(process);
}

REEF_INLINE void Simulation::act(const std::shared_ptr<Process>& from, action::SetState& set) {
  for (std::size_t piece = 0; piece < from->weights.size(); ++piece)
    from->weights[piece] = value_of(set.pieces[piece]);
  after(drawn(world_.update), [this, from, rounds = set.rounds] {
    if (from->alive) applied(from, rounds);
  });
}

REEF_INLINE void Simulation::act(const std::shared_ptr<Process>& from, action::Restore& restore) {
  from->weights = disks_.state(from->number, restore.rounds);
  ++result_.restored;
  after(drawn(world_.update), [this, from, rounds = restore.rounds] {
    if (from->alive) applied(from, rounds);
  });
}

REEF_INLINE void Simulation::strike(const std::shared_ptr<Process>& process) {
  for (std::size_t i = 0; i < plan_.faults.size(); ++i) {
    const Fault& fault = plan_.faults[i];
    if (done_[i] || fault.peer != process->number) continue;
    const std::int64_t round = process->peer->state().round();
    if (round < fault.round || (round == fault.round && phase_of(*process) < fault.phase)) continue;
    done_[i] = true;
    inflict(process, fault);
    if (!process->alive) return;
  }
}

REEF_INLINE void Simulation::inflict(const std::shared_ptr<Process>& process, const Fault& fault) {
  const Seconds until = now() + fault.seconds;
  switch (fault.kind) {
    case FaultKind::kill: end(process); break;
    case FaultKind::restart:
      end(process);
      disks_.wait_for(process->number);
      after(fault.seconds,
            [this, number = process->number, next = process->id.incarnation + 1] { start(number, next); });
      break;
    case FaultKind::pause: process->paused_until = until; break;
    case FaultKind::stall: process->stalled_until = until; break;
    case FaultKind::cut_off: process->cut_until = until; break;
    case FaultKind::deaf: process->deaf_until = until; break;
    case FaultKind::isolate: process->cut_until = until; [[fallthrough]];
    case FaultKind::no_log:
      process->no_log_until = until;
      expire(process);
      announce_again(process, fault.seconds + 0.001);
      break;
    case FaultKind::no_answer: process->no_answer_until = until; break;
    case FaultKind::corrupt: process->corrupts = true; break;
    case FaultKind::leave: after(0, [this, process] { hear(process, event::Leave{"planned"}); }); break;
    case FaultKind::spoil: process->spoils = true; break;
    case FaultKind::poison: process->poisons = true; break;
    case FaultKind::slow: process->slow_until = until; break;
    case FaultKind::join: start(plan_.peers + joined_++, 1); break;
  }
}

REEF_INLINE void Simulation::roll_back() {
  std::int64_t newest = 0;
  for (const auto& process : processes_) {
    if (process->alive) newest = (std::max)(newest, process->applied);
  }
  if (const auto& checkpoint = log_state_.checkpoint; checkpoint && newest < checkpoint->rounds) {
    newest = checkpoint->rounds;
    // An operator starts somebody again who has kept the state of the checkpoint.
    const PeerId& holder = checkpoint->holders.front();
    if (!disks_.comes(newest)) start(SimulatedDisks::number_of(holder), holder.incarnation + 100);
    if (newest == log_state_.round()) return;
  }
  ++result_.rollbacks;
  account_.roll_back(newest, log_state_.ledger);
  land(log_end(), {{"operator", 0}, draws_.next(), Rollback{newest, "nobody has what came later"}});
}

REEF_INLINE void Simulation::check() {
  if (!result_.violation.empty()) return;
  const std::int64_t round = log_state_.round();
  if (round == 0) return;
  const std::vector<PeerId> contributors = log_state_.ledger.rounds().back().contributors();
  bool somebody = disks_.comes(round);
  for (const auto& process : processes_) {
    somebody =
        somebody || (process->alive && (process->applied >= round || disks_.has(process->number, round) ||
                                        process->peer->holds(round - 1, contributors)));
  }
  if (somebody) return;
  const std::vector<PeerId>& holders = account_.holders_of_last();
  const bool one_lives = std::any_of(processes_.begin(), processes_.end(), [&](const auto& process) {
    return process->alive && std::find(holders.begin(), holders.end(), process->id) != holders.end();
  });
  if (one_lives) {
    result_.violation = concat("durability: nobody has the committed round ", round - 1);
  } else {
    roll_back();  // as an operator would: all who held it have ended
  }
}

REEF_INLINE bool Simulation::finished() const {
  if (log_state_.round() < plan_.rounds) return false;
  // A further peer that came late need not have joined by the end, but must have no other weights, which applied()
  // tests.
  return std::all_of(processes_.begin(), processes_.end(), [&](const auto& process) {
    return !process->alive || process->applied >= plan_.rounds || !process->peer->is_member();
  });
}

REEF_INLINE std::string Simulation::waits() const {
  std::string text;
  for (const auto& process : processes_) {
    if (process->alive) text += concat("\n  ", to_text(process->id), " waits ", process->peer->waits_for(now()));
  }
  return text;
}

}  // namespace detail
}  // namespace core
}  // namespace swarm
}  // namespace v0
}  // namespace reef
