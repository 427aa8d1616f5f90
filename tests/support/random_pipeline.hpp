#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <tuple>
#include <utility>
#include <vector>

#include <reef/core/random.hpp>
#include <reef/schedule/world.hpp>

#include "pipeline_programs.hpp"

namespace reef::test {

/// Stages on 2 to 6 ranks, some of them looped, with edges that skip stages; every rank runs its operations in some
/// order in which one process could.
struct RandomPipeline {
  Pipeline pipeline;
  schedule::World world;

  /// On that many ranks; 0 draws 2 to 6.
  explicit RandomPipeline(std::uint64_t seed, int given = 0) {
    std::uint64_t draw = 0;
    const auto below = [&](std::uint32_t n) { return random_bits({seed, 0, 3, 0}, draw++) % n; };
    const int drawn = 2 + static_cast<int>(below(5));
    const int ranks = given > 0 ? given : drawn;
    const int stages = ranks + static_cast<int>(below(5));
    const int micro_batches = 1 + static_cast<int>(below(5));
    for (int s = 0; s < stages; ++s) {
      pipeline.rank_of.push_back(s < ranks ? s : static_cast<int>(below(static_cast<unsigned>(ranks))));
      if (s > 0) pipeline.edges.emplace_back(s - 1, s);
      if (s > 1 && below(3) == 0) {
        pipeline.edges.emplace_back(static_cast<int>(below(static_cast<unsigned>(s - 1))), s);
      }
      for (auto* times : {&pipeline.t_f, &pipeline.t_b, &pipeline.t_w}) times->push_back(1 + below(9));
    }
    pipeline.orders.resize(static_cast<std::size_t>(ranks));
    world = schedule::World::uniform(ranks, {}, {});
    for (schedule::Link& link : world.links) {
      link.latency = below(20);
      if (below(2) == 0) link.bytes_per_second = 1000.0 / (1 + below(8));
    }

    // Whatever has all that it needs may come next.
    std::set<std::tuple<char, int, int>> done;
    const std::size_t all = 2 * static_cast<std::size_t>(stages * micro_batches);
    while (done.size() < all) {
      const bool forward = below(2) == 0;
      const int s = static_cast<int>(below(static_cast<unsigned>(stages)));
      const int j = static_cast<int>(below(static_cast<unsigned>(micro_batches)));
      bool ready = !done.contains({forward ? 'F' : 'B', s, j}) &&
                   (forward || done.contains({'F', s, j}));
      for (const auto& [from, to] : pipeline.edges) {
        if (forward && to == s) ready = ready && done.contains({'F', from, j});
        if (!forward && from == s) ready = ready && done.contains({'B', to, j});
      }
      if (!ready) continue;
      done.insert({forward ? 'F' : 'B', s, j});
      pipeline.orders[static_cast<std::size_t>(pipeline.rank_of[static_cast<std::size_t>(s)])]
          .push_back({forward ? 'F' : 'B', s, j});
    }
  }

  [[nodiscard]] int rank_of(int stage) const {
    return pipeline.rank_of[static_cast<std::size_t>(stage)];
  }

  /// The asynchronous model, by itself: an operation ends when what it needs has come; a message leaves when it is
  /// made and its link is free, those of one link in the order in which they are made.
  [[nodiscard]] Seconds free_makespan() const {
    std::map<std::tuple<char, int, int>, Seconds> ended;
    std::map<std::tuple<int, bool, int>, Seconds> arrived;  // edge, back, micro-batch
    std::vector<std::size_t> next(pipeline.orders.size(), 0);
    std::vector<Seconds> free(pipeline.orders.size(), 0);
    std::map<std::pair<int, int>, Seconds> link_free;
    const auto needs = [&](const PipelineOperation& o, Seconds& at) {
      const bool forward = o.what == 'F';
      for (std::size_t e = 0; e < pipeline.edges.size(); ++e) {
        const auto [from, to] = pipeline.edges[e];
        if ((forward ? to : from) != o.stage) continue;
        const auto found = arrived.find({static_cast<int>(e), !forward, o.j});
        if (found == arrived.end()) return false;
        at = std::max(at, found->second);
      }
      return true;
    };
    Seconds makespan = 0;
    for (;;) {
      // Of what can run the operation that ends first, of one time that of the lowest rank: so messages leave in
      // the order in which they are made.
      std::size_t best = pipeline.orders.size();
      Seconds best_end = 0;
      for (std::size_t r = 0; r < pipeline.orders.size(); ++r) {
        if (next[r] == pipeline.orders[r].size()) continue;
        const PipelineOperation& o = pipeline.orders[r][next[r]];
        Seconds at = free[r];
        if (!needs(o, at)) continue;
        const Seconds end = at + pipeline.time_of(o);
        if (best < pipeline.orders.size() && best_end <= end) continue;
        best = r;
        best_end = end;
      }
      if (best == pipeline.orders.size()) return makespan;
      const PipelineOperation o = pipeline.orders[best][next[best]++];
      free[best] = best_end;
      makespan = std::max(makespan, best_end);
      const bool forward = o.what == 'F';
      for (std::size_t e = 0; e < pipeline.edges.size(); ++e) {
        const auto [from, to] = pipeline.edges[e];
        if ((forward ? from : to) != o.stage) continue;
        const int a = rank_of(o.stage);
        const int b = rank_of(forward ? to : from);
        Seconds& at = arrived[{static_cast<int>(e), !forward, o.j}];
        at = best_end;
        if (a == b) continue;
        const schedule::Link& link = world.link(a, b);
        Seconds& left = link_free[{a, b}];
        left = std::max(left, best_end) +
               (link.bytes_per_second > 0
                    ? static_cast<double>(pipeline.bytes) / link.bytes_per_second
                    : 0);
        at = left + link.latency;
      }
    }
  }
};

}  // namespace reef::test
