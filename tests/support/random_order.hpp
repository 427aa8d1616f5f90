#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include <reef/core/random.hpp>
#include <reef/plan/pipeline_model.hpp>

namespace reef::test {

/// An order on 1 to 5 ranks, chunks anywhere, with tensors that skip chunks and gradients that go from reader to
/// reader, in which one process could run it.
inline plan::PipelineModel random_model(std::uint64_t seed) {
  using Kind = plan::PipelineTaskKind;
  std::uint64_t draw = 0;
  const auto below = [&](int n) {
    return static_cast<int>(random_bits({seed, 0, 5, 0}, draw++) % static_cast<std::uint32_t>(n));
  };
  plan::PipelineModel model;
  const int ranks = 1 + below(5);
  const int chunks = ranks + below(5);
  const int m = model.order.micro_batches = 1 + below(6);
  for (int c = 0; c < chunks; ++c) {
    model.order.rank_of_chunk.push_back(c < ranks ? c : below(ranks));
    for (auto* times :
         {&model.times.forward, &model.times.input_backward, &model.times.weight_backward}) {
      times->push_back(1 + below(9));
    }
    if (c > 0) {
      model.forward.push_back({c - 1, c, static_cast<Bytes>(1 + below(9))});
      model.backward.push_back({c, c - 1, static_cast<Bytes>(1 + below(9))});
    }
    if (c > 1 && below(2) == 0) {  // its gradient goes by way of the reader before
      model.forward.push_back({below(c - 1), c, 3});
      model.backward.push_back({c, c - 1, 3});
    }
  }
  model.times.world = schedule::World::uniform(ranks, {}, {});
  for (schedule::Link& link : model.times.world.links) {
    link.latency = below(20);
    link.bytes_per_second = below(3);
  }

  struct Done {
    int forward = 0, input = 0, weight = 0;
    bool whole = false;
  };
  std::vector<Done> done(static_cast<std::size_t>(chunks));
  model.order.tasks.resize(static_cast<std::size_t>(ranks));
  for (int left = chunks; left > 0;) {
    const int c = below(chunks);
    Done& d = done[static_cast<std::size_t>(c)];
    auto& tasks = model.order.tasks[static_cast<std::size_t>(
        model.order.rank_of_chunk[static_cast<std::size_t>(c)])];
    const int kind = below(3);
    const int j = kind == 0 ? d.forward : kind == 1 ? d.input : d.weight;
    if (j == m) continue;
    bool ready = kind == 0 || (kind == 1 ? d.forward > j : d.input > j);
    for (const auto& edge : kind == 0 ? model.forward : model.backward) {
      const Done& other = done[static_cast<std::size_t>(edge.from)];
      if (edge.to == c && kind < 2) ready = ready && (kind == 0 ? other.forward : other.input) > j;
    }
    if (!ready) continue;
    if (kind == 0) {
      tasks.push_back({Kind::forward, c, d.forward++});
    } else if (kind == 2) {
      tasks.push_back({Kind::weight_backward, c, d.weight++});
    } else if (d.weight == j && below(2) == 0) {
      tasks.push_back({Kind::backward, c, d.input++});
      ++d.weight;
    } else {
      tasks.push_back({Kind::input_backward, c, d.input++});
    }
    if (d.weight == m && kind != 0) --left;
  }
  return model;
}

}  // namespace reef::test
