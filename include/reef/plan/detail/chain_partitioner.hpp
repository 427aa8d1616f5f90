#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <reef/core/error.hpp>
#include <reef/core/text.hpp>
#include <reef/core/units.hpp>
#include <reef/plan/chain.hpp>
#include <reef/plan/detail/chain_sums.hpp>
#include <reef/plan/detail/pair_rules.hpp>
#include <reef/plan/detail/three_resident.hpp>
#include <reef/plan/detail/two_resident.hpp>
#include <reef/plan/partition.hpp>
#include <reef/plan/variant.hpp>

namespace reef {
inline namespace v0 {
namespace plan::detail {

/// Partitions one chain for several memories and accumulations.
class ChainPartitioner {
public:
  ChainPartitioner(const OperatorChain& chain, Variant variant) : chain_(chain), variant_(variant) {
    chain.validate();
    if (chain.size() < 2) {
      throw OptionError(
          "reef::plan::partition_chain: a chain of one operator has no cut.\n"
          "  fix: a chain of at least two.");
    }
    const int most =
        stashes(variant) || keeps_three(variant) ? max_operators_of_three : max_operators;
    if (chain.size() > most) {
      throw OptionError(
          "reef::plan::partition_chain: ", chain.size(), " operators for the variant '",
          name_of(variant), "', which takes at most ", most,
          ".\n  why: time and memory grow with their square or cube.\n  fix: join operators "
          "between which there is never a cut, or the variant 'full'.");
    }
  }

  /// The bounds of the best partition; empty if there is none.
  [[nodiscard]] std::vector<int> bounds(Bytes memory, std::int64_t accumulation) const {
    const ChainSums sums(chain_, accumulation);
    const PairRules rules(sums, chain_, to_int(memory), variant_, accumulation);
    return keeps_three(variant_) ? ThreeResident(rules).run() : TwoResident(rules).run();
  }

  /// Whether there is one if loads may be hidden behind `most` micro-batches and stashes are those of
  /// `least`: if not, no number between them has one.
  [[nodiscard]] bool exists(Bytes memory, std::int64_t least, std::int64_t most) const {
    const ChainSums sums(chain_, most);
    const PairRules rules(sums, chain_, to_int(memory), variant_, least);
    return keeps_three(variant_) ? !ThreeResident(rules).run().empty()
                                 : TwoResident(rules).exists();
  }

  /// What bounds come to, and the first rule that they do not keep. Without bounds, what is known of the
  /// chain.
  [[nodiscard]] Partition evaluate(std::vector<int> bounds, Bytes memory,
                                   std::int64_t accumulation) const {
    const ChainSums sums(chain_, accumulation);
    const PairRules rules(sums, chain_, to_int(memory), variant_, accumulation);
    const int n = chain_.size();
    Partition result;
    result.accumulation = accumulation;
    result.fits =
        sums.in_forward(0, n) <= rules.memory() && sums.in_backward(0, n) <= rules.memory();
    if (bounds.empty()) return result;
    result.compute = sums.forward(0, n) + sums.backward(0, n);
    const std::size_t count = bounds.size() - 1;
    result.iteration = sums.backward(0, bounds[1]) + sums.forward(bounds[count - 1], n);
    std::int64_t through_cuts = 0;
    std::int64_t peak = 0;
    const auto need = [&](std::int64_t bytes) {
      peak = (std::max)(peak, bytes + rules.stash(through_cuts));
    };
    for (std::size_t i = 1; i < count; ++i) {
      const int a = bounds[i - 1];
      const int b = bounds[i];
      const int d = bounds[i + 1];
      through_cuts += rules.cut(b);
      result.iteration += rules.time(a, b, d);
      if (i == 1) need(rules.first(b));
      need(rules.pair(a, b, d));
      if (rules.keeps_three() && i > 1) need(rules.triple(bounds[i - 2], a, b, d));
      if (result.why.empty() && !rules.hidden(a, b, d)) {
        result.why = concat("a load at the cut before operator ", chain_.name(b),
                            " takes longer than what hides it");
      }
    }
    need(rules.last(bounds[count - 1]));
    result.cut_bytes = static_cast<Bytes>(through_cuts);
    result.peak_bytes = static_cast<Bytes>(peak);
    if (peak > rules.memory()) {
      result.why = concat("it needs ", result.peak_bytes, " of ", memory, " bytes");
    }
    result.feasible = result.why.empty();
    result.bounds = std::move(bounds);
    return result;
  }

  /// What smallest_accumulation says where `max_searches` did not decide.
  static constexpr std::int64_t undecided = -1;
  [[nodiscard]] int max_searches() const { return keeps_three(variant_) ? 60 : 200; }

  /// The smallest number of micro-batches from `least` on with which there is a partition; 0 if none has
  /// one. More of them hide more, but stashes take more memory: so ranges of numbers are halved, and left
  /// out where none in them can have one.
  [[nodiscard]] std::int64_t smallest_accumulation(Bytes memory, std::int64_t least = 1) const {
    const std::int64_t most = max_accumulation();
    int searches = max_searches();
    if (least > most || !exists(memory, least, most)) return 0;
    for (std::int64_t from = least, to = least; from <= most;
         from = to + 1, to = (std::min)(2 * to, most)) {
      if (const std::int64_t found = smallest_in(memory, from, (std::max)(from, to), searches))
        return found;
      if (searches <= 0) return undecided;
    }
    return 0;
  }

  /// The least memory above `memory`, with which there is no partition, that has one; 0 if none has one.
  /// With stashes or three resident sub-models it is found to a thousandth.
  [[nodiscard]] Bytes smallest_memory(std::int64_t accumulation, Bytes memory = 0) const {
    constexpr Bytes all = Bytes{1} << 61;
    const std::vector<int> loosest = bounds(all, accumulation);
    if (loosest.empty()) return 0;
    const Bytes parts = stashes(variant_) || keeps_three(variant_) ? 1024 : all;
    Bytes works = evaluate(loosest, all, accumulation).peak_bytes;
    Bytes fails = (std::min)(memory, works - 1);
    while (works - fails > 1 + works / parts) {
      const Bytes middle = fails + (works - fails) / 2;
      (exists(middle, accumulation, accumulation) ? works : fails) = middle;
    }
    return works;
  }

  /// Why there is no partition, and what is enough for one.
  [[nodiscard]] std::string why(Bytes memory, std::int64_t accumulation) const {
    try {
      return searched_why(memory, accumulation);
    } catch (const TooManyStates&) {  // with more memory
      return concat("no partition keeps the rules of '", name_of(variant_), "' in ", memory,
                    " bytes; what would be enough takes too long to find for ", chain_.size(),
                    " operators");
    }
  }

  [[nodiscard]] std::string undecided_text() const {
    return concat("a number of micro-batches that ", max_searches(),
                  " searches have not found, if any");
  }

private:
  [[nodiscard]] std::string searched_why(Bytes memory, std::int64_t accumulation) const {
    const ChainSums sums(chain_, accumulation);
    const bool paper = variant_ == Variant::paper;
    const Bytes enough = smallest_memory(accumulation, memory);
    std::string result;
    for (int i = 0; i < chain_.size() && result.empty(); ++i) {
      const std::int64_t needs =
          paper ? sums.alone(i, i + 1)
                : (std::max)(sums.in_forward(i, i + 1), sums.in_backward(i, i + 1));
      if (needs <= to_int(memory)) continue;
      result =
          concat("operator ", chain_.name(i), " alone needs ", needs, " of ", memory, " bytes");
    }
    const std::int64_t more = result.empty() ? smallest_accumulation(memory, accumulation + 1) : 0;
    if (result.empty()) {
      result = enough == 0 ? concat("no partition hides its loads behind ", accumulation,
                                    " micro-batches, in any memory")
               : more > 0  ? concat("no partition of ", memory, " bytes hides its loads behind ",
                                    accumulation, " micro-batches")
                           : concat("no partition keeps the rules of '", name_of(variant_), "' in ",
                                    memory, " bytes");
    }
    result += "; enough would be ";
    if (more > 0) result += concat(more, " micro-batches");
    if (more > 0 && enough > 0) result += ", or ";
    if (enough > 0) result += concat(enough, " bytes");
    if (more > 0 || enough > 0) return result;
    constexpr Bytes all = Bytes{1} << 61;
    if (more == undecided) return result + undecided_text();
    const std::int64_t any = smallest_accumulation(all, accumulation + 1);
    if (any == undecided) return result + undecided_text();
    if (any == 0)
      return result + "a faster link: some operator takes no time to hide a load behind";
    return result + concat(any, " micro-batches and ", smallest_memory(any, memory), " bytes");
  }

  /// A forward or backward that takes any time hides all loads behind so many; more are of no use, and
  /// where sums would be no numbers, none.
  [[nodiscard]] std::int64_t max_accumulation() const {
    const ChainSums sums(chain_, 1);
    const int n = chain_.size();
    const std::int64_t time = std::max<std::int64_t>(1, sums.forward(0, n) + sums.backward(0, n));
    std::int64_t cuts = 1;
    for (const Bytes crossing : chain_.cut) cuts += static_cast<std::int64_t>(crossing);
    constexpr std::int64_t largest = 1'000'000'000'000'000'000;
    return std::max<std::int64_t>(1, (std::min)({sums.load(0, n), largest / time, largest / cuts}));
  }

  [[nodiscard]] std::int64_t smallest_in(Bytes memory, std::int64_t from, std::int64_t to,
                                         int& searches) const {
    if (--searches <= 0 || !exists(memory, from, to)) return 0;
    if (from == to) return from;
    const std::int64_t middle = from + (to - from) / 2;
    const std::int64_t found = smallest_in(memory, from, middle, searches);
    return found > 0 ? found : smallest_in(memory, middle + 1, to, searches);
  }

  static std::int64_t to_int(Bytes bytes) {
    return static_cast<std::int64_t>((std::min)(bytes, Bytes{1} << 62));
  }

  const OperatorChain& chain_;
  Variant variant_;
};

}  // namespace plan::detail
}  // namespace v0
}  // namespace reef
