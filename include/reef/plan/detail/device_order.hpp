#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <map>
#include <numeric>
#include <vector>

#include <reef/core/units.hpp>
#include <reef/plan/detail/link_weights.hpp>

namespace reef::inline v0::plan::detail {

/// Classes of interchangeable devices, in an order that follows from the weights alone.
///
/// Two devices are of one class where swapping them changes no weight. Devices are sorted by class, so
/// whatever names and places they had in a case, a search in this order sees the same matrices.
struct DeviceOrder {
  std::vector<int> devices;  ///< in order
  std::vector<int> sizes;    ///< of the classes, whose devices follow each other
  LinkWeights classes;       ///< between classes; within a class on the diagonal
};

inline std::uint64_t mix(std::uint64_t x) {
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9U;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBU;
  return x ^ (x >> 31);
}

inline std::uint64_t mix(std::uint64_t a, std::uint64_t b) {
  return mix(a * 0x9E3779B97F4A7C15U + mix(b + 0x632BE59BD9B4E019U));
}

/// Sorts the vertices of a complete graph with weights on vertices and edges by its structure alone:
/// colour refinement; where it leaves a cell of several vertices, one of them is told apart and
/// refinement goes on. Which one is decided by the matrix that comes out, unless they are proven to be
/// interchangeable: by an equal matrix, or by equal weights to all others.
///
/// Source: the scheme of McKay, Practical graph isomorphism, 1981, without its search for generators.
/// Deviation: after `most_work` visits of a weight the best order so far stands: graphs that need more are
/// built for the purpose.
class StructuralOrder {
public:
  StructuralOrder(const LinkWeights& weights, const std::vector<int>& sizes)
      : weights_(weights), size_(weights.size) {
    Colours colours;
    for (int v = 0; v < size_; ++v) {
      const std::uint64_t inner = mix(bits(weights.dp_of(v)[v]), bits(weights.pp_of(v)[v]));
      colours.push_back(mix(mix(static_cast<std::uint64_t>(sizes.data()[v]), inner),
                            bits(weights.compute_of(v))));
    }
    search(std::move(colours), false);
  }

  [[nodiscard]] const std::vector<int>& order() const { return best_; }

private:
  using Colours = std::vector<std::uint64_t>;
  static constexpr std::uint64_t most_work = 300'000'000;

  static std::uint64_t bits(Seconds value) { return std::bit_cast<std::uint64_t>(value + 0.0); }

  [[nodiscard]] std::uint64_t edge(int a, int b) const {
    return mix(bits(weights_.dp_of(a)[b]), bits(weights_.pp_of(a)[b]));
  }

  static std::size_t count(Colours colours) {
    std::sort(colours.begin(), colours.end());
    return static_cast<std::size_t>(std::unique(colours.begin(), colours.end()) - colours.begin());
  }

  /// New colours by old ones and by all links with their far ends, until they tell no more apart.
  void refine(Colours& colours) {
    for (std::size_t before = 0, now = count(colours); now != before && now < colours.size();) {
      Colours next(colours.size());
      for (int v = 0; v < size_; ++v) {
        std::uint64_t sum = 0;
        for (int u = 0; u < size_; ++u) {
          if (u != v) sum += mix(edge(v, u), colours.data()[u]);
        }
        next.data()[v] = mix(colours.data()[v], sum);
      }
      work_ += colours.size() * colours.size();
      colours.swap(next);
      before = now;
      now = count(colours);
    }
  }

  /// The smallest cell of several vertices, and of those with as few the one of the least colour.
  static std::vector<int> cell_of(const Colours& colours) {
    std::map<std::uint64_t, std::vector<int>> cells;
    for (std::size_t v = 0; v < colours.size(); ++v) {
      cells[colours[v]].push_back(static_cast<int>(v));
    }
    const std::vector<int>* chosen = nullptr;
    for (const auto& [colour, cell] : cells) {
      if (cell.size() > 1 && (chosen == nullptr || cell.size() < chosen->size())) chosen = &cell;
    }
    return chosen == nullptr ? std::vector<int>{} : *chosen;
  }

  [[nodiscard]] bool interchangeable(int a, int b) const {
    for (int v = 0; v < size_; ++v) {
      if (v == a || v == b) continue;
      if (weights_.dp_of(a)[v] != weights_.dp_of(b)[v] ||
          weights_.pp_of(a)[v] != weights_.pp_of(b)[v])
        return false;
    }
    return true;
  }

  /// Returns the mark of the best matrix below; `quick` follows the first vertex of each cell alone.
  std::uint64_t search(Colours colours, bool quick) {
    refine(colours);
    const std::vector<int> cell = cell_of(colours);
    if (cell.empty()) return leaf(colours);
    std::uint64_t least = ~std::uint64_t{0};
    bool first = true;
    bool all_alike = true;
    for (const int v : cell) all_alike = all_alike && (v == cell[0] || interchangeable(cell[0], v));
    for (const int v : cell) {
      if (!first && (quick || all_alike || work_ > most_work)) break;
      Colours told = colours;
      told.data()[v] = mix(told.data()[v], 1);
      if (!first) {
        const std::uint64_t mark = search(told, true);
        if (mark == least) continue;  // an automorphism takes one to the other
      }
      least = std::min(least, search(std::move(told), quick));
      first = false;
    }
    return least;
  }

  std::uint64_t leaf(const Colours& colours) {
    std::vector<int> order(colours.size());
    std::iota(order.begin(), order.end(), 0);
    std::sort(order.begin(), order.end(),
              [&](int a, int b) { return colours.data()[a] < colours.data()[b]; });
    std::uint64_t mark = 0;
    for (const int a : order) {
      mark = mix(mark, mix(edge(a, a), bits(weights_.compute_of(a))));
      for (const int b : order) mark = mix(mark, edge(a, b));
    }
    work_ += colours.size() * colours.size();
    if (best_.empty() || mark < best_mark_) {
      best_mark_ = mark;
      best_ = std::move(order);
    }
    return mark;
  }

  const LinkWeights& weights_;
  int size_;
  std::uint64_t work_ = 0;
  std::uint64_t best_mark_ = 0;
  std::vector<int> best_;
};

/// Devices that can be swapped without a change, numbered by the first device of each class.
inline std::vector<int> device_classes(const LinkWeights& weights) {
  const int n = weights.size;
  const auto alike = [&](int a, int b) {
    if (weights.compute_of(a) != weights.compute_of(b)) return false;
    for (int v = 0; v < n; ++v) {
      if (v == a || v == b) continue;
      if (weights.dp_of(a)[v] != weights.dp_of(b)[v] || weights.pp_of(a)[v] != weights.pp_of(b)[v])
        return false;
    }
    return true;
  };
  std::vector<int> labels;
  std::vector<int> firsts;
  for (int d = 0; d < n; ++d) {
    std::size_t c = 0;
    while (c < firsts.size() && !alike(firsts[c], d)) ++c;
    if (c == firsts.size()) firsts.push_back(d);
    labels.push_back(static_cast<int>(c));
  }
  return labels;
}

inline DeviceOrder device_order(const LinkWeights& weights) {
  const std::vector<int> labels = device_classes(weights);
  std::vector<std::vector<int>> members;
  for (std::size_t d = 0; d < labels.size(); ++d) {
    const auto c = static_cast<std::size_t>(labels[d]);
    if (c == members.size()) members.emplace_back();
    members[c].push_back(static_cast<int>(d));
  }
  std::vector<int> firsts;
  std::vector<int> sizes;
  for (const auto& of_class : members) {
    firsts.push_back(of_class[0]);
    sizes.push_back(static_cast<int>(of_class.size()));
  }
  LinkWeights classes = weights.of(firsts);
  for (std::size_t c = 0; c < members.size(); ++c) {
    if (members[c].size() < 2) continue;
    const std::size_t diagonal = c * members.size() + c;
    classes.dp[diagonal] = weights.dp_of(members[c][0])[members[c][1]];
    classes.pp[diagonal] = weights.pp_of(members[c][0])[members[c][1]];
  }
  const StructuralOrder order(classes, sizes);
  DeviceOrder result;
  result.classes = classes.of(order.order());
  for (const int c : order.order()) {
    const auto& of_class = members[static_cast<std::size_t>(c)];
    result.sizes.push_back(static_cast<int>(of_class.size()));
    result.devices.insert(result.devices.end(), of_class.begin(), of_class.end());
  }
  return result;
}

}  // namespace reef::inline v0::plan::detail
