#pragma once

#include <reef/core/finite.hpp>
#include <reef/core/inline.hpp>
#include <reef/plan/route.hpp>

namespace reef {
inline namespace v0 {
namespace plan {

REEF_INLINE void validate(const RouteServer& server, std::string_view name) {
  const auto refuse = [&](std::string_view field, double value, std::string_view fix) {
    throw OptionError("reef::plan::RouteServer: ", field, " of '", name, "' is ", value,
                      ".\n  fix: ", fix, ".");
  };
  const auto need = [&](std::string_view field, double value, double least, double most,
                        std::string_view fix) {
    if (!within(value, least, most)) refuse(field, value, fix);
  };
  need("start", server.start, 0, 10'000, "a block from 0 to 10000");
  need("end", server.end, server.start + 1, 10'000, "a block behind start, at most 10000");
  need("rps", server.rps.value_or(1), 0.01, 1e12, "from 0.01 to 1e12 steps a second");
  need("cache", static_cast<double>(server.cache_left.value_or(0)), 0, 1e15, "tokens, 0 or more");
  need("client_rtt", server.client_rtt.value_or(0), 0, 1e9, "seconds from 0 to 1e9");
  for (const auto& [other, rtt] : server.next) need("next", rtt, 0, 1e9, "seconds from 0 to 1e9");
  need("queue", server.queue, 0, 1e9, "requests, from 0 to 1e9");
  need("occupancy", server.occupancy, 0, 1e9, "sequences, from 0 to 1e9");
  need("batch", server.batch, 1, 1e9, "sequences, from 1 to 1e9");
}

REEF_INLINE void validate(const RouteRequest& request) {
  if (request.start < 0 || request.start >= request.end || request.end > 10'000 ||
      request.cache_tokens.value_or(0) < 0 ||
      request.cache_tokens.value_or(0) > 1'000'000'000'000) {
    throw OptionError(
        "reef::plan::RouteRequest: blocks from ", request.start, " to ", request.end, ", ",
        request.cache_tokens.value_or(0),
        " tokens.\n  fix: blocks in ascending order, at most 10000, and tokens from 0 to "
        "1e12.");
  }
}

REEF_INLINE void validate(const RouteOptions& options) {
  const auto need = [](std::string_view field, double value, double least, double most) {
    if (within(value, least, most)) return;
    throw OptionError("reef::plan::RouteOptions: ", field, " is ", value,
                      ".\n  fix: a number from ", least, " to ", most, ".");
  };
  need("overhead", options.overhead, 0, 10);
  need("allocation", options.allocation, 0, 100);
  need("unknown_delay", options.unknown_delay, 0, 100);
  need("most_delay", options.max_delay, 0, 100);
  need("rps", options.rps, 0.01, 1e12);
  need("full_cache", options.full_cache, 0, 100);
}

}  // namespace plan
}  // namespace v0
}  // namespace reef
