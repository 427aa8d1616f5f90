// Trains a GPT among processes that come and go, and tells and replays what they did.
//
//   reef-swarm log-server --listen 127.0.0.1:4100 --dir /tmp/job.log &
//   reef-swarm train --log http://127.0.0.1:4100 --name a --plain-loopback --rounds 50
//
// `reef-swarm --help` lists the commands, `reef-swarm COMMAND --help` the options of one.

#include <signal.h>

#include <cstdio>
#include <exception>
#include <string>

#include <CLI/CLI.hpp>

#include <reef/comm/stop_request.hpp>
#include <reef/core/error.hpp>
#include <reef/core/version.hpp>

#include "../support/standard_output.hpp"
#include "data.hpp"
#include "options.hpp"
#include "served.hpp"

namespace {

using namespace reef_examples;

/// The exit status for options that cannot be.
constexpr int refused_status = 2;

void tell(const std::string& what) {
  std::fprintf(stderr, "reef-swarm: %s\n", what.c_str());
  std::fflush(stderr);
}

/// Throws OptionError for a recipe that does not swap.
void require_swap(const JobOptions& job) {
  if (job.recipe != "outer" || job.swap == "none") return;
  throw reef::OptionError("--recipe outer with --swap ", job.swap,
                          ": this program has it without.\n  fix: --swap none; or in C++ swarm::OuterRounds with a "
                          "trainer that swaps.");
}

int run(const CLI::App& app, PeerOptions& peer, const JobOptions& replay, const LogOptions& log,
        const KeysOptions& keys, const ServeOptions& serve, const TextOptions& text) {
  if (app.got_subcommand("generate")) return run_generate(text);
  if (app.got_subcommand("log-server")) return run_log_server(log);
  if (app.got_subcommand("keeper")) return run_keeper(log);
  if (app.got_subcommand("log")) return run_log(log);
  if (app.got_subcommand("rollback")) return run_rollback(log);
  if (app.got_subcommand("keys")) {
    const CLI::App& all = *app.get_subcommand("keys");
    if (all.got_subcommand("make")) return run_keys_make(keys);
    if (all.got_subcommand("issue")) return run_keys_issue(keys);
    if (all.got_subcommand("revoke")) return run_keys_revoke(keys);
    return run_keys_list(keys);
  }
  const reef::comm::StopRequest stop;
  if (app.got_subcommand("serve")) return run_serve(serve, stop);
  const bool replays = app.got_subcommand("replay");
  const JobOptions& job = replays ? replay : peer.job;
  require_swap(job);
  if (!replays && !peer.data_from_peers.empty()) fetch_data(peer, stop);
  if (job.recipe == "outer") return replays ? run_replay_outer(replay, stop) : run_train_outer(peer, stop);
  if (replays) return replay.swap == "atom" ? run_replay_atom(replay, stop) : run_replay(replay, stop);
  return peer.job.swap == "atom" ? run_train_atom(peer, stop) : run_train(peer, stop);
}

}  // namespace

int main(int argc, char** argv) {
  ::signal(SIGXFSZ, SIG_IGN);
  CLI::App app("Trains one model among machines that come and go, and tells and replays what they did.", "reef-swarm");
  app.set_version_flag("--version", std::string("reef-swarm ") + reef::version);
  app.require_subcommand(1);
  app.footer(
      "Status 0: all is done, or the peer has left in order; 1: something failed, and is told; 2: options that cannot "
      "be.");
  PeerOptions peer;
  JobOptions replay;
  LogOptions log;
  KeysOptions keys;
  ServeOptions serve;
  TextOptions text;
  add_train(*app.add_subcommand("train", "Takes part in a job: ends when its rounds are committed"), peer);
  add_replay(*app.add_subcommand("replay", "Trains alone what the log says, to the same weights bit for bit"), replay);
  add_log_commands(app, log);
  add_keys(app, keys);
  add_serve(*app.add_subcommand("serve", "Computes blocks of a model for others, until a signal"), serve);
  add_generate(*app.add_subcommand("generate", "Continues texts by a model whose blocks others serve"), text);
  try {
    app.parse(argc, argv);
    return run(app, peer, replay, log, keys, serve, text);
  } catch (const CLI::ParseError& error) {
    return end_parsing(app, error, refused_status, tell);
  } catch (const reef::OptionError& error) {
    tell(error.what());
    return refused_status;
  } catch (const std::exception& error) {
    tell(error.what());
    return 1;
  }
}
