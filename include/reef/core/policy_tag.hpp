#pragma once

#include <reef/core/version.hpp>

namespace reef {
inline namespace v0 {

/// The axes that a Trainer is composed of. A policy opts in with `using policy_tag = SwapTag;`, so
/// that nothing fills a role by accident.
///
/// \code
/// struct Mine {
///   using policy_tag = CompressTag;
///   static constexpr Payload payload = Payload::sparse;
/// };
/// \endcode
struct SwapTag {};
struct PipelineTag {};
struct CompressTag {};
struct OptimTag {};
struct DeviceTag {};
struct PrecisionTag {};

/// The forms in which gradients are sent, by compressors, and accepted, by optimizers.
///
/// | dense   | all gradients, unencoded: buffers add element by element                                |
/// | sparse  | some gradients, different ones on each rank, for the reduction to combine                |
/// | encoded | a codec's message for each owner, who decodes and folds them in the order of ranks         |
enum class Payload : unsigned { none = 0, dense = 1, sparse = 2, encoded = 4, differences = 8 };

constexpr Payload operator|(Payload a, Payload b) {
  return static_cast<Payload>(static_cast<unsigned>(a) | static_cast<unsigned>(b));
}
constexpr Payload operator&(Payload a, Payload b) {
  return static_cast<Payload>(static_cast<unsigned>(a) & static_cast<unsigned>(b));
}

}  // namespace v0
}  // namespace reef
