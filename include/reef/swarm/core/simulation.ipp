#pragma once

#include <algorithm>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <queue>
#include <set>
#include <utility>
#include <vector>

#include <reef/core/inline.hpp>
#include <reef/core/text.hpp>
#include <reef/swarm/core/detail/draws.hpp>
#include <reef/swarm/core/peer.hpp>
#include <reef/swarm/core/simulation.hpp>

namespace reef {
inline namespace v0 {
namespace swarm {
namespace core {

namespace detail {

/// A digest for simulations: four lanes of a 64-bit mix. Not for messages of others.
inline Digest simulated_digest(std::span<const std::byte> bytes) {
  std::uint64_t lanes[4] = {1, 2, 3, 4};
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    std::uint64_t& lane = lanes[i % 4];
    lane = (lane ^ static_cast<std::uint64_t>(bytes[i])) * 0x9E3779B97F4A7C15ULL;
    lane ^= lane >> 29;
  }
  Digest digest;
  for (std::size_t lane = 0; lane < 4; ++lane) {
    const std::uint64_t value = Draws(lanes[lane] + bytes.size() + lanes[(lane + 1) % 4]).next();
    std::memcpy(digest.bytes.data() + 8 * lane, &value, sizeof value);
  }
  return digest;
}

inline Bulk bulk_of(std::uint64_t value) {
  std::vector<std::byte> bytes(sizeof value + 1);
  std::memcpy(bytes.data(), &value, sizeof value);
  for (std::size_t i = 0; i < sizeof value; ++i) bytes.back() ^= bytes[i];  // so that a changed part is noticed
  return std::make_shared<const std::vector<std::byte>>(std::move(bytes));
}

inline std::uint64_t value_of(const Bulk& bulk) {
  std::uint64_t value = 0;
  std::memcpy(&value, bulk->data(), sizeof value);
  return value;
}

inline bool is_whole(const Bulk& bulk) {
  return bulk->size() == sizeof(std::uint64_t) + 1 && *bulk_of(value_of(bulk)) == *bulk;
}

/// The gradient of a micro-batch in one piece: a sum of these is exact in any order.
inline std::uint64_t gradient_of(std::int64_t micro_batch, std::int64_t piece) {
  return Draws(static_cast<std::uint64_t>(micro_batch) * 1000003 + static_cast<std::uint64_t>(piece)).next();
}

inline std::uint64_t next_weight(std::uint64_t weight, std::uint64_t gradient) { return Draws(weight ^ (gradient * 3)).next(); }

inline RoundFunctions simulated_functions() {
  RoundFunctions functions;
  functions.digest = simulated_digest;
  functions.fold = [](std::int64_t, std::span<const Bulk> parts) {
    std::uint64_t sum = 0;
    for (const Bulk& part : parts) sum += value_of(part);
    return bulk_of(sum);
  };
  functions.accepts = [](std::int64_t, const Bulk& part) { return is_whole(part); };
  functions.judge = [](std::span<const Bulk>, double weight, double loss) { return RoundVerdict{true, 0, 1, loss / weight}; };
  return functions;
}

/// A peer's process in the simulation, and the trainer beside it.
struct Process {
  int number = 0;  ///< of the peer in the plan; a restarted one has the same
  PeerId id{};
  std::unique_ptr<Peer> peer{};
  bool alive = true;
  std::vector<std::uint64_t> weights{};
  std::int64_t applied = 0;
  std::vector<std::int64_t> indices{};  // computed in this round
  bool computing = false;
  bool is_void = false;  // the micro-batch in work is of a round that began anew
  std::optional<action::Close> closing{};  // the round that the trainer ends
  bool reading = false;                   // an entry of the log is on its way
  Seconds paused_until = 0;
  Seconds stalled_until = 0;
  Seconds cut_until = 0;
  Seconds deaf_until = 0;
  Seconds no_log_until = 0;
  Seconds no_answer_until = 0;
  bool corrupts = false;
};

class Simulation {
public:
  Simulation(const FaultPlan& plan, const SimulatedWorld& world) : plan_(plan), world_(world), draws_(plan.seed) {
    done_.assign(plan.faults.size(), false);
    for (int i = 0; i < plan.peers; ++i) start(i, 1);
  }

  SimulationResult run() {
    while (!queue_.empty() && result_.violation.empty()) {
      // The queue owns the function: taken out by move, since it is the top for the last time.
      Timed timed = std::move(const_cast<Timed&>(queue_.top()));
      queue_.pop();
      now_ = timed.at;
      if (now_ > world_.time_limit) {
        result_.violation = concat("progress: ", log_state_.round(), " of ", plan_.rounds, " rounds in ", world_.time_limit, " s", waits());
        break;
      }
      constexpr std::uint64_t max_events = 200'000;
      if (++result_.events > max_events) {
        result_.violation = concat("progress: ", max_events, " events by ", now_, " s", waits());
        break;
      }
      timed.run();
      if (finished()) break;
    }
    if (queue_.empty() && !finished() && result_.violation.empty()) result_.violation = "progress: nothing is left to happen";
    result_.at = now_;
    result_.rounds = log_state_.round();
    result_.views = log_state_.epoch;
    result_.ignored = log_state_.ignored;
    return result_;
  }

private:
  struct Timed {
    Seconds at;
    std::uint64_t order;
    std::function<void()> run;
    friend bool operator<(const Timed& a, const Timed& b) { return a.at != b.at ? a.at > b.at : a.order > b.order; }
  };

  void at(Seconds when, std::function<void()> run) { queue_.push({when, order_++, std::move(run)}); }
  void after(Seconds delay, std::function<void()> run) { at(now_ + delay, std::move(run)); }
  Seconds drawn(const Seconds (&range)[2]) { return draws_.between(range[0], range[1]); }
  [[nodiscard]] bool reaches_log(const Process& process) const { return process.no_log_until <= now_; }
  [[nodiscard]] bool linked(const Process& from, const Process& to) const {
    return from.cut_until <= now_ && to.cut_until <= now_ && to.deaf_until <= now_;
  }

  void start(int number, std::uint64_t incarnation) {
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
    options.deadlines = world_.deadlines;
    options.functions = simulated_functions();
    options.seed = draws_.next();
    options.first_members = (std::min)(2, plan_.peers);
    process->peer = std::make_unique<Peer>(std::move(options));
    processes_.push_back(process);
    after(drawn(world_.log), [this, process] { hear(process, event::LogEnd{static_cast<std::int64_t>(log_.size())}); });
    after(drawn(world_.log), [this, process] { tick(process); });
    read_next(process);
  }

  void tick(const std::shared_ptr<Process>& process) {
    if (!process->alive) return;
    hear(process, event::Tick{});
    after(world_.deadlines.beat * draws_.between(0.5, 1), [this, process] { tick(process); });
    begin_micro_batch(process);
  }

  /// Lets a process hear of an event, now or when it goes on, and does what it asks for.
  void hear(const std::shared_ptr<Process>& process, Event event) {
    if (!process->alive) return;
    if (process->paused_until > now_) {
      at(process->paused_until, [this, process, event = std::move(event)]() mutable { hear(process, std::move(event)); });
      return;
    }
    for (Action& action : process->peer->on(event, now_)) {
      if (!process->alive) break;
      std::visit([&](auto& what) { act(process, what); }, action);
    }
    if (process->alive) strike(process);
    check(*process);
  }

  void act(const std::shared_ptr<Process>& from, action::Send& send) {
    const auto to = std::find_if(processes_.begin(), processes_.end(), [&](const auto& p) { return p->id == send.to; });
    if (to == processes_.end() || !(*to)->alive) return;
    if (from->corrupts) {
      if (auto* const part = std::get_if<Part>(&send.message)) {
        std::vector<std::byte> bytes = *part->bytes;
        bytes[draws_.below(bytes.size())] ^= std::byte{1};
        part->bytes = std::make_shared<const std::vector<std::byte>>(std::move(bytes));
        from->corrupts = false;
      }
    }
    const int copies = draws_.between(0, 1) < world_.doubled ? 2 : 1;
    for (int copy = 0; copy < copies; ++copy) {
      if (draws_.between(0, 1) < world_.lost) continue;
      after(drawn(world_.link), [this, from, to = *to, message = send.message]() mutable {
        if (linked(*from, *to)) hear(to, event::Received{from->id, std::move(message)});
      });
    }
  }

  void act(const std::shared_ptr<Process>& from, action::Append& append) {
    after(drawn(world_.log), [this, from, append = std::move(append)]() mutable {
      const auto answer = [&](bool won) {
        const bool lost = from->no_answer_until > now_ || !reaches_log(*from);
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

  bool land(std::int64_t index, Entry entry) {
    if (index != static_cast<std::int64_t>(log_.size())) return false;
    log_.push_back(entry);
    const std::int64_t before = log_state_.round();
    const std::string why = apply(log_state_, entry);
    if (why.empty() && std::holds_alternative<Exclude>(entry.what)) ++result_.excluded;
    if (log_state_.round() > before) committed(std::get<Commit>(entry.what));
    for (const auto& process : processes_) read_next(process);
    return true;
  }

  /// Lets a process read the entries of the log that it has not read, one after the other; not before it reaches the log.
  void read_next(const std::shared_ptr<Process>& process) {
    if (process->reading || !process->alive) return;
    if (process->peer->state().entries >= static_cast<std::int64_t>(log_.size())) return;
    process->reading = true;
    const Seconds from = (std::max)({process->no_log_until, process->paused_until, now_});
    at(from + drawn(world_.log), [this, process] {
      process->reading = false;
      if (reaches_log(*process) && process->paused_until <= now_) {
        hear(process, event::Read{log_[static_cast<std::size_t>(process->peer->state().entries)]});
      }
      read_next(process);
    });
  }

  void act(const std::shared_ptr<Process>& from, action::Announce& announce) {
    after(drawn(world_.log), [this, from, presence = announce.presence] {
      if (!from->alive || !reaches_log(*from)) return;
      presences_[from->id] = presence;
      tell_presences();
    });
  }

  void tell_presences() {
    for (const auto& process : processes_) {
      if (!process->alive || !reaches_log(*process)) continue;
      event::Present present;
      for (const auto& [id, presence] : presences_) present.all.push_back(presence);
      after(drawn(world_.log), [this, process, present = std::move(present)] { hear(process, present); });
    }
  }

  /// Drops the presence of a process that ended or does not reach the log, after its lease.
  void expire(const std::shared_ptr<Process>& process) {
    after(world_.lease, [this, process] {
      if (process->alive && reaches_log(*process)) return;
      if (presences_.erase(process->id) > 0) tell_presences();
    });
  }
  void announce_again(const std::shared_ptr<Process>& process, Seconds when) {
    after(when, [this, process] {
      if (!process->alive || !reaches_log(*process)) return;
      presences_[process->id] = process->peer->presence(now_);
      tell_presences();
    });
  }

  // -- the trainer --------------------------------------------------------------------------------

  void begin_micro_batch(const std::shared_ptr<Process>& process) {
    if (!process->alive || process->computing || process->closing || process->stalled_until > now_ || process->paused_until > now_) return;
    const std::optional<std::int64_t> index = process->peer->take();
    if (!index) return;
    process->computing = true;
    compute(process, *index, now_ + drawn(world_.micro_batch));
  }
  void compute(const std::shared_ptr<Process>& process, std::int64_t index, Seconds until) {
    at(until, [this, process, index] {
      if (!process->alive) return;
      const Seconds standing = (std::max)(process->stalled_until, process->paused_until);
      if (standing > now_) {
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

  void act(const std::shared_ptr<Process>& from, action::Close& close) {
    from->closing = close;
    if (!from->computing) after(0, [this, from] { contribute(from); });
  }

  void act(const std::shared_ptr<Process>& from, action::Restart& /*restart*/) {
    from->indices.clear();
    from->closing.reset();
    from->is_void = from->computing;
  }

  void contribute(const std::shared_ptr<Process>& process) {
    if (!process->alive || !process->closing || process->computing) return;
    event::Contributed contributed{process->closing->round, process->closing->attempt, {}};
    std::sort(process->indices.begin(), process->indices.end());
    contributed.contribution.indices = process->indices;
    contributed.contribution.weight = static_cast<double>(process->indices.size());
    contributed.contribution.loss = contributed.contribution.weight;
    if (!process->indices.empty()) {
      for (std::int64_t piece = 0; piece < world_.pieces; ++piece) {
        std::uint64_t sum = 0;
        for (const std::int64_t index : process->indices) sum += gradient_of(index, piece);
        contributed.contribution.parts.push_back(bulk_of(sum));
      }
    }
    process->indices.clear();
    process->closing.reset();
    hear(process, std::move(contributed));
  }

  void act(const std::shared_ptr<Process>& from, action::Apply& apply) {
    after(drawn(world_.update), [this, from, apply = std::move(apply)] {
      if (!from->alive) return;
      if (from->applied != apply.round) {
        result_.violation = concat("agreement: ", to_text(from->id), " is given round ", apply.round, " after ", from->applied);
        return;
      }
      for (std::size_t piece = 0; piece < from->weights.size() && apply.verdict.finite; ++piece) {
        from->weights[piece] = next_weight(from->weights[piece], value_of(apply.results[piece]));
      }
      applied(from, apply.round + 1);
    });
  }

  void applied(const std::shared_ptr<Process>& process, std::int64_t rounds) {
    process->applied = rounds;
    process->indices.clear();
    process->is_void = process->computing;
    process->closing.reset();
    if (process->weights != expected_[static_cast<std::size_t>(rounds)]) {
      result_.violation = concat("replay: ", to_text(process->id), " has other weights after ", rounds, " rounds than the ledger");
      return;
    }
    hear(process, event::Applied{rounds});
    begin_micro_batch(process);
  }

  void act(const std::shared_ptr<Process>& from, action::ReadState& read) {
    const Bulk bytes = bulk_of(from->weights[static_cast<std::size_t>(read.piece)]);
    hear(from, event::StateRead{read.to, {from->applied, read.piece, bytes}});
  }

  void act(const std::shared_ptr<Process>& from, action::SetState& set) {
    for (std::size_t piece = 0; piece < from->weights.size(); ++piece) from->weights[piece] = value_of(set.pieces[piece]);
    after(drawn(world_.update), [this, from, rounds = set.rounds] {
      if (from->alive) applied(from, rounds);
    });
  }

  void act(const std::shared_ptr<Process>& from, action::Gone& /*gone*/) { end(from); }

  void end(const std::shared_ptr<Process>& process) {
    process->alive = false;
    expire(process);
  }

  // -- faults -------------------------------------------------------------------------------------

  [[nodiscard]] static FaultPhase phase_of(const Process& process) {
    switch (process.peer->phase()) {
      case Phase::accumulate: return FaultPhase::accumulate;
      case Phase::exchange: return FaultPhase::exchange;
      case Phase::ready: return FaultPhase::ready;
      case Phase::absent: break;
    }
    return FaultPhase::applied;
  }

  void strike(const std::shared_ptr<Process>& process) {
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

  void inflict(const std::shared_ptr<Process>& process, const Fault& fault) {
    const Seconds until = now_ + fault.seconds;
    switch (fault.kind) {
      case FaultKind::kill: end(process); break;
      case FaultKind::restart:
        end(process);
        after(fault.seconds, [this, number = process->number, next = process->id.incarnation + 1] { start(number, next); });
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
      case FaultKind::join: start(plan_.peers + joined_++, 1); break;
    }
  }

  // -- laws ---------------------------------------------------------------------------------------

  void committed(const Commit& commit) {
    if (expected_.empty()) expected_.emplace_back(static_cast<std::size_t>(world_.pieces));
    std::vector<std::uint64_t> weights = expected_.back();
    for (std::size_t piece = 0; piece < weights.size(); ++piece) {
      std::uint64_t sum = 0;
      for (const Share& share : commit.shares) {
        for (const std::int64_t index : indices_of(share.indices)) sum += gradient_of(index, static_cast<std::int64_t>(piece));
      }
      if (commit.verdict.finite) weights[piece] = next_weight(weights[piece], sum);
    }
    expected_.push_back(std::move(weights));
    holders_.push_back(commit.holders.size());
    if (!commit.verdict.finite) return;
    for (const Share& share : commit.shares) {
      for (const std::int64_t index : indices_of(share.indices)) {
        if (!once_.insert(index).second) result_.violation = concat("once: micro-batch ", index, " is committed twice");
      }
    }
  }

  void roll_back() {
    std::int64_t newest = 0;
    for (const auto& process : processes_) {
      if (process->alive) newest = (std::max)(newest, process->applied);
    }
    ++result_.rollbacks;
    for (std::size_t round = static_cast<std::size_t>(newest); round < holders_.size(); ++round) {
      for (const Share& share : log_state_.ledger.rounds()[round].shares) {
        for (const std::int64_t index : indices_of(share.indices)) once_.erase(index);
      }
    }
    expected_.resize(static_cast<std::size_t>(newest) + 1);
    holders_.resize(static_cast<std::size_t>(newest));
    land(static_cast<std::int64_t>(log_.size()), {{"operator", 0}, draws_.next(), Rollback{newest, "nobody has what came later"}});
  }

  /// Tests that what is committed is with a living peer that has it whole, or is in its weights.
  void check(const Process& /*changed*/) {
    if (!result_.violation.empty()) return;
    const std::int64_t round = log_state_.round();
    if (round == 0) return;
    std::vector<PeerId> contributors;
    for (const Share& share : log_state_.ledger.rounds().back().shares) contributors.push_back(share.id);
    bool somebody = false;
    for (const auto& process : processes_) {
      somebody = somebody || (process->alive && (process->applied >= round || process->peer->holds(round - 1, contributors)));
    }
    if (somebody) return;
    if (holders_.back() > 1) {
      result_.violation = concat("durability: nobody has the committed round ", round - 1);
    } else {
      roll_back();  // as an operator would: its only holder has ended
    }
  }

  [[nodiscard]] bool finished() const {
    if (log_state_.round() < plan_.rounds) return false;
    // A further peer that came late need not have joined by the end, but must have no other weights, which applied() tests.
    return std::all_of(processes_.begin(), processes_.end(), [&](const auto& process) {
      return !process->alive || process->applied >= plan_.rounds || !process->peer->is_member();
    });
  }

  [[nodiscard]] std::string waits() const {
    std::string text;
    for (const auto& process : processes_) {
      if (process->alive) text += concat("\n  ", to_text(process->id), " waits ", process->peer->waits_for(now_));
    }
    return text;
  }

  FaultPlan plan_;
  SimulatedWorld world_;
  Draws draws_;
  Seconds now_ = 0;
  std::uint64_t order_ = 0;
  std::priority_queue<Timed> queue_;
  std::vector<std::shared_ptr<Process>> processes_;
  std::vector<Entry> log_;
  JobState log_state_;
  std::map<PeerId, PeerPresence> presences_;
  std::vector<std::vector<std::uint64_t>> expected_;  // weights by rounds, from the ledger alone
  std::vector<std::size_t> holders_;  // by round
  std::set<std::int64_t> once_;
  std::vector<bool> done_;
  int joined_ = 0;
  SimulationResult result_;
};

}  // namespace detail

REEF_INLINE SimulationResult simulate(const FaultPlan& plan, const SimulatedWorld& world) {
  return detail::Simulation(plan, world).run();
}

REEF_INLINE FaultPlan shrink(FaultPlan plan, const SimulatedWorld& world) {
  const auto breaks = [&](const FaultPlan& smaller) { return !simulate(smaller, world).violation.empty(); };
  bool smaller = true;
  while (smaller) {
    smaller = false;
    for (std::size_t i = 0; i < plan.faults.size(); ++i) {
      FaultPlan without = plan;
      without.faults.erase(without.faults.begin() + static_cast<std::ptrdiff_t>(i));
      if (!breaks(without)) continue;
      plan = std::move(without);
      smaller = true;
      break;
    }
    FaultPlan shorter = plan;
    --shorter.rounds;
    if (!smaller && shorter.rounds >= 1 && breaks(shorter)) {
      plan = shorter;
      smaller = true;
    }
  }
  return plan;
}

}  // namespace core
}  // namespace swarm
}  // namespace v0
}  // namespace reef
