#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <type_traits>
#include <utility>

#include <reef/compress/coded_messages.hpp>
#include <reef/core/error.hpp>
#include <reef/core/hash.hpp>

namespace reef {
inline namespace v0 {
namespace compress {

namespace detail {

inline constexpr double max_ratio = 1e12;  // largest ratio of a codec

}  // namespace detail

/// A function that chooses compression ratios. It is assigned from a function of CodedMessages and the number of
/// committed steps, called for every step, or from a function of CodedMessages alone, whose ratios hold for the whole
/// training.
///
///     (messages, step) -> a ratio >= `least`: that ratio in this step; at 1 the codec sends all numbers
///                        nullopt: the ratio of `replan` or the codec, with `ramp`; a `network` alone is then ignored
///     (messages)       -> 1: no encoding at all; above 1: that ratio, with `ramp`; nullopt: the ratio without a choice
///
/// Assigning another function sets `least` to 1 again.
///
/// \code
/// compress::RatioFunction choose = [](const compress::CodedMessages& messages,
///                                    std::int64_t step) -> std::optional<double> {
///   if (messages.traffic != schedule::Traffic::gradient) return {};
///   return step < 100 ? 4 : 100;  // of gradients less and less
/// };
/// choose.least = 4;
/// \endcode
///
/// | called | by step: before each step, on the thread that calls it, for each edge, bucket and piece of a fragment  |
/// |        | whose codec has a ratio; for good: once, for each edge and bucket                                      |
/// | same   | every rank must choose the same ratio for equal arguments, and depend on nothing else, so that a       |
/// |        | resumed training has the same ratios. A rank that differs causes a DecodeError at its first message    |
/// | room   | by step: programs, plans and simulations count the bytes that `least` needs; messages sent are shorter |
/// | held out | Trainer::evaluate uses the ratios of the step before it; before a job's first step, new or resumed,  |
/// |        | the ratios without a choice                                                                            |
/// | skipped | after a step that does not count, the function is called again with the same number of steps          |
/// | errors | OptionError from a step, before any of it has run, for a ratio below `least` or above 1e12; from a     |
/// |        | Trainer's constructor for a `least` below 1, or if no codec has a ratio                                |
class RatioFunction {
public:
  using Ratio = std::optional<double>;

  RatioFunction() = default;
  template <class F>
    requires(std::is_invocable_r_v<Ratio, const F&, const CodedMessages&, std::int64_t>)
  RatioFunction(F function)
      : by_step_(std::move(function)) {}  // NOLINT(google-explicit-constructor)
  template <class F>
    requires(!std::is_invocable_v<const F&, const CodedMessages&, std::int64_t> &&
             std::is_invocable_r_v<Ratio, const F&, const CodedMessages&>)
  RatioFunction(F function)
      : for_good_(std::move(function)) {}  // NOLINT(google-explicit-constructor)

  double least = 1;  ///< lower bound of the compression ratios that are chosen by step

  [[nodiscard]] bool is_by_step() const { return static_cast<bool>(by_step_); }

  /// Returns the compression ratio chosen for good; nullopt if ratios are chosen by step, or not at all.
  [[nodiscard]] Ratio for_good(const CodedMessages& messages) const {
    return for_good_ ? for_good_(messages) : Ratio();
  }

  /// Returns the compression ratio chosen for a step. Throws OptionError for a ratio below `least` or above 1e12.
  [[nodiscard]] Ratio at(const CodedMessages& messages, std::int64_t step) const;

  void validate() const;

  void add_to(Hash& hash) const {
    if (is_by_step()) hash.add("choose").add(least);
  }

private:
  std::function<Ratio(const CodedMessages&, std::int64_t)> by_step_{};
  std::function<Ratio(const CodedMessages&)> for_good_{};
};

}  // namespace compress
}  // namespace v0
}  // namespace reef

#ifndef REEF_COMPILED
#include <reef/compress/ratio_function.ipp>
#endif
