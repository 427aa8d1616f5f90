#pragma once

#include <algorithm>
#include <cstddef>
#include <limits>
#include <span>
#include <string>

#include <reef/comm/functions.hpp>
#include <reef/comm/link_probe.hpp>
#include <reef/core/error.hpp>
#include <reef/core/inline.hpp>
#include <reef/trace/span.hpp>

namespace reef {
inline namespace v0 {
namespace comm {

REEF_INLINE std::vector<ProbedLink> probe_links(Progress& progress, const std::vector<std::pair<int, int>>& links,
                                                const ProbeOptions& options) {
  if (options.bytes < 2 || options.repeats < 1) {
    throw OptionError("reef::comm::probe_links: ", options.repeats, " messages of ", options.bytes,
                      " bytes.\n  fix: at least one, and of at least 2 bytes.");
  }
  for (const auto& [from, to] : links) {
    if (from >= 0 && from < progress.size() && to >= 0 && to < progress.size() && from != to) continue;
    throw OptionError("reef::comm::probe_links: the link ", from, " -> ", to, ", of ", progress.size(),
                      " ranks.\n  fix: two ranks that are there.");
  }
  const std::string name = "link probe";
  std::vector<std::byte> room(static_cast<std::size_t>(options.bytes));
  const std::span<std::byte> large(room);
  const std::span<std::byte> one_byte = large.first(1);
  std::vector<double> found(2 * links.size(), 0.0);  // of links from this rank; of others 0, so that a sum is all
  for (std::size_t l = 0; l < links.size(); ++l) {
    const auto [from, to] = links[l];
    if (progress.rank() != from && progress.rank() != to) continue;
    const auto least = [&, from = from, to = to](std::span<std::byte> message) {
      Seconds best = (std::numeric_limits<Seconds>::max)();
      for (int i = 0; i < options.repeats; ++i) {
        if (progress.rank() == to) {
          receive(progress, name, from, message);
          send(progress, name, from, one_byte);
          continue;
        }
        const Seconds begin = trace::now();
        send(progress, name, to, message);
        receive(progress, name, to, one_byte);
        best = (std::min)(best, trace::now() - begin);
      }
      return best;
    };
    const Seconds of_small = least(one_byte);
    const Seconds of_large = least(large);
    if (progress.rank() != from) continue;
    found[2 * l] = of_small / 2;
    if (of_large > of_small) found[2 * l + 1] = static_cast<double>(options.bytes - 1) / (of_large - of_small);
  }
  all_reduce(progress, "probed links", std::span<double>(found));
  std::vector<ProbedLink> all;
  for (std::size_t l = 0; l < links.size(); ++l) all.push_back({found[2 * l], found[2 * l + 1]});
  return all;
}

}  // namespace comm
}  // namespace v0
}  // namespace reef
