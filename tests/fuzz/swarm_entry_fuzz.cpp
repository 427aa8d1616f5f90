// The texts that peers of a swarm read: entries of the log, with what they do to a job; presences; identities; and the
// control messages of peers.
//
// An input is the kind of text, a newline, and the text. Of entries there may be several, one a line.

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>

#include <reef/swarm/average/detail/peer_frames.hpp>
#include <reef/swarm/core/entry_json.hpp>
#include <reef/swarm/core/job_state.hpp>
#include <reef/swarm/net/identity.hpp>

#include "target.hpp"

namespace {

using namespace reef;
using reef::fuzz::demand;
using swarm::core::JobState;

const swarm::PeerId a{"a", 1};
const swarm::PeerId b{"b", 1};

/// A job of a and b, which have committed the indices 0 to 4 but 3.
JobState job() {
  JobState state;
  swarm::Genesis genesis;
  genesis.job = "job";
  genesis.global_batch = 4;
  genesis.parameters = 10;
  genesis.piece = 4;
  swarm::Commit commit;
  commit.epoch = 1;
  commit.shares = {{a, {{0, 2, 3}}, 3, {}}, {b, {{1, 1, 1}}, 1, {}}};
  commit.holders = {a, b};
  std::string why = apply(state, {a, 1, genesis});
  why += apply(state, {a, 2, swarm::ViewEntry{1, {{a, "127.0.0.1:1", 0, 0}, {b, "127.0.0.1:2", 0, 0}}, ""}});
  why += apply(state, {b, 3, commit});
  demand(why.empty(), "the job can be made");
  return state;
}

void read_entries(std::string_view lines) {
  JobState state = job();
  while (!lines.empty()) {
    const std::size_t end = std::min(lines.find('\n'), lines.size());
    const swarm::Entry entry = swarm::entry_from_text(lines.substr(0, end));
    lines.remove_prefix(std::min(end + 1, lines.size()));
    if (!std::holds_alternative<swarm::Unreadable>(entry.what)) {
      demand(swarm::entry_from_text(to_text(entry)) == entry, "an entry, written and read again, is the same");
    }
    JobState before = state;
    const std::string why = apply(state, entry);
    ++before.entries;
    before.ignored += why.empty() ? 0 : 1;
    demand(why.empty() || state == before, "an entry that breaks a rule changes nothing");
    demand(state.entries == before.entries && state.ignored == before.ignored, "each entry is counted");
    const swarm::Ledger& ledger = state.ledger;
    demand(ledger.committed().count() + ledger.quarantined().count() +
                   static_cast<std::int64_t>(ledger.holes().size()) ==
               ledger.end(),
           "committed, quarantined and holes are all below the end");
  }
}

void read_presence(std::string_view text) {
  const std::optional<swarm::PeerPresence> presence = swarm::detail::presence_from_text(text);
  if (!presence) return;
  demand(swarm::detail::presence_from_text(swarm::detail::text_of(*presence)) == presence,
         "a presence, written and read again, is the same");
}

void read_message(swarm::FrameKind kind, std::string_view text) {
  const swarm::Message message = swarm::detail::message_of(swarm::Frame::control(kind, std::string(text)));
  const swarm::Frame written = swarm::detail::frame_of(message);
  demand(swarm::detail::frame_of(swarm::detail::message_of(written)).text == written.text,
         "a message, written and read again, is the same");
}

}  // namespace

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view input = fuzz::text_of(data, size);
  const std::size_t line = std::min(input.find('\n'), input.size());
  const std::string_view kind = input.substr(0, line);
  const std::string_view text = input.substr(std::min(line + 1, input.size()));
  if (kind == "entry") read_entries(text);
  if (kind == "presence") read_presence(text);
  if (kind == "uri") {
    const std::optional<swarm::Identity> identity = swarm::identity_of(text);
    demand(!identity || identity->uri() == text, "an identity says its URI");
  }
  fuzz::reads([&] {
    if (kind != "peer") return;
    const swarm::PeerId id = swarm::peer_id_from_text(text, "a peer");
    demand(swarm::peer_id_from_text(to_text(id), "its text") == id, "a peer, written and read again, is the same");
  });
  for (const auto& [name, of] : {std::pair{"beat", swarm::FrameKind::beat}, std::pair{"offer", swarm::FrameKind::offer},
                                 std::pair{"want", swarm::FrameKind::want},
                                 std::pair{"state", swarm::FrameKind::control}}) {
    if (kind == name) fuzz::reads([&, of = of] { read_message(of, text); });
  }
  return 0;
}
