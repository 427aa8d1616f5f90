#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include <reef/core/units.hpp>

namespace reef {
inline namespace v0 {
namespace run {

/// The parameters that an update rule takes as whole matrices. Empty for a rule that goes element by element.
///
/// \code
/// #include <cstdio>
/// // given: const run::StepPlan& plan, std::size_t parameter
/// if (const auto matrix = plan.matrices.of(parameter)) std::printf("%g operations\n", matrix->flops);
/// \endcode
struct WholeMatrices {
  struct Matrix {
    std::int64_t rows = 0;
    std::int64_t columns = 0;
    Bytes workspace = 0;  ///< bytes of an update
    double flops = 0;     ///< operations of an update
  };

  /// The operations that a core could compute while the bytes of one element's update come.
  static constexpr std::int64_t flops_of_element = 128;

  std::vector<std::optional<Matrix>> of_parameter{};  ///< empty: the rule needs no whole matrices
  /// The work of the update of each rank's shards, in operations; an element that is in no matrix counts
  /// flops_of_element.
  std::vector<std::int64_t> loads{};

  [[nodiscard]] bool needed() const { return !of_parameter.empty(); }
  [[nodiscard]] std::optional<Matrix> of(std::size_t parameter) const {
    return needed() ? of_parameter[parameter] : std::nullopt;
  }
};

}  // namespace run
}  // namespace v0
}  // namespace reef
