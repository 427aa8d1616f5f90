#pragma once

#include <string>

#include <reef/swarm/average/peer_report.hpp>

namespace reef_examples {

/// Returns a peer's report as lines for people.
std::string text_of(const reef::swarm::PeerReport& report);

/// Writes a peer's report to a file, as one JSON object. `error`: by which the peer has ended, or an empty text. Throws
/// FileError.
void write_report(const reef::swarm::PeerReport& report, const std::string& error, const std::string& file);

}  // namespace reef_examples
