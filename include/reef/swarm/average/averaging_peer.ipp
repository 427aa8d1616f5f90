#pragma once

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <map>
#include <mutex>
#include <utility>
#include <variant>

#include <reef/core/error.hpp>
#include <reef/core/inline.hpp>
#include <reef/core/text.hpp>
#include <reef/swarm/average/averaging_peer.hpp>
#include <reef/swarm/average/detail/contacts.hpp>
#include <reef/swarm/average/detail/keepers.hpp>
#include <reef/swarm/average/detail/own_contributions.hpp>
#include <reef/swarm/average/detail/own_options.hpp>
#include <reef/swarm/average/detail/own_states.hpp>
#include <reef/swarm/average/detail/peer_account.hpp>
#include <reef/swarm/average/detail/peer_frames.hpp>
#include <reef/swarm/average/detail/report_lines.hpp>
#include <reef/swarm/average/detail/round_watch.hpp>
#include <reef/swarm/average/detail/shard_server.hpp>
#include <reef/swarm/core/entry_json.hpp>
#include <reef/swarm/log/envelope.hpp>
#include <reef/swarm/net/endpoint.hpp>

namespace reef {
inline namespace v0 {
namespace swarm {

/// Drives a core::Peer: everything that it hears of comes on the endpoint's loop, under one mutex that the trainer's
/// thread takes as well.
class AveragingPeer::Implementation {
public:
  Implementation(AveragingOptions options, DecisionLog& log, Presence& presence)
      : options_(std::move(options)),
        codec_(options_.codec ? *options_.codec : PartCodec::of(options_.genesis.codec)),
        contributions_(codec_, options_.genesis.parameters, options_.genesis.piece) {
    options_.net.job = options_.genesis.job;
    if (options_.shards) options_.genesis.shards = options_.shards->digest();
    if (options_.net.incarnation == 0) options_.net.incarnation = detail::drawn_incarnation();
    EndpointEvents events;
    events.on_frame = [this](const RemotePeer& from, Frame frame) { received(from, std::move(frame)); };
    events.on_connected = [this](const RemotePeer& peer) { contacts_.connected(peer); };
    events.on_lost = [this](const RemotePeer& peer, const std::string& /*why*/) {
      if (!contacts_.lost(peer)) return;
      // Two attempts to connect again come within a beat or two; only then is the peer suspected.
      endpoint_->after(seconds(2 * options_.deadlines.beat), [this, lost = PeerId{peer.name, peer.incarnation}] {
        if (!contacts_.has(lost)) hear(core::event::Lost{lost});
      });
    };
    events.on_error = [this](const std::string& what) { fail(what); };
    endpoint_ = std::make_unique<Endpoint>(options_.net, std::move(events));
    peer_.emplace(detail::peer_options_of(options_, codec_, endpoint_->address()));
    for (const core::event::StateFound& state : states_.found()) peer_->on(state, now());
    keepers_ = std::make_unique<detail::Keepers>(
        log, presence, *endpoint_, [this](core::Event event) { hear(std::move(event)); },
        [this](const std::vector<PeerPresence>& found) {
          for (const PeerPresence& other : found) reach_out(other.who);
        });
    shards_ = std::make_unique<detail::ShardServer>(options_.shards, *keepers_, *endpoint_);
    endpoint_->start();
    keepers_->start();
    keepers_->post([this] { tick(); });
  }

  ~Implementation() { keepers_->stop(); }

  std::optional<std::int64_t> enter() {
    if (done_) has_applied(*std::exchange(done_, std::nullopt) + 1);
    std::unique_lock lock(mutex_);
    for (;;) {
      wait(lock, [&] {
        return stopped() || new_state_ || !refused_.empty() || results_.contains(peer_->applied()) ||
               (peer_->is_member() && peer_->phase() == Phase::accumulate);
      });
      throw_if_failed();
      if (!gone_.empty()) return std::nullopt;
      if (!refused_.empty()) detail::throw_refused(peer_->id(), refused_);
      if (!new_state_) break;
      const core::action::SetState set = *std::exchange(new_state_, std::nullopt);
      const std::int64_t applied = peer_->state().applied_of(set.rounds);
      lock.unlock();
      if (!options_.state.write) detail::throw_no_state(peer_->id(), set.rounds);
      options_.state.write(set.pieces, set.rounds, applied);
      has_applied(set.rounds);
      lock.lock();
    }
    // A committed round whose result is here, though others are further, is the trainer's next one.
    round_ = results_.contains(peer_->applied()) ? peer_->applied() : peer_->state().round();
    attempt_ = peer_->state().attempt;
    return round_;
  }

  std::optional<std::int64_t> next() {
    std::unique_lock lock(mutex_);
    std::optional<std::int64_t> index;
    wait(lock, [&] {
      if (stopped() || ended()) return true;
      index = peer_->take();
      return index.has_value();
    });
    throw_if_failed();
    return index;
  }

  void computed() { post_event(core::event::Computed{round_, attempt_}); }

  void contribute(std::span<const float> sum, double weight, double loss, std::vector<std::int64_t> indices) {
    if (static_cast<std::int64_t>(sum.size()) != options_.genesis.parameters) {
      throw OptionError("reef::swarm::AveragingPeer: a contribution of ", sum.size(),
                        " numbers.\n  fix: ", options_.genesis.parameters, ", as Genesis::parameters says.");
    }
    core::event::Contributed contributed{round_, attempt_, {}};
    if (!indices.empty() || weight > 0) {
      std::sort(indices.begin(), indices.end());
      std::vector<Bulk> parts;
      if (weight > 0) {
        settle();
        parts = contributions_.encode(round_, sum);
      }
      contributed.contribution = {std::move(indices), weight, loss, std::move(parts)};
    }
    post_event(std::move(contributed));
  }

  RoundSum result(std::span<float> sum) {
    std::unique_lock lock(mutex_);
    wait(lock, [&] { return stopped() || new_state_ || results_.contains(round_) || is_void(); });
    throw_if_failed();
    RoundSum outcome;
    outcome.round = round_;
    if (!results_.contains(round_)) {
      // The rounds have gone on without this peer, whose state enter() sets; or the round has begun anew.
      if (!gone_.empty()) throw Error("reef::swarm: ", to_text(peer_->id()), " has left the job: ", gone_, ".");
      outcome.apply = false;
      return outcome;
    }
    const core::action::Apply apply = std::move(results_.at(round_));
    results_.erase(round_);
    outcome.contributors = apply.contributors;
    outcome.micro_batches = apply.micro_batches;
    done_ = round_;
    lock.unlock();
    outcome.apply = apply.verdict.finite;
    outcome.weight = apply.weight;
    outcome.loss = apply.verdict.loss * apply.weight;
    if (outcome.apply) read_results(codec_, apply.results, options_.genesis.piece, sum);
    return outcome;
  }

  void leave(const std::string& why, Seconds wait) {
    post_event(core::event::Leave{why});
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, std::chrono::duration<double>(wait), [&] { return stopped(); });
  }

  void interrupt() noexcept {
    note([this] { interrupted_ = true; });
  }

  [[nodiscard]] core::JobState state() const {
    const std::lock_guard lock(mutex_);
    return peer_->state();
  }
  [[nodiscard]] std::string why_gone() const {
    const std::lock_guard lock(mutex_);
    return gone_;
  }
  [[nodiscard]] const PeerId& id() const { return peer_->id(); }
  [[nodiscard]] std::string address() const { return endpoint_->address(); }
  [[nodiscard]] std::string waits_for() const {
    const std::lock_guard lock(mutex_);
    const std::string away = keepers_->away();
    return peer_->waits_for(now()) + (away.empty() ? "" : "; the log does not answer: " + away);
  }
  [[nodiscard]] PeerReport report() const {
    const std::lock_guard lock(mutex_);
    return account_.report(*peer_, endpoint_->all_traffic(), now());
  }

private:
  static std::chrono::nanoseconds seconds(Seconds duration) {
    return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::duration<double>(duration));
  }
  static Seconds now() {
    return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
  }
  [[nodiscard]] bool stopped() const { return interrupted_ || !failure_.empty() || !gone_.empty(); }
  /// Returns true if the trainer's round takes no more micro-batches of this peer.
  [[nodiscard]] bool ended() const {
    return results_.contains(round_) || new_state_ || peer_->state().round() != round_ || is_void() ||
           (closing_ && closing_->round == round_ && closing_->attempt == attempt_);
  }
  /// Returns true if the trainer's micro-batches of this round are others' now.
  [[nodiscard]] bool is_void() const {
    return peer_->state().round() == round_ && peer_->state().attempt != attempt_;
  }
  [[nodiscard]] bool log_is_away() const { return !keepers_->away().empty(); }
  /// Waits on the trainer's thread until it is so, and accounts for that.
  template <class So>
  void wait(std::unique_lock<std::mutex>& lock, const So& so) {
    if (so()) return;
    account_.begin_wait(*peer_, log_is_away(), now());
    changed_.wait(lock, so);
    account_.end_wait(now());
  }
  void throw_if_failed() const {
    if (!failure_.empty()) throw Error(failure_.starts_with("reef::") ? "" : "reef::swarm: ", failure_);
    if (interrupted_) throw Error("reef::swarm: the peer was interrupted.");
  }
  /// Makes a change that somebody may wait for.
  template <class Change>
  void note(const Change& change) {
    const std::lock_guard lock(mutex_);
    change();
    changed_.notify_all();
  }
  void fail(const std::string& what) { note([&] { failure_ = what; }); }

  template <class E>
  void post_event(E event) {
    keepers_->post([this, event = std::move(event)]() mutable { hear(core::Event(std::move(event))); });
  }

  /// Lets the memory of the codec follow what the log says of the last contribution.
  void settle() {
    if (!contributions_.has_memory()) return;
    const std::lock_guard lock(mutex_);
    contributions_.settle(id(), peer_->state().ledger);
  }

  /// Says that the trainer's weights contain so many rounds, and keeps them for a checkpoint.
  void has_applied(std::int64_t rounds) {
    settle();  // as long as the round's record is there
    if (const std::optional<core::event::StateKept> kept = states_.keep(rounds)) post_event(*kept);
    post_event(core::event::Applied{rounds});
  }

  /// Lets the peer hear of an event, and does what it asks for. On the loop's thread.
  void hear(core::Event event) {
    std::vector<core::Action> actions;
    {
      const std::lock_guard lock(mutex_);
      const detail::ReportedState before(peer_->state());
      actions = peer_->on(event, now());
      if (peer_->state().entries > 0) refused_ = peer_->refusal();
      account_.heard(*peer_, log_is_away(), now());
      if (const auto& last = peer_->state().checkpoint; last && last->rounds > before.checkpoint)
        states_.remove_before(last->rounds);
      if (options_.report)
        for (const std::string& line : report_lines(before, peer_->state())) options_.report(line);
      changed_.notify_all();
    }
    for (core::Action& action : actions) {
      std::visit([&](auto& what) { act(what); }, action);
    }
  }

  void act(core::action::Send& send) {
    // Where the peer is connected as somebody else, or not at all, what matters is asked for again.
    if (contacts_.has(send.to)) endpoint_->send(send.to.name, detail::frame_of(send.message));
  }

  void act(core::action::Append& append) {
    const std::size_t bytes = to_text(append.entry).size();
    constexpr std::string_view fix = ".\n  fix: a smaller global batch.";
    if (bytes > max_chained_entry_bytes)
      return fail(concat("an entry of ", bytes, " bytes is longer than the log takes", fix));
    keepers_->append(append.index, append.entry);
  }
  void act(core::action::Announce& announce) { keepers_->announce(announce.presence); }
  void act(core::action::Close& close) { note([&] { closing_ = close; }); }
  void act(core::action::Restart& /*restart*/) { note([] {}); }
  void act(core::action::Apply& apply) {
    const std::int64_t round = apply.round;
    note([&] { results_.insert_or_assign(round, std::move(apply)); });
  }
  void act(core::action::ReadState& read) {
    if (!options_.state.read) return;
    std::int64_t rounds = 0;
    {
      const std::lock_guard lock(mutex_);
      rounds = peer_->applied();
    }
    hear(core::event::StateRead{read.to, {rounds, read.piece, options_.state.read(read.piece)}});
  }
  void act(core::action::SetState& set) {
    note([&] { new_state_ = std::move(set); });
  }
  void act(core::action::Restore& restore) {
    try {
      core::action::SetState set{restore.rounds, states_.read(restore.rounds)};
      if (options_.report) options_.report(concat("begins with the state that it has kept after round ", set.rounds));
      act(set);
    } catch (const Error& error) {
      fail(error.what());
    }
  }
  void act(core::action::Gone& gone) {
    note([&] { gone_ = gone.why; });
  }

  void received(const RemotePeer& from, Frame frame) {
    if (detail::is_of_shards(frame)) {
      const std::lock_guard lock(mutex_);
      return shards_->asked(from.name, frame, peer_->state().genesis);
    }
    hear(core::event::Received{{from.name, from.incarnation}, detail::message_of(frame)});
  }

  void reach_out(const Member& member) {
    if (member.id.name != peer_->id().name && contacts_.is_new(member.address)) endpoint_->connect(member.address);
  }

  void tick() {
    const Seconds beat = options_.deadlines.beat;
    endpoint_->after(seconds(beat / 2), [this] { tick(); });
    keepers_->tick(now(), beat);
    if (const std::string why = keepers_->tampering(); !why.empty()) fail(why);
    std::vector<Member> members;
    {
      const std::lock_guard lock(mutex_);
      members = peer_->state().members;
    }
    for (const Member& member : members) reach_out(member);
    hear(core::event::Tick{});
    watch_round();
  }

  /// Reports a round that is not committed in time, and gives up the job where a wait is over.
  void watch_round() {
    std::optional<detail::RoundWatch::Finding> finding;
    {
      const std::lock_guard lock(mutex_);
      finding = watch_.look(*peer_, options_.deadlines, now());
    }
    if (finding && options_.report) options_.report(finding->what);
    if (finding && finding->is_over) fail(finding->what);
  }

  AveragingOptions options_;
  const detail::OwnStates states_{options_};
  PartCodec codec_;

  // Used on the loop's thread alone.
  detail::Contacts contacts_;
  detail::RoundWatch watch_;

  // Used on the trainer's thread alone.
  std::int64_t round_ = 0;
  std::int64_t attempt_ = 0;
  std::optional<std::int64_t> done_;  // the round whose result the trainer has
  detail::OwnContributions contributions_;

  mutable std::mutex mutex_;  // protects what follows
  std::condition_variable changed_;
  std::optional<core::Peer> peer_;
  detail::PeerAccount account_{now()};
  std::map<std::int64_t, core::action::Apply> results_;
  std::optional<core::action::Close> closing_;
  std::optional<core::action::SetState> new_state_;
  std::string refused_;
  std::string failure_;
  std::string gone_;
  bool interrupted_ = false;

  std::unique_ptr<detail::Keepers> keepers_;
  std::unique_ptr<detail::ShardServer> shards_;
  std::unique_ptr<Endpoint> endpoint_;  // the first to go: until then its loop uses all of the above
};

REEF_INLINE AveragingPeer::AveragingPeer(AveragingOptions options, DecisionLog& log, Presence& presence)
    : implementation_(std::make_unique<Implementation>(std::move(options), log, presence)) {}
REEF_INLINE AveragingPeer::~AveragingPeer() = default;
REEF_INLINE std::optional<std::int64_t> AveragingPeer::enter() { return implementation_->enter(); }
REEF_INLINE std::optional<std::int64_t> AveragingPeer::next() { return implementation_->next(); }
REEF_INLINE void AveragingPeer::computed() { implementation_->computed(); }
REEF_INLINE void AveragingPeer::contribute(std::span<const float> sum, double weight, double loss,
                                           std::vector<std::int64_t> indices) {
  implementation_->contribute(sum, weight, loss, std::move(indices));
}
REEF_INLINE RoundSum AveragingPeer::result(std::span<float> sum) { return implementation_->result(sum); }
REEF_INLINE void AveragingPeer::leave(const std::string& why, Seconds wait) { implementation_->leave(why, wait); }
REEF_INLINE void AveragingPeer::interrupt() noexcept { implementation_->interrupt(); }
REEF_INLINE core::JobState AveragingPeer::state() const { return implementation_->state(); }
REEF_INLINE const PeerId& AveragingPeer::id() const& { return implementation_->id(); }
REEF_INLINE std::string AveragingPeer::why_gone() const { return implementation_->why_gone(); }
REEF_INLINE std::string AveragingPeer::address() const { return implementation_->address(); }
REEF_INLINE std::string AveragingPeer::waits_for() const { return implementation_->waits_for(); }
REEF_INLINE PeerReport AveragingPeer::report() const { return implementation_->report(); }

}  // namespace swarm
}  // namespace v0
}  // namespace reef
