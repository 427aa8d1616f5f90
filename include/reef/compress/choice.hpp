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

inline constexpr double most_ratio = 1e12;  // of a codec

}  // namespace detail

/// "This ratio, for this traffic, at this step": a function of what is carried, and of how many steps are committed. It is assigned as
/// one: of both, or of what is carried alone, which is then for good.
///
///     (carried, step) -> a ratio from `least` on: in that step; at 1 all numbers are sent, still by the codec
///                        nothing: what it has else, of `replan` or the codec, under `ramp`. `network` alone says nothing then
///     (carried)       -> 1: it is not encoded at all; more: the ratio, under `ramp`; nothing: what it has else
///
/// Another function that is assigned has another `least`, 1.
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
/// | same   | every rank says the same of the same: nothing else is asked, so a resumed training has the same ratios. One    |
/// |        | that does not is found by its first message: a DecodeError that names it                               |
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

  double least = 1;  ///< no ratio of a step is below

  [[nodiscard]] bool is_by_step() const { return static_cast<bool>(by_step_); }

  /// What it says for good; nothing if it is by step, or none.
  [[nodiscard]] Ratio for_good(const Carried& carried) const { return for_good_ ? for_good_(carried) : Ratio(); }

  /// What it says of a step. Throws OptionError for a ratio that cannot be.
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
