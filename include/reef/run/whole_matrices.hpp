#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include <reef/core/units.hpp>

namespace reef {
inline namespace v0 {
namespace run {

/// The parameters that an update rule treats as whole matrices, such as Muon. Empty for an element-wise rule.
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
    Bytes workspace = 0;  ///< the bytes of scratch memory for an update of the matrix
    double flops = 0;     ///< the operations of an update of the matrix
  };

  /// The operations that a core can compute in the time in which it loads the bytes for the update of one element.
  static constexpr std::int64_t flops_of_element = 128;

  /// For each parameter, its matrix, if it is updated as a whole; empty: no whole matrices are needed.
  std::vector<std::optional<Matrix>> of_parameter{};
  /// For each rank, the work of updating its shards, in operations: flops_of_element for each element, and for each
  /// matrix its `flops` as well.
  std::vector<std::int64_t> loads{};

  [[nodiscard]] bool needed() const { return !of_parameter.empty(); }
  [[nodiscard]] std::optional<Matrix> of(std::size_t parameter) const {
    return needed() ? of_parameter[parameter] : std::nullopt;
  }
};

}  // namespace run
}  // namespace v0
}  // namespace reef
