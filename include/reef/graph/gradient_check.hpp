#pragma once

#include <cstdint>
#include <string>

#include <reef/core/shape.hpp>

namespace reef {
inline namespace v0 {
namespace graph {

/// Options of check_gradients: the range of the random inputs, and the number of elements of each tensor that are
/// checked. In a tensor with more elements than that, evenly spaced ones are checked.
struct GradientCheckOptions {
  double low = -1;             ///< begin of the range of random inputs, [low, high)
  /// End of the range of random inputs; for an operator undefined or with a kink at 0: low 0.1, high 1.
  double high = 1;
  std::int32_t classes = 2;    ///< end of the range [0, classes) of random integer inputs
  std::int64_t entries = 256;  ///< the largest number of elements that are checked in each tensor
  double step = 0;             ///< the step h of the finite differences; 0 selects 0.002 for fp64, 0.05 for fp32
  double tolerance = 0;        ///< the greatest relative error that passes; 0 selects 1e-6 for fp64, 5e-3 for fp32
  std::uint64_t seed = 1;

  /// Throws OptionError, naming the first invalid option of the gradient check.
  void validate() const;
};

/// The result of check_gradients: the gradient element with the greatest error.
///
/// \code
/// // given: const graph::GradientCheck& found
/// if (!found.passed()) std::printf("%s\n", found.text().c_str());
/// \endcode
struct GradientCheck {
  double error = 0;  ///< the error of the element, relative to the greatest element of its tensor's gradient
  std::string name;  ///< the name of the input or parameter; the gradient of a tied parameter is the sum over its uses
  Shape shape;       ///< the shape of the input or parameter whose gradient was checked
  std::int64_t index = 0;  ///< the index of the element, in row-major order
  /// True if the gradient is that of two micro-batches, the second of which was added to the first.
  bool added = false;
  double backward = 0;        ///< the gradient element as backward computes it
  double differences = 0;     ///< the gradient element as finite differences of the forward approximate it
  std::int64_t compared = 0;  ///< the number of elements compared
  double tolerance = 0;
  /// The way in which the operator was used in the checked graph, if not alone: "where nobody wants ...".
  std::string where;

  [[nodiscard]] bool passed() const { return error <= tolerance; }
  explicit operator bool() const { return passed(); }

  /// Returns the result of the check as text, which explains a NaN: "d / d 'swish.slope'[3]: backward 0.41, differences
  /// 0.42; error 0.02, tolerance 1e-06, of 12 entries".
  [[nodiscard]] std::string text() const;
};

namespace detail {

/// Throws OptionError that says why a graph's gradients cannot be checked, and the fix.
[[noreturn]] void refuse_gradient_check(const char* why, const char* fix);

/// Throws ShapeError that names a tensor behind whose end an operator has written.
[[noreturn]] void refuse_write_behind(const std::string& tensor);

}  // namespace detail

}  // namespace graph
}  // namespace v0
}  // namespace reef

#ifndef REEF_COMPILED
#include <reef/graph/gradient_check.ipp>
#endif
