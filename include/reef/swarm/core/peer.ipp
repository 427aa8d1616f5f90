#pragma once

#include <algorithm>
#include <utility>

#include <reef/core/error.hpp>
#include <reef/core/inline.hpp>
#include <reef/core/text.hpp>
#include <reef/swarm/core/peer.hpp>

namespace reef {
inline namespace v0 {
namespace swarm {
namespace core {

/// One call of Peer::on: notes the event, then does everything that the peer's state asks for now.
struct Protocol {
  Peer& peer;
  Seconds now;
  std::vector<Action> actions{};

  [[nodiscard]] const JobState& state() const { return peer.state_; }
  [[nodiscard]] const PeerId& self() const { return peer.options_.self.id; }
  [[nodiscard]] const Deadlines& deadlines() const { return peer.options_.deadlines; }
  [[nodiscard]] const RoundFunctions& functions() const { return peer.options_.functions; }
  [[nodiscard]] Digest digest_of_targets() const { return digest_of(state().targets(), functions().digest); }
  [[nodiscard]] bool in_round() const { return peer.is_member() && peer.applied_ == state().round(); }
  [[nodiscard]] std::int64_t pieces() const {
    return state().genesis ? piece_count(*state().genesis) : 0;
  }
  /// Returns how long a contribution may be awaited after the own one: adapted to the last rounds.
  [[nodiscard]] Seconds exchange_bound() const {
    if (peer.exchanges_.size() < 4) return deadlines().exchange;
    return (std::clamp)(peer.exchanges_.bound(4) * 2, deadlines().suspect, deadlines().round);
  }

  template <class M>
  void send(const PeerId& to, M message) {
    if (to != self()) actions.push_back(action::Send{to, Message(std::move(message))});
  }
  template <class M>
  void send_to_members(const M& message) {
    for (const Member& member : state().members) send(member.id, message);
  }
  void append(Entry::What what) {
    if (now < peer.quiet_until_ || (peer.pending_ && now < peer.pending_until_)) return;
    peer.pending_ = state().entries;
    peer.pending_until_ = now + 1e9;
    actions.push_back(action::Append{state().entries, {self(), ++peer.nonce_, std::move(what)}});
  }

  // -- events ----------------------------------------------------------------------------------

  void note(const event::Received& received) {
    peer.detector_.heard(received.from, now);
    std::visit([&](const auto& message) { take(received.from, message); }, received.message);
  }

  void take(const PeerId& from, const Beat& beat) {
    const auto [at, is_new] = peer.beats_.try_emplace(from, beat);
    if (!is_new && beat.steps > at->second.steps) peer.detector_.progressed(from, now);
    at->second = beat;
    if (in_this_round(beat) && beat.closed) peer.round_.close();
  }

  /// Returns true for a message of the round in progress, and of its attempt.
  template <class M>
  [[nodiscard]] bool in_this_round(const M& message) const {
    return message.round == peer.round_.round() && message.attempt == peer.round_.attempt();
  }

  /// Returns true for a message of the round in progress. One of the next round is kept: its sender has read a commit that
  /// this peer will read.
  template <class M>
  bool is_of_this_round(const PeerId& from, const M& message) {
    if (in_this_round(message)) return true;
    constexpr std::size_t max_early = 4096;
    const bool is_next = message.round == peer.round_.round() + 1 ||
                         (message.round == peer.round_.round() && message.attempt > peer.round_.attempt());
    if (is_next && peer.early_.size() < max_early) {
      peer.early_.emplace_back(from, Message(message));
    }
    return false;
  }

  void take(const PeerId& from, const Offer& offer) {
    if (!is_of_this_round(from, offer)) return;
    peer.round_.close();
    peer.round_.offered(from, offer);
  }

  void take(const PeerId& from, const Part& part) {
    if (part.piece < 0 || part.piece >= pieces() || !part.bytes || !is_of_this_round(from, part)) return;
    peer.round_.close();
    if (functions().accepts(part.piece, part.bytes)) peer.round_.received(from, part);
  }

  void take(const PeerId& from, const Result& result) {
    if (result.piece < 0 || result.piece >= pieces() || !result.bytes) return;
    const auto behind = peer.behind_.find(result.round);
    if (behind != peer.behind_.end()) {
      behind->second.reduced(result.targets, result.piece, result.bytes);
    } else if (is_of_this_round(from, result)) {
      peer.round_.reduced(result.targets, result.piece, result.bytes);
    }
  }

  void take(const PeerId& from, const Want& want) {
    if (in_this_round(want) && peer.round_.contributed()) {
      if (want.offer) send(from, *peer.round_.offer_of(self()));
      for (const std::int64_t piece : want.parts) {
        if (piece < 0 || piece >= static_cast<std::int64_t>(peer.round_.own_parts().size())) continue;
        send(from, Part{want.round, want.attempt, piece, peer.round_.own_parts()[static_cast<std::size_t>(piece)]});
      }
    }
    const auto kept = peer.kept_.find(want.round);
    for (const std::int64_t piece : want.results) {
      if (piece < 0 || piece >= pieces()) continue;
      Bulk bytes;
      if (kept != peer.kept_.end() && kept->second.targets == want.targets) {
        bytes = kept->second.results[static_cast<std::size_t>(piece)];
      } else if (in_this_round(want)) {
        bytes = peer.round_.result(want.targets, piece);
      }
      if (bytes) send(from, Result{want.round, want.attempt, want.targets, piece, bytes});
    }
  }

  void take(const PeerId& from, const WantState& want) {
    if (peer.applied_ != peer.applying_) return;  // the weights are between two rounds
    for (const std::int64_t piece : want.pieces) {
      if (piece >= 0 && piece < pieces()) actions.push_back(action::ReadState{from, piece});
    }
  }

  void take(const PeerId& /*from*/, const StatePiece& piece) {
    if (peer.is_member() || piece.piece < 0 || piece.piece >= pieces() || !piece.bytes) return;
    if (peer.applied_ != peer.applying_) return;  // the trainer is applying a round
    if (piece.rounds <= peer.applying_ || piece.rounds > state().round()) return;
    auto& pieces_here = peer.joining_[piece.rounds];
    pieces_here.try_emplace(piece.piece, piece.bytes);
    if (static_cast<std::int64_t>(pieces_here.size()) < pieces()) return;
    action::SetState set{piece.rounds, {}};
    for (auto& [at, bytes] : pieces_here) set.pieces.push_back(std::move(bytes));
    peer.applying_ = piece.rounds;
    peer.joining_.clear();
    actions.push_back(std::move(set));
  }

  void note(const event::LogEnd& end) {
    if (!peer.log_end_) peer.log_end_ = end.entries;
  }

  void note(const event::Lost& lost) { peer.detector_.lost(lost.peer); }

  void note(const event::Read& read) {
    if (peer.pending_ && *peer.pending_ == state().entries) peer.pending_.reset();
    const std::int64_t before = state().round();
    const std::int64_t epoch = state().epoch;
    const std::int64_t lineage = state().lineage;
    const std::int64_t attempt = state().attempt;
    const std::vector<PeerId> targets = state().targets();
    const std::string why = apply(peer.state_, read.entry);
    // Others may have read more: an own entry that came to nothing is not repeated at once.
    if (!why.empty() && read.entry.author == self()) peer.quiet_until_ = now + deadlines().beat;
    if (state().lineage != lineage) {
      begin_round();
      peer.kept_.clear();
      peer.behind_.clear();
      if (peer.applying_ > state().round()) {
        peer.gone_ = true;
        actions.push_back(action::Gone{"its weights contain rounds that were rolled back: start it again"});
      }
    } else if (state().round() != before) {
      peer.behind_.emplace(before, std::move(peer.round_));
      begin_round();
    } else if (state().attempt != attempt) {
      begin_round();
      actions.push_back(action::Restart{});
    }
    if (state().epoch != epoch) {
      // Whoever has left is nobody's contact any more; a reducer that is new is sent its parts in advance().
      for (auto at = peer.beats_.begin(); at != peer.beats_.end();) {
        at = state().member(at->first) == nullptr && !peer.presences_.contains(at->first) ? peer.beats_.erase(at) : std::next(at);
      }
      peer.view_wanted_at_ = -1;
      peer.view_read_at_ = now;
    }
    if (state().epoch != epoch || state().targets() != targets) {
      peer.ready_at_ = -1;
      if (peer.closed_at_ >= 0) peer.closed_at_ = now;
    }
  }

  void begin_round() {
    peer.round_ = Round(state().round(), state().attempt, pieces());
    peer.sent_.clear();
    peer.told_.clear();
    peer.taken_ = 0;
    peer.computed_ = 0;
    peer.close_asked_ = false;
    peer.closed_at_ = -1;
    peer.ready_at_ = -1;
    peer.round_began_ = now;
    std::vector<std::pair<PeerId, Message>> early;
    early.swap(peer.early_);
    for (const auto& [from, message] : early) {
      std::visit([&, from = from](const auto& m) { take(from, m); }, message);
    }
  }

  void note(const event::Appended& answer) {
    // What stands at the index is read before anything else is appended. Where nothing comes, the append may be lost.
    if (!answer.won && peer.pending_ && *peer.pending_ == answer.index) peer.pending_until_ = now + deadlines().suspect;
  }

  void note(const event::Present& present) {
    peer.presences_.clear();
    for (const PeerPresence& presence : present.all) {
      if (presence.who.id != self()) peer.presences_[presence.who.id] = presence;
    }
  }

  void note(const event::Contributed& contributed) {
    if (!in_this_round(contributed) || peer.round_.contributed()) return;
    peer.round_.close();
    peer.round_.contribute(self(), contributed.contribution, functions().digest);
    peer.closed_at_ = now;
  }

  void note(const event::Computed& computed) {
    ++peer.steps_;
    if (in_this_round(computed)) ++peer.computed_;
  }

  void note(const event::Applied& applied) {
    peer.applied_ = applied.rounds;
    peer.applying_ = (std::max)(peer.applying_, applied.rounds);
  }

  void note(const event::StateRead& read) { send(read.to, read.piece); }
  void note(const event::Tick& /*tick*/) {}
  void note(const event::Leave& leave) {
    if (!peer.leaving_) peer.leaving_ = leave.why;
  }

  // -- what the state asks for ------------------------------------------------------------------

  void advance() {
    if (peer.gone_) return;
    if (!peer.log_end_ || state().entries < *peer.log_end_) return;
    if (state().entries == 0) {
      append(peer.options_.genesis);
      return;
    }
    if (!peer.refusal().empty()) return;
    if (peer.round_.round() != state().round() || (state().genesis && peer.round_ == Round())) begin_round();
    apply_committed();
    if (peer.leaving_) leave();
    if (peer.gone_) return;
    if (in_round()) {
      close_round();
      exchange();
      reduce();
      agree();
    }
    change_view();
    ask_again();
    announce();
    beat();
  }

  /// Gives the trainer the results of the next committed round that it lacks, once all of them are here and are those whose
  /// root the log has.
  void apply_committed() {
    while (peer.applied_ == peer.applying_) {
      const auto behind = peer.behind_.find(peer.applying_);
      peer.behind_.erase(peer.behind_.begin(), peer.behind_.lower_bound(peer.applying_));
      if (behind == peer.behind_.end()) return;
      const Ledger::Round& record = state().ledger.rounds()[static_cast<std::size_t>(peer.applying_)];
      std::vector<PeerId> contributors;
      double weight = 0;
      for (const Share& share : record.shares) {
        contributors.push_back(share.id);
        weight += share.weight;
      }
      const Digest targets = digest_of(contributors, functions().digest);
      std::optional<std::vector<Bulk>> results = behind->second.results(targets);
      if (!results) return;
      const JobState::Decided& decided = state().rounds[static_cast<std::size_t>(peer.applying_)];
      if (root(*results) != decided.root) {
        behind->second.forget_results(targets);
        return;
      }
      actions.push_back(action::Apply{peer.applying_, *results, weight, decided.verdict});
      peer.kept_[peer.applying_] = {targets, std::move(*results)};
      peer.kept_.erase(peer.kept_.begin(), peer.kept_.lower_bound(peer.applying_ - 1));
      peer.behind_.erase(behind);
      ++peer.applying_;
    }
  }

  [[nodiscard]] Digest root(const std::vector<Bulk>& results) const {
    std::vector<Digest> digests;
    for (const Bulk& bytes : results) digests.push_back(functions().digest(*bytes));
    return root_of(digests, functions().digest);
  }

  void leave() {
    if (!peer.is_member() || state().members.size() == 1) {
      peer.gone_ = true;
      actions.push_back(action::Gone{*peer.leaving_});
      return;
    }
    ViewEntry view{state().epoch + 1, {}, concat(to_text(self()), " leaves: ", *peer.leaving_)};
    for (const Member& member : state().members) {
      if (member.id != self()) view.members.push_back(member);
    }
    append(std::move(view));
  }

  void close_round() {
    std::int64_t computed = peer.computed_;
    for (const Member& member : state().members) {
      const auto beat = peer.beats_.find(member.id);
      if (beat != peer.beats_.end() && in_this_round(beat->second)) computed += beat->second.computed;
    }
    if (computed >= state().genesis->global_batch) peer.round_.close();
    if (peer.round_.closed() && !peer.close_asked_) {
      peer.close_asked_ = true;
      actions.push_back(action::Close{state().round(), state().attempt});
    }
  }

  /// Sends the own contribution to whom it has not been sent: the offer to all members, parts to their reducers.
  void exchange() {
    if (!peer.round_.contributed()) return;
    for (const Member& member : state().members) {
      if (member.id != self() && peer.told_.insert(member.id).second) send(member.id, *peer.round_.offer_of(self()));
    }
    const std::vector<Bulk>& parts = peer.round_.own_parts();
    for (std::size_t piece = 0; piece < parts.size(); ++piece) {
      const PeerId& reducer = state().reducers[piece];
      const auto at = static_cast<std::int64_t>(piece);
      if (reducer != self() && peer.sent_.emplace(at, reducer).second) send(reducer, Part{state().round(), state().attempt, at, parts[piece]});
    }
  }

  void reduce() {
    if (!peer.round_.contributed()) return;
    const std::vector<PeerId> targets = state().targets();
    const Digest digest = digest_of_targets();
    for (std::size_t piece = 0; piece < state().reducers.size(); ++piece) {
      const auto at = static_cast<std::int64_t>(piece);
      if (state().reducers[piece] != self() || peer.round_.has_result(digest, at)) continue;
      const std::optional<std::vector<Bulk>> parts = peer.round_.parts_of(at, targets);
      if (!parts) continue;
      Bulk bytes = functions().fold(at, *parts);
      send_to_members(Result{state().round(), state().attempt, digest, at, bytes});
      peer.round_.reduced(digest, at, std::move(bytes));
    }
  }

  [[nodiscard]] std::vector<PeerId> whole() const {
    std::vector<PeerId> ids;
    for (const Member& member : state().members) {
      if (peer.round_.has_whole(member.id, self(), state().reducers)) ids.push_back(member.id);
    }
    return ids;
  }

  /// Appends what the round needs: its commit once enough members hold its results; a list of fewer contributors, where
  /// some have not come in time.
  void agree() {
    if (!peer.round_.contributed()) return;
    const Digest digest = digest_of_targets();
    const std::optional<std::vector<Bulk>> results = peer.round_.results(digest);
    if (!results) {
      if (now - peer.closed_at_ > exchange_bound()) exclude();
      return;
    }
    if (peer.ready_at_ < 0) {
      peer.ready_at_ = now;
      peer.exchanges_.add(now - peer.closed_at_);
    }
    const Digest own_root = root(*results);
    Commit commit{state().epoch, state().round(), {}, own_root, {}, {}, {}};
    std::int64_t before_self = 0;
    for (const Member& member : state().members) {
      const auto beat = peer.beats_.find(member.id);
      const bool holds = member.id == self() ||
                         (beat != peer.beats_.end() && in_this_round(beat->second) &&
                          beat->second.targets == digest && beat->second.root == own_root);
      (holds ? commit.holders : commit.stragglers).push_back(member.id);
      if (holds && member.id < self()) ++before_self;
    }
    const auto members = static_cast<std::int64_t>(state().members.size());
    if (static_cast<std::int64_t>(commit.holders.size()) < least_holders(members)) return;
    // The first of the holders appends at once, the others only if nothing comes of it; stragglers get some grace.
    Seconds since = now - peer.ready_at_ - static_cast<double>(before_self) * deadlines().suspect;
    if (!commit.stragglers.empty()) since -= deadlines().suspect;
    if (since < 0) return;
    double weight = 0;
    double loss = 0;
    for (const PeerId& id : state().targets()) {
      const Offer* const offer = peer.round_.offer_of(id);
      if (offer == nullptr) return;  // its results came from others, but not its offer yet
      commit.shares.push_back({id, offer->indices, offer->weight, offer->digest});
      weight += offer->weight;
      loss += offer->loss;
    }
    commit.verdict = weight > 0 ? functions().judge(*results, weight, loss) : RoundVerdict{false, 0, 1, 0};
    append(std::move(commit));
  }

  void exclude() {
    std::vector<PeerId> left = state().targets();
    const std::set<PeerId> reducers(state().reducers.begin(), state().reducers.end());
    for (const PeerId& reducer : reducers) {
      std::vector<PeerId> has;
      if (reducer == self()) {
        has = whole();
      } else if (const auto beat = peer.beats_.find(reducer);
                 beat != peer.beats_.end() && in_this_round(beat->second)) {
        has = beat->second.whole;
      }
      std::erase_if(left, [&](const PeerId& id) { return std::find(has.begin(), has.end(), id) == has.end(); });
    }
    if (left.empty() || left.size() == state().targets().size()) return;
    append(Exclude{state().epoch, state().round(), std::move(left)});
  }

  /// Returns true if a member has not had the newest weights for longer than an exchange takes.
  [[nodiscard]] bool lags(const PeerId& id) const {
    if (now - peer.round_began_ <= exchange_bound()) return false;
    const auto beat = peer.beats_.find(id);
    return state().member(id) != nullptr && (beat == peer.beats_.end() || beat->second.applied < state().round());
  }

  [[nodiscard]] std::vector<PeerId> reach() const {
    std::vector<PeerId> ids = peer.detector_.reached(now);
    std::erase_if(ids, [&](const PeerId& id) { return id == self() || lags(id); });
    return ids;
  }

  /// Returns true if this peer, which is no member, could be one now: it has the newest weights.
  [[nodiscard]] bool could_join() const {
    return !peer.is_member() && !peer.leaving_ && peer.applied_ == peer.applying_ && peer.applied_ == state().round();
  }

  [[nodiscard]] PeerPresence own_presence() const { return {peer.options_.self, reach(), could_join(), peer.applied_}; }

  void change_view() {
    // Members that were never heard may just not be connected yet.
    const bool long_since = state().members.empty() || now - peer.view_read_at_ > 2 * deadlines().suspect;
    const bool nobody = long_since && std::none_of(state().members.begin(), state().members.end(), [&](const Member& member) {
      return peer.presences_.contains(member.id) || !peer.detector_.suspects(member.id, now);
    });
    const bool may = peer.is_member() || (nobody && could_join());
    std::optional<std::vector<Member>> next;
    if (may && !peer.leaving_) {
      std::vector<PeerPresence> present{own_presence()};
      for (const auto& [id, presence] : peer.presences_) present.push_back(presence);
      // A member that this peer hears is there, whether or not its presence has run out.
      for (const Member& member : state().members) {
        if (member.id == self() || peer.presences_.contains(member.id) || lags(member.id)) continue;
        if (peer.detector_.suspects(member.id, now)) continue;
        PeerPresence presence{member, state().member_ids(), false, state().round()};
        present.push_back(std::move(presence));
      }
      // In the middle of an exchange only departures count: a newcomer waits for the next round.
      const bool exchanging = in_round() && peer.round_.closed();
      if (exchanging) {
        std::erase_if(present, [&](const PeerPresence& p) { return state().member(p.who.id) == nullptr; });
      }
      next = next_view(state().members, present, state().round());
      if (next && state().members.empty() && static_cast<std::int64_t>(next->size()) < peer.options_.first_members) {
        next.reset();
      }
    }
    const auto own = !next ? std::vector<Member>::iterator{} : std::find_if(next->begin(), next->end(), [&](const Member& m) {
      return m.id == self();
    });
    if (!next || own == next->end()) {
      peer.view_wanted_at_ = -1;
      return;
    }
    if (peer.view_wanted_at_ < 0) peer.view_wanted_at_ = now;
    // The lowest of the next members appends at once, the others only if nothing comes of it.
    const auto place = static_cast<double>(own - next->begin());
    if (now - peer.view_wanted_at_ < place * 2 * deadlines().beat) return;
    ViewEntry view{state().epoch + 1, *next, {}};
    for (const Member& member : state().members) {
      const bool stays = std::any_of(next->begin(), next->end(), [&](const Member& m) { return m.id == member.id; });
      if (!stays) view.why += concat(view.why.empty() ? "" : ", ", to_text(member.id), " is not heard");
    }
    for (const Member& member : *next) {
      if (state().member(member.id) == nullptr) {
        view.why += concat(view.why.empty() ? "" : ", ", to_text(member.id), " joins");
      }
    }
    append(std::move(view));
  }

  /// Asks again for what was sent once and has not come, such as after a connection was lost.
  void ask_again() {
    const Seconds interval = deadlines().suspect / 2;
    if (now - peer.last_want_ < interval) return;
    peer.last_want_ = now;
    if (in_round() && peer.round_.contributed()) want_parts();
    want_results();
    if (!peer.is_member() && peer.applied_ == peer.applying_ && peer.applied_ < state().round()) want_state();
  }

  void want_parts() {
    const Digest digest = digest_of_targets();
    for (const PeerId& id : state().targets()) {
      const auto beat = peer.beats_.find(id);
      if (id == self() || beat == peer.beats_.end() || !in_this_round(beat->second)) continue;
      if (beat->second.phase != Phase::exchange && beat->second.phase != Phase::ready) continue;
      Want want{state().round(), state().attempt, peer.round_.offer_of(id) == nullptr, {}, {}, {}};
      const Offer* const offer = peer.round_.offer_of(id);
      for (std::size_t piece = 0; piece < state().reducers.size(); ++piece) {
        const auto at = static_cast<std::int64_t>(piece);
        if (state().reducers[piece] != self() || peer.round_.has_part(at, id)) continue;
        if (offer == nullptr || offer->weight > 0) want.parts.push_back(at);
      }
      if (want.offer || !want.parts.empty()) send(id, std::move(want));
    }
    // A result is asked of its reducer, or of whoever holds all.
    std::map<PeerId, Want> wants;
    for (const std::int64_t piece : peer.round_.missing_results(digest)) {
      PeerId from = state().reducers[static_cast<std::size_t>(piece)];
      for (const auto& [id, beat] : peer.beats_) {
        if (in_this_round(beat) && beat.targets == digest && beat.root != Digest{}) from = id;
      }
      if (from == self()) continue;
      wants.try_emplace(from, Want{state().round(), state().attempt, false, {}, digest, {}}).first->second.results.push_back(piece);
    }
    for (auto& [from, want] : wants) send(from, std::move(want));
  }

  void want_results() {
    const auto behind = peer.behind_.find(peer.applying_);
    if (behind == peer.behind_.end()) return;
    std::vector<PeerId> contributors;
    for (const Share& share : state().ledger.rounds()[static_cast<std::size_t>(peer.applying_)].shares) {
      contributors.push_back(share.id);
    }
    const Digest targets = digest_of(contributors, functions().digest);
    const std::vector<std::int64_t> missing = behind->second.missing_results(targets);
    if (missing.empty()) return;
    for (const auto& [id, beat] : peer.beats_) {
      if (beat.applied > peer.applying_) send(id, Want{peer.applying_, behind->second.attempt(), false, {}, targets, missing});
    }
  }

  void want_state() {
    std::vector<PeerId> donors;
    for (const auto& [id, beat] : peer.beats_) {
      if (beat.applied == state().round() && !peer.detector_.suspects(id, now)) donors.push_back(id);
    }
    if (donors.empty()) return;
    peer.joining_.erase(peer.joining_.begin(), peer.joining_.lower_bound(state().round()));
    std::vector<WantState> wants(donors.size());
    const auto here = peer.joining_.find(state().round());
    std::size_t at = 0;
    for (std::int64_t piece = 0; piece < pieces(); ++piece) {
      if (here != peer.joining_.end() && here->second.contains(piece)) continue;
      wants[at++ % donors.size()].pieces.push_back(piece);
    }
    for (std::size_t i = 0; i < donors.size(); ++i) {
      if (!wants[i].pieces.empty()) send(donors[i], std::move(wants[i]));
    }
  }

  void announce() {
    PeerPresence presence = own_presence();
    if (peer.announced_ && *peer.announced_ == presence) return;
    peer.announced_ = presence;
    actions.push_back(action::Announce{std::move(presence)});
  }

  void beat() {
    Beat beat;
    beat.epoch = state().epoch;
    beat.round = state().round();
    beat.entries = state().entries;
    beat.attempt = state().attempt;
    beat.applied = peer.applied_;
    beat.phase = peer.phase();
    beat.closed = peer.round_.closed();
    beat.computed = peer.computed_;
    beat.steps = peer.steps_;
    if (in_round() && peer.round_.contributed()) {
      beat.whole = whole();
      beat.targets = digest_of_targets();
      if (const auto results = peer.round_.results(beat.targets)) beat.root = root(*results);
    }
    Beat same = beat;
    same.entries = peer.beat_.entries;
    same.computed = peer.beat_.computed;
    same.steps = peer.beat_.steps;
    if (same == peer.beat_ && now - peer.last_beat_ < deadlines().beat) return;
    peer.beat_ = beat;
    peer.last_beat_ = now;
    std::set<PeerId> contacts;
    for (const Member& member : state().members) contacts.insert(member.id);
    for (const auto& [id, presence] : peer.presences_) contacts.insert(id);
    for (const auto& [id, other] : peer.beats_) contacts.insert(id);
    for (const PeerId& id : contacts) send(id, beat);
  }
};

REEF_INLINE Peer::Peer(PeerOptions options) : options_(std::move(options)), detector_(options_.deadlines), nonce_(options_.seed) {
  options_.deadlines.validate();
  const RoundFunctions& functions = options_.functions;
  if (!functions.digest || !functions.fold || !functions.accepts || !functions.judge) {
    throw OptionError("reef::swarm::core::Peer: a function of PeerOptions::functions is not given.\n  fix: all four.");
  }
}

REEF_INLINE std::vector<Action> Peer::on(const Event& event, Seconds now) {
  Protocol protocol{*this, now};
  std::visit([&](const auto& what) { protocol.note(what); }, event);
  protocol.advance();
  return std::move(protocol.actions);
}

REEF_INLINE std::optional<std::int64_t> Peer::take() {
  if (gone_ || leaving_ || !is_member() || applied_ != state_.round() || round_.round() != state_.round()) {
    return std::nullopt;
  }
  if (round_.closed() || round_.contributed()) return std::nullopt;
  const std::optional<std::int64_t> index = state_.dealing.index_of(id(), taken_);
  if (index) ++taken_;
  return index;
}

REEF_INLINE Phase Peer::phase() const {
  if (!is_member() || applied_ != state_.round()) return Phase::absent;
  if (!round_.contributed()) return Phase::accumulate;
  return ready_at_ >= 0 ? Phase::ready : Phase::exchange;
}

REEF_INLINE PeerPresence Peer::presence(Seconds now) const {
  Peer& self = const_cast<Peer&>(*this);  // Protocol's constness is by function
  return Protocol{self, now}.own_presence();
}

REEF_INLINE bool Peer::holds(std::int64_t round, std::span<const PeerId> contributors) const {
  const Digest targets = digest_of(contributors, options_.functions.digest);
  const auto kept = kept_.find(round);
  if (kept != kept_.end()) return kept->second.targets == targets;
  if (round_.round() == round) return round_.results(targets).has_value();
  const auto behind = behind_.find(round);
  return behind != behind_.end() && behind->second.results(targets).has_value();
}

REEF_INLINE std::string Peer::refusal() const {
  if (!state_.genesis) return "the log begins with no genesis";
  const Genesis& theirs = *state_.genesis;
  const Genesis& own = options_.genesis;
  std::string differs;
  const auto compare = [&](const char* name, const auto& a, const auto& b) {
    if (!(a == b)) differs += concat(differs.empty() ? "" : ", ", name);
  };
  compare("job", theirs.job, own.job);
  compare("recipe", theirs.recipe, own.recipe);
  compare("model", theirs.model, own.model);
  compare("data", theirs.data, own.data);
  compare("update class", theirs.update_class, own.update_class);
  compare("seed", theirs.seed, own.seed);
  compare("global batch", theirs.global_batch, own.global_batch);
  compare("parameters", theirs.parameters, own.parameters);
  compare("piece", theirs.piece, own.piece);
  compare("codec", theirs.codec, own.codec);
  if (differs.empty()) return {};
  return concat("the log is of a job with another ", differs);
}

REEF_INLINE std::string Peer::waits_for(Seconds now) const {
  std::string silent;
  for (const Member& member : state_.members) {
    if (member.id != id() && detector_.suspects(member.id, now)) {
      silent += concat(silent.empty() ? "" : ", ", to_text(member.id));
    }
  }
  if (!is_member()) {
    if (applied_ < state_.round()) return concat("for the weights after round ", state_.round());
    return "to be heard by all members, who then append a view with it";
  }
  if (applied_ < state_.round()) return concat("for the results of round ", applied_);
  if (!silent.empty()) return concat("for the log to say whether ", silent, " are still members");
  if (!round_.contributed()) return {};
  std::string late;
  for (const PeerId& target : state_.targets()) {
    if (round_.offer_of(target) == nullptr) late += concat(late.empty() ? "" : ", ", to_text(target));
  }
  if (!late.empty()) return concat("for the contributions of ", late);
  return ready_at_ < 0 ? "for results" : "for the commit";
}

}  // namespace core
}  // namespace swarm
}  // namespace v0
}  // namespace reef
