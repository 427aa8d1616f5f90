#pragma once

#include <algorithm>
#include <cstddef>
#include <functional>
#include <queue>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <reef/core/text.hpp>
#include <reef/graph/detail/model_names.hpp>
#include <reef/graph/model_file.hpp>

namespace reef {
inline namespace v0 {
namespace graph::detail {

/// Goes back from a node that waits to one that waits too, until one comes again, and throws DecodeError with these
/// names.
[[noreturn]] inline void refuse_cycle(const std::vector<NodeEntry>& nodes, const std::vector<std::vector<int>>& makers,
                                      const std::vector<std::size_t>& waits, std::string_view source) {
  const auto is_waiting = [&](int n) { return n != ModelNames::outside && waits[static_cast<std::size_t>(n)] > 0; };
  std::vector<std::size_t> path;
  std::vector<char> met(waits.size(), 0);
  auto at = static_cast<std::size_t>(
      std::find_if(waits.begin(), waits.end(), [](std::size_t count) { return count > 0; }) - waits.begin());
  while (met[at] == 0) {
    met[at] = 1;
    path.push_back(at);
    at = static_cast<std::size_t>(*std::find_if(makers[at].begin(), makers[at].end(), is_waiting));
  }
  path.erase(path.begin(), std::find(path.begin(), path.end(), at));
  std::string cycle;
  constexpr std::size_t most = 8;
  for (std::size_t i = 0; i < (std::min)(path.size(), most); ++i) {
    cycle += in_quotes(nodes[path[i]].name) + " reads ";
  }
  if (path.size() > most) cycle += "... reads ";
  cycle += in_quotes(nodes[at].name);
  refuse_model(source, nodes[at].place, concat("is in a cycle: ", cycle),
               "a node reads what does not follow from its own outputs");
}

/// Puts each node behind those that it reads; else they stay in the order of the file. Throws DecodeError for an input
/// that nothing makes, and for a cycle.
inline void sort_nodes(std::vector<NodeEntry>& nodes, const ModelNames& names) {
  const std::size_t count = nodes.size();
  std::vector<std::vector<std::size_t>> readers(count);
  std::vector<std::size_t> waits(count, 0);  // for so many readings
  std::vector<std::vector<int>> makers(count);
  for (std::size_t n = 0; n < count; ++n) {
    const NodeEntry& node = nodes[n];
    for (std::size_t i = 0; i < node.inputs.size(); ++i) {
      const auto maker = names.maker_of(node.inputs[i], nodes);
      if (!maker) names.refuse_unknown(concat(node.place, ".inputs.", i), node.inputs[i], nodes);
      makers[n].push_back(*maker);
      if (*maker == ModelNames::outside) continue;
      readers[static_cast<std::size_t>(*maker)].push_back(n);
      ++waits[n];
    }
  }
  std::priority_queue<std::size_t, std::vector<std::size_t>, std::greater<>> next;
  for (std::size_t n = 0; n < count; ++n) {
    if (waits[n] == 0) next.push(n);
  }
  std::vector<std::size_t> order;
  while (!next.empty()) {
    const std::size_t n = next.top();
    next.pop();
    order.push_back(n);
    for (const std::size_t reader : readers[n]) {
      if (--waits[reader] == 0) next.push(reader);
    }
  }
  if (order.size() < count) refuse_cycle(nodes, makers, waits, names.source());
  std::vector<NodeEntry> sorted;
  sorted.reserve(count);
  for (const std::size_t n : order) sorted.push_back(std::move(nodes[n]));
  nodes = std::move(sorted);
}

}  // namespace graph::detail
}  // namespace v0
}  // namespace reef
