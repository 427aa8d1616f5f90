#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>

#include <reef/comm/stop_request.hpp>
#include <reef/swarm/average/shard_files.hpp>
#include <reef/swarm/core/deadlines.hpp>
#include <reef/swarm/log/remote_log.hpp>
#include <reef/swarm/net/endpoint_options.hpp>

namespace reef_examples {

/// Returns the files of mutual TLS of a name in a folder of `reef-swarm keys`, with the list of what is revoked, where
/// the folder has one; none where `folder` is empty.
reef::swarm::TlsFiles tls_files(const std::string& folder, const std::string& name);

/// Where a job's log is, and the certificate of who asks. Zero or empty: not given.
struct LogPlace {
  std::string log;                   ///< URL
  std::vector<std::string> keepers;  ///< URLs
  std::string keys;                  ///< a folder
  std::string name;
  std::string archive;               ///< a folder, of commands that read

  /// Throws OptionError unless there is one of log and keepers.
  [[nodiscard]] reef::swarm::RemoteLogOptions options() const;
};

/// The options of what is trained, equal for all peers of a job and for its replay. Zero or empty: not given.
struct JobOptions {
  LogPlace place;
  std::string recipe = "averaged";  ///< averaged or outer; sparse is outer with other defaults
  std::string swap = "none";
  std::string codec = "fp32";
  std::int64_t global_batch = 8;
  std::int64_t rounds = 0;
  std::vector<std::string> data;
  std::string tokenizer = "bytes";
  std::int64_t layers = 4, heads = 4, channels = 128;
  std::int64_t context = 128;
  std::int64_t batch = 8;
  double lr = 3e-3;
  std::int64_t warmup = -1;
  double weight_decay = 0.1;
  double clip = 1.0;
  std::int64_t checkpoint_every = 0;  ///< rounds; 0: no checkpoints
  std::int64_t every = 50;  ///< of recipe outer, as what follows
  double outer_lr = 0.7;
  double outer_momentum = 0.9;
  std::uint64_t seed = 1;

  int threads = 0;                  ///< 0: those of the device's default
  std::uint64_t device_memory = 0;  ///< bytes
  double pace = 0;                  ///< seconds
  std::string export_file;

  /// Returns the steps of the whole job that the schedule of the learning rate counts, and those of its warm-up.
  [[nodiscard]] std::int64_t scheduled_steps() const { return recipe == "outer" ? rounds * every : rounds; }
  [[nodiscard]] std::int64_t warmup_steps() const;
};

/// The options of `reef-swarm train`.
struct PeerOptions {
  JobOptions job;
  std::string job_name = "reef";
  std::string listen = "127.0.0.1:0";
  std::string advertise;
  bool plain_loopback = false;
  std::int64_t members = 1;
  double suspect = 2.5;
  double exchange = 30;
  double start = 600;
  std::string metrics;
  std::string report;
  std::string prometheus;
  std::string data_from_peers;  ///< a folder
  std::string archive;          ///< a folder
  std::string checkpoints;      ///< a folder

  std::shared_ptr<const reef::swarm::ShardFiles> shards;  ///< of data that came from peers

  /// Returns the network settings of this peer, but the job. Throws OptionError for neither keys nor --plain-loopback.
  [[nodiscard]] reef::swarm::EndpointOptions network() const;
  /// Throws OptionError that names the options whose order is wrong.
  [[nodiscard]] reef::swarm::Deadlines deadlines() const;
  /// Returns the folder in which this peer archives the log: --archive, or beside --export; empty if there is neither.
  [[nodiscard]] std::string archive_folder() const;
  /// Returns the folder in which this peer keeps its state for checkpoints: --checkpoints, or beside --export. Throws
  /// OptionError for a job with checkpoints, and neither.
  [[nodiscard]] std::string checkpoint_folder() const;
};

/// The options of the commands that read and write a job's log.
struct LogOptions {
  LogPlace place;
  std::string listen = "127.0.0.1:0";
  std::string folder;
  bool cut = false;
  std::vector<std::string> cluster;  ///< NAME=ADDRESS:PORT
  std::string etcd = "etcd";
  std::int64_t rounds = 0;
  std::string why = "an operator's rollback";
  bool json = false;
};

/// The options of `reef-swarm keys`.
struct KeysOptions {
  std::string folder;
  std::string job;
  std::string name;
  std::string role = "peer";
  std::vector<std::string> hosts;
};

void add_job_options(CLI::App& app, JobOptions& options);
void add_train(CLI::App& app, PeerOptions& options);
void add_replay(CLI::App& app, JobOptions& options);
void add_log_commands(CLI::App& app, LogOptions& options);
void add_keys(CLI::App& app, KeysOptions& options);

// The commands, by name. Each returns an exit status, and throws what it cannot do.

int run_train(const PeerOptions& options, const reef::comm::StopRequest& stop);
int run_train_atom(const PeerOptions& options, const reef::comm::StopRequest& stop);
int run_train_outer(const PeerOptions& options, const reef::comm::StopRequest& stop);
int run_replay(const JobOptions& options, const reef::comm::StopRequest& stop);
int run_replay_atom(const JobOptions& options, const reef::comm::StopRequest& stop);
int run_replay_outer(const JobOptions& options, const reef::comm::StopRequest& stop);
int run_log_server(const LogOptions& options);
int run_keeper(const LogOptions& options);
int run_log(const LogOptions& options);
int run_rollback(const LogOptions& options);
int run_keys_make(const KeysOptions& options);
int run_keys_issue(const KeysOptions& options);
int run_keys_revoke(const KeysOptions& options);
int run_keys_list(const KeysOptions& options);

}  // namespace reef_examples
