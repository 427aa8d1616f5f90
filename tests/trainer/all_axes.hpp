#pragma once

#include <utility>
#include <vector>

#include <reef/compress/ada_top_k.hpp>
#include <reef/optim/acco.hpp>
#include <reef/optim/adamw.hpp>
#include <reef/pipeline/one_f_one_b.hpp>
#include <reef/profile/network.hpp>
#include <reef/swap/atom.hpp>
#include <reef/swap/resident.hpp>

#include "../support/overlapping_trainers.hpp"
#include "../support/small_gpt.hpp"

// A Trainer of all four axes at once, and the two whose bits it has: where the model stays, and one process.

namespace reef::test::all_axes {

using Acco = optim::Acco<optim::AdamW>;
template <class Swap, class... Device>
using Spread = Trainer<Swap, pipeline::OneFOneB<>, compress::AdaTopK, Acco, Device...>;
using All = Spread<swap::Atom<>>;
using Stays = Spread<swap::Resident>;
using Alone = Trainer<Acco>;

inline nn::GptConfig config() {
  nn::GptConfig config = small_config();
  config.layers = 3;
  config.dropout = 0.2F;
  return config;
}

/// All ways to spread the model over the ranks of which at least two are stages: replicas, stages.
inline std::vector<std::pair<int, int>> ways() {
  if (world_size() == 4) return {{2, 2}, {1, 4}};
  return {{1, world_size()}};
}

/// A replica has so many micro-batches in each of Acco's two phases.
inline int count_of(int replica) { return replica == 0 ? 3 : 2; }
inline std::vector<int> counts_of(int replicas) {
  std::vector<int> counts;
  for (int replica = 0; replica < replicas; ++replica) counts.push_back(count_of(replica));
  return counts;
}

/// Of this rank, behind a link, where nobody may read what has left. Edges shrink to `ratio` and less: the first link is slow.
template <class TrainerType>
typename TrainerType::Options options(int replicas, int stages, double ratio) {
  auto options = small_options<TrainerType>();
  options.topology = run::Topology(replicas, stages);
  options.micro_batches = {count_of(options.topology->replica_of(world_rank()))};
  if constexpr (requires { options.device.link_bytes_per_second; }) options.device.link_bytes_per_second = 4e9;
  options.device.poison_freed = true;
  options.network = profile::Network::uniform(world_size(), 0, 1e8);
  if (world_size() > 1) options.network->rates[1] = 5e7;
  options.compress.activation.ratio = ratio;
  return options;
}

}  // namespace reef::test::all_axes

namespace reef {

extern template class Trainer<swap::Resident, pipeline::OneFOneB<>, compress::AdaTopK, optim::Acco<optim::AdamW>>;

}  // namespace reef
