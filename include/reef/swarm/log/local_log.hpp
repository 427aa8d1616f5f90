#pragma once

#include <filesystem>
#include <memory>
#include <string>

#include <reef/core/units.hpp>
#include <reef/swarm/log/decision_log.hpp>

namespace reef {
inline namespace v0 {
namespace swarm {

/// A replicated log's entries in a file of one machine, for one process: the storage of a LogServer, and enough for a
/// single peer.
///
/// | file   | FOLDER/decisions.log; its layout is in log/detail/log_file.hpp                                      |
/// | won    | after the entry's bytes are durable (fdatasync): kill -9 and power cuts lose nothing that was won   |
/// | opened | again: a write that a crash cut off is removed; damage elsewhere is refused, with the entry's index |
/// | drop   | rewrites the file with what is kept, which a crash leaves whole either way                          |
/// | lock   | io::DirectoryLock on the folder; `patience` seconds are waited for another process to end           |
/// | cost   | an append one fdatasync, on the thread of the log; 8 bytes of memory an entry                       |
/// | errors | FileError, DecodeError from the constructor; `unknown` with the reason where the disk fails         |
///
/// \code
/// #include <reef/swarm/log/blocking_log.hpp>
/// swarm::LocalLog log("job.log");  // a folder
/// swarm::BlockingLog(log).append(log.size(), R"({"kind":"view"})");
/// \endcode
class LocalLog final : public DecisionLog {
public:
  explicit LocalLog(const std::filesystem::path& folder, Seconds patience = 0);
  ~LocalLog() override;

  void append(LogIndex at, std::string entry, AppendDone done) override;
  void read(LogIndex from, ReadDone done) override;
  [[nodiscard]] LogWatch watch(LogIndex from, EntryFound found) override;
  void drop(LogIndex before) override;

  /// Returns the number of entries that were appended to the log, those that were dropped included.
  [[nodiscard]] LogIndex size() const;

  /// Returns the number of bytes of an incomplete last write that were removed when the log was opened.
  [[nodiscard]] Bytes cut() const;

private:
  struct State;
  std::unique_ptr<State> state_;
};

static_assert(decision_log<LocalLog>);

}  // namespace swarm
}  // namespace v0
}  // namespace reef

#ifndef REEF_COMPILED
#include <reef/swarm/log/local_log.ipp>
#endif
