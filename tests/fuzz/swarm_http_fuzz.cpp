// What comes over HTTP and from files of the swarm's programs: bodies of a log server's and of etcd's answers, targets
// of requests, addresses, the hello of a connection, and the list of a CA's certificates.
//
// An input is the kind, a newline, and the text.

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

#include <reef/swarm/log/etcd_log.hpp>
#include <reef/swarm/log/log_server.hpp>
#include <reef/swarm/log/remote_log.hpp>
#include <reef/swarm/net/endpoint.hpp>
#include <reef/swarm/net/keys.hpp>

#include "../support/temporary_folder.hpp"
#include "target.hpp"

namespace {

using namespace reef;
using reef::fuzz::demand;

/// A CA whose list of certificates is what the fuzzer says.
class Authority {
public:
  Authority() {
    static_cast<void>(swarm::Keys::make(folder(), "job"));
    std::filesystem::remove(folder() / "keys.json");
    std::filesystem::create_symlink(list_.path(), folder() / "keys.json");
  }
  [[nodiscard]] std::filesystem::path folder() const { return folder_.path() / "keys"; }
  void set(std::string_view list) { list_.set(list); }

private:
  test::TemporaryFolder folder_;
  fuzz::MemoryFile list_;
};

void read_keys(std::string_view text) {
  static Authority authority;
  authority.set(text);
  try {
    const swarm::Keys keys(authority.folder());
    demand(keys.revoked().size() <= keys.issued().size(), "what is revoked was issued");
    for (const swarm::IssuedCertificate& issued : keys.issued()) {
      demand(swarm::identity_of(issued.identity.uri()) == issued.identity, "what was issued can be in a certificate");
    }
  } catch (const Error&) {
    return;  // whose text begins with the path of the list
  }
}

void read_hello(std::string_view text) {
  try {
    const swarm::detail::Hello hello = swarm::detail::parse_hello(text);
    demand(swarm::is_name(hello.job) && swarm::is_name(hello.peer.name) && swarm::is_role(hello.peer.role),
           "a hello has the names of a job and a peer");
    demand(swarm::detail::parse_hello(hello.json()).json() == hello.json(), "written and read again, it is the same");
  } catch (const DecodeError&) {
    return;  // whose text is sent to the other side
  }
}

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
  demand(text.find("from=") != std::string_view::npos || from == swarm::LogIndex{0}, "what is not said is not read");
  static_cast<void>(swarm::detail::query_number<Seconds>(text, "wait", 0));
}

}  // namespace

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view input = fuzz::text_of(data, size);
  const std::size_t line = std::min(input.find('\n'), input.size());
  const std::string_view kind = input.substr(0, line);
  const std::string_view text = input.substr(std::min(line + 1, input.size()));
  if (kind == "keys") read_keys(text);
  if (kind == "hello") read_hello(text);
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
      demand(swarm::detail::parse_address(swarm::detail::text_of(at), "reef::swarm") == at, "an address says itself");
    }
  });
  return 0;
}
