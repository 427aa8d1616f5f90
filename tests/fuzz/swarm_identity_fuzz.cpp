// Who a peer is: the list of a CA's certificates, files of certificates and keys, the bytes of a TLS handshake, and
// what comes over TLS before a peer is known: frames, and in the first of them a hello.
//
// An input is the kind, a newline, and the bytes.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <reef/swarm/net/endpoint.hpp>

#include <reef/swarm/net/detail/hello.hpp>
#include <reef/swarm/net/detail/tls.hpp>
#include <reef/swarm/net/frame.hpp>
#include <reef/swarm/net/keys.hpp>

#include "../support/temporary_folder.hpp"
#include "target.hpp"

namespace {

using namespace reef;
using reef::fuzz::demand;

/// A CA with the peers a and b, and files of which the fuzzer says what they hold.
class Authority {
public:
  Authority() {
    swarm::Keys keys = swarm::Keys::make(folder(), "job");
    keys.issue("peer", "a");
    keys.issue("peer", "b");
    std::filesystem::remove(folder() / "keys.json");
    std::filesystem::create_symlink(file.path(), folder() / "keys.json");
  }
  static Authority& of_all() {
    static Authority made;
    return made;
  }
  [[nodiscard]] std::filesystem::path folder() const { return folder_.path() / "keys"; }
  [[nodiscard]] swarm::TlsFiles files(const std::string& name) const {
    return {folder() / "ca.pem", folder() / (name + ".pem"), folder() / (name + ".key"), {}};
  }

private:
  test::TemporaryFolder folder_;

public:
  fuzz::MemoryFile file;
};

void read_keys(std::string_view text) {
  Authority& authority = Authority::of_all();
  authority.file.set(text);
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

/// Reads a PEM file in the place of one of those of the peer a.
void read_pem(std::string_view kind, std::string_view text) {
  Authority& authority = Authority::of_all();
  authority.file.set(text);
  swarm::TlsFiles files = authority.files("a");
  (kind == "key" ? files.key : kind == "certificate" ? files.certificate : files.authority) = authority.file.path();
  fuzz::reads([&] {
    const swarm::detail::TlsContext context(files);
    demand(swarm::identity_of(context.identity().uri()) == context.identity(), "whoever is accepted has an identity");
  });
}

/// Gives a server the bytes of a client that has no key of this CA.
void read_wire(std::span<const std::byte> bytes) {
  static swarm::detail::TlsContext context(Authority::of_all().files("a"));
  swarm::detail::TlsSession session(context, false);
  std::vector<std::byte> reply;
  const auto plain = [](std::span<const std::byte>) { demand(false, "nothing is read before the handshake"); };
  const std::size_t half = bytes.size() / 2;
  if (!session.receive(bytes.first(half), reply, plain) || !session.receive(bytes.subspan(half), reply, plain)) {
    demand(!session.error().empty() || bytes.empty(), "an end of the handshake says why");
  }
  demand(!session.is_open() && session.identity().name.empty(), "nobody comes in without a certificate");
  demand(reply.size() < 64 * 1024, "a stranger is told little");
}

/// A client and a server between which the handshake is complete.
struct Pair {
  Pair() {
    std::vector<std::byte> to_server;
    std::vector<std::byte> to_client;
    const auto none = [](std::span<const std::byte>) {};
    static_cast<void>(client.receive({}, to_server, none));
    for (int i = 0; i < 4; ++i) {
      static_cast<void>(server.receive(std::exchange(to_server, {}), to_client, none));
      static_cast<void>(client.receive(std::exchange(to_client, {}), to_server, none));
    }
    demand(client.is_open() && server.is_open() && server.identity().name == "b", "peers of one CA come together");
  }

  swarm::detail::TlsContext of_client{Authority::of_all().files("b")};
  swarm::detail::TlsContext of_server{Authority::of_all().files("a")};
  swarm::detail::TlsSession client{of_client, true};
  swarm::detail::TlsSession server{of_server, false};
};

void greet(const std::string& text, const swarm::Identity& certified) {
  try {
    const swarm::detail::Hello hello = swarm::detail::parse_hello(text);
    demand(swarm::is_name(hello.job) && swarm::is_name(hello.peer.name) && swarm::is_role(hello.peer.role),
           "a hello has the names of a job and a peer");
    demand(swarm::detail::parse_hello(hello.json()).json() == hello.json(), "written and read again, it is the same");
    if (swarm::detail::why_refused(hello, {"job", "peer", "a"}, certified, {}).empty()) {
      demand(hello.peer.name == certified.name && hello.peer.role == certified.role, "a peer has its own name alone");
    }
  } catch (const DecodeError&) {
    return;  // whose text is sent to the other side
  }
}

/// Gives a server what the peer b sends behind the handshake.
void read_frames(std::span<const std::byte> bytes) {
  static Pair pair;
  std::vector<std::byte> wire;
  std::vector<std::byte> reply;
  pair.client.send(bytes, wire);
  swarm::FrameDecoder decoder({.message = 1_MiB, .streams = 3});
  std::size_t arrived = 0;
  const bool goes_on = pair.server.receive(wire, reply, [&](std::span<const std::byte> plain) {
    arrived += plain.size();
    while (!plain.empty()) {
      const std::size_t used = decoder.read(plain);
      plain = plain.subspan(used);
      if (decoder.fault() != swarm::FrameFault::none) return;
      if (!decoder.has_frame()) continue;
      const swarm::Frame frame = decoder.take();
      if (frame.kind == swarm::FrameKind::hello) greet(frame.text, pair.server.identity());
    }
  });
  demand(goes_on && arrived == bytes.size(), "what is encrypted arrives");
}

}  // namespace

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view input = fuzz::text_of(data, size);
  const std::size_t line = std::min(input.find('\n'), input.size());
  const std::string_view kind = input.substr(0, line);
  const std::string_view text = input.substr(std::min(line + 1, input.size()));
  const std::span<const std::byte> bytes = std::as_bytes(std::span(text));
  if (kind == "keys") read_keys(text);
  if (kind == "certificate" || kind == "authority" || kind == "key") read_pem(kind, text);
  if (kind == "wire") read_wire(bytes);
  if (kind == "frames") read_frames(bytes);
  if (kind == "hello") greet(std::string(text), {"job", "peer", "b"});
  return 0;
}
