#pragma once

#include <algorithm>
#include <array>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <numeric>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <reef/comm/message.hpp>
#include <reef/core/error.hpp>
#include <reef/core/text.hpp>
#include <reef/core/units.hpp>
#include <reef/graph/crossing.hpp>
#include <reef/graph/dag.hpp>
#include <reef/graph/parameter_layout.hpp>
#include <reef/graph/segment.hpp>
#include <reef/schedule/program.hpp>

namespace reef::inline v0::run {

/// The elements of a parameter whose squares are summed together; its last block may be short. A shard is
/// a whole number of blocks, so the sums depend neither on the number of ranks nor on where a model is cut.
inline constexpr std::int64_t norm_block = 4096;

/// The parameters that are first used in one segment: what is reduced, updated and gathered at once.
struct Bucket {
  int segment = 0;
  std::int64_t begin = 0;  ///< elements of the flat parameter layout
  std::int64_t end = 0;
  std::vector<std::int64_t> parameters;  ///< where they begin, from begin on: 0 first, ascending
  std::vector<std::int64_t>
      shards;  ///< P + 1 offsets from begin: rank r owns [shards[r], shards[r+1])

  [[nodiscard]] std::int64_t size() const { return end - begin; }
  [[nodiscard]] std::int64_t shard_size(int rank) const {
    const auto r = static_cast<std::size_t>(rank);
    return shards[r + 1] - shards[r];
  }

  /// Elements [first, last) of the bucket, parameter by parameter: [begin, end) of each, with the padding
  /// behind it.
  [[nodiscard]] std::vector<std::pair<std::int64_t, std::int64_t>> pieces(std::int64_t first,
                                                                          std::int64_t last) const {
    std::vector<std::pair<std::int64_t, std::int64_t>> result;
    for (std::size_t p = 0; p < parameters.size(); ++p) {
      const std::int64_t next = p + 1 < parameters.size() ? parameters[p + 1] : size();
      const std::int64_t from = std::max(first, parameters[p]);
      const std::int64_t to = std::min(last, next);
      if (from < to) result.emplace_back(from, to);
    }
    return result;
  }
  [[nodiscard]] std::vector<std::pair<std::int64_t, std::int64_t>> pieces_of(int rank) const {
    const auto r = static_cast<std::size_t>(rank);
    return pieces(shards[r], shards[r + 1]);
  }
};

/// The blocks of a piece of a parameter that begins with one.
constexpr std::int64_t norm_blocks(std::int64_t elements) {
  return (elements + norm_block - 1) / norm_block;
}

/// The blocks of some pieces.
inline std::int64_t norm_blocks(std::span<const std::pair<std::int64_t, std::int64_t>> pieces) {
  std::int64_t blocks = 0;
  for (const auto& [begin, end] : pieces) blocks += norm_blocks(end - begin);
  return blocks;
}

/// P + 1 offsets that give each of P ranks a share of n elements in whole blocks, which begin anew at each
/// of `parameters`: shares differ from n / P by at most a block.
inline std::vector<std::int64_t> shard_offsets(std::int64_t n, int ranks,
                                               std::span<const std::int64_t> parameters = {}) {
  std::vector<std::int64_t> offsets;
  for (int r = 0; r <= ranks; ++r) {
    const std::int64_t share = n / ranks * r + n % ranks * r / ranks;
    const auto behind = std::upper_bound(parameters.begin(), parameters.end(), share);
    const std::int64_t begin = behind == parameters.begin() ? 0 : *(behind - 1);
    const std::int64_t below = begin + (share - begin) / norm_block * norm_block;
    const std::int64_t above =
        std::min(below + norm_block, behind == parameters.end() ? n : *behind);
    offsets.push_back(share - below < above - share ? below : above);
  }
  offsets.back() = n;
  return offsets;
}

/// When ranks that step on their own take an outer step, fragment by fragment.
///
/// | none  | after a step: the next waits for it                                                      |
/// | mix   | beside the next step, whose weights are then mixed with those that have arrived          |
/// | eager | beside the steps until all fragments are due again; until then own weights stand in      |
struct OuterSchedule {
  enum class Overlap : std::uint8_t { none, mix, eager };

  int every = 1;      ///< H: the steps from one outer step of a weight to its next
  int fragments = 1;  ///< F, at most H: equal shares of the weights
  Overlap overlap = Overlap::none;

  /// The same where weights and differences are the same ones at the same step.
  [[nodiscard]] std::string text() const {
    constexpr std::array<std::string_view, 3> names{"none", "mix", "eager"};
    return concat("every ", every, " steps in ", fragments, " fragments, overlap ",
                  names[static_cast<std::size_t>(overlap)]);
  }
};

/// What there is of a segment of the model between its forward and its backward.
///
/// | keep                | all that its backward reads                                                      |
/// | stash               | as much, in host memory: it leaves after the forward, and comes back before the  |
/// |                     | backward. To stash, a policy has to swap                                         |
/// | recompute           | what crosses its bounds; the rest is computed again, with the same random        |
/// |                     | numbers and bits, before its backward                                            |
/// | recompute_and_stash | what crosses its bounds, in host memory                                          |
///
/// The last segment keeps, since its backward comes at once.
///
/// Source of recomputation: Chen et al., Training deep nets with sublinear memory cost, arXiv 1604.06174.
enum class Activations : std::uint8_t { keep, stash, recompute, recompute_and_stash };

inline constexpr std::array<Activations, 4> all_activations{Activations::keep, Activations::stash,
                                                            Activations::recompute,
                                                            Activations::recompute_and_stash};

constexpr bool recomputes(Activations choice) {
  return choice == Activations::recompute || choice == Activations::recompute_and_stash;
}
constexpr bool stashes(Activations choice) {
  return choice == Activations::stash || choice == Activations::recompute_and_stash;
}

/// When segments of a model that is swapped are on the device.
///
/// | per_micro_batch        | each micro-batch runs through all segments by itself; else all of a |
/// |                        | fold through each                                                   |
/// | copies_on_compute_lane | copies to host memory take the compute lane's time; else they have  |
/// |                        | a lane of their own                                                 |
/// | writes_back            | weights leave, too, after forwards and after backwards, though they |
/// |                        | have not changed                                                    |
/// | resident_segments      | how many first segments stay on the device, with gradients and      |
/// |                        | optimizer state: no step waits for their load, nor for their        |
/// |                        | gradients to leave                                                  |
/// | stash_slots            | for what is stashed of segments, on its way out, and as many on its |
/// |                        | way back: with more of them the link goes on with much of one       |
/// |                        | segment beside others that stash little                             |
struct SwapSchedule {
  int slots = 2;  ///< on the device for weights; for gradients 3 at most
  bool per_micro_batch = false;
  bool copies_on_compute_lane = false;
  bool writes_back = false;
  int resident_segments = 0;
  int stash_slots = 2;

  friend constexpr bool operator==(const SwapSchedule&, const SwapSchedule&) = default;
  friend constexpr auto operator<=>(const SwapSchedule&, const SwapSchedule&) = default;
};

/// The parameters of a plan that a planner may choose.
struct Choice {
  std::vector<int> cuts;  ///< 0, the first nodes of further segments, the number of nodes
  std::vector<Activations> activations{};  ///< by segment; empty: all are kept
  SwapSchedule swapping{};

  friend bool operator==(const Choice&, const Choice&) = default;
  friend auto operator<=>(const Choice&, const Choice&) = default;
};

/// What all ranks agree on before the first step. Plain data; every rank builds the same.
struct StepPlan {
  const graph::Dag* dag = nullptr;  ///< outlives the plan
  int ranks = 1;
  int virtual_ranks = 1;  ///< how many ranks one process stands for; more than 1 only alone
  std::vector<int> micro_batches;  ///< of a phase, by rank, or by virtual rank
  bool discrete = false;           ///< messages cannot be made of the device's memory
  schedule::Place persistent_place =
      schedule::Place::device;  ///< of storages that outlive a step; place_of: by bucket
  Bytes piece_bytes = comm::default_piece_bytes;   ///< comm::ProgressOptions::piece_bytes
  int phases_per_step = 1;                         ///< in each a rank runs its micro-batches
  Element gradient = Element::float32;  ///< what gradients of parameters are added up and sent in
  bool own_master = false;  ///< the optimizer keeps master weights also of what is no narrower
  bool adapts = false;      ///< a phase takes extra micro-batches while it communicates
  int max_micro_batches = 0;  ///< of a rank in such a phase; 0 is no bound
  /// Updates wait for the norm of all gradients, also where a policy could do without.
  bool waits_for_global_norm = true;
  OuterSchedule outer_schedule{};          ///< of ranks that step on their own
  std::vector<Activations> activations{};  ///< by segment; empty: all are kept
  SwapSchedule swapping{};                 ///< where the swap policy swaps
  /// `Drop` instructions mark device memory that nobody reads any more, and a checking device
  /// poisons it.
  bool poisons_dead_memory = false;

  graph::ParameterLayout layout{};
  std::vector<graph::Segment> segments{};
  std::vector<Bucket> buckets{};
  std::vector<int> bucket_of_parameter{};
  std::vector<int> bucket_of_segment{};  ///< -1: the segment is the first to use no parameter

  /// Of a weight, and of what is summed: gradients of weights, losses, optimizer state.
  [[nodiscard]] Bytes element_bytes() const { return size_of(dag->element); }
  [[nodiscard]] Bytes sum_bytes() const { return size_of(sum_of(dag->element)); }

  /// Of a gradient that is kept or sent: as what is summed, unless it is rounded after each sum.
  [[nodiscard]] Bytes gradient_bytes() const { return size_of(gradient); }
  [[nodiscard]] bool rounds_gradients() const { return gradient_bytes() < sum_bytes(); }

  /// Where the weights of a bucket live, with their gradients and the optimizer's state.
  [[nodiscard]] schedule::Place place_of(std::size_t bucket) const {
    return buckets[bucket].segment < swapping.resident_segments ? schedule::Place::device
                                                                : persistent_place;
  }

  /// The last segment's backward comes at once.
  [[nodiscard]] Activations activations_of(std::size_t segment) const {
    const bool keeps = activations.empty() || segment + 1 == segments.size();
    return keeps ? Activations::keep : activations[segment];
  }
  [[nodiscard]] bool recomputes_segment(std::size_t segment) const {
    return recomputes(activations_of(segment));
  }
  [[nodiscard]] bool stashes_segment(std::size_t segment) const {
    return stashes(activations_of(segment));
  }
  [[nodiscard]] bool stashes_some() const {
    for (std::size_t s = 0; s < segments.size(); ++s) {
      if (stashes_segment(s)) return true;
    }
    return false;
  }

  /// An optimizer keeps master weights: those of the model are narrower than sums, or are others.
  [[nodiscard]] bool keeps_master() const { return own_master || element_bytes() < sum_bytes(); }

  /// Where the parameters of a bucket lie in it: [begin, end) of runs without padding, ascending.
  [[nodiscard]] std::vector<std::pair<std::int64_t, std::int64_t>> parameters_in(int bucket) const {
    std::vector<std::pair<std::int64_t, std::int64_t>> runs;
    for (std::size_t p = 0; p < layout.parameters.size(); ++p) {
      if (bucket_of_parameter[p] != bucket) continue;
      const std::int64_t begin =
          layout.parameters[p] - buckets[static_cast<std::size_t>(bucket)].begin;
      const std::int64_t end = begin + dag->parameters[p].spec.shape.size();
      if (!runs.empty() && runs.back().second == begin) {
        runs.back().second = end;
      } else {
        runs.emplace_back(begin, end);
      }
    }
    return runs;
  }

  /// The virtual ranks that a process runs: [first, last) of micro_batches.
  [[nodiscard]] std::pair<int, int> folds_of(int rank) const {
    return virtual_ranks > 1 ? std::pair{0, virtual_ranks} : std::pair{rank, rank + 1};
  }

  /// The micro-batches that a process runs in a phase.
  [[nodiscard]] int micro_batches_of(int rank) const {
    const auto [first, last] = folds_of(rank);
    return std::accumulate(micro_batches.begin() + first, micro_batches.begin() + last, 0);
  }

  /// The micro-batches of all ranks in a phase, and in a step.
  [[nodiscard]] int micro_batches_in_all() const {
    return std::accumulate(micro_batches.begin(), micro_batches.end(), 0);
  }
  [[nodiscard]] int micro_batches_of_step() const {
    return phases_per_step * micro_batches_in_all();
  }

  /// How many micro-batches of a phase come before the first of this process.
  [[nodiscard]] int micro_batches_before(int rank) const {
    const int first = folds_of(rank).first;
    return std::accumulate(micro_batches.begin(), micro_batches.begin() + first, 0);
  }
};

/// Where a model may be cut: the bounds of segments that hold at least `segment_bytes` of
/// parameters each, at positions where fewer bytes cross than beside them.
///
/// | order  | ascending, first 0, last the number of nodes                          |
/// | bits   | none change: gradients are folded per use, wherever the cuts are      |
inline std::vector<int> choose_cuts(const graph::Dag& dag, Bytes segment_bytes) {
  const int count = dag.node_count();
  constexpr Bytes everything = std::numeric_limits<Bytes>::max();
  std::vector<Bytes> crossing = graph::crossing_bytes(dag);
  crossing.front() = everything;
  crossing.back() = everything;
  const auto narrow = [&](int c) {  // fewer bytes cross than on either side, or as few
    const auto at = static_cast<std::size_t>(c);
    return crossing[at] <= crossing[at - 1] && crossing[at] <= crossing[at + 1];
  };

  std::vector<int> cuts{0};
  std::vector<bool> seen(dag.parameters.size(), false);
  Bytes held = 0;
  for (int node = 0; node < count; ++node) {
    if (node > 0 && held >= segment_bytes && narrow(node)) {
      cuts.push_back(node);
      held = 0;
    }
    for (const int use : dag.node_at(node).uses) {
      const auto parameter = static_cast<std::size_t>(dag.use_at(use).parameter);
      if (!seen[parameter]) held += dag.parameters[parameter].spec.bytes();
      seen[parameter] = true;
    }
  }
  cuts.push_back(count);
  return cuts;
}

/// Plans the segments between the cuts and the buckets of their parameters.
///
/// Throws OptionError when cuts, ranks or counts make no sense.
inline StepPlan make_step_plan(const graph::Dag& dag, const std::vector<int>& cuts, int ranks,
                               int virtual_ranks, std::vector<int> micro_batches, bool discrete) {
  if (dag.loss < 0) {
    throw OptionError(
        "reef::run: the graph has no loss to train on.\n  fix: call graph.loss(tensor).");
  }
  if (dag.inputs.empty() || dag.parameters.empty()) {
    throw OptionError("reef::run: the graph has no ", dag.inputs.empty() ? "input" : "parameter",
                      ".\n  why: a step reads micro-batches and trains parameters.\n"
                      "  fix: call graph.input(), and add operators that have parameters.");
  }
  if (virtual_ranks < 1 || (virtual_ranks > 1 && ranks > 1)) {
    throw OptionError(
        "reef::run: virtual_ranks is ", virtual_ranks, " on ", ranks,
        " ranks.\n  why: one process stands for several ranks only when it is alone.\n"
        "  fix: virtual_ranks = 1, or one rank.");
  }
  const auto folds = static_cast<std::size_t>(std::max(ranks, virtual_ranks));
  if (micro_batches.size() != folds) {
    throw OptionError("reef::run: ", micro_batches.size(), " counts of micro-batches for ", folds,
                      " ranks.");
  }
  constexpr std::int64_t most = std::int64_t{1} << 24;  // each has instructions and storages
  std::int64_t all = 0;
  for (const int count : micro_batches) {
    if (count < 1)
      throw OptionError("reef::run: a rank has no micro-batch; each needs at least 1.");
    all += count;
  }
  if (all > most) {
    throw OptionError("reef::run: the ranks have ", all, " micro-batches, at most ", most,
                      " in all.\n  fix: fewer, and larger ones.");
  }
  for (std::size_t i = 0; i + 1 < cuts.size(); ++i) {
    if (cuts.front() == 0 && cuts.back() == dag.node_count() && cuts[i] < cuts[i + 1]) continue;
    throw OptionError("reef::run: the cuts do not divide a model of ", dag.node_count(),
                      " nodes: ", cuts[i], " comes before ", cuts[i + 1],
                      ".\n  fix: ascending numbers of nodes from 1 to ", dag.node_count() - 1, ".");
  }
  StepPlan plan{&dag, ranks, virtual_ranks, std::move(micro_batches), discrete};
  plan.gradient = sum_of(dag.element);
  plan.layout = graph::parameter_layout(dag);
  plan.bucket_of_parameter.assign(dag.parameters.size(), -1);
  for (std::size_t i = 0; i + 1 < cuts.size(); ++i) {
    plan.segments.push_back(graph::plan_segment(dag, cuts[i], cuts[i + 1]));
    const int segment = static_cast<int>(i);
    Bucket bucket{segment, std::numeric_limits<std::int64_t>::max(), 0, {}, {}};
    for (const int id : plan.segments.back().parameters) {
      const auto parameter = static_cast<std::size_t>(id);
      if (plan.bucket_of_parameter[parameter] >= 0) continue;
      plan.bucket_of_parameter[parameter] = static_cast<int>(plan.buckets.size());
      const std::int64_t begin = plan.layout.parameters[parameter];
      const auto elements = static_cast<Bytes>(dag.parameters[parameter].spec.shape.size());
      bucket.begin = std::min(bucket.begin, begin);
      bucket.end = std::max(bucket.end, begin + static_cast<std::int64_t>(round_up(
                                                    elements, graph::ParameterLayout::alignment)));
      bucket.parameters.push_back(begin);
    }
    for (std::int64_t& begin : bucket.parameters) begin -= bucket.begin;
    plan.bucket_of_segment.push_back(bucket.end > 0 ? static_cast<int>(plan.buckets.size()) : -1);
    if (bucket.end == 0) continue;
    bucket.shards = shard_offsets(bucket.size(), ranks, bucket.parameters);
    plan.buckets.push_back(std::move(bucket));
  }
  return plan;
}

}  // namespace reef::inline v0::run
