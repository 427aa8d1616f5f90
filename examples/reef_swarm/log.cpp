#include <cstdint>
#include <filesystem>
#include <iostream>
#include <memory>
#include <random>
#include <string>
#include <system_error>
#include <vector>

#include <reef/core/error.hpp>
#include <reef/core/text.hpp>
#include <reef/io/json.hpp>
#include <reef/swarm/core/entry_json.hpp>
#include <reef/swarm/core/job_state.hpp>
#include <reef/swarm/core/job_summary.hpp>
#include <reef/swarm/log/blocking_log.hpp>
#include <reef/swarm/log/keeper.hpp>
#include <reef/swarm/log/local_log.hpp>
#include <reef/swarm/log/log_server.hpp>
#include <reef/swarm/log/remote_log.hpp>

#include "../support/standard_output.hpp"
#include "log.hpp"
#include "options.hpp"

namespace reef_examples {

namespace {

namespace swarm = reef::swarm;

std::int64_t count_of(const swarm::Share& share) {
  std::int64_t count = 0;
  for (const swarm::IndexRun& run : share.indices) count += run.count;
  return count;
}

reef::io::Json json_of(const LogText& read) {
  const swarm::core::JobState& state = read.state;
  reef::io::Json json;
  json["entries"] = state.entries;
  json["ignored"] = state.ignored;
  json["rollbacks"] = state.lineage;
  json["forgotten"] = state.forgotten;
  json["job"] = state.genesis ? state.genesis->job : "";
  json["round"] = state.round();
  json["epoch"] = state.epoch;
  if (state.checkpoint) {
    reef::io::Json& checkpoint = json["checkpoint"];
    checkpoint = {{"rounds", state.checkpoint->rounds}, {"root", swarm::to_hex(state.checkpoint->root)}};
    checkpoint["holders"] = reef::io::Json::array();
    for (const swarm::PeerId& holder : state.checkpoint->holders)
      checkpoint["holders"].push_back(swarm::to_text(holder));
  }
  json["members"] = reef::io::Json::array();
  for (const swarm::Member& member : state.members) json["members"].push_back(swarm::to_text(member.id));
  json["views"] = reef::io::Json::array();
  for (const swarm::ViewEntry& view : read.views) {
    reef::io::Json members = reef::io::Json::array();
    for (const swarm::Member& member : view.members) members.push_back(swarm::to_text(member.id));
    json["views"].push_back({{"epoch", view.epoch}, {"members", std::move(members)}, {"why", view.why}});
  }
  reef::io::Json ledger = swarm::to_json(state.ledger);
  reef::io::Json rounds = std::move(ledger["rounds"]);
  ledger.erase("rounds");
  for (std::size_t r = 0; r < state.rounds.size(); ++r) {
    rounds[r]["epoch"] = state.rounds[r].epoch;
    rounds[r]["loss"] = state.rounds[r].verdict.loss;
    rounds[r]["root"] = swarm::to_hex(state.rounds[r].root);
  }
  json["ledger"] = std::move(ledger);
  json["rounds"] = std::move(rounds);
  return json;
}

std::string text_of(const LogText& read) {
  const swarm::core::JobState& state = read.state;
  std::string text =
      reef::concat("job ", state.genesis ? state.genesis->job : "(none)", ": ", state.entries, " entries, ",
                   state.round(), " rounds, ", state.lineage, " rollbacks, ", state.ignored, " entries ignored\n");
  for (const swarm::ViewEntry& view : read.views) {
    std::string members;
    for (const swarm::Member& member : view.members) {
      members += reef::concat(members.empty() ? "" : ", ", swarm::to_text(member.id));
    }
    text += reef::concat("view ", view.epoch, ": ", members.empty() ? "nobody" : members, view.why.empty() ? "" : " (",
                         view.why, view.why.empty() ? "" : ")", "\n");
  }
  if (state.forgotten > 0)
    text += reef::concat("the log has dropped what was before the checkpoint after ", state.forgotten, " rounds\n");
  for (const swarm::Ledger::Round& round : state.ledger.rounds()) {
    text += reef::concat("round ", round.round, round.applied ? ":" : ", skipped:");
    for (const swarm::Share& share : round.shares) text += reef::concat(" ", share.id.name, " ", count_of(share));
    text += "\n";
  }
  if (state.checkpoint) {
    text += reef::concat("checkpoint after ", state.checkpoint->rounds, " rounds, kept by");
    for (const swarm::PeerId& holder : state.checkpoint->holders) text += " " + swarm::to_text(holder);
    text += "\n";
  }
  const swarm::Ledger& ledger = state.ledger;
  text += reef::concat("micro-batches: ", ledger.committed().count(), " committed, ", ledger.holes().size(), " holes, ",
                       ledger.failed().size(), " of them retried, ", ledger.quarantined().count(),
                       " quarantined, open from ", ledger.end(), "\n");
  return text;
}

}  // namespace

namespace {

std::unique_ptr<swarm::DecisionLog> opened(const LogPlace& place) {
  if (place.archive.empty()) return std::make_unique<swarm::RemoteLog>(place.options());
  if (!place.log.empty() || !place.keepers.empty()) {
    throw reef::OptionError("--archive with --log or --keepers.\n  why: a log is read in one place.\n",
                            "  fix: one of them.");
  }
  std::error_code ignored;
  if (!std::filesystem::exists(std::filesystem::path(place.archive) / "decisions.log", ignored)) {
    throw reef::OptionError("--archive ", place.archive,
                            ": no log is there.\n  fix: the folder that reef-swarm train --archive has made.");
  }
  return std::make_unique<swarm::LocalLog>(place.archive);
}

}  // namespace

JobLog::JobLog(const LogPlace& place, const std::string& archive)
    : log_(opened(place)), chained_(*log_, {.tls = tls_files(place.keys, place.name), .archive = archive}) {}

LogText read_log(swarm::DecisionLog& log) {
  LogText read;
  for (swarm::LogIndex next = 0;;) {
    const swarm::LogPage page = swarm::BlockingLog(log).page(next);
    if (!page.answered) throw reef::Error(page.why);
    if (page.entries.empty()) return read;
    next = page.from;
    for (const std::string& text : page.entries) {
      const swarm::Entry entry = swarm::entry_from_text(text);
      const auto at = static_cast<std::int64_t>(next++);
      std::string broken;
      if (at != read.state.entries) broken = swarm::core::begin_with(read.state, at, entry);
      if (!broken.empty()) throw reef::Error(broken, ".\n  fix: --archive, of a peer that has read all of the log.");
      broken = swarm::core::apply(read.state, entry);
      if (!broken.empty()) continue;
      if (const auto* const view = std::get_if<swarm::ViewEntry>(&entry.what)) read.views.push_back(*view);
    }
  }
}

int run_log_server(const LogOptions& options) {
  swarm::LogServerOptions server;
  server.listen = options.listen;
  server.folder = options.folder;
  server.cut = options.cut;
  server.tls = tls_files(options.place.keys, options.place.name);
  return swarm::serve_log(server, std::cout);
}

int run_keeper(const LogOptions& options) {
  swarm::KeeperOptions keeper;
  keeper.listen = options.listen;
  keeper.members = options.cluster;
  keeper.folder = options.folder;
  keeper.tls = tls_files(options.place.keys, options.place.name);
  keeper.keys = options.place.keys;
  keeper.etcd = options.etcd;
  return swarm::serve_keeper(keeper, std::cout);
}

int run_log(const LogOptions& options) {
  JobLog log(options.place);
  const LogText read = read_log(log.entries());
  print(options.json ? json_of(read).dump() + "\n" : text_of(read), "the log");
  return 0;
}

int run_rollback(const LogOptions& options) {
  JobLog log(options.place);
  const std::string author = options.place.keys.empty() ? "operator" : options.place.name;
  constexpr int attempts = 20;
  for (int attempt = 0; attempt < attempts; ++attempt) {
    const LogText read = read_log(log.entries());
    swarm::core::JobState after = read.state;
    std::random_device random;
    const swarm::Entry entry{{author, random()}, random(), swarm::Rollback{options.rounds, options.why}};
    if (const std::string broken = swarm::core::apply(after, entry); !broken.empty()) {
      throw reef::OptionError("--rounds ", options.rounds, ": ", broken, ".\n  fix: fewer than the ",
                              read.state.round(), " rounds that are committed.");
    }
    const auto at = static_cast<swarm::LogIndex>(read.state.entries);
    const swarm::Appended answer = swarm::BlockingLog(log.entries()).append(at, swarm::to_text(entry));
    if (answer.outcome == swarm::AppendOutcome::won) {
      print(reef::concat("the job is after ", options.rounds, " rounds; it was after ", read.state.round(),
                         ". Peers with later weights end, and are to be started again\n"),
            "the answer");
      return 0;
    }
    if (answer.outcome == swarm::AppendOutcome::unknown) {
      throw reef::Error("the log does not say whether the rollback stands: ", answer.why,
                        "\n  fix: reef-swarm log tells.");
    }
  }
  throw reef::Error("others have appended to the log each time.\n  fix: try again, or end the peers first.");
}

}  // namespace reef_examples
