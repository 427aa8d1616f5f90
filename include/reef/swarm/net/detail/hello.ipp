#pragma once

#include <chrono>
#include <limits>

#include <reef/core/error.hpp>
#include <reef/core/inline.hpp>
#include <reef/io/json.hpp>
#include <reef/swarm/net/detail/hello.hpp>

namespace reef {
inline namespace v0 {
namespace swarm {
namespace detail {

REEF_INLINE std::string Hello::json() const {
  io::Json json;
  json["version"] = FrameHeader::current_version;
  json["job"] = job;
  json["name"] = peer.name;
  json["role"] = peer.role;
  json["incarnation"] = peer.incarnation;
  json["message"] = receives.message;
  json["credit"] = receives.credit;
  json["streams"] = receives.streams;
  json["greeting"] = io::parse_json(peer.greeting, "EndpointOptions::greeting");
  return json.dump();
}

REEF_INLINE Hello parse_hello(std::string_view text) {
  const io::JsonSource source("hello", "a peer of the same version of Reef");
  const io::Json json = io::parse_json(text, source, {.bytes = max_control_bytes, .depth = 16});
  const auto version = io::require<unsigned>(json, "version", source);
  if (version != FrameHeader::current_version) {
    throw DecodeError("hello: of version ", version, ", here is ", unsigned{FrameHeader::current_version},
                      ".\n  fix: the same version of Reef for all peers.");
  }
  Hello hello;
  hello.job = io::require<std::string>(json, "job", source);
  hello.peer.name = io::require<std::string>(json, "name", source);
  hello.peer.role = io::require<std::string>(json, "role", source);
  hello.peer.incarnation = io::require<std::uint64_t>(json, "incarnation", source);
  hello.receives.message = io::require<Bytes>(json, "message", source);
  hello.receives.credit = io::require<Bytes>(json, "credit", source);
  hello.receives.streams = io::require<std::size_t>(json, "streams", source);
  const auto greeting = io::require<io::Json>(json, "greeting", source);
  io::require_object(greeting, "greeting", source);
  hello.peer.greeting = greeting.dump();
  if (!is_name(hello.job) || !is_name(hello.peer.name) || !is_role(hello.peer.role)) {
    throw DecodeError("hello: ", in_quotes(hello.job), ", ", in_quotes(hello.peer.role), ", ",
                      in_quotes(hello.peer.name), " are not the names of a job, role and peer.");
  }
  if (hello.receives.message > (std::numeric_limits<std::uint32_t>::max)() ||
      hello.receives.credit / 2 < hello.receives.message) {
    throw DecodeError("hello: messages of ", hello.receives.message, " bytes and a credit of ", hello.receives.credit,
                      ", which must be twice as much.");
  }
  return hello;
}

REEF_INLINE std::string why_refused(const Hello& hello, const Identity& own, const std::optional<Identity>& certified,
                                    std::string_view expected) {
  if (hello.job != own.job) return concat("is of job ", hello.job, ", here is ", own.job);
  if (hello.peer.name == own.name) return concat("has the name ", own.name, ", which is that of this side");
  if (!expected.empty() && hello.peer.name != expected) {
    return concat("is ", hello.peer.name, ", where ", expected, " was to answer");
  }
  const Identity said{hello.job, hello.peer.role, hello.peer.name};
  if (certified && said != *certified) {
    return concat("says that it is ", said.uri(), ", and its certificate, ", certified->uri());
  }
  return {};
}

REEF_INLINE EndpointOptions checked(EndpointOptions options, const TlsContext* tls) {
  constexpr std::string_view who = "reef::swarm::EndpointOptions";
  if (tls == nullptr && !options.plain_loopback) {
    throw OptionError(who, ": neither keys nor plain_loopback are set.\n  why: who reaches a port without TLS could ",
                      "join.\n  fix: tls, with the files of `reef-swarm keys`; or plain_loopback, on one machine.");
  }
  if (tls != nullptr && options.plain_loopback) {
    throw OptionError(who, ": both keys and plain_loopback are set.\n  fix: one of the two.");
  }
  if (tls != nullptr) {
    const Identity identity = tls->identity();
    if (options.job.empty()) options.job = identity.job;
    if (options.name.empty()) options.name = identity.name;
    options.role = identity.role;
    if (options.job != identity.job || options.name != identity.name) {
      throw OptionError(who, ": job ", in_quotes(options.job), " and name ", in_quotes(options.name),
                        " are not those of the certificate, ", identity.uri(),
                        ".\n  fix: leave both out, or take the certificate of this peer.");
    }
  }
  require_identity({options.job, options.role, options.name}, who);
  const EndpointLimits& limits = options.limits;
  if (limits.message < 1 || limits.message > 1_GiB || limits.credit / 2 < limits.message || limits.credit > 4_GiB - 1) {
    throw OptionError(who, ": limits.message is ", limits.message, " and limits.credit ", limits.credit,
                      ".\n  fix: messages of 1 byte to 1 GiB; a credit of at least two of them, below 4 GiB.");
  }
  if (limits.streams < 1 || limits.frames < 16 || limits.queued < limits.message || limits.connections < 1) {
    throw OptionError(who, ": limits leave no room to send or receive.\n  fix: streams and connections of at least 1, ",
                      "frames of at least 16, and `queued` not below `message`.");
  }
  const EndpointTimes& times = options.times;
  for (const auto time : {times.hello, times.stall, times.farewell, times.first_retry, times.last_retry}) {
    if (time.count() < 1) throw OptionError(who, ": a time is ", time.count(), " ms.\n  fix: 1 ms or more for each.");
  }
  const std::string greeting = io::parse_json(options.greeting, "EndpointOptions::greeting").dump();
  if (greeting.front() != '{' || greeting.size() > 2_KiB) {
    throw OptionError(who, ": the greeting is no JSON object of at most 2 KiB, but ", in_quotes(greeting), ".");
  }
  options.greeting = greeting;
  if (options.incarnation == 0) {
    const auto now = std::chrono::system_clock::now().time_since_epoch();
    options.incarnation =
        static_cast<std::uint64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(now).count());
  }
  return options;
}

}  // namespace detail
}  // namespace swarm
}  // namespace v0
}  // namespace reef
