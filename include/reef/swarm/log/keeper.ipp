#pragma once

#include <algorithm>
#include <optional>
#include <ostream>
#include <set>
#include <utility>

#include <reef/core/error.hpp>
#include <reef/core/inline.hpp>
#include <reef/core/text.hpp>
#include <reef/io/atomic_file.hpp>
#include <reef/swarm/log/detail/end_signals.hpp>
#include <reef/swarm/log/detail/http_address.hpp>
#include <reef/swarm/log/detail/own_process.hpp>
#include <reef/swarm/log/etcd_log.hpp>
#include <reef/swarm/log/keeper.hpp>
#include <reef/swarm/log/log_server.hpp>
#include <reef/swarm/net/detail/tls.hpp>
#include <reef/swarm/net/keys.hpp>

namespace reef {
inline namespace v0 {
namespace swarm {
namespace detail {

inline constexpr std::string_view keeper_who = "reef::swarm: a keeper";

REEF_INLINE std::vector<std::string> etcd_flags(const KeeperOptions& options, const Identity& own, std::uint16_t port,
                                                const TlsFiles& client) {
  std::string cluster;
  std::string peers;
  std::set<std::string> names;
  for (const std::string& member : options.members) {
    const std::size_t equals = (std::min)(member.find('='), member.size());
    const std::string of = member.substr(0, equals);
    if (!is_name(of) || equals == member.size() || !names.insert(of).second) {
      throw OptionError(keeper_who, ": ", in_quotes(member),
                        " is no member, or there are two of its name.\n  fix: NAME=ADDRESS:PORT, such as "
                        "k1=10.0.0.1:4101.");
    }
    HttpAddress at = parse_address(std::string_view(member).substr(equals + 1), keeper_who);
    at.tls = true;
    require_safe(at, true, keeper_who, {});
    cluster += concat(cluster.empty() ? "" : ",", of, "=", url_of(at));
    if (of == own.name) peers = url_of(at);
  }
  if (peers.empty()) {
    throw OptionError(keeper_who, ": ", in_quotes(own.name), ", the name of the certificate, is none of the members.",
                      "\n  fix: NAME=ADDRESS:PORT of all keepers, this one included.");
  }
  const std::string clients = concat("https://127.0.0.1:", port);
  return {"--name", own.name, "--data-dir", (options.folder / "etcd").string(),
          "--listen-client-urls", clients, "--advertise-client-urls", clients,
          "--listen-peer-urls", peers, "--initial-advertise-peer-urls", peers,
          "--initial-cluster", cluster, "--initial-cluster-state", "new",
          "--initial-cluster-token", concat("reef-", own.job),
          "--cert-file", client.certificate.string(), "--key-file", client.key.string(),
          "--trusted-ca-file", client.authority.string(), "--client-cert-auth",
          "--peer-cert-file", options.tls.certificate.string(), "--peer-key-file", options.tls.key.string(),
          "--peer-trusted-ca-file", options.tls.authority.string(), "--peer-client-cert-auth",
          "--peer-cert-allowed-hostname", std::string(keeper_host),
          "--auto-compaction-mode", "periodic", "--auto-compaction-retention", "1h",
          "--logger", "zap", "--log-outputs", "stderr", "--log-level", "warn"};
}

}  // namespace detail

struct Keeper::State {
  /// Less than the time of an attempt of RemoteLog, which asks another keeper then.
  static constexpr Seconds time = 1.5;

  explicit State(const KeeperOptions& options) {
    const Identity own = detail::TlsContext(options.tls).identity();
    const std::filesystem::path program =
        detail::find_program(options.etcd, detail::keeper_who,
                             "apt-get install etcd-server, or the path of an etcd of 3.4 or later, by --etcd.");
    const std::uint16_t port = detail::free_loopback_port();
    (void)detail::etcd_flags(options, own, port, {});  // refuses what cannot be before anything is written
    LogServerOptions server_options;
    server_options.listen = options.listen;
    server_options.tls = options.tls;
    server_options.rate = options.rate;
    server_options.any_text = options.any_text;
    const TlsFiles client = client_files(options.folder, own);
    log.emplace(EtcdLogOptions{
        .keepers = {concat("https://127.0.0.1:", port)}, .job = own.job, .time = time, .tls = client});
    server.emplace(server_options, *log, *log);
    etcd.emplace(program, detail::etcd_flags(options, own, port, client), options.folder / "etcd.txt");
  }

  /// Makes a CA whose one certificate is that of etcd and of its only client.
  static TlsFiles client_files(const std::filesystem::path& folder, const Identity& own) {
    const std::filesystem::path keys = folder / "etcd-client";
    io::create_folders(folder);
    std::error_code ignored;
    std::filesystem::remove_all(keys, ignored);
    Keys made = Keys::make(keys, own.job);
    made.issue("keeper", own.name);
    return made.files(own.name);
  }

  std::optional<detail::OwnProcess> etcd;
  std::optional<EtcdLog> log;
  std::optional<LogServer> server;
};

REEF_INLINE Keeper::Keeper(const KeeperOptions& options) : state_(std::make_unique<State>(options)) {}

REEF_INLINE Keeper::~Keeper() = default;

REEF_INLINE std::uint16_t Keeper::port() const { return state_->server->port(); }

REEF_INLINE std::string Keeper::url() const { return state_->server->url(); }

REEF_INLINE std::string Keeper::why_ended() { return state_->etcd->why_ended(); }

REEF_INLINE void Keeper::set_revoked(std::vector<std::string> serials) {
  state_->server->set_revoked(std::move(serials));
}

REEF_INLINE int serve_keeper(const KeeperOptions& options, std::ostream& out) {
  const detail::EndSignals ends;
  Keeper keeper(options);
  out << keeper.port() << std::endl;
  constexpr Seconds pause = 0.5;
  std::vector<std::string> revoked = options.tls.revoked;
  std::string unread;  // why the list could not be read the last time
  while (!ends.wait(pause)) {
    if (const std::string why = keeper.why_ended(); !why.empty()) {
      throw Error(detail::keeper_who, ": etcd ", why, "\n  fix: what etcd says, in ",
                  (options.folder / "etcd.txt").string(), ".");
    }
    std::error_code ignored;
    if (options.keys.empty() || !std::filesystem::exists(options.keys / "keys.json", ignored)) continue;
    try {
      if (std::vector<std::string> now = Keys(options.keys).revoked(); now != revoked) {
        keeper.set_revoked(now);
        revoked = std::move(now);
      }
      unread.clear();
    } catch (const Error& error) {  // a file that is being copied, for instance: who was revoked stays so
      if (unread != error.what()) out << error.what() << std::endl;
      unread = error.what();
    }
  }
  return 0;
}

}  // namespace swarm
}  // namespace v0
}  // namespace reef
