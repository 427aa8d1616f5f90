#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include <reef/core/units.hpp>
#include <reef/swarm/core/session_message.hpp>

namespace reef {
inline namespace v0 {
namespace swarm {
namespace core {

/// What a server does to its cache for a step: cut, gather, append, in this order.
struct CacheStep {
  std::int64_t keep = 0;  ///< positions that stay of each sequence
  std::vector<std::int64_t>
      reorder{};          ///< sequence i goes on from sequence reorder[i]; empty: from itself
  std::int64_t rows = 0;  ///< positions to append to each sequence

  friend bool operator==(const CacheStep&, const CacheStep&) = default;
};

/// A server's side of one session: what it takes, answers again and refuses. It has no cache and no clock: its caller
/// changes the cache as it says, and computes one step of a session at a time.
///
/// | takes   | step last + 1 of the epoch that it was told of, once, whoever sends it                                 |
/// | answers | the last step again, from the kept answer                                                              |
/// | undoes  | the last step, where a new epoch says that the client has not accepted it: its rows are cut off, and   |
/// |         | the same step is taken again without cutting and gathering twice                                       |
/// | refuses | all else                                                                                               |
/// | memory  | the answer of one step                                                                                 |
///
/// Both numbers are needed: by positions alone a late copy cuts rows off, and without epochs a server keeps rows that
/// the client does not hold.
///
/// \code
/// swarm::core::ServedSession session({.session = "s", .epoch = 1, .max_length = 64}, 8);  // 8 bytes a row
/// const auto verdict = session.take({.session = "s", .epoch = 2, .step = 1, .rows = 2});
/// const bool is_refused = std::holds_alternative<swarm::SessionRefused>(verdict);  // nobody told of epoch 2
/// \endcode
class ServedSession {
public:
  /// A session that was opened, of rows of `row_bytes` bytes.
  ServedSession(const OpenSession& open, Bytes row_bytes);

  /// A step to be computed: what happens to the cache, and the rows to append.
  struct Compute {
    CacheStep cache{};
    Bulk bytes{};
  };
  using Verdict = std::variant<Compute, StepDone, SessionRefused>;

  /// Judges a step. After Compute the caller changes its cache, computes, and calls computed() before anything else.
  Verdict take(const SessionStep& step);

  /// The answer to the client, and the step that the next server of the chain is sent.
  struct Answer {
    StepDone done{};
    std::string next{};  ///< empty: this server is the last one
    SessionStep push{};
  };
  /// Notes the rows that came out of the step being computed, as many as went in.
  Answer computed(const Bulk& rows);

  /// Hears of a new epoch. After SessionReady the caller cuts its cache to length().
  std::variant<SessionReady, SessionRefused> take(const SessionEpoch& epoch);

  /// Returns the number of positions that the cache has of each sequence.
  [[nodiscard]] std::int64_t length() const { return length_; }
  [[nodiscard]] std::int64_t epoch() const { return epoch_; }
  [[nodiscard]] std::int64_t last() const { return last_; }
  [[nodiscard]] const OpenSession& opened() const& { return open_; }
  void opened() const&& = delete;

private:
  [[nodiscard]] bool is_well_formed(const SessionStep& step) const;

  OpenSession open_;
  Bytes row_bytes_;
  std::int64_t epoch_;
  std::int64_t last_;        // the last step that was taken
  std::int64_t length_ = 0;  // positions after it
  // What a step that was undone has kept and reordered.
  std::optional<std::pair<std::int64_t, std::vector<std::int64_t>>> prepared_;
  SessionStep step_{};  // the last step, without its rows
  std::optional<StepDone> kept_;
};

}  // namespace core
}  // namespace swarm
}  // namespace v0
}  // namespace reef

#ifndef REEF_COMPILED
#include <reef/swarm/core/served_session.ipp>
#endif
