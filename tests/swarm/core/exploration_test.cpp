// All that three peers can do in a round: core::Peer itself, in every order in which messages arrive, entries land and
// are read, presences are heard, micro-batches are computed and timers fire.
//
// A world is the states of the peers, the messages on their way (in order between each two, as of one connection), the
// log, the appends on their way, and the presences. Between two peers a newer beat replaces one that waits at the end.
// A partition cuts one peer off from the two others until it heals; each side has the log or not. Between the sides
// messages are lost, and those on their way as well; what is appended without the log is not known to stand. An
// operator may take the job back to its beginning: weights are those of the log as a peer has read it.
// Time is in ticks of each peer's own clock: a tick fires what is repeated, two without a word let a peer be suspected.
// Each peer has so many ticks as a scenario says: what needs more is not reached, and so not tested here. A world in
// which all that live have applied round 0 is not followed further. Of a world that was seen 128 bits are kept.
//
// What must hold in each: the weights of each peer are those of the log's rounds, computed alone; no micro-batch is
// committed twice; a committed round is with a living peer as long as one of its holders lives.
//
// REEF_SWARM_STATES: the most worlds of a scenario, 12000 if it is not set. Two peers have few, which are all followed;
// what is printed says of the other scenarios whether all were.

#include "explored_job.hpp"

#include <array>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <unordered_set>
#include <utility>
#include <variant>
#include <vector>

#include <gtest/gtest.h>

namespace reef::swarm::core::explored {
namespace {

/// What may happen in a scenario.
struct Scenario {
  const char* name = "";
  int started = peers;
  int members = peers;     // of the first view; the others join
  int ticks = 0;           // of each peer
  int crashes = 0;
  int suspicions = 0;      // of a peer that lives
  int losses = 0;          // of messages
  int partitions = 0;
  int rollbacks = 0;
  int computing = peers;  // how many peers compute a micro-batch
};

/// The log up to an entry.
struct Log {
  Id before = 0;  // the log without its last entry
  std::vector<Id> entries{};
  JobState state{};
  detail::SimulatedAccount account{pieces};
};

struct Pending {
  int author = 0;
  std::int64_t at = 0;
  Id entry = 0;
};

struct World {
  Triple locals{};
  std::array<std::vector<Id>, peers * peers> links{};  // from * peers + to
  std::vector<Pending> pending{};
  Triple presences{};
  std::array<bool, peers> alive{true, true, true};
  std::array<bool, peers> untold{};  // presences have changed since the peer heard of them
  Id log = 0;
  int crashes = 0;
  int suspicions = 0;
  int losses = 0;
  int partitions = 0;
  int rollbacks = 0;
  int computed = 0;  // a bit for each peer
  int cut = -1;      // the peer that a partition has cut off
  std::array<bool, peers> off_log{};  // peers that do not reach the log
  Triple unsaid{};                    // presences that they could not write
};

/// Adds numbers to a digest of 128 bits.
class Mix {
public:
  void add(std::uint64_t value) {
    low_ = (low_ ^ value) * 0x9E3779B97F4A7C15ULL;
    low_ ^= low_ >> 32;
    high_ = (high_ + value) * 0xD6E8FEB86659FD93ULL;
    high_ ^= high_ >> 29 ^ low_;
  }
  [[nodiscard]] std::pair<std::uint64_t, std::uint64_t> digest() const { return {low_, high_}; }

private:
  std::uint64_t low_ = 1;
  std::uint64_t high_ = 2;
};

struct PairHash {
  std::size_t operator()(const std::pair<std::uint64_t, std::uint64_t>& pair) const { return pair.first; }
};

class Exploration {
public:
  explicit Exploration(const Scenario& scenario) : scenario_(scenario) {
    logs_.emplace_back();
    World world;
    world.crashes = scenario.crashes;
    world.suspicions = scenario.suspicions;
    world.losses = scenario.losses;
    world.partitions = scenario.partitions;
    world.rollbacks = scenario.rollbacks;
    for (int peer = scenario.started; peer < peers; ++peer) world.alive[at(peer)] = false;
    world.log = longer(0, all_.add(Entry{ids()[0], 0, genesis()}));
    for (int peer = 0; peer < peers; ++peer) {
      PeerOptions options = options_of(peer);
      options.first_members = scenario.members;
      Local local{Peer(std::move(options))};
      static_cast<void>(local.peer.on(event::LogEnd{1}, local.now));
      world.locals[at(peer)] = all_.add(local);
    }
    // Members have formed the first view, and heard of each other, before anything is left to chance.
    for (int time = 0; time <= ticks_before; ++time) {
      for (int peer = 0; peer < scenario.members && time > 0; ++peer) take(world, peer, {Step::fire, 0, 0});
      while (settle(world)) {
      }
    }
    if (logs_[world.log].state.epoch != 1) violated("no view has formed");
    for (int peer = scenario.members; peer < scenario.started; ++peer) world.untold[at(peer)] = true;
    visit(std::move(world));
  }

  void run(std::size_t most) {
    while (!open_.empty() && violation_.empty() && seen_.size() < most) {
      // To the end of each, and now and then another one, so that where not all are followed, these are of all kinds.
      if (++followed_ % 256 == 0) std::swap(open_.back(), open_[draws_.below(open_.size())]);
      const World world = std::move(open_.back());
      open_.pop_back();
      follow(world);
    }
  }

  [[nodiscard]] bool is_exhausted() const { return open_.empty() && violation_.empty(); }
  [[nodiscard]] const std::string& violation() const { return violation_; }
  [[nodiscard]] std::size_t worlds() const { return seen_.size(); }
  [[nodiscard]] std::size_t finished() const { return finished_; }
  [[nodiscard]] std::size_t stuck() const { return stuck_; }
  [[nodiscard]] std::int64_t last_epoch() const { return last_epoch_; }
  [[nodiscard]] std::string figures() const {
    return concat(scenario_.name, ": ", worlds(), " worlds, ", is_exhausted() ? "all there are" : "of more", ", ",
                  transitions_, " transitions of ", all_.steps(), " steps of ", all_.size(), " states of one peer, ",
                  logs_.size(), " logs up to epoch ", last_epoch_, ", ", finished_, " ends with the round applied, ",
                  stuck_, " without; ",
                  ignored_, " entries that broke a rule");
  }

private:
  static std::size_t at(int peer) { return static_cast<std::size_t>(peer); }
  static std::size_t link(int from, int to) { return static_cast<std::size_t>(from * peers + to); }
  void violated(const std::string& why) {
    if (violation_.empty()) violation_ = why;
  }

  /// Lets everything happen that is on its way, in one order. Returns false if nothing was.
  bool settle(World& world) {
    if (!world.pending.empty()) {
      land(world, 0);
      return true;
    }
    for (int peer = 0; peer < scenario_.members; ++peer) {
      if (std::exchange(world.untold[at(peer)], false)) {
        take(world, peer, {Step::present, 0, all_.presences(world.presences)});
        return true;
      }
      const std::size_t read = all_[world.locals[at(peer)]].read.size();
      if (read < logs_[world.log].entries.size()) {
        take(world, peer, {Step::read, 0, logs_[world.log].entries[read]});
        return true;
      }
      for (int from = 0; from < peers; ++from) {
        std::vector<Id>& queue = world.links[link(from, peer)];
        if (queue.empty()) continue;
        const Id message = queue.front();
        queue.erase(queue.begin());
        take(world, peer, {Step::deliver, from, message});
        return true;
      }
    }
    return false;
  }

  /// Does a step of a peer in a world, and what comes of it.
  void take(World& world, int peer, const Step& step) {
    ++transitions_;
    const Outcome& outcome = all_.step(world.locals[at(peer)], step);
    world.locals[at(peer)] = outcome.local;
    for (const auto& [to, message] : outcome.sends) {
      if (!world.alive[at(to)] || is_parted(world, peer, to)) continue;
      std::vector<Id>& queue = world.links[link(peer, to)];
      const auto is_beat = [&](Id id) { return std::holds_alternative<Beat>(all_.message(id)); };
      if (!queue.empty() && is_beat(message) && is_beat(queue.back()))
        queue.back() = message;
      else
        queue.push_back(message);
    }
    for (const Id presence : outcome.announced) say(world, peer, presence);
    const std::vector<std::pair<std::int64_t, Id>> appends = outcome.appends;
    if (outcome.gone) {
      end(world, peer);
    } else {
      const Local& local = all_[world.locals[at(peer)]];
      const Log& log = read_log(world, local);
      if (local.weights != log.account.weights_after(local.applied)) {
        violated(concat("replay: ", to_text(ids()[at(peer)]), " has other weights after ", local.applied, " rounds"));
      }
    }
    for (const auto& [index, entry] : appends) {
      if (!world.off_log[at(peer)]) {
        world.pending.push_back({peer, index, entry});
      } else if (world.alive[at(peer)]) {
        take(world, peer, {Step::answer_other, 0, static_cast<Id>(index)});
      }
    }
  }

  static bool is_parted(const World& world, int one, int other) { return (world.cut == one) != (world.cut == other); }

  /// Returns the log as a peer has read it.
  const Log& read_log(const World& world, const Local& local) const {
    Id log = world.log;
    while (logs_[log].entries.size() > local.read.size()) log = logs_[log].before;
    return logs_[log];
  }

  /// Writes a presence beside the log, or keeps it until the peer reaches the log again.
  void say(World& world, int peer, Id presence) {
    if (world.off_log[at(peer)]) {
      world.unsaid[at(peer)] = presence;
      return;
    }
    if (world.presences[at(peer)] == presence) return;
    world.presences[at(peer)] = presence;
    world.untold.fill(true);
  }

  void part(World& world, int peer, bool it_has_the_log, bool others_have_it) {
    --world.partitions;
    world.cut = peer;
    for (int other = 0; other < peers; ++other) {
      world.off_log[at(other)] = other == peer ? !it_has_the_log : !others_have_it;
      world.unsaid[at(other)] = world.presences[at(other)];
      for (const auto way : {link(peer, other), link(other, peer)}) world.links[way].clear();
    }
  }

  void heal(World& world) {
    world.cut = -1;
    for (int peer = 0; peer < peers; ++peer) {
      const bool was_off = std::exchange(world.off_log[at(peer)], false);
      const Id unsaid = std::exchange(world.unsaid[at(peer)], 0);
      if (was_off && world.alive[at(peer)]) {
        world.untold[at(peer)] = true;
        say(world, peer, unsaid);
      }
    }
  }

  void end(World& world, int peer) {
    world.alive[at(peer)] = false;
    world.locals[at(peer)] = 0;
    world.untold[at(peer)] = false;
    world.unsaid[at(peer)] = 0;
    for (int other = 0; other < peers; ++other) world.links[link(other, peer)].clear();
  }

  /// Lets an append arrive at the log.
  void land(World& world, std::size_t which) {
    const Pending append = world.pending[which];
    world.pending.erase(world.pending.begin() + static_cast<std::ptrdiff_t>(which));
    const bool wins = append.at == static_cast<std::int64_t>(logs_[world.log].entries.size());
    if (wins) world.log = longer(world.log, append.entry);
    if (world.alive[at(append.author)]) {
      take(world, append.author,
           {wins ? Step::answer_won : Step::answer_other, 0, static_cast<Id>(append.at)});
    }
  }

  Id longer(Id before, Id entry) {
    const auto [found, is_new] = longer_.try_emplace(std::pair{std::uint64_t{before}, std::uint64_t{entry}}, 0);
    if (!is_new) return found->second;
    Log log = logs_[before];
    log.before = before;
    log.entries.push_back(entry);
    const std::int64_t rounds = log.state.round();
    if (const auto* const back = std::get_if<Rollback>(&all_.entry(entry).what))
      log.account.roll_back(back->rounds, log.state.ledger);
    const std::size_t dealt = log.state.dealing.members().size();
    const std::string why = apply(log.state, all_.entry(entry));
    if (!why.empty()) ++ignored_;
    if (log.state.round() > rounds)
      violated(log.account.commit(std::get<Commit>(all_.entry(entry).what), dealt, log.state.ledger));
    last_epoch_ = std::max(last_epoch_, log.state.epoch);
    logs_.push_back(std::move(log));
    return found->second = static_cast<Id>(logs_.size() - 1);
  }

  void visit(World&& world) {
    Mix mix;
    for (const Id local : world.locals) mix.add(local);
    for (const auto& queue : world.links) {
      mix.add(queue.size() + 1);
      for (const Id message : queue) mix.add(message);
    }
    mix.add(world.pending.size());
    for (const Pending& append : world.pending) {
      mix.add(static_cast<std::uint64_t>(append.author) << 32 | append.entry);
      mix.add(static_cast<std::uint64_t>(append.at));
    }
    for (const Id presence : world.presences) mix.add(presence);
    for (const Id presence : world.unsaid) mix.add(presence);
    for (int peer = 0; peer < peers; ++peer)
      mix.add((world.alive[at(peer)] ? 4U : 0U) + (world.off_log[at(peer)] ? 2U : 0U) +
              (world.untold[at(peer)] ? 1U : 0U));
    for (const int left : {world.crashes, world.suspicions, world.losses, world.partitions, world.rollbacks,
                           world.computed, world.cut + 1}) {
      mix.add(at(left));
    }
    mix.add(world.log);
    if (!seen_.insert(mix.digest()).second) return;
    check(world);
    open_.push_back(std::move(world));
  }

  void check(const World& world) {
    const Log& log = logs_[world.log];
    if (log.state.round() == 0 || !violation_.empty()) return;
    const std::int64_t round = log.state.round() - 1;
    const std::vector<PeerId> contributors = log.state.ledger.rounds().back().contributors();
    bool somebody = false;
    bool holder = false;
    for (int peer = 0; peer < peers; ++peer) {
      if (!world.alive[at(peer)]) continue;
      const Local& local = all_[world.locals[at(peer)]];
      const bool is_of_it = local.peer.state().lineage == log.state.lineage;
      somebody = somebody || (is_of_it && (local.applied > round || local.peer.holds(round, contributors)));
      const auto& holders = log.account.holders_of_last();
      holder = holder || std::find(holders.begin(), holders.end(), ids()[at(peer)]) != holders.end();
    }
    if (!holder || somebody) return;
    std::string text = concat("durability: nobody has round ", round, " of");
    for (const PeerId& id : contributors) text += " " + to_text(id);
    for (const Id entry : log.entries) text += "\n  " + to_text(all_.entry(entry));
    for (int peer = 0; peer < peers; ++peer) {
      if (world.alive[at(peer)]) text += concat("\n  ", Writer(all_[world.locals[at(peer)]]).text());
    }
    violated(text);
  }

  [[nodiscard]] bool is_finished(const World& world) const {
    for (int peer = 0; peer < peers; ++peer) {
      if (world.alive[at(peer)] && all_[world.locals[at(peer)]].applied < 1) return false;
    }
    return true;
  }

  /// Visits all worlds that can come next.
  void follow(const World& world) {
    if (is_finished(world)) {
      ++finished_;
      return;
    }
    bool moved = false;
    const auto next = [&](const auto& change) {
      World changed = world;
      change(changed);
      visit(std::move(changed));
      moved = true;
    };
    for (std::size_t i = 0; i < world.pending.size(); ++i) next([&](World& w) { land(w, i); });
    for (int peer = 0; peer < peers; ++peer) {
      if (world.alive[at(peer)]) follow(world, peer, next);
      // The lease of who has ended, or does not reach the log, runs out.
      if ((!world.alive[at(peer)] || world.off_log[at(peer)]) && world.presences[at(peer)] != 0) {
        next([&](World& w) {
          w.presences[at(peer)] = 0;
          for (int other = 0; other < peers; ++other) w.untold[at(other)] = w.alive[at(other)];
        });
      }
    }
    if (world.cut >= 0) next([&](World& w) { heal(w); });
    for (int peer = 0; peer < peers && world.partitions > 0 && world.cut < 0; ++peer) {
      for (const auto& [it, others] : {std::pair{true, true}, {true, false}, {false, true}})
        next([&, it = it, others = others](World& w) { part(w, peer, it, others); });
    }
    if (world.rollbacks > 0 && logs_[world.log].state.round() > 0) {
      next([&](World& w) {
        --w.rollbacks;
        w.log = longer(w.log, all_.add(Entry{{"operator", 0}, 0, Rollback{0, "told to"}}));
      });
    }
    stuck_ += moved ? 0 : 1;
  }

  template <class Next>
  void follow(const World& world, int peer, const Next& next) {
    const Local& local = all_[world.locals[at(peer)]];
    const int ticks = local.ticks;
    const std::vector<Id>& entries = logs_[world.log].entries;
    const std::size_t read = local.read.size();
    const bool may_take =
        local.peer.state().round() == 0 && local.peer.is_member() && !local.peer.memory().round.closed();
    if (read < entries.size() && !world.off_log[at(peer)])
      next([&](World& w) { take(w, peer, {Step::read, 0, entries[read]}); });
    if (world.untold[at(peer)] && !world.off_log[at(peer)]) {
      next([&](World& w) {
        w.untold[at(peer)] = false;
        take(w, peer, {Step::present, 0, all_.presences(w.presences)});
      });
    }
    for (int from = 0; from < peers; ++from) {
      if (world.links[link(from, peer)].empty()) continue;
      const auto pop = [&](World& w) {
        std::vector<Id>& queue = w.links[link(from, peer)];
        queue.erase(queue.begin());
      };
      next([&](World& w) {
        const Id message = w.links[link(from, peer)].front();
        pop(w);
        take(w, peer, {Step::deliver, from, message});
      });
      if (world.losses > 0) {
        next([&](World& w) {
          --w.losses;
          pop(w);
        });
      }
    }
    if (may_take && peer < scenario_.computing && (world.computed >> peer & 1) == 0) {
      next([&](World& w) {
        w.computed |= 1 << peer;
        take(w, peer, {Step::compute, 0, 0});
      });
    }
    if (ticks < scenario_.ticks + (peer < scenario_.members ? ticks_before : 0))
      next([&](World& w) { take(w, peer, {Step::fire, 0, 0}); });
    if (world.crashes > 0) {
      next([&](World& w) {
        --w.crashes;
        end(w, peer);
      });
    }
    for (int other = 0; other < peers && world.suspicions > 0; ++other) {
      if (other == peer || !world.alive[at(other)]) continue;
      next([&](World& w) {
        --w.suspicions;
        take(w, peer, {Step::lost, other, 0});
      });
    }
  }

  static constexpr int ticks_before = 2;

  Scenario scenario_;
  Locals all_;
  std::vector<Log> logs_;
  std::unordered_map<std::pair<std::uint64_t, std::uint64_t>, Id, PairHash> longer_;
  std::unordered_set<std::pair<std::uint64_t, std::uint64_t>, PairHash> seen_;
  std::vector<World> open_;
  detail::Draws draws_{1};
  std::string violation_;
  std::size_t transitions_ = 0;
  std::size_t followed_ = 0;
  std::size_t finished_ = 0;
  std::size_t stuck_ = 0;
  std::int64_t last_epoch_ = 0;
  std::size_t ignored_ = 0;  // entries that broke a rule
};

std::size_t most_worlds() {
  const char* const wanted = std::getenv("REEF_SWARM_STATES");
  return wanted == nullptr ? 12'000 : std::strtoull(wanted, nullptr, 10);
}

Exploration explored(const Scenario& scenario) {
  Exploration exploration(scenario);
  exploration.run(most_worlds());
  std::printf("%s\n", exploration.figures().c_str());
  EXPECT_EQ(exploration.violation(), "") << scenario.name;
  return exploration;
}

TEST(Exploration, of_a_round_of_two_peers_ends_with_the_round_applied) {
  const Exploration all = explored({.name = "two peers", .started = 2, .members = 2, .computing = 2});
  EXPECT_TRUE(all.is_exhausted());
  EXPECT_GT(all.finished(), 0U);
  EXPECT_EQ(all.stuck(), 0U);
}

TEST(Exploration, of_a_round_keeps_all_laws) {
  explored({.name = "no fault"});
  explored({.name = "no fault, one that computes", .computing = 1});
  explored({.name = "timers", .ticks = 2});
}

TEST(Exploration, of_a_round_with_a_fault_keeps_all_laws) {
  explored({.name = "a crash", .ticks = 4, .crashes = 1});
  explored({.name = "a false suspicion", .ticks = 2, .suspicions = 1});
  explored({.name = "a crash and a false suspicion", .ticks = 4, .crashes = 1, .suspicions = 1});
  explored({.name = "a lost message", .ticks = 3, .losses = 1});
}

TEST(Exploration, of_a_round_in_which_a_peer_joins_keeps_all_laws) {
  explored({.name = "a peer that joins", .members = 2, .ticks = 3});
}

TEST(Exploration, of_a_round_with_a_partition_keeps_all_laws) {
  explored({.name = "a partition", .ticks = 3, .partitions = 1});
  explored({.name = "a partition and a crash", .ticks = 4, .crashes = 1, .partitions = 1});
}

TEST(Exploration, of_a_round_that_is_rolled_back_keeps_all_laws) {
  explored({.name = "a rollback", .ticks = 4, .rollbacks = 1});
  explored({.name = "a rollback, two peers", .started = 2, .members = 2, .ticks = 4, .rollbacks = 1});
  explored({.name = "a rollback while a peer joins", .members = 2, .ticks = 4, .rollbacks = 1, .computing = 2});
}

}  // namespace
}  // namespace reef::swarm::core::explored
