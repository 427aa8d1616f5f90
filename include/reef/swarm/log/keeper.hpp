#pragma once

#include <cstdint>
#include <filesystem>
#include <iosfwd>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <reef/swarm/net/endpoint_options.hpp>
#include <reef/swarm/net/identity.hpp>

namespace reef {
inline namespace v0 {
namespace swarm {

/// The settings of a Keeper.
struct KeeperOptions {
  std::string listen = "127.0.0.1:0";  ///< ADDRESS:PORT at which peers ask; port 0: any that is free
  std::vector<std::string> members{};  ///< NAME=ADDRESS:PORT of each keeper's etcd, this one's included
  std::filesystem::path folder{};      ///< for etcd's data, and what etcd prints: this keeper's alone
  TlsFiles tls{};                      ///< of a keeper, whose name is this member's
  std::filesystem::path keys{};        ///< of serve_keeper: a CA's folder, whose list of what is revoked is followed
  std::string etcd = "etcd";           ///< the program: a path, or a name in PATH
  double rate = 200;                   ///< LogServerOptions::rate
  bool any_text = false;               ///< LogServerOptions::any_text
};

/// One of three or five keepers of a job's log: an etcd, and before it a LogServer, the only one that has etcd's key.
///
///     peers --mutual TLS, entries checked--> LogServer --mutual TLS, 127.0.0.1--> etcd <--mutual TLS--> other etcds
///
/// | etcd    | a process of its own, with its own data and a port of 127.0.0.1, which ends with the Keeper; where |
/// |         | the Keeper's thread is killed, so is etcd. A Keeper with the same folder goes on where the last one |
/// |         | ended                                                                                               |
/// | members | find each other by `members`, which is read when the folder is new, and is then etcd's own          |
/// | who     | etcd's port for clients takes the certificate of a CA that the Keeper makes anew in its folder, so  |
/// |         | that nobody else has one; that for other etcds takes those of keepers (host keeper.reef, which Keys |
/// |         | gives to that role alone)                                                                           |
/// | answers | 503 until a majority of the members runs, and while none does: RemoteLog then asks another keeper   |
/// | threads | made and destroyed on one thread, which lives as long                                               |
/// | errors  | OptionError: members, certificates, no etcd; those of LogServer; Error: etcd cannot be started      |
///
/// Source: etcd 3.4, its flags of clustering and of security.
///
/// \code
/// // given: const swarm::Keys& keys
/// swarm::Keeper keeper({.listen = "10.0.0.1:4100",
///                       .members = {"k1=10.0.0.1:4101", "k2=10.0.0.2:4101", "k3=10.0.0.3:4101"},
///                       .folder = "keeper",
///                       .tls = keys.files("k1")});
/// const std::string url = keeper.url();  // "https://10.0.0.1:4100"
/// \endcode
class Keeper {
public:
  explicit Keeper(const KeeperOptions& options);
  ~Keeper();
  Keeper(const Keeper&) = delete;
  Keeper& operator=(const Keeper&) = delete;

  [[nodiscard]] std::uint16_t port() const;
  [[nodiscard]] std::string url() const;

  /// Returns why etcd has ended by itself, with what it printed last; empty while it runs.
  [[nodiscard]] std::string why_ended();

  /// Refuses certificates with these serial numbers from now on.
  void set_revoked(std::vector<std::string> serials);

private:
  struct State;
  std::unique_ptr<State> state_;
};

/// Keeps a log until SIGINT or SIGTERM, as `reef-swarm keeper` does, and returns 0.
///
/// | prints | the port and a newline on `out`, when peers can connect                                          |
/// | who    | the main thread, before it has started others: the signals are blocked in all threads from then  |
/// | errors | Keeper's; Error where etcd ends by itself                                                        |
///
/// \code
/// // given: const swarm::KeeperOptions& options, std::ostream& out
/// const int status = swarm::serve_keeper(options, out);
/// \endcode
int serve_keeper(const KeeperOptions& options, std::ostream& out);

namespace detail {

/// Returns the flags by which a keeper of this identity starts etcd, which serves clients at `port` of 127.0.0.1 by the
/// files `client`. Throws OptionError for members that are none, double, or without the keeper's name.
std::vector<std::string> etcd_flags(const KeeperOptions& options, const Identity& own, std::uint16_t port,
                                    const TlsFiles& client);

}  // namespace detail

}  // namespace swarm
}  // namespace v0
}  // namespace reef

#ifndef REEF_COMPILED
#include <reef/swarm/log/keeper.ipp>
#endif
