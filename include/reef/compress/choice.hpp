#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <type_traits>
#include <utility>

#include <reef/compress/carried.hpp>
#include <reef/core/error.hpp>
#include <reef/core/hash.hpp>

namespace reef {
inline namespace v0 {
namespace compress {

namespace detail {

inline constexpr double most_ratio = 1e12;  // largest ratio of a codec

}  // namespace detail

/// A function that chooses ratios: of what is carried (Carried), and of the number of committed steps. It is assigned
/// as a function of both, or of what is carried alone, whose ratios then hold for good.
///
///     (carried, step) -> a ratio from `least` on: in that step; at 1 all numbers are sent, still by the codec
///                        nothing: the ratio of `replan` or the codec, under `ramp`. `network` alone counts for nothing then
///     (carried)       -> 1: no encoding at all; more: the ratio, under `ramp`; nothing: the ratio without a choice
///
/// Assigning another function sets `least` to 1 again.
///
/// \code
/// compress::Choice choose = [](const compress::Carried& carried, std::int64_t step) -> std::optional<double> {
///   if (carried.traffic != schedule::Traffic::gradient) return {};
///   return step < 100 ? 4 : 100;  // of gradients less and less
/// };
/// choose.least = 4;
/// \endcode
///
/// | asked  | by step: before each step, on the thread that calls it, of each edge, bucket and piece of a fragment whose codec  |
/// |        | has a ratio; for good: once, of each edge and bucket                                                   |
/// | same   | every rank chooses the same for the same: nothing else is asked, so a resumed training has the same ratios. A  |
/// |        | rank that does not is found by its first message: a DecodeError that names it                          |
/// | room   | by step: programs have room for what `least` takes, plans and simulations say as much; what travels is shorter |
/// | held out | Trainer::evaluate encodes by the ratios of the step before it; before a job's first step, new or resumed, by those that |
/// |        | all have else                                                                                        |
/// | skipped | a step that does not count is asked for again, by the same number                                     |
/// | errors | OptionError, from a step, before anything of it has run, for a ratio below `least` or above 1e12; when a     |
/// |        | Trainer is made for a `least` below 1, or where no codec has a ratio                                   |
class Choice {
public:
  using Ratio = std::optional<double>;

  Choice() = default;
  template <class F>
    requires(std::is_invocable_r_v<Ratio, const F&, const Carried&, std::int64_t>)
  Choice(F function) : by_step_(std::move(function)) {}  // NOLINT(google-explicit-constructor)
  template <class F>
    requires(!std::is_invocable_v<const F&, const Carried&, std::int64_t> && std::is_invocable_r_v<Ratio, const F&, const Carried&>)
  Choice(F function) : for_good_(std::move(function)) {}  // NOLINT(google-explicit-constructor)

  double least = 1;  ///< lower bound of the ratios of steps

  [[nodiscard]] bool is_by_step() const { return static_cast<bool>(by_step_); }

  /// Returns the ratio chosen for good; nothing if ratios are chosen by step, or not at all.
  [[nodiscard]] Ratio for_good(const Carried& carried) const { return for_good_ ? for_good_(carried) : Ratio(); }

  /// Returns the ratio chosen for a step. Throws OptionError for an impossible ratio.
  [[nodiscard]] Ratio at(const Carried& carried, std::int64_t step) const;

  void validate() const;

  void add_to(Hash& hash) const {
    if (is_by_step()) hash.add("choose").add(least);
  }

private:
  std::function<Ratio(const Carried&, std::int64_t)> by_step_{};
  std::function<Ratio(const Carried&)> for_good_{};
};

}  // namespace compress
}  // namespace v0
}  // namespace reef

#ifndef REEF_COMPILED
#include <reef/compress/choice.ipp>
#endif
