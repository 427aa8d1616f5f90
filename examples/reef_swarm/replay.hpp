#pragma once

#include <cstdint>
#include <cstdio>
#include <string>
#include <vector>

#include <reef/core/error.hpp>
#include <reef/core/text.hpp>
#include <reef/swarm/elastic/replay_exchange.hpp>

#include "../support/output_places.hpp"
#include "job.hpp"
#include "log.hpp"
#include "options.hpp"

namespace reef_examples {

/// Throws OptionError, naming what differs, unless the log is of the job that the options say.
inline void require_same_job(const reef::swarm::Genesis& log, const reef::swarm::Genesis& own) {
  std::string differs;
  const auto compare = [&differs](const char* name, const auto& a, const auto& b) {
    if (a != b) differs += reef::concat(differs.empty() ? "" : ", ", name);
  };
  compare("recipe", log.recipe, own.recipe);
  compare("model", log.model, own.model);
  compare("data", log.data, own.data);
  compare("update class", log.update_class, own.update_class);
  compare("seed", log.seed, own.seed);
  compare("codec", log.codec, own.codec);
  if (differs.empty()) return;
  throw reef::OptionError("the log is of a job with another ", differs, ".\n  why: the log says '", log.recipe,
                          "', seed ", log.seed, "; these options say '", own.recipe, "', seed ", own.seed,
                          ".\n  fix: the options, the data and the kind of processor of the job.");
}

/// Trains alone what a job's log says.
template <class TrainerType>
int replay(const JobOptions& options, const reef::comm::StopRequest& stop) {
  if (!options.export_file.empty()) require_room_in_file(options.export_file);
  JobLog log(options.place);
  const LogText read = read_log(log.entries());
  if (!read.state.genesis)
    throw reef::OptionError("the log has no job.\n  fix: the URL of a job's log.");
  if (read.state.forgotten > 0) {
    throw reef::OptionError("the log has dropped its first ", read.state.forgotten,
                            " rounds.\n  why: a replay computes all of them.\n  fix: --archive, of a peer that has "
                            "read all of the log.");
  }
  std::vector<reef::swarm::Ledger::Round> rounds = read.state.ledger.rounds();
  if (static_cast<std::int64_t>(rounds.size()) > options.rounds)
    rounds.resize(static_cast<std::size_t>(options.rounds));
  const reef::swarm::Genesis& genesis = *read.state.genesis;
  reef::swarm::ReplayExchange exchange(rounds, reef::swarm::PartCodec::of(genesis.codec), genesis.piece);
  JobTrainer<TrainerType> job(options, exchange);
  require_same_job(genesis, genesis_of(options, genesis.job, job.data(), job.trainer()));
  while (!exchange.is_done()) {
    if (stop.asked()) {
      std::fprintf(stderr, "stopped by a signal in round %lld, nothing is exported\n",
                   static_cast<long long>(exchange.round()));
      return 1;
    }
    const std::int64_t round = exchange.round();
    const reef::StepResult result = job.step();
    if (result.committed) {
      std::fprintf(stderr, "%s\n",
                   reef::concat("replayed round ", round + 1, "/", rounds.size(), ": loss ", result.loss).c_str());
    }
  }
  if (const std::string told = job.export_weights(); !told.empty()) std::fprintf(stderr, "%s\n", told.c_str());
  return 0;
}

}  // namespace reef_examples
