#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include <reef/swarm/core/message.hpp>

namespace reef {
inline namespace v0 {
namespace swarm {

/// \file
/// Messages between the client of a session and the servers that compute its rows. A row is the hidden state of one
/// token of one sequence at a boundary between blocks (layers) of a model. Rows of a batch of B sequences travel as
/// (B, rows, bytes of a row), sequence by sequence.

/// The most sequences of a session: a step's order of more is refused.
inline constexpr std::int64_t max_session_batch = 1024;

/// The blocks [first, last) of a model.
struct BlockRange {
  std::int64_t first = 0;
  std::int64_t last = 0;

  [[nodiscard]] std::int64_t count() const { return last - first; }
  friend bool operator==(const BlockRange&, const BlockRange&) = default;
};

/// A server further down the chain of a step, to which the server before it sends its rows (push).
struct NextHop {
  std::string server{};
  std::string session{};  ///< the session's name at this server
  bool whole = false;     ///< true: this server has no rows yet, and gets those of all positions
  bool answers_whole =
      false;  ///< true: it answers with the rows of all positions, not only with the new ones

  friend bool operator==(const NextHop&, const NextHop&) = default;
};

/// A request for room for a session: its blocks of the model, and the largest number of positions.
struct OpenSession {
  std::string
      session{};  ///< drawn by the client, unique: another one at each server, and each time that it is opened
  std::int64_t epoch = 0;
  std::string model{};  ///< digest of the model's weights
  BlockRange blocks{};
  std::int64_t batch = 1;       ///< number of sequences
  std::int64_t max_length = 0;  ///< the most positions of a sequence
  std::int64_t step = 0;        ///< the last step that the client has accepted

  friend bool operator==(const OpenSession&, const OpenSession&) = default;
};

/// A step of a session: keep the first `keep` positions, reorder the sequences, and append `rows` positions to each.
struct SessionStep {
  std::string session{};
  std::int64_t epoch = 0;
  std::int64_t step = 0;  ///< 1, 2, ...
  std::int64_t keep = 0;  ///< positions that stay; the position of the first new row
  std::vector<std::int64_t>
      reorder{};          ///< sequence i goes on from sequence reorder[i]; empty: from itself
  std::int64_t rows = 0;  ///< new positions of each sequence
  bool whole =
      false;  ///< true: `bytes` are the rows of all keep + rows positions, after reordering
  bool answers_whole = false;  ///< true: the answer is the rows of all positions
  std::vector<NextHop> next{};
  Bulk bytes{};

  friend bool operator==(const SessionStep&, const SessionStep&) = default;
};

/// The answer to a step, sent to the client.
struct StepDone {
  std::string session{};
  std::int64_t epoch = 0;
  std::int64_t step = 0;
  std::uint32_t input = 0;  ///< CRC-32C of the rows that the server was given
  Bulk bytes{};

  friend bool operator==(const StepDone&, const StepDone&) = default;
};

/// The reason for which a server does not do what a session asks for.
///
/// | step      | the step is neither the next one nor the last                   |
/// | epoch     | it is of another epoch of the chain than the server was told of |
/// | unknown   | there is no such session here, or no more                       |
/// | room      | no pages are free for so many positions                         |
/// | evicted   | the session's pages were given to others                        |
/// | model     | the server has other weights, or not these blocks               |
/// | overload  | too many sessions wait                                          |
/// | draining  | the server ends soon, and takes no new sessions                 |
/// | malformed | the request contradicts itself: an error of the client          |
enum class SessionRefusal : std::uint8_t {
  step,
  epoch,
  unknown,
  room,
  evicted,
  model,
  overload,
  draining,
  malformed
};

/// Returns the name of a reason: "step", "epoch", ...
std::string_view name_of(SessionRefusal refusal);

/// The answer to a request that a server does not fulfil. `epoch` and `step` are those of the request.
struct SessionRefused {
  std::string session{};
  std::int64_t epoch = 0;
  std::int64_t step = 0;  ///< 0: of opening, or of a new epoch
  SessionRefusal why = SessionRefusal::step;

  friend bool operator==(const SessionRefused&, const SessionRefused&) = default;
};

/// Tells a server that stays in a session's chain that the chain has changed, and which step of this server's the
/// client has accepted last: a later one is undone.
struct SessionEpoch {
  std::string session{};
  std::int64_t epoch = 0;
  std::int64_t step = 0;

  friend bool operator==(const SessionEpoch&, const SessionEpoch&) = default;
};

/// The answer to OpenSession and SessionEpoch: the server is in the chain of this epoch, and has the rows of `length`
/// positions.
struct SessionReady {
  std::string session{};
  std::int64_t epoch = 0;
  std::int64_t length = 0;

  friend bool operator==(const SessionReady&, const SessionReady&) = default;
};

/// Ends a session: its pages go to others. Only the client that has opened the session may.
struct CloseSession {
  std::string session{};

  friend bool operator==(const CloseSession&, const CloseSession&) = default;
};

/// A message of a session, to a server or to the client.
using SessionMessage = std::variant<OpenSession, SessionStep, StepDone, SessionRefused,
                                    SessionEpoch, SessionReady, CloseSession>;

}  // namespace swarm
}  // namespace v0
}  // namespace reef

#ifndef REEF_COMPILED
#include <reef/swarm/core/session_message.ipp>
#endif
