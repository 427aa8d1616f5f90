#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include <reef/core/text.hpp>
#include <reef/swarm/log/blocking_log.hpp>
#include <reef/swarm/log/chained_log.hpp>
#include <reef/swarm/log/keeper.hpp>
#include <reef/swarm/log/remote_log.hpp>
#include <reef/swarm/net/keys.hpp>

#include "etcd.hpp"
#include "temporary_folder.hpp"

namespace reef::test {

/// A log of servers with TLS, in which entries are chained and signed.
struct ChainedClient {
  explicit ChainedClient(const swarm::RemoteLogOptions& options) : remote(options), log(remote, {.tls = options.tls}) {}

  swarm::RemoteLog remote;
  swarm::ChainedLog log;
};

/// Keepers of a job of their own, in this process: keeper-0 and so on. The peers a and b, and the client `operator`,
/// have certificates.
class KeeperCluster {
public:
  explicit KeeperCluster(std::size_t count, bool any_text = false, double rate = 1000)
      : keys(swarm::Keys::make(folder_ / "keys", "job")), keepers_(count), listen_(count, "127.0.0.1:0") {
    for (const char* peer : {"a", "b"}) keys.issue("peer", peer);
    keys.issue("client", "operator");
    options_.any_text = any_text;
    options_.rate = rate;
    for (std::size_t i = 0; i < count; ++i) {
      keys.issue("keeper", name_of(i));
      options_.members.push_back(concat(name_of(i), "=127.0.0.1:", free_port()));
    }
    for (std::size_t i = 0; i < count; ++i) start(i);
  }

  void start(std::size_t i) {
    swarm::KeeperOptions options = options_;
    options.listen = listen_[i];
    options.folder = folder_ / name_of(i);
    options.tls = keys.files(name_of(i));
    keepers_[i] = std::make_unique<swarm::Keeper>(options);
    listen_[i] = concat("127.0.0.1:", keepers_[i]->port());
  }
  void end(std::size_t i) { keepers_[i].reset(); }

  [[nodiscard]] swarm::Keeper& at(std::size_t i) { return *keepers_[i]; }
  [[nodiscard]] std::size_t size() const { return keepers_.size(); }
  [[nodiscard]] std::vector<std::string> urls() const {
    std::vector<std::string> all;
    for (const std::string& one : listen_) all.push_back("https://" + one);
    return all;
  }
  [[nodiscard]] std::unique_ptr<swarm::RemoteLog> client(const std::string& name, Seconds time = 30) const {
    return std::make_unique<swarm::RemoteLog>(
        swarm::RemoteLogOptions{.servers = urls(), .tls = keys.files(name), .time = time});
  }

  /// Returns a client that signs what it appends, and checks what it reads.
  [[nodiscard]] std::unique_ptr<ChainedClient> chained(const std::string& name, Seconds time = 30) const {
    return std::make_unique<ChainedClient>(
        swarm::RemoteLogOptions{.servers = urls(), .tls = keys.files(name), .time = time});
  }

  /// Waits until the cluster answers; false where it does not for half a minute.
  [[nodiscard]] bool answers() const {
    const auto log = client("operator", 30);
    return swarm::BlockingLog(*log).page(0).answered;
  }

  static std::string name_of(std::size_t i) { return concat("keeper-", i); }

private:
  TemporaryFolder folder_;

public:
  swarm::Keys keys;

private:
  swarm::KeeperOptions options_;
  std::vector<std::unique_ptr<swarm::Keeper>> keepers_;
  std::vector<std::string> listen_;
};

}  // namespace reef::test
