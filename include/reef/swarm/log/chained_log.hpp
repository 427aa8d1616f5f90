#pragma once

#include <filesystem>
#include <memory>
#include <string>

#include <reef/core/units.hpp>
#include <reef/swarm/log/decision_log.hpp>
#include <reef/swarm/log/envelope.hpp>
#include <reef/swarm/net/endpoint_options.hpp>

namespace reef {
inline namespace v0 {
namespace swarm {

/// The settings of a ChainedLog.
struct ChainedLogOptions {
  TlsFiles tls{};     ///< who signs entries, and the CA by which those of others are verified; empty: no signatures
  Seconds audit = 5;  ///< the least time between two checks of entries that were read before; 0: one for each new entry
  /// The folder of a LocalLog that gets each text as it is read first, envelopes included; empty: none.
  std::filesystem::path archive{};
};

/// A replicated log whose entries are bound to each other, and to their authors: each carries the digest of the entry
/// before, and with keys a signature (LogEnvelope). Appends make envelopes, reads and watches check them and give the
/// entries, over any DecisionLog.
///
/// | broken   | a text without an envelope, with another digest of the entry before, or with keys without a valid     |
/// |          | signature of the entry's author by a certificate of the job's CA: it stands at its index, and is      |
/// |          | given as a text of the kind "unreadable", which core::apply ignores and counts on every reader alike  |
/// | tampered | an entry that was read before is another one now, or is gone; or a validly signed one follows another |
/// |          | entry than stands there. Then tampering() says which, appends are `unknown` and pages unanswered with |
/// |          | that reason, and watches give nothing more                                                            |
/// | audit    | with new entries, at most every `audit` seconds, a page of those that were read before is read again, |
/// |          | one page after the other; what is asked of the end of the log is compared each time                   |
/// | dropped  | what the log has dropped before this client has read it is not compared; the first entry that is kept |
/// |          | says the digest of the one before                                                                     |
/// | unseen   | entries that were cut off the end of the log before this client has read them                         |
/// | archive  | is read at the begin, as if its texts had been read of the log: so what was changed since an earlier  |
/// |          | process has read it is found as well. A ChainedLog over LocalLog(archive) reads it without the log    |
/// | entries  | max_chained_entry_bytes at most, as a job's are: with the envelope they fit into max_entry_bytes      |
/// | cost     | with keys an append one signature, an entry that is read one verification, each of P-256; 32 bytes of |
/// |          | memory an entry; an append whose entry before was not read reads that first                           |
/// | end      | the log beneath outlives this object, and answers what is open when it ends                           |
/// | errors   | OptionError from the constructor: files that cannot be used; LocalLog's, of the archive; from append  |
/// |          | as DecisionLog                                                                                        |
///
/// \code
/// #include <reef/swarm/log/blocking_log.hpp>
/// #include <reef/swarm/log/remote_log.hpp>
/// // given: const swarm::TlsFiles& files
/// swarm::RemoteLog kept({.servers = {"https://10.0.0.1:4100"}, .tls = files});
/// swarm::ChainedLog log(kept, {.tls = files});
/// const std::vector<std::string> all = swarm::BlockingLog(log).read(0);  // throws where the log was tampered with
/// \endcode
class ChainedLog final : public DecisionLog {
public:
  explicit ChainedLog(DecisionLog& log, const ChainedLogOptions& options = {});
  ~ChainedLog() override;

  void append(LogIndex at, std::string entry, AppendDone done) override;
  void read(LogIndex from, ReadDone done) override;
  [[nodiscard]] LogWatch watch(LogIndex from, EntryFound found) override;
  void drop(LogIndex before) override;
  [[nodiscard]] std::string tampering() const override;

  /// Returns why the archive lacks entries, such as a full disk; empty where it has all that were read.
  [[nodiscard]] std::string archive_failure() const;

private:
  struct State;
  std::shared_ptr<State> state_;
};

static_assert(decision_log<ChainedLog>);

}  // namespace swarm
}  // namespace v0
}  // namespace reef

#ifndef REEF_COMPILED
#include <reef/swarm/log/chained_log.ipp>
#endif
