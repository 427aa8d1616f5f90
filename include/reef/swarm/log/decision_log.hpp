#pragma once

#include <concepts>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <reef/core/error.hpp>
#include <reef/core/units.hpp>

namespace reef {
inline namespace v0 {
namespace swarm {

/// The index of an entry in a replicated log, counted from 0.
using LogIndex = std::uint64_t;

/// The largest size in bytes of an entry of a replicated log.
inline constexpr Bytes max_entry_bytes = 64_KiB;

/// The size in bytes after which the answer to a read of the log (a page) ends: a page has at most this and one more
/// entry.
inline constexpr Bytes log_page_bytes = 256_KiB;

/// The kinds of answer to an append of entry e at index i of the log.
enum class AppendOutcome : unsigned char {
  won,     ///< entry e stands at index i
  lost,    ///< another entry stands at index i, for ever
  early,   ///< no entry stands at index i - 1; e does not stand, and never will by this append
  unknown  ///< nobody can say: entry e may stand at index i, may come to stand there later, or never
};

/// Returns the name of an append's outcome, such as "won".
[[nodiscard]] std::string_view name_of(AppendOutcome outcome);

/// The answer to an append to the log.
struct Appended {
  AppendOutcome outcome = AppendOutcome::unknown;
  std::string other;  ///< the entry that stands at the index; only where the outcome is `lost`
  std::string why;    ///< the reason, with the fix; only where the outcome is `unknown` or `early`
};

/// The answer to a read of the log from index `from`: the entries from, from + 1, ..., without a gap, up to a limit of
/// bytes. Where entries from there on were dropped, the page begins with the first one that is kept.
struct LogPage {
  LogIndex from = 0;  ///< index of the first of them
  std::vector<std::string> entries;  ///< entries, empty where none stands at `from`, or nobody answered
  bool answered = false;             ///< false where the log could not be asked in time
  std::string why;                   ///< reason why the log did not answer, with the fix, where `answered` is false
  /// True where an entry from `from` on is missing and a later one stands: somebody has deleted from the log, and no
  /// page of it is answered.
  bool damaged = false;
};

/// Callbacks of a replicated log: for an append's answer, for a page of entries, and for each new entry of a watch.
using AppendDone = std::function<void(Appended)>;
using ReadDone = std::function<void(LogPage)>;
using EntryFound = std::function<void(LogIndex, std::string_view)>;

namespace detail {

class Watcher;

/// Throws OptionError unless a log entry is 1 to max_entry_bytes bytes of UTF-8.
void require_entry(LogIndex at, std::string_view entry);

}  // namespace detail

/// A handle to a watch (subscription to new entries) of a replicated log. The watch ends with the handle's destructor.
/// The handle may outlive the log.
///
/// After the destructor the watch's function runs no more, and is not running; inside that function itself the
/// destructor does not wait.
class LogWatch {
public:
  LogWatch() = default;
  explicit LogWatch(std::shared_ptr<detail::Watcher> watcher) : watcher_(std::move(watcher)) {}
  ~LogWatch() { stop(); }
  LogWatch(const LogWatch&) = delete;
  LogWatch& operator=(const LogWatch&) = delete;
  LogWatch(LogWatch&& other) noexcept = default;
  LogWatch& operator=(LogWatch&& other) noexcept;

  /// Ends the watch early. Nothing happens if it has ended already.
  void stop();

private:
  std::shared_ptr<detail::Watcher> watcher_;
};

/// A replicated log in which each entry is decided by the first append at its index.
///
///     append(i, e) -> won        e stands at i
///                     lost(e')   e' != e stands at i
///                     early      no entry stands at i - 1
///                     unknown    e stands at i, comes to stand there later, or never does
///
/// Laws:
///
/// | one     | at most one entry ever stands at an index; it is never changed, and removed only with  |
/// |         | all before it, where its users have said that nobody needs them (DecisionLog::drop)    |
/// | prefix  | an entry at i has one at i - 1: a reader sees e0, e1, ..., ek without a gap            |
/// | own     | append(i, e) says `won` whenever e stands at i, whoever put it there: so an append may |
/// |         | be repeated, and entries that must be told apart carry an id of their author           |
/// | reads   | a read that begins after an append was answered `won` or `lost` sees that entry        |
/// | unknown | is resolved by reading on, or by the same append again; the entry may land until some  |
/// |         | entry is read at its index                                                             |
/// | watch   | calls its function for each entry from `from` on, once, in order, also for those that  |
/// |         | stand already; what breaks on the way is mended by the log without an end              |
///
/// Models: LocalLog, RemoteLog, EtcdLog, SimulatedLog, and ChainedLog over each.
template <class Log>
concept decision_log = requires(Log& log, LogIndex at, std::string entry, AppendDone appended, ReadDone page,
                                EntryFound found) {
  { log.append(at, std::move(entry), std::move(appended)) } -> std::same_as<void>;
  { log.read(at, std::move(page)) } -> std::same_as<void>;
  { log.watch(at, std::move(found)) } -> std::same_as<LogWatch>;
};

/// A replicated log whose implementation is chosen at run time. The laws are those of the concept decision_log.
///
/// | blocks    | no call waits for a disk or a network: answers come by callback                     |
/// | callbacks | each is called exactly once, on a thread of the log's (of SimulatedLog: within      |
/// |           | advance), one after the other, and never within the call that was given it. It must |
/// |           | not block or throw, and may call the log again                                      |
/// | threads   | any thread may call                                                                 |
/// | end       | the destructor answers open calls, if only by `unknown`, or a page with `answered`  |
/// |           | false; what a callback asks for meanwhile is dropped. Not to be run in a callback   |
/// | errors    | OptionError from append: an entry that is empty, too long or no UTF-8. The log is   |
/// |           | unchanged, and the callback is not called                                           |
///
/// \code
/// // given: swarm::DecisionLog& log
/// log.append(0, R"({"kind":"genesis"})", [](const swarm::Appended& answer) {
///   if (answer.outcome == swarm::AppendOutcome::unknown) { /* read on: the entry may stand, or land later */ }
/// });
/// std::vector<std::string> entries;  // of the log's thread
/// const swarm::LogWatch watch =
///     log.watch(0, [&](swarm::LogIndex, std::string_view entry) { entries.emplace_back(entry); });
/// \endcode
class DecisionLog {
public:
  DecisionLog() = default;
  virtual ~DecisionLog() = default;
  DecisionLog(const DecisionLog&) = delete;
  DecisionLog& operator=(const DecisionLog&) = delete;

  /// Appends `entry` at index `at`, if no other entry stands there and one stands at the index before.
  virtual void append(LogIndex at, std::string entry, AppendDone done) = 0;

  /// Reads the entries from index `from` on, at most a page of them (log_page_bytes). The page is empty where none
  /// stands yet.
  virtual void read(LogIndex from, ReadDone done) = 0;

  /// Calls `found` for each entry of the log from index `from` on, those to come included, until the LogWatch ends.
  [[nodiscard]] virtual LogWatch watch(LogIndex from, EntryFound found) = 0;

  /// Lets the log drop the entries before the one at index `before`, which no reader needs: reads and watches of those
  /// begin with the first entry that is kept, and appends at what was dropped are `unknown`. A hint: a log may keep
  /// them, and does unless it says that it drops.
  virtual void drop(LogIndex before) { static_cast<void>(before); }

  /// Returns what this client has found rewritten or deleted in the log, with the fix; empty where nothing was, or
  /// where the log does not look for that. ChainedLog does.
  [[nodiscard]] virtual std::string tampering() const { return {}; }
};

static_assert(decision_log<DecisionLog>);

namespace detail {

/// The state of one watch (subscription to new entries), which its LogWatch handle and its log share.
class Watcher {
public:
  Watcher(LogIndex from, EntryFound found);
  ~Watcher();
  Watcher(const Watcher&) = delete;
  Watcher& operator=(const Watcher&) = delete;

  /// Returns the index of the log entry that the watch waits for.
  [[nodiscard]] LogIndex next() const;

  /// Calls the watch's function with the entry at index `at`, if that is the next one and the watch has not ended.
  void give(LogIndex at, std::string_view entry);

  /// Calls the watch's function with all entries of a page that are new to the watch.
  void give(const LogPage& page);

  void stop();
  [[nodiscard]] bool stopped() const;

private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace detail

}  // namespace swarm
}  // namespace v0
}  // namespace reef

#ifndef REEF_COMPILED
#include <reef/swarm/log/decision_log.ipp>
#endif
