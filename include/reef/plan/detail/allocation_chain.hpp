#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <limits>
#include <vector>

#include <reef/core/units.hpp>
#include <reef/plan/allocation.hpp>
#include <reef/plan/detail/bottleneck_matching.hpp>
#include <reef/plan/detail/changed_links.hpp>
#include <reef/plan/detail/draws.hpp>
#include <reef/plan/detail/link_weights.hpp>

namespace reef {
inline namespace v0 {
namespace plan::detail {

/// A Markov chain over partitions into groups in a fixed order, by Metropolis's rule on Eq. 1: matchings are
/// optimal at each state, the order of groups is part of it.
///
/// A move swaps two devices of different groups, or one of a group with one that is left out, or reverses a part of
/// the path. What a move costs is added up from its cheapest part to its dearest, and given up where it is
/// already more than the draw accepts: sums of groups, then the links that the two devices cannot avoid, then
/// the matchings of at most four boundaries.
///
/// | state | device at [stage * D + i]; from [S D] on those that are left out             |
/// | cost  | O(D + S) where a move is given up early, else four bottleneck matchings      |
/// | memory | links of each boundary and of four trials, 8 D^2 bytes each                 |
class AllocationChain {
public:
  AllocationChain(const LinkWeights& weights, const std::vector<int>& classes, int stages,
                  int pipelines, std::vector<int> at)
      : weights_(&weights),
        classes_(&classes),
        stages_(stages),
        pipelines_(pipelines),
        at_(std::move(at)),
        sums_(at_.size()),
        slowest_(static_cast<std::size_t>(stages)),
        edges_(static_cast<std::size_t>(stages - 1)),
        links_(edges_.size() * static_cast<std::size_t>(block())),
        matched_(edges_.size() * static_cast<std::size_t>(pipelines)),
        trials_(std::min<std::size_t>(edges_.size(), 4), ChangedLinks(pipelines)),
        trial_links_(trials_.size() * static_cast<std::size_t>(block())),
        trial_matched_(trials_.size() * static_cast<std::size_t>(pipelines)),
        matching_(pipelines),
        best_at_(at_) {
    measure();
    best_ = now_;
  }

  [[nodiscard]] Seconds now() const { return now_; }
  [[nodiscard]] Seconds best() const { return best_; }
  [[nodiscard]] const std::vector<int>& best_at() const { return best_at_; }

  /// Exchanges states with another chain; each keeps the best that it has seen.
  void exchange(AllocationChain& other) {
    at_.swap(other.at_);
    sums_.swap(other.sums_);
    slowest_.swap(other.slowest_);
    edges_.swap(other.edges_);
    links_.swap(other.links_);
    matched_.swap(other.matched_);
    std::swap(compute_, other.compute_);
    std::swap(now_, other.now_);
  }

  /// So many moves at this temperature, in seconds.
  void run(Draws& draws, int moves, Seconds temperature) {
    measure();
    const int places = static_cast<int>(at_.size());
    for (int move = 0; move < moves; ++move) {
      const Seconds limit = now_ - temperature * std::log(draws.unit());
      if (stages_ > 2 && draws.below(64) == 0) {
        reverse(draws.below(stages_), draws.below(stages_), limit);
      } else {
        swap(draws.below(places), draws.below(places), limit);
      }
      if (now_ < best_ - 1e-12 * best_) {
        best_ = now_;
        best_at_ = at_;
      }
    }
  }

private:
  struct Boundary {
    int stage = 0;  // between it and the next
    Seconds edge = 0;
  };

  [[nodiscard]] const int* group(int stage) const {
    return at_.data() + static_cast<std::ptrdiff_t>(stage) * pipelines_;
  }

  /// The links between a stage and the next, (D, D).
  [[nodiscard]] Seconds* links(int stage) { return links_.data() + stage * block(); }
  [[nodiscard]] std::ptrdiff_t block() const {
    return static_cast<std::ptrdiff_t>(pipelines_) * pipelines_;
  }

  /// The matching of a boundary: the row of each column.
  [[nodiscard]] int* matched(int stage) {
    return matched_.data() + static_cast<std::ptrdiff_t>(stage) * pipelines_;
  }

  [[nodiscard]] Seconds edge(int stage) {
    matching_.gather(*weights_, group(stage), group(stage + 1), links(stage));
    const Seconds slowest = matching_.solve(links(stage));
    std::copy(matching_.rows(), matching_.rows() + pipelines_, matched(stage));
    return slowest;
  }

  /// The links between a stage and the next, with those of the devices that have just come: place p of stage a, and
  /// place q of stage b.
  void change(ChangedLinks& changed, int stage, int a, int p, int b, int q) {
    changed.begin(links(stage));
    const auto of = [&](int place) { return weights_->pp_of(at_.data()[place]); };
    if (stage == a) changed.set_row(p - a * pipelines_, of(p), group(stage + 1));
    if (stage == b) changed.set_row(q - b * pipelines_, of(q), group(stage + 1));
    if (stage + 1 == a) changed.set_column(p - a * pipelines_, of(p), group(stage));
    if (stage + 1 == b) changed.set_column(q - b * pipelines_, of(q), group(stage));
  }

  void measure() {
    Seconds datap = 0;
    Seconds path = 0;
    compute_ = 0;
    for (int j = 0; j < stages_; ++j) {
      Seconds slowest = 0;
      for (int i = 0; i < pipelines_; ++i) {
        const int device = group(j)[i];
        Seconds sum = 0;
        for (int k = 0; k < pipelines_; ++k) sum += weights_->dp_of(device)[group(j)[k]];
        sums_.data()[j * pipelines_ + i] = sum;
        slowest = (std::max)(slowest, sum);
        compute_ = (std::max)(compute_, weights_->compute_of(device));
      }
      slowest_.data()[j] = slowest;
      datap = (std::max)(datap, slowest);
    }
    for (int j = 0; j + 1 < stages_; ++j) path += edges_.data()[j] = edge(j);
    now_ = AllocationCost{compute_, datap, path}.total();
  }

  /// What the slowest of a group takes once `added` is at `place` of it.
  [[nodiscard]] Seconds slowest_with(int stage, int place, int added) const {
    const Seconds* const leaves = weights_->dp_of(at_.data()[place]);
    const Seconds* const comes = weights_->dp_of(added);
    const int* const members = group(stage);
    const Seconds* const sums = sums_.data() + static_cast<std::ptrdiff_t>(stage) * pipelines_;
    const int within = place - stage * pipelines_;
    Seconds slowest = 0;
    Seconds own = 0;
    for (int i = 0; i < pipelines_; ++i) {
      if (i == within) continue;
      const Seconds link = comes[members[i]];
      own += link;
      slowest = (std::max)(slowest, sums[i] - leaves[members[i]] + link);
    }
    return (std::max)(slowest, own);
  }

  /// The group's sums once `added` has come for `left`.
  void update_sums(int stage, int left, int added) {
    const int* const members = group(stage);
    Seconds* const sums = sums_.data() + static_cast<std::ptrdiff_t>(stage) * pipelines_;
    for (int i = 0; i < pipelines_; ++i) {
      if (members[i] != added) {
        sums[i] += weights_->dp_of(added)[members[i]] - weights_->dp_of(left)[members[i]];
        continue;
      }
      sums[i] = 0;
      for (int k = 0; k < pipelines_; ++k) sums[i] += weights_->dp_of(added)[members[k]];
    }
  }

  void swap(int p, int q, Seconds limit) {
    const int a = (std::min)(p / pipelines_, stages_);  // stages_: left out
    const int b = (std::min)(q / pipelines_, stages_);
    if (a == b || classes_->data()[at_.data()[p]] == classes_->data()[at_.data()[q]]) return;
    if (a > b) return swap(q, p, limit);
    const bool fills = b == stages_;
    int& u = at_.data()[p];
    int& v = at_.data()[q];
    const Seconds slowest_a = slowest_with(a, p, v);
    const Seconds slowest_b = fills ? 0 : slowest_with(b, q, u);
    Seconds datap = (std::max)(slowest_a, slowest_b);
    for (int j = 0; j < stages_; ++j) {
      if (j != a && j != b) datap = (std::max)(datap, slowest_.data()[j]);
    }
    Seconds compute = compute_;
    if (fills && weights_->compute_of(u) != weights_->compute_of(v)) compute = compute_after(p, v);
    std::array<Boundary, 4> changed;
    int count = 0;
    Seconds path = 0;
    for (int j = 0; j + 1 < stages_; ++j) {
      if (j == a - 1 || j == a || j == b - 1 || j == b) {
        changed.data()[count++].stage = j;
      } else {
        path += edges_.data()[j];
      }
    }
    Seconds total = compute + datap + path;
    if (total > limit) return;
    std::swap(u, v);
    Seconds least = total;
    for (int i = 0; i < count; ++i) {
      change(trials_[static_cast<std::size_t>(i)], changed.data()[i].stage, a, p, b, q);
      least += changed.data()[i].edge = trials_[static_cast<std::size_t>(i)].least();
    }
    // What a boundary may cost if the others cost what is known of them; a little above, so that
    // rounding of the difference refuses nothing.
    const auto allowed = [&](const Boundary& boundary) {
      return (limit - (least - boundary.edge)) * (1 + 1e-12) + 1e-300;
    };
    for (int i = 0; i < count && least <= limit; ++i) {
      const Boundary& boundary = changed.data()[i];
      const Seconds most = allowed(boundary);
      if (most >= edges_.data()[boundary.stage] &&
          !trials_[static_cast<std::size_t>(i)].fits(matched(boundary.stage), most)) {
        least = std::numeric_limits<Seconds>::infinity();
      }
    }
    for (int i = 0; i < count && least <= limit; ++i) {
      Boundary& boundary = changed.data()[i];
      Seconds* const trial = trial_links_.data() + i * block();
      trials_[static_cast<std::size_t>(i)].write(trial);
      const Seconds most = allowed(boundary);
      least -= boundary.edge;
      least += boundary.edge = matching_.solve(trial, most);
      if (boundary.edge >= most) least = std::numeric_limits<Seconds>::infinity();  // no matching
      std::copy(matching_.rows(), matching_.rows() + pipelines_,
                trial_matched_.begin() + static_cast<std::ptrdiff_t>(i) * pipelines_);
    }
    if (least > limit) {
      std::swap(u, v);
      return;
    }
    for (int i = 0; i < count; ++i) {
      const int j = changed.data()[i].stage;
      edges_.data()[j] = changed.data()[i].edge;
      std::copy(trial_links_.data() + i * block(), trial_links_.data() + (i + 1) * block(),
                links(j));
      const int* const pairs = trial_matched_.data() + static_cast<std::ptrdiff_t>(i) * pipelines_;
      std::copy(pairs, pairs + pipelines_, matched(j));
      total += changed.data()[i].edge;
    }
    update_sums(a, v, u);
    slowest_.data()[a] = slowest_a;
    if (!fills) {
      update_sums(b, u, v);
      slowest_.data()[b] = slowest_b;
    }
    compute_ = compute;
    now_ = total;
  }

  [[nodiscard]] Seconds compute_after(int place, int added) const {
    Seconds slowest = weights_->compute_of(added);
    for (int p = 0; p < stages_ * pipelines_; ++p) {
      if (p != place) slowest = (std::max)(slowest, weights_->compute_of(at_.data()[p]));
    }
    return slowest;
  }

  /// Reverses the stages from the one to the other.
  void reverse(int from, int to, Seconds limit) {
    const int a = (std::min)(from, to);
    const int b = (std::max)(from, to);
    if (a == b) return;
    Seconds total = now_;
    Seconds before = 0;
    Seconds after = 0;
    if (a > 0) {
      before = matching_.solve(*weights_, group(a - 1), group(b));
      total += before - edges_.data()[a - 1];
    }
    if (b + 1 < stages_) {
      after = matching_.solve(*weights_, group(a), group(b + 1));
      total += after - edges_.data()[b];
    }
    if (total > limit) return;
    for (int x = a, y = b; x < y; ++x, --y) {
      const auto first = static_cast<std::ptrdiff_t>(x) * pipelines_;
      const auto second = static_cast<std::ptrdiff_t>(y) * pipelines_;
      std::swap_ranges(at_.begin() + first, at_.begin() + first + pipelines_, at_.begin() + second);
      std::swap_ranges(sums_.begin() + first, sums_.begin() + first + pipelines_,
                       sums_.begin() + second);
      std::swap(slowest_.data()[x], slowest_.data()[y]);
    }
    for (int j = (std::max)(0, a - 1); j < (std::min)(b + 1, stages_ - 1); ++j)
      edges_.data()[j] = edge(j);
    now_ = total;
  }

  const LinkWeights* weights_;
  const std::vector<int>* classes_;
  int stages_;
  int pipelines_;
  std::vector<int> at_;
  std::vector<Seconds> sums_;         // of each place: its data-parallel time
  std::vector<Seconds> slowest_;      // of each stage
  std::vector<Seconds> edges_;        // between a stage and the next
  std::vector<Seconds> links_;        // of each boundary, (D, D)
  std::vector<int> matched_;          // of each boundary: the row of each column
  std::vector<ChangedLinks> trials_;  // of the boundaries that a move changes
  std::vector<Seconds> trial_links_;
  std::vector<int> trial_matched_;
  Seconds compute_ = 0;
  Seconds now_ = 0;
  BottleneckMatching matching_;
  std::vector<int> best_at_;
  Seconds best_ = 0;
};

}  // namespace plan::detail
}  // namespace v0
}  // namespace reef
