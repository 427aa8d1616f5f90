#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <numeric>
#include <utility>
#include <vector>

#include <reef/core/units.hpp>
#include <reef/plan/allocation.hpp>
#include <reef/plan/detail/allocation_bound.hpp>
#include <reef/plan/detail/allocation_branch.hpp>
#include <reef/plan/detail/allocation_chain.hpp>
#include <reef/plan/detail/arrangement.hpp>
#include <reef/plan/detail/device_order.hpp>
#include <reef/plan/detail/draws.hpp>
#include <reef/plan/detail/in_parallel.hpp>
#include <reef/plan/detail/structured_layouts.hpp>

namespace reef {
inline namespace v0 {
namespace plan::detail {

/// The search for one shape, an effort at a time.
///
/// Effort 0 arranges the structured layouts, and searches by branch and bound as far as a fixed amount of work goes.
/// Each further effort advances two ladders of eight Markov chains at temperatures from 0.17 % to 1 % of the best cost
/// (less of more than 64 devices), neighbours of which exchange states (replica exchange): one ladder began at the
/// structured layouts, one at random. Branch and bound comes again at efforts 1, 16, 256, ..., with more work each
/// time. What an effort does depends on its number and the seed alone: chains draw from sequences of their own, and are
/// looked at in a fixed order.
///
/// Effort 0 is never stopped: its layouts, paths and proof each end after a fixed amount of work.
///
/// | memory | at most about 150 N^2 bytes with two ladders begun, most of it where two stages share all devices |
class AllocationSearch {
public:
  /// Throws nothing of its own; there are at least stages * pipelines devices.
  AllocationSearch(const LinkWeights& weights, int stages, int pipelines, std::uint64_t seed,
                   int threads)
      : stages_(stages),
        pipelines_(pipelines),
        seed_(seed),
        threads_(threads),
        order_(device_order(weights)),
        weights_(weights.of(order_.devices)),
        bound_(weights_, stages, pipelines),
        branch_(order_, bound_, stages, pipelines),
        ladder_draws_{Draws(seed, 1'000'000), Draws(seed, 1'000'001)} {
    for (std::size_t c = 0; c < order_.sizes.size(); ++c) {
      classes_.insert(classes_.end(), static_cast<std::size_t>(order_.sizes[c]),
                      static_cast<int>(c));
    }
    lower_bound_ = bound_.total();
    arrange_layouts();
    const bool is_path = pipelines == 1 && stages == weights.size && stages <= max_exact_stages;
    if (is_path) lower_bound_ = best_.cost.total();
    settle();
    if (!optimal()) prove(first_proof, [] { return false; });
  }

  AllocationSearch(const AllocationSearch&) = delete;  // parts refer to others
  AllocationSearch& operator=(const AllocationSearch&) = delete;
  AllocationSearch(AllocationSearch&&) = delete;
  AllocationSearch& operator=(AllocationSearch&&) = delete;
  ~AllocationSearch() = default;

  [[nodiscard]] bool optimal() const { return lower_bound_ >= best_.cost.total(); }
  [[nodiscard]] Seconds lower_bound() const { return lower_bound_; }
  [[nodiscard]] const AllocationCost& cost() const { return best_.cost; }
  [[nodiscard]] int effort() const { return effort_; }

  /// One effort; false, and nothing has changed but the chains, where it was stopped.
  bool advance(const std::function<bool()>& stop) {
    before_ = {best_, lower_bound_, effort_};
    if (optimal()) return true;
    if (try_effort(stop)) return true;
    undo();
    return false;
  }

  /// Takes back what the last effort found. Its chains stay where they are, so no effort may follow.
  void undo() {
    best_ = before_.best;
    lower_bound_ = before_.lower_bound;
    effort_ = before_.effort;
  }

  /// Devices as the weights that were given number them.
  [[nodiscard]] Placement sigma() const {
    Placement sigma(static_cast<std::size_t>(pipelines_),
                    std::vector<int>(static_cast<std::size_t>(stages_)));
    for (int j = 0; j < stages_; ++j) {
      for (int i = 0; i < pipelines_; ++i) {
        sigma.data()[i].data()[j] = order_.devices.data()[best_.at.data()[j * pipelines_ + i]];
      }
    }
    return sigma;
  }

private:
  struct Known {
    Arrangement best;
    Seconds lower_bound = 0;
    int effort = 0;
  };

  static constexpr int ladders = 2;
  static constexpr int rungs = 8;
  static constexpr int sweeps = 10;
  static constexpr double coldest = 0.0017;
  static constexpr double hottest = 0.010;
  static constexpr std::uint64_t first_proof = 200'000;
  static constexpr std::uint64_t later_proof = 400'000;
  static constexpr double max_compositions = 50'000;

  [[nodiscard]] int used() const { return stages_ * pipelines_; }

  static bool better(Seconds cost, Seconds known) { return cost < known - known * 1e-12; }

  void take(Arrangement found) {
    if (best_.at.empty() || better(found.cost.total(), best_.cost.total()))
      best_ = std::move(found);
  }

  /// A bound that is met is the cost: neither differs from it by more than rounding.
  void settle() {
    if (!better(lower_bound_, best_.cost.total())) lower_bound_ = best_.cost.total();
  }

  bool try_effort(const std::function<bool()>& stop) {
    if (chains_.empty()) start_chains();
    if (!run_chains(stop)) return false;
    for (const AllocationChain& chain : chains_) {
      if (!better(chain.best(), best_.cost.total())) continue;
      if (stop()) return false;
      const std::vector<int> groups(chain.best_at().begin(), chain.best_at().begin() + used());
      take(arrange(weights_, stages_, pipelines_, groups));
    }
    settle();
    const int next = effort_ + 1;
    const bool power_of_16 = (next & (next - 1)) == 0 && (next & 0x11111111) != 0;
    if (!optimal() && power_of_16) prove(later_proof * static_cast<std::uint64_t>(next), stop);
    if (!optimal() && stop()) return false;
    effort_ = next;
    return true;
  }

  /// How many stages of a pipeline a cluster fills at a time: every number to 128, then each by a 16th more.
  [[nodiscard]] std::vector<int> run_lengths() const {
    std::vector<int> runs;
    for (int run = 1; run < stages_; run += run < 128 ? 1 : run / 16) runs.push_back(run);
    runs.push_back(stages_);
    return runs;
  }

  /// Keeps the cheapest layouts, each once, and arranges them.
  void arrange_layouts() {
    std::vector<std::pair<Seconds, std::vector<int>>> layouts;  // ascending
    const std::vector<int> runs = run_lengths();
    for (const auto& clusters : clusterings(weights_, 6)) {
      for (const int run : runs) {
        std::vector<int> at = block_layout(clusters, stages_, pipelines_, run);
        const Seconds cost =
            match_groups(weights_, stages_, pipelines_, groups_of(at)).cost.total();
        if (std::any_of(layouts.begin(), layouts.end(),
                        [&](const auto& layout) { return layout.second == at; })) {
          continue;
        }
        const auto place =
            std::upper_bound(layouts.begin(), layouts.end(), cost,
                             [](Seconds c, const auto& layout) { return c < layout.first; });
        layouts.emplace(place, cost, std::move(at));
        if (layouts.size() > rungs) layouts.pop_back();
      }
    }
    for (auto& [cost, at] : layouts) {
      take(arrange(weights_, stages_, pipelines_, groups_of(at)));
      starts_.push_back(std::move(at));
    }
  }

  [[nodiscard]] std::vector<int> groups_of(const std::vector<int>& at) const {
    return {at.begin(), at.begin() + used()};
  }

  void prove(std::uint64_t work, const std::function<bool()>& stop) {
    if (branch_.compositions(max_compositions) >= max_compositions) return;
    branch_.search(best_.cost.total(), work, stop);
    const std::vector<int> found = branch_.found();
    if (!found.empty()) take(arrange(weights_, stages_, pipelines_, found));
    if (branch_.complete()) lower_bound_ = best_.cost.total();
    settle();
  }

  void start_chains() {
    std::vector<int> at(static_cast<std::size_t>(weights_.size));
    for (int ladder = 0; ladder < ladders; ++ladder) {
      for (int rung = 0; rung < rungs; ++rung) {
        draws_.emplace_back(seed_, static_cast<std::uint32_t>(ladder * rungs + rung));
        if (ladder == 0) {
          at = starts_.data()[static_cast<std::size_t>(rung) % starts_.size()];
        } else {
          std::iota(at.begin(), at.end(), 0);
          draws_.back().shuffle(at);
        }
        chains_.emplace_back(weights_, classes_, stages_, pipelines_, at);
      }
    }
  }

  bool run_chains(const std::function<bool()>& stop) {
    // In larger networks a state has more neighbours, and each changes a smaller part of the cost.
    const Seconds scale =
        (best_.cost.datap + best_.cost.pipelinep) * (std::min)(1.0, 64.0 / weights_.size);
    const int moves = std::clamp(64'000 / (pipelines_ * pipelines_), 100, 1000);
    std::array<Seconds, rungs> temperatures{};
    for (int rung = 0; rung < rungs; ++rung) {
      const double share = static_cast<double>(rung) / (rungs - 1);
      temperatures.data()[rung] = scale * coldest * std::pow(hottest / coldest, share);
    }
    std::atomic<bool> stopped{false};
    for (int sweep = 0; sweep < sweeps; ++sweep) {
      in_parallel(threads_, ladders * rungs, [&](int i) {
        if (stopped || stop()) {
          stopped = true;
          return;
        }
        chains_.data()[i].run(draws_.data()[i], moves, temperatures.data()[i % rungs]);
      });
      if (stopped) return false;
      for (int ladder = 0; ladder < ladders; ++ladder) exchange(ladder, sweep % 2, temperatures);
    }
    return true;
  }

  void exchange(int ladder, int first, const std::array<Seconds, rungs>& temperatures) {
    for (int rung = first; rung + 1 < rungs; rung += 2) {
      AllocationChain& cold = chains_.data()[ladder * rungs + rung];
      AllocationChain& hot = chains_.data()[ladder * rungs + rung + 1];
      const double gain = (cold.now() - hot.now()) *
                          (1 / temperatures.data()[rung] - 1 / temperatures.data()[rung + 1]);
      if (ladder_draws_.data()[ladder].unit() < std::exp((std::min)(gain, 0.0))) cold.exchange(hot);
    }
  }

  int stages_;
  int pipelines_;
  std::uint64_t seed_;
  int threads_;
  DeviceOrder order_;
  LinkWeights weights_;       // in that order
  std::vector<int> classes_;  // of each device
  AllocationBound bound_;
  AllocationBranch branch_;
  std::array<Draws, ladders> ladder_draws_;
  std::vector<std::vector<int>> starts_;
  std::vector<Draws> draws_;  // of each chain
  std::vector<AllocationChain> chains_;
  Arrangement best_;
  Seconds lower_bound_ = 0;
  int effort_ = 0;
  Known before_;  // the last effort
};

}  // namespace plan::detail
}  // namespace v0
}  // namespace reef
