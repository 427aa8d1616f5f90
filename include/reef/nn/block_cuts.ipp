#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include <reef/core/error.hpp>
#include <reef/core/inline.hpp>
#include <reef/core/text.hpp>
#include <reef/nn/block_cuts.hpp>

namespace reef {
inline namespace v0 {
namespace nn {

namespace detail {

/// Returns the number of the block that a node is of by its name, or -1: that of the first part of digits alone.
inline std::int64_t block_of_name(std::string_view name) {
  constexpr std::size_t most_digits = 9;
  while (!name.empty()) {
    const std::size_t dot = (std::min)(name.find('.'), name.size());
    const std::string_view part = name.substr(0, dot);
    const bool is_number = !part.empty() && part.size() <= most_digits &&
                           std::all_of(part.begin(), part.end(), [](char c) { return c >= '0' && c <= '9'; });
    if (is_number) {
      std::int64_t number = 0;
      for (const char c : part) number = 10 * number + (c - '0');
      return number;
    }
    name.remove_prefix((std::min)(dot + 1, name.size()));
  }
  return -1;
}

/// Returns the tensors that nodes before `cut` make and nodes from it on read.
inline std::vector<int> tensors_over(const graph::Dag& dag, int cut) {
  std::vector<int> over;
  for (int n = cut; n < dag.node_count(); ++n) {
    for (const int id : dag.node_at(n).inputs) {
      const int producer = dag.tensor_at(id).producer;
      if (producer >= 0 && producer < cut && std::find(over.begin(), over.end(), id) == over.end()) over.push_back(id);
    }
  }
  return over;
}

}  // namespace detail

REEF_INLINE BlockCuts block_cuts(const graph::Dag& dag) {
  const auto refuse = [](const std::string& why) {
    throw OptionError("reef::nn::block_cuts: ", why,
                      ".\n  fix: a decoder whose nodes have the numbers of their blocks in their names, as nn::gpt.");
  };
  BlockCuts cuts;
  bool is_behind = false;
  for (int n = 0; n < dag.node_count(); ++n) {
    const std::int64_t block = detail::block_of_name(dag.node_at(n).name);
    const std::int64_t last = static_cast<std::int64_t>(cuts.nodes.size()) - 1;
    if (block < 0) {
      if (last >= 0 && !is_behind) cuts.nodes.push_back(n);
      is_behind = last >= 0;
    } else if (is_behind || (block != last && block != last + 1)) {
      refuse(concat("the node '", dag.node_at(n).name,
                    "' stands behind nodes of no block, or of another than the last"));
    } else if (block == last + 1) {
      cuts.nodes.push_back(n);
    }
  }
  if (!is_behind) refuse("no node has a block's number in its name, or none stands behind the blocks");
  for (const int cut : cuts.nodes) {
    const std::vector<int> over = detail::tensors_over(dag, cut);
    if (over.size() != 1 || dag.tensor_at(over[0]).spec.shape.rank() != 3) {
      refuse(concat("before the node '", dag.node_at(cut).name, "' ", over.size(),
                    " tensors go over, of which one of shape (B, T, C) is expected"));
    }
    cuts.tensors.push_back(over[0]);
  }
  return cuts;
}

}  // namespace nn
}  // namespace v0
}  // namespace reef
