#pragma once

#include <cmath>
#include <string>

#include <reef/core/error.hpp>
#include <reef/core/finite.hpp>
#include <reef/core/inline.hpp>
#include <reef/core/text.hpp>
#include <reef/graph/gradient_check.hpp>

namespace reef {
inline namespace v0 {
namespace graph {

REEF_INLINE void GradientCheckOptions::validate() const {
  const auto require_that = [](bool holds, const char* option, auto value, const char* fix) {
    if (holds) return;
    throw OptionError("reef::graph::check_gradients: ", option, " is ", value, ".\n  fix: ", fix);
  };
  require_that(is_finite(low) && is_finite(high) && low < high, "low", low, "a number below high.");
  require_that(classes >= 1, "classes", classes, "1 or more.");
  require_that(entries >= 1, "entries", entries, "1 or more of each tensor.");
  require_that(step == 0 || within(step, 1e-12, 1e12), "step", step,
               "0 for the usual one, or from 1e-12 to 1e12.");
  require_that(tolerance == 0 || within(tolerance, 1e-15, 1), "tolerance", tolerance,
               "0 for the usual one, or from 1e-15 to 1.");
}

namespace detail {

/// Returns what a NaN in a result says: memory is NaN until an operator writes it.
inline const char* meaning_of_nan(const GradientCheck& found) {
  if (std::isnan(found.differences)) return "; nan: forward left an element unwritten, or read outside of a view";
  if (!std::isnan(found.backward)) return "";
  return "; nan: backward left the entry unwritten, added to what nobody had written (accumulates, "
         "accumulate_parameters), or read what the signature does not ask for (backward_reads_outputs, "
         "backward_reads_inputs)";
}

}  // namespace detail

REEF_INLINE std::string GradientCheck::text() const {
  std::string place;
  std::int64_t left = index;
  std::int64_t behind = shape.size();
  for (std::size_t axis = 0; axis < shape.rank(); ++axis) {
    behind /= shape[axis];
    place += concat(axis == 0 ? "" : ", ", left / behind);
    left %= behind;
  }
  return concat("d / d '", name, "'[", place, "]",
                added ? ", where a second micro-batch is added" : "", where.empty() ? "" : ", ", where,
                ": backward ", backward,
                ", differences ", differences, "; error ", error, ", tolerance ", tolerance,
                ", of ", compared, " entries", detail::meaning_of_nan(*this));
}

namespace detail {

REEF_INLINE void refuse_gradient_check(const char* why, const char* fix) {
  throw OptionError("reef::graph::check_gradients: the graph has no gradient to check.\n  why: ",
                    why, ".\n  fix: ", fix);
}

REEF_INLINE void refuse_write_behind(const std::string& tensor) {
  throw ShapeError(
      "reef::graph::check_gradients: an operator wrote behind ", tensor,
      ".\n  fix: forward writes the elements of its outputs, backward those of its gradients, and no more.");
}

}  // namespace detail

}  // namespace graph
}  // namespace v0
}  // namespace reef
