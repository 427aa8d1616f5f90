#pragma once

#include <chrono>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include <reef/core/error.hpp>
#include <reef/core/inline.hpp>
#include <reef/core/text.hpp>
#include <reef/io/json.hpp>
#include <reef/swarm/log/blocking_log.hpp>
#include <reef/swarm/log/chained_log.hpp>
#include <reef/swarm/log/detail/envelope_signer.hpp>
#include <reef/swarm/log/detail/log_rules.hpp>
#include <reef/swarm/log/local_log.hpp>

namespace reef {
inline namespace v0 {
namespace swarm {
namespace detail {

/// The callback of an append, which is called once, at the latest when nobody can call it any more.
class AppendAnswer {
public:
  explicit AppendAnswer(AppendDone done) : done_(std::move(done)) {}
  ~AppendAnswer() {
    give({AppendOutcome::unknown, {}, "reef::swarm: the log has ended.\n  fix: ask another one, or read on."});
  }
  AppendAnswer(const AppendAnswer&) = delete;
  AppendAnswer& operator=(const AppendAnswer&) = delete;

  void give(Appended answer) {
    if (const AppendDone done = std::exchange(done_, nullptr)) done(std::move(answer));
  }

private:
  AppendDone done_;
};

/// Returns the text that readers are given in place of one that breaks a rule of envelopes.
inline std::string broken_entry(LogIndex at, std::string_view why) {
  const io::Json json{{"kind", "unreadable"}, {"why", concat("entry ", at, ": ", why)}};
  return json.dump(-1, ' ', false, io::Json::error_handler_t::replace);
}

}  // namespace detail

struct ChainedLog::State : std::enable_shared_from_this<State> {
  using Clock = std::chrono::steady_clock;
  using Answer = std::shared_ptr<detail::AppendAnswer>;

  State(DecisionLog& of, const ChainedLogOptions& options) : log(of), pause(options.audit) {
    if (!options.tls.authority.empty()) signer.emplace(options.tls);
    if (!options.archive.empty()) open_archive(options.archive);
  }

  /// Opens the archive, and takes what it has as read.
  void open_archive(const std::filesystem::path& folder) {
    constexpr Seconds patience = 5;
    archive.emplace(folder, patience);
    for (;;) {
      const LogPage page = BlockingLog(*archive).page(known.size());
      if (!page.answered) throw Error(page.why);
      if (page.entries.empty()) break;
      for (const std::string& text : page.entries) known.push_back(digest_of_text(text));
    }
    archived = known.size();
  }

  /// Gives the archive a text that was read first.
  void keep(LogIndex at, std::string_view text) {
    archive->append(at, std::string(text), [this](const Appended& answer) {
      if (answer.outcome == AppendOutcome::won) return;
      const std::lock_guard lock(mutex);
      if (archive_failure.empty()) archive_failure = answer.why;
    });
  }

  /// Notes that the log was tampered with; the first reason stays.
  void tamper(std::string_view what) {
    const std::lock_guard lock(mutex);
    if (!tampered.empty()) return;
    tampered = concat("reef::swarm: the job's log was tampered with: ", what,
                      ".\n  fix: end the job, and see who can write to its keepers or its log server; peers' archives "
                      "have the entries as they were.");
  }

  [[nodiscard]] std::string why_tampered() const {
    const std::lock_guard lock(mutex);
    return tampered;
  }

  /// Notes that a page of the log says that an entry is missing.
  void note_damage(const LogPage& page) {
    if (page.damaged) tamper(page.why.substr(0, page.why.find(".\n")));
  }

  /// Returns the digest of the entry before an index, where that was read.
  [[nodiscard]] std::optional<Digest> before(LogIndex at) const {
    const std::lock_guard lock(mutex);
    if (at == 0) return Digest{};
    if (at <= known_first || at > known_end()) return std::nullopt;
    return known[at - 1 - known_first];
  }

  /// Returns the index after the last text that was read. Under the mutex.
  [[nodiscard]] LogIndex known_end() const { return known_first + known.size(); }

  /// Notes that the log begins with an index, since the entries before were dropped: what was read before is compared
  /// no more, and where not all of it was, the chain begins anew.
  void begin_at(LogIndex first) {
    const std::lock_guard lock(mutex);
    if (first <= known_end()) return;
    if (archive && archive_failure.empty()) {
      archive_failure = concat("the log has dropped entries ", known_end(), " to ", first - 1,
                               " before they were read.\n  fix: the archive of another peer has them.");
    }
    known.clear();
    known_first = first;
  }

  /// Notes the text that stands at an index, compares it with what was read there before, and returns its digest.
  Digest note(LogIndex at, std::string_view text) {
    const Digest digest = digest_of_text(text);
    bool same = true;
    {
      const std::lock_guard lock(mutex);
      if (at >= known_first && at < known_end()) {
        same = known[at - known_first] == digest;
      } else if (at == known_end() && tampered.empty()) {
        known.push_back(digest);
        if (archive) keep(at, text);
      }
    }
    if (!same) tamper(concat("entry ", at, " is another one than ", who_has_read(at), " there before"));
    return digest;
  }

  /// Notes that nothing stands at an index. Returns false if something was read there before.
  bool note_nothing(LogIndex at) {
    bool was_there = false;
    {
      const std::lock_guard lock(mutex);
      was_there = at >= known_first && at < known_end();
    }
    if (was_there) tamper(concat("entry ", at, ", which ", who_has_read(at), ", is gone"));
    return !was_there;
  }

  [[nodiscard]] std::string who_has_read(LogIndex at) const {
    return at < archived ? "the archive has (or the archive is that of another log)" : "this process has read";
  }

  /// Returns the entry that readers are given for the text at an index. `previous`: the digest of the text before,
  /// where that is known.
  std::string judge(LogIndex at, std::string_view text, const std::optional<Digest>& previous) {
    LogEnvelope envelope;
    try {
      envelope = envelope_from_text(text);
    } catch (const Error& error) {
      return detail::broken_entry(at, concat("no envelope: ", error.what()));
    }
    detail::SignedBy by;
    if (signer) {
      by = signer->verify(envelope, at);
      if (!by.why.empty()) return detail::broken_entry(at, by.why);
    } else if (!envelope.signature.empty()) {
      const std::lock_guard lock(mutex);
      is_signed = true;
    }
    if (previous && envelope.previous != *previous) {
      // Nobody signs an entry that does not follow what stood before it.
      if (signer && at > 0) {
        tamper(concat("entry ", at, ", which ", by.who.uri(), " has signed, followed another entry ", at - 1,
                      " than stands there now: it was rewritten or deleted"));
      }
      return detail::broken_entry(at, "it follows another entry than stands before it");
    }
    if (signer) {
      if (const std::string why = detail::why_not_append(by.who, signer->own().job, envelope.entry); !why.empty())
        return detail::broken_entry(at, why);
    }
    return std::move(envelope.entry);
  }

  /// Returns why nothing can be appended; empty where it can.
  [[nodiscard]] std::string why_closed() const {
    const std::lock_guard lock(mutex);
    if (!tampered.empty()) return tampered;
    if (is_signed && !signer) {
      return "reef::swarm: the entries of this log are signed, and there is no key to sign one more.\n  fix: the "
             "certificate and key of a peer or a client of the job.";
    }
    return {};
  }

  void append(LogIndex at, const std::string& entry, const Digest& previous, const Answer& answer) {
    LogEnvelope envelope{.previous = previous, .certificate = {}, .signature = {}, .entry = entry};
    std::string text;
    try {
      if (signer) signer->sign(envelope, at);
      text = to_text(envelope);
      log.append(at, text, [self = shared_from_this(), at, entry, text, previous, answer](const Appended& given) {
        answer->give(self->appended(at, entry, text, previous, given));
      });
    } catch (const Error& error) {
      answer->give({AppendOutcome::unknown, {}, error.what()});
    }
  }

  /// Returns what an append of `entry` came to, from what became of its envelope.
  Appended appended(LogIndex at, const std::string& entry, std::string_view text, const Digest& previous,
                    const Appended& given) {
    Appended result = given;
    if (given.outcome == AppendOutcome::won) note(at, text);
    if (given.outcome == AppendOutcome::early && at > 0 && !note_nothing(at - 1))
      return {AppendOutcome::unknown, {}, why_tampered()};
    if (given.outcome == AppendOutcome::lost) {
      note(at, given.other);
      result.other = judge(at, given.other, previous);
      // The same entry in another envelope: an earlier attempt, whose signature differs.
      if (result.other == entry) return {AppendOutcome::won, {}, {}};
    }
    return result;
  }

  /// Returns the page of entries from `from` on. `page` begins with the text before, where there is one.
  LogPage checked(LogIndex from, const LogPage& page) {
    LogPage result{.from = from, .entries = {}, .answered = page.answered, .why = page.why};
    note_damage(page);
    if (page.answered && page.entries.empty()) note_nothing(page.from);
    const bool is_cut = page.from > (from == 0 ? 0 : from - 1);
    if (is_cut) begin_at(page.from);
    if (is_cut) result.from = (std::max)(from, page.from);
    std::optional<Digest> previous = before(page.from);
    LogIndex at = page.from;
    for (const std::string& text : page.entries) {
      const Digest digest = note(at, text);
      if (at >= from) result.entries.push_back(judge(at, text, previous));
      previous = digest;
      ++at;
    }
    if (std::string why = why_tampered(); !why.empty())
      return {.from = from, .entries = {}, .answered = false, .why = std::move(why)};
    return result;
  }

  /// Reads a page of what was read before, where it is time, and compares.
  void audit() {
    LogIndex from = 0;
    {
      const std::lock_guard lock(mutex);
      const Clock::time_point now = Clock::now();
      if (auditing || known.empty() || std::chrono::duration<Seconds>(now - audited).count() < pause) return;
      auditing = true;
      audited = now;
      from = audit_at;
    }
    log.read(from, [self = shared_from_this(), from](const LogPage& page) {
      self->note_damage(page);
      if (page.answered && page.entries.empty()) self->note_nothing(from);
      LogIndex at = page.from;
      for (const std::string& text : page.entries) self->note(at++, text);
      const std::lock_guard lock(self->mutex);
      self->auditing = false;
      self->audit_at = at < self->known_end() ? at : 0;
    });
  }

  DecisionLog& log;
  const Seconds pause;
  std::optional<detail::EnvelopeSigner> signer{};

  mutable std::mutex mutex{};    ///< of what follows
  LogIndex known_first = 0;
  std::vector<Digest> known{};   ///< of the texts from index `known_first` on, as they were read first
  std::string tampered{};
  bool is_signed = false;        ///< an envelope had a signature
  bool auditing = false;
  Clock::time_point audited = Clock::now();
  LogIndex audit_at = 0;
  std::string archive_failure{};

  LogIndex archived = 0;              ///< the texts that the archive had at the begin
  std::optional<LocalLog> archive{};  ///< last: its thread uses the others until it has ended
};

REEF_INLINE ChainedLog::ChainedLog(DecisionLog& log, const ChainedLogOptions& options)
    : state_(std::make_shared<State>(log, options)) {}

REEF_INLINE ChainedLog::~ChainedLog() = default;

REEF_INLINE void ChainedLog::drop(LogIndex before) { state_->log.drop(before); }

REEF_INLINE std::string ChainedLog::tampering() const { return state_->why_tampered(); }

REEF_INLINE std::string ChainedLog::archive_failure() const {
  const std::lock_guard lock(state_->mutex);
  return state_->archive_failure;
}

REEF_INLINE void ChainedLog::append(LogIndex at, std::string entry, AppendDone done) {
  detail::require_entry(at, entry);
  if (entry.size() > max_chained_entry_bytes) {
    throw OptionError("reef::swarm: the entry at ", at, " of the log has ", entry.size(),
                      " bytes; the limit with its envelope is ", max_chained_entry_bytes,
                      ".\n  fix: entries carry digests and decisions; send what is large to peers.");
  }
  const auto answer = std::make_shared<detail::AppendAnswer>(std::move(done));
  if (const std::string why = state_->why_closed(); !why.empty()) {
    // The answer comes on the log's thread, as others do.
    state_->log.read(at, [answer, why](const LogPage&) { answer->give({AppendOutcome::unknown, {}, why}); });
    return;
  }
  if (const std::optional<Digest> previous = state_->before(at)) {
    state_->append(at, entry, *previous, answer);
    return;
  }
  state_->log.read(at - 1, [state = state_, at, entry = std::move(entry), answer](const LogPage& page) {
    state->note_damage(page);
    if (!page.answered) return answer->give({AppendOutcome::unknown, {}, page.why});
    if (page.entries.empty())
      return answer->give({AppendOutcome::early, {}, concat("no entry stands at ", at - 1, " yet.")});
    if (page.from != at - 1) {
      return answer->give({AppendOutcome::unknown,
                           {},
                           concat("entry ", at - 1, " was dropped from the log, which begins with entry ", page.from,
                                  ": read on from there.")});
    }
    state->append(at, entry, state->note(at - 1, page.entries.front()), answer);
  });
}

REEF_INLINE void ChainedLog::read(LogIndex from, ReadDone done) {
  state_->log.read(from == 0 ? 0 : from - 1, [state = state_, from, done = std::move(done)](const LogPage& page) {
    done(state->checked(from, page));
  });
}

REEF_INLINE LogWatch ChainedLog::watch(LogIndex from, EntryFound found) {
  struct Follower {
    EntryFound found;
    std::optional<Digest> previous{};  ///< the digest of the last text
    LogIndex next = 0;
  };
  const auto one = std::make_shared<Follower>(Follower{std::move(found), {}});
  one->next = from == 0 ? 0 : from - 1;
  return state_->log.watch(one->next, [state = state_, from, one](LogIndex at, std::string_view text) {
    if (at != one->next) {
      state->begin_at(at);
      one->previous = state->before(at);
    }
    one->next = at + 1;
    if (at == 0) one->previous = Digest{};
    const Digest digest = state->note(at, text);
    const std::string entry = at < from ? std::string() : state->judge(at, text, one->previous);
    one->previous = digest;
    if (!state->why_tampered().empty()) return;
    if (at >= from) one->found(at, entry);
    state->audit();
  });
}

}  // namespace swarm
}  // namespace v0
}  // namespace reef
