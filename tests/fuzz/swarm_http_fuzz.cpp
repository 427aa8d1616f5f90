// What comes over HTTP to the swarm's programs: bodies of a log server's and of etcd's answers, targets and hosts of
// requests, entries that somebody wants to append, and addresses.
//
// An input is the kind, a newline, and the text.

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>

#include <reef/swarm/core/entry_json.hpp>
#include <reef/swarm/log/detail/http_address.hpp>
#include <reef/swarm/log/detail/log_rules.hpp>
#include <reef/swarm/log/etcd_log.hpp>
#include <reef/swarm/log/remote_log.hpp>
#include <reef/swarm/net/detail/host_and_port.hpp>

#include "target.hpp"

namespace {

using namespace reef;
using reef::fuzz::demand;

void read_etcd(std::string_view kind, std::string_view text) {
  if (kind == "etcd-append") {
    const auto answer = swarm::detail::decode_etcd_append(text, 3, "{}");
    demand(answer.outcome != swarm::AppendOutcome::unknown, "an answer that is read says what came of the append");
  }
  if (kind == "etcd-range") {
    const auto page = swarm::detail::decode_etcd_range(text, 7, "/reef/job/log/");
    demand(page.answered && page.from == 7, "a page is the one that was asked for");
  }
  if (kind == "etcd-presences")
    demand(swarm::detail::decode_etcd_presences(text, "/reef/job/present/").answered, "presences were answered");
}

void read_target(std::string_view text) {
  const auto from = swarm::detail::query_number<swarm::LogIndex>(text, "from", 0);
  demand(text.find("from") != std::string_view::npos || from == swarm::LogIndex{0}, "what is not said is not read");
  static_cast<void>(swarm::detail::query_number<Seconds>(text, "wait", 0));
}

void read_rules(std::string_view text) {
  if (swarm::detail::why_not_append({"job", "peer", "a"}, "job", text).empty()) {
    demand(swarm::entry_from_text(text).author.name == "a", "a peer writes entries of its own alone");
  }
  demand(!swarm::detail::why_not_append({"job", "keeper", "a"}, "job", text).empty(), "keepers write nothing");
  if (swarm::detail::why_not_present({"job", "peer", "a"}, text).empty()) {
    demand(text == "a" || text.starts_with("a/"), "a peer is present under its own name alone");
  }
}

}  // namespace

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view input = fuzz::text_of(data, size);
  const std::size_t line = std::min(input.find('\n'), input.size());
  const std::string_view kind = input.substr(0, line);
  const std::string_view text = input.substr(std::min(line + 1, input.size()));
  if (kind == "host") static_cast<void>(swarm::detail::is_loopback(swarm::detail::host_of_header(std::string(text))));
  if (kind == "entry") read_rules(text);
  if (kind == "target") read_target(text);
  fuzz::reads([&] {
    if (kind == "append") static_cast<void>(swarm::detail::decode_appended(text));
    if (kind == "page") demand(swarm::detail::decode_page(text, 3).from == 3, "a page is the one that was asked for");
    if (kind == "presences") demand(swarm::detail::decode_presences(text).answered, "presences were answered");
    read_etcd(kind, text);
  });
  fuzz::reads([&] {
    if (kind == "address") static_cast<void>(swarm::detail::parse_address(text, "reef::swarm"));
    if (kind == "url") {
      const swarm::detail::HttpAddress at = swarm::detail::parse_http_url(text, "reef::swarm");
      demand(swarm::detail::parse_http_url(swarm::detail::url_of(at), "reef::swarm") == at, "an address says itself");
    }
  });
  return 0;
}
