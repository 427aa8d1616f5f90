#include "options.hpp"

#include <algorithm>
#include <filesystem>
#include <limits>

#include <reef/core/error.hpp>
#include <reef/swarm/average/part_codec.hpp>
#include <reef/swarm/net/keys.hpp>

#include "../support/input_files.hpp"
#include "../support/number_option.hpp"
#include "../support/tokenizer.hpp"

namespace reef_examples {

std::int64_t JobOptions::warmup_steps() const {
  return warmup >= 0 ? warmup : (std::min<std::int64_t>)(100, scheduled_steps() / 10);
}

std::string PeerOptions::archive_folder() const {
  if (!archive.empty() || job.export_file.empty()) return archive;
  return job.export_file + ".log";
}

std::string PeerOptions::checkpoint_folder() const {
  if (job.checkpoint_every == 0) return {};
  if (!checkpoints.empty()) return checkpoints;
  if (!job.export_file.empty()) return job.export_file + ".checkpoints";
  throw reef::OptionError("--checkpoint-every ", job.checkpoint_every,
                          ", and no folder for them.\n  fix: --checkpoints DIR, or --export, beside which it is.");
}

reef::swarm::TlsFiles tls_files(const std::string& folder, const std::string& name) {
  if (folder.empty()) return {};
  if (name.empty()) {
    throw reef::OptionError("--keys without --name.\n  why: the files of a certificate have its name.\n  fix: --name "
                            "NAME, such as reef-swarm keys issue was given.");
  }
  const std::filesystem::path place = folder;
  std::error_code ignored;
  reef::swarm::TlsFiles files{place / "ca.pem", place / (name + ".pem"), place / (name + ".key"), {}};
  if (std::filesystem::exists(place / "keys.json", ignored)) files.revoked = reef::swarm::Keys(place).revoked();
  return files;
}

reef::swarm::EndpointOptions PeerOptions::network() const {
  if (!plain_loopback && job.place.keys.empty()) {
    throw reef::OptionError(
        "neither --keys nor --plain-loopback.\n  why: peers encrypt what they send, unless they are on one "
        "machine.\n  fix: --keys DIR, of reef-swarm keys; or --plain-loopback.");
  }
  reef::swarm::EndpointOptions net;
  net.name = job.place.name;
  net.listen = listen;
  net.plain_loopback = plain_loopback;
  if (!plain_loopback) net.tls = tls_files(job.place.keys, job.place.name);
  return net;
}

reef::swarm::Deadlines PeerOptions::deadlines() const {
  if (suspect >= exchange) {
    throw reef::OptionError("--suspect ", suspect, " with --exchange ", exchange,
                            ".\n  why: a round waits for a contribution longer than a peer may be silent.\n"
                            "  fix: --exchange above --suspect.");
  }
  reef::swarm::Deadlines result;
  result.suspect = suspect;
  result.beat = (std::min)(result.beat, suspect / 8);
  result.exchange = exchange;
  result.round = (std::max)(result.round, 2 * exchange);
  result.start = start;
  return result;
}

reef::swarm::RemoteLogOptions LogPlace::options() const {
  if (log.empty() == keepers.empty()) {
    throw reef::OptionError(log.empty() ? "neither --log nor --keepers" : "--log and --keepers",
                            ".\n  why: a job has one log, of a log server or of keepers.\n  fix: --log URL, or "
                            "--keepers URL,URL,...");
  }
  reef::swarm::RemoteLogOptions result;
  result.servers = log.empty() ? keepers : std::vector<std::string>{log};
  result.tls = tls_files(keys, name);
  constexpr double time_of_several = 10;  // for attempts at some of them
  if (result.servers.size() > 1) result.time = time_of_several;
  return result;
}

namespace {

/// Returns a validator of texts that name the codecs of a job.
CLI::Validator codec_of_parts() {
  return CLI::Validator(
      [](const std::string& text) -> std::string {
        try {
          static_cast<void>(reef::swarm::PartCodec::of(text));
        } catch (const reef::Error& error) {
          return error.what();
        }
        return {};
      },
      "CODEC");
}

void add_place(CLI::App& app, LogPlace& place) {
  app.add_option("--log", place.log, "URL of the job's log, which reef-swarm log-server serves");
  app.add_option("--keepers", place.keepers, "URLs of the log's keepers, between commas: the next where one is away")
      ->delimiter(',');
  app.add_option("--keys", place.keys, "a folder with ca.pem, NAME.pem and NAME.key, of reef-swarm keys");
}

void add_archive(CLI::App& app, LogPlace& place) {
  app.add_option("--archive", place.archive,
                 "in place of --log and --keepers: the folder of a peer's archive, when that peer has ended");
}

void add_certificate_name(CLI::App& app, LogPlace& place) {
  app.add_option("--name", place.name, "with --keys: the name of the certificate");
}

}  // namespace

void add_job_options(CLI::App& app, JobOptions& o) {
  const CLI::Validator count = number_from<std::int64_t>(1, 1'000'000'000);
  const CLI::Validator amount = number_from<double>(0, 1e18);
  add_place(app, o.place);
  app.add_option("--recipe", o.recipe,
                 "averaged: all peers add the gradients of a round, and take one step; outer: each takes steps of its "
                 "own in a round, and all an outer step by how far they came (DiLoCo); sparse: outer with --codec "
                 "ef:0.95+chunk-top-k:64/4096+two-bit --outer-momentum 0, where these are not given (SparseLoCo)")
      ->check(CLI::IsMember({"averaged", "outer", "sparse"}))
      ->capture_default_str();
  app.add_option("--swap", o.swap, "none, or atom: the model's parts come to the device and go")
      ->check(CLI::IsMember({"none", "atom"}))
      ->capture_default_str();
  app.add_option("--codec", o.codec,
                 "of what peers send: fp32, or a CODEC of reef-train's --compress, as bf16 or blockwise8; or two, "
                 "CODEC,CODEC: of contributions, and of results")
      ->check(codec_of_parts())
      ->capture_default_str();
  app.add_option("--global-batch", o.global_batch, "micro-batches after which a round is closed; it may get some more")
      ->transform(number_from<std::int64_t>(1, 1'000'000))
      ->capture_default_str();
  app.add_option("--rounds", o.rounds, "rounds of the job, of which the learning rate's schedule is made")
      ->transform(count)
      ->required();
  app.add_option("--data", o.data, "text files, or files of tokens (.bin, .npy); default: Reef's own sources")
      ->check(readable_file());
  app.add_option("--tokenizer", o.tokenizer, reef::concat("how text becomes tokens: ", tokenizer_forms))
      ->capture_default_str();
  app.add_option("--layers", o.layers)->transform(count)->capture_default_str();
  app.add_option("--heads", o.heads)->transform(count)->capture_default_str();
  app.add_option("--channels", o.channels)->transform(count)->capture_default_str();
  app.add_option("--context", o.context, "T, tokens a sample")->transform(count)->capture_default_str();
  app.add_option("--batch", o.batch, "B, samples a micro-batch")->transform(count)->capture_default_str();
  app.add_option("--lr", o.lr, "peak learning rate")->transform(amount)->capture_default_str();
  app.add_option("--every", o.every,
                 "of outer: steps of a peer in a round, as the learning rate's schedule counts them; how many they are "
                 "--global-batch decides")
      ->transform(count)
      ->capture_default_str();
  app.add_option("--outer-lr", o.outer_lr, "of outer")
      ->transform(number_from<double>(0, 1000))
      ->capture_default_str();
  app.add_option("--outer-momentum", o.outer_momentum, "of outer: Nesterov's, below 1")
      ->transform(number_from<double>(0, 0.999999))
      ->capture_default_str();
  app.add_option("--warmup", o.warmup, "steps; default: min(100, a tenth of all)")
      ->transform(number_from<std::int64_t>(0, 1'000'000'000));
  app.add_option("--weight-decay", o.weight_decay)->transform(amount)->capture_default_str();
  app.add_option("--clip", o.clip, "largest gradient norm, 0 for none")->transform(amount)->capture_default_str();
  app.add_option("--seed", o.seed)
      ->transform(number_from<std::uint64_t>(0, (std::numeric_limits<std::uint64_t>::max)()))
      ->capture_default_str();
  app.add_option("--threads", o.threads, "default: all cores")->transform(number_from<int>(1, 1024));
  app.add_option("--device-memory", o.device_memory, "of --swap atom: bytes of the emulated device")
      ->transform(number_from<std::uint64_t>(0, 1'000'000'000'000'000'000U));
  app.add_option("--pace", o.pace, "least seconds of a micro-batch, where others are to have the rest of the machine")
      ->transform(number_from<double>(0, 3600))
      ->capture_default_str();
  app.add_option("--checkpoint-every", o.checkpoint_every,
                 "rounds after which peers compare their weights and optimizer's state, and keep them; 0: never")
      ->transform(number_from<std::int64_t>(0, 1'000'000'000))
      ->capture_default_str();
  app.add_option("--export", o.export_file,
                 "where to write the weights after the last round, .safetensors, and beside them config.json");
  app.final_callback([&app, &o] {
    if (o.recipe != "sparse") return;
    o.recipe = "outer";
    if (app.count("--codec") == 0) o.codec = "ef:0.95+chunk-top-k:64/4096+two-bit";
    if (app.count("--outer-momentum") == 0) o.outer_momentum = 0;
  });
}

void add_train(CLI::App& app, PeerOptions& o) {
  app.add_option("--job", o.job_name, "the job's name")->capture_default_str();
  app.add_option("--name", o.job.place.name, "this peer's name, unique in the job")->required();
  app.add_option("--listen", o.listen, "ADDRESS:PORT, port 0: any that is free")->capture_default_str();
  app.add_option("--advertise", o.advertise, "ADDRESS:PORT at which others reach this peer; default: where it listens");
  app.add_flag("--plain-loopback", o.plain_loopback, "without encryption, between processes of one machine");
  add_job_options(app, o.job);
  app.add_option("--data-from-peers", o.data_from_peers,
                 "in place of --data: a folder, new or of an earlier attempt, into which the job's data comes from "
                 "peers that have it")
      ->excludes("--data");
  app.add_option("--members", o.members, "peers that the first round waits for")
      ->transform(number_from<std::int64_t>(1, 1024))
      ->capture_default_str();
  app.add_option("--start", o.start, "seconds for which the first round waits for --members peers; 0: for ever")
      ->transform(number_from<double>(0, 1e6))
      ->capture_default_str();
  app.add_option("--suspect", o.suspect, "seconds of silence after which a peer is out of the view")
      ->transform(number_from<double>(0.5, 1e6))
      ->capture_default_str();
  app.add_option("--exchange", o.exchange,
                 "seconds after which a round goes on without a contribution that does not come")
      ->transform(number_from<double>(0.5, 1e6))
      ->capture_default_str();
  app.add_option("--metrics", o.metrics, "one JSON object a round, .jsonl");
  app.add_option("--report", o.report,
                 "one JSON object at the end, also after a signal: who came and went, micro-batches by peer, seconds "
                 "waited by cause, bytes");
  app.add_option("--archive", o.archive,
                 "the folder in which this peer keeps the job's log as it reads it; default, with --export: "
                 "EXPORT.log");
  app.add_option("--checkpoints", o.checkpoints,
                 "with --checkpoint-every: the folder in which this peer keeps its state, and from which it begins "
                 "when it has ended; default, with --export: EXPORT.checkpoints");
  app.add_option("--prometheus", o.prometheus,
                 "ADDRESS:PORT, a loopback one, port 0: any that is free: serves the same for Prometheus at /metrics");
}

void add_replay(CLI::App& app, JobOptions& o) {
  add_job_options(app, o);
  add_archive(app, o.place);
  add_certificate_name(app, o.place);
}

void add_log_commands(CLI::App& app, LogOptions& o) {
  const auto add_url = [&o](CLI::App* command) {
    add_place(*command, o.place);
    add_certificate_name(*command, o.place);
  };
  CLI::App* const server =
      app.add_subcommand("log-server", "Serves a job's log to this machine, or with --keys to others");
  server->add_option("--listen", o.listen, "ADDRESS:PORT, without --keys a loopback one, port 0: any that is free")
      ->capture_default_str();
  server->add_option("--dir", o.folder, "the folder that keeps the log")->required();
  server->add_flag("--cut", o.cut, "drops the entries before the last checkpoint but one; peers' archives keep all");
  server->add_option("--keys", o.place.keys, "a folder of reef-swarm keys: all is encrypted, and checked who asks");
  server->add_option("--name", o.place.name, "with --keys: the name of the certificate, a keeper's");
  CLI::App* const keeper =
      app.add_subcommand("keeper", "Keeps a job's log with other keepers, in an etcd of its own: a majority is enough");
  keeper->add_option("--name", o.place.name, "this keeper's name, that of its certificate")->required();
  keeper->add_option("--listen", o.listen, "ADDRESS:PORT at which peers ask, port 0: any that is free")
      ->capture_default_str();
  keeper->add_option("--cluster", o.cluster, "NAME=ADDRESS:PORT of each keeper's etcd, this one's too, between commas")
      ->delimiter(',')
      ->required();
  keeper->add_option("--dir", o.folder, "the folder of this keeper's data, its own")->required();
  keeper->add_option("--keys", o.place.keys, "a folder with ca.pem, NAME.pem and NAME.key, of reef-swarm keys")
      ->required();
  keeper->add_option("--etcd", o.etcd, "etcd, of the package etcd-server: a path, or a name in PATH")
      ->capture_default_str();
  CLI::App* const log =
      app.add_subcommand("log", "Tells what a job's log says: members, rounds, and its account of micro-batches");
  add_url(log);
  add_archive(*log, o.place);
  log->add_flag("--json", o.json, "as one JSON object");
  CLI::App* const rollback =
      app.add_subcommand("rollback", "Takes a job back to an earlier round, where nobody has the later ones");
  add_url(rollback);
  rollback->add_option("--rounds", o.rounds, "rounds that stay committed")
      ->transform(number_from<std::int64_t>(0, 1'000'000'000))
      ->required();
  rollback->add_option("--why", o.why, "the reason, for the log")->capture_default_str();
}

void add_keys(CLI::App& app, KeysOptions& o) {
  CLI::App* const keys = app.add_subcommand("keys", "Keeps a job's private CA: who has a certificate of it can join");
  keys->require_subcommand(1);
  const auto command = [&](const char* name, const char* text) {
    CLI::App* const one = keys->add_subcommand(name, text);
    one->add_option("--dir", o.folder, "the CA's folder")->required();
    return one;
  };
  command("make", "Makes a CA")->add_option("--job", o.job, "the job's name")->required();
  CLI::App* const issue = command("issue", "Issues a certificate: NAME.pem and NAME.key");
  issue->add_option("--name", o.name)->required();
  issue->add_option("--role", o.role)->check(CLI::IsMember({"peer", "keeper", "client"}))->capture_default_str();
  issue->add_option("--host", o.hosts, "name or address that a keeper is reached by");
  command("revoke", "Revokes a certificate")->add_option("--name", o.name, "a name, or a serial number")->required();
  command("list", "Lists what is issued");
}

}  // namespace reef_examples
