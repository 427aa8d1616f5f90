#pragma once

#include <reef/core/version.hpp>

namespace reef {
inline namespace v0 {

/// The tags of a Trainer's axes (swap, pipeline, compression, optimizer, device, precision), on each of which it has a
/// policy. A policy declares its axis, as in `using policy_tag = SwapTag;`, so that no type fills an axis by accident.
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

/// The forms of gradients, or of weight `differences`, that compressors send and optimizers accept.
///
/// | dense   | all gradients, unencoded; the ranks' buffers are added element by element         |
/// | sparse  | a part of the gradients, different on each rank; the reduction combines the parts |
/// | encoded | a codec's message to each shard's owner, who decodes and adds them in rank order  |
enum class Payload : unsigned { none = 0, dense = 1, sparse = 2, encoded = 4, differences = 8 };

constexpr Payload operator|(Payload a, Payload b) {
  return static_cast<Payload>(static_cast<unsigned>(a) | static_cast<unsigned>(b));
}
constexpr Payload operator&(Payload a, Payload b) {
  return static_cast<Payload>(static_cast<unsigned>(a) & static_cast<unsigned>(b));
}

}  // namespace v0
}  // namespace reef
