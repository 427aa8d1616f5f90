#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <reef/core/units.hpp>
#include <reef/swarm/core/detail/draws.hpp>
#include <reef/swarm/core/detail/event_queue.hpp>
#include <reef/swarm/core/detail/simulated_account.hpp>
#include <reef/swarm/core/detail/simulated_disks.hpp>
#include <reef/swarm/core/detail/simulated_process.hpp>
#include <reef/swarm/core/fault_plan.hpp>
#include <reef/swarm/core/job_summary.hpp>
#include <reef/swarm/core/simulation_result.hpp>

namespace reef {
inline namespace v0 {
namespace swarm {
namespace core {
namespace detail {

/// One run of a job in virtual time: the world around its peers.
class Simulation {
public:
  Simulation(const FaultPlan& plan, const SimulatedWorld& world)
      : plan_(plan), world_(world), draws_(plan.seed), account_(world.pieces) {
    done_.assign(plan.faults.size(), false);
    for (int i = 0; i < plan.peers; ++i) start(i, 1);
  }

  SimulationResult run();

private:
  void at(Seconds when, std::function<void()> run) { queue_.at(when, std::move(run)); }
  void after(Seconds delay, std::function<void()> run) { queue_.after(delay, std::move(run)); }
  [[nodiscard]] Seconds now() const { return queue_.now(); }
  Seconds drawn(const Seconds (&range)[2]) { return draws_.between(range[0], range[1]); }
  [[nodiscard]] bool reaches_log(const Process& process) const { return process.no_log_until <= now(); }
  [[nodiscard]] bool linked(const Process& from, const Process& to) const {
    return from.cut_until <= now() && to.cut_until <= now() && to.deaf_until <= now();
  }

  void start(int number, std::uint64_t incarnation);

  void tick(const std::shared_ptr<Process>& process);

  /// Lets a process hear of an event, now or when it goes on, and does what it asks for.
  void hear(const std::shared_ptr<Process>& process, Event event);

  void act(const std::shared_ptr<Process>& from, action::Send& send);

  void act(const std::shared_ptr<Process>& from, action::Append& append);

  [[nodiscard]] std::int64_t log_end() const { return dropped_ + static_cast<std::int64_t>(log_.size()); }
  bool land(std::int64_t index, Entry entry);
  /// Drops the entries of the log before an index, at which a checkpoint stands.
  void drop(std::int64_t index) {
    if (index <= dropped_) return;
    log_.erase(log_.begin(), log_.begin() + (index - dropped_));
    result_.dropped += index - dropped_;
    dropped_ = index;
  }

  /// Lets a process read the entries of the log that it has not read, one after the other; not before it reaches the
  /// log.
  void read_next(const std::shared_ptr<Process>& process);

  void act(const std::shared_ptr<Process>& from, action::Announce& announce);

  void tell_presences();

  /// Drops the presence of a process that ended or does not reach the log, after its lease.
  void expire(const std::shared_ptr<Process>& process);
  void announce_again(const std::shared_ptr<Process>& process, Seconds when);

  // -- the trainer --------------------------------------------------------------------------------

  void begin_micro_batch(const std::shared_ptr<Process>& process);
  void compute(const std::shared_ptr<Process>& process, std::int64_t index, Seconds until);

  void act(const std::shared_ptr<Process>& from, action::Close& close) {
    from->closing = close;
    if (!from->computing) after(0, [this, from] { contribute(from); });
  }

  void act(const std::shared_ptr<Process>& from, action::Restart& /*restart*/);

  void contribute(const std::shared_ptr<Process>& process);

  void act(const std::shared_ptr<Process>& from, action::Apply& apply);

  void applied(const std::shared_ptr<Process>& process, std::int64_t rounds);

  void act(const std::shared_ptr<Process>& from, action::ReadState& read) {
    const Bulk bytes = bulk_of(from->weights[static_cast<std::size_t>(read.piece)]);
    hear(from, event::StateRead{read.to, {from->applied, read.piece, bytes}});
  }

  void act(const std::shared_ptr<Process>& from, action::SetState& set);

  void act(const std::shared_ptr<Process>& from, action::Restore& restore);

  void act(const std::shared_ptr<Process>& from, action::Gone& /*gone*/) { end(from); }

  void end(const std::shared_ptr<Process>& process) {
    process->alive = false;
    expire(process);
  }

  // -- faults -------------------------------------------------------------------------------------

  void strike(const std::shared_ptr<Process>& process);

  void inflict(const std::shared_ptr<Process>& process, const Fault& fault);

  // -- laws ---------------------------------------------------------------------------------------

  void roll_back();

  /// Tests that a peer keeps three encoded models at most. A job of fewer pieces than other members has more parts.
  void weigh(const Process& process) {
    const auto members = static_cast<std::int64_t>(process.peer->state().members.size());
    const std::int64_t reduced = members < 2 ? 0 : most_pieces_of_reducer(world_.pieces, members);
    const std::int64_t most = 2 * world_.pieces + (std::max)(world_.pieces, reduced * (members - 1));
    const auto pieces = static_cast<std::int64_t>(process.peer->memory().encoded_pieces());
    if (pieces <= most) return;
    result_.violation = concat("memory: ", to_text(process.id), " keeps ", pieces, " encoded pieces of at most ", most);
  }

  /// Tests that a peer has read of the job what the whole log says, also where it has begun with a checkpoint.
  void compare(const Process& process) {
    const JobState& state = process.peer->state();
    if (dropped_ == 0 || state.entries != log_state_.entries || !log_state_.checkpoint) return;
    const std::int64_t rounds = log_state_.checkpoint->rounds;
    if (!result_.violation.empty() || summary_of(state, rounds) == summary_of(log_state_, rounds)) return;
    result_.violation =
        concat("summary: ", to_text(process.id), " has another state after ", state.entries, " entries");
  }

  /// Tests that what is committed is with a living peer that has it whole, or is in its weights.
  void check();

  [[nodiscard]] bool finished() const;

  [[nodiscard]] std::string waits() const;

  FaultPlan plan_;
  SimulatedWorld world_;
  Draws draws_;
  EventQueue queue_;
  std::vector<std::shared_ptr<Process>> processes_;
  std::vector<Entry> log_;  // from index `dropped_` on
  std::int64_t dropped_ = 0;
  JobState log_state_;
  std::map<PeerId, PeerPresence> presences_;
  SimulatedAccount account_;
  SimulatedDisks disks_;
  std::vector<bool> done_;
  int joined_ = 0;
  SimulationResult result_;
};

}  // namespace detail
}  // namespace core
}  // namespace swarm
}  // namespace v0
}  // namespace reef

#ifndef REEF_COMPILED
#include <reef/swarm/core/detail/simulated_run.ipp>
#endif
