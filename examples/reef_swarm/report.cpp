#include "report.hpp"

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <vector>

#include <reef/core/text.hpp>
#include <reef/core/units.hpp>
#include <reef/io/atomic_file.hpp>
#include <reef/io/json.hpp>

namespace reef_examples {

namespace {

namespace swarm = reef::swarm;

std::string text_of(const swarm::core::JobReport::Peer& peer) {
  std::string text = reef::concat("  ", swarm::to_text(peer.id), ": ", peer.micro_batches, " micro-batches in ",
                                  peer.rounds, " rounds");
  for (const swarm::core::Stay& stay : peer.stays) {
    text += reef::concat("; came in round ", stay.came.round);
    if (stay.went) text += reef::concat(", went in round ", stay.went->round);
  }
  return text + "\n";
}

/// The causes of waits, the longest first.
std::string text_of_waits(const swarm::PeerReport& report) {
  std::vector<std::size_t> causes(report.waited.size());
  std::iota(causes.begin(), causes.end(), std::size_t{0});
  std::stable_sort(causes.begin(), causes.end(),
                   [&](std::size_t a, std::size_t b) { return report.waited[a] > report.waited[b]; });
  std::string text;
  for (const std::size_t cause : causes) {
    if (report.waited[cause] <= 0) break;
    const std::string_view name = swarm::core::name_of(static_cast<swarm::core::WaitCause>(cause));
    text += reef::concat(text.empty() ? " for " : ", ", name, " ", reef::format_seconds(report.waited[cause]));
  }
  return text;
}

}  // namespace

std::string text_of(const swarm::PeerReport& report) {
  const swarm::core::JobReport& job = report.job;
  std::string text = reef::concat("report of ", report.id.name, " after ", reef::format_seconds(report.seconds), ": ",
                                  job.rounds, " rounds, ", job.skipped, " of them skipped; micro-batches: ",
                                  job.committed, " committed, ", job.holes, " holes, ", job.quarantined,
                                  " quarantined\n");
  for (const swarm::core::JobReport::Peer& peer : job.peers) text += text_of(peer);
  const double waited = std::accumulate(report.waited.begin(), report.waited.end(), 0.0);
  text += reef::concat("  waited ", reef::format_seconds(waited), text_of_waits(report), "\n  sent ",
                       reef::format_bytes(report.sent), ", received ", reef::format_bytes(report.received));
  return text;
}

void write_report(const swarm::PeerReport& report, const std::string& error, const std::string& file) {
  reef::io::Json json = swarm::to_json(report);
  if (!error.empty()) json["error"] = error;
  reef::io::AtomicFile out(file);
  out.write(json.dump(-1, ' ', false, reef::io::Json::error_handler_t::replace) + "\n");
  out.commit();
}

}  // namespace reef_examples
