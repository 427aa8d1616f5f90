#pragma once

#include <reef/compress/concept.hpp>

namespace reef {
inline namespace v0 {
namespace compress {

/// The compressor without compression, the default of a Trainer: every number is sent as it is in memory.
///
/// \code
/// using MyTrainer = Trainer<compress::Dense, optim::Ddp<optim::AdamW>>;  // as without Dense
/// \endcode
struct Dense {
  using policy_tag = CompressTag;
  static constexpr bool lossless = true;
  static constexpr Payload payload = Payload::dense;

  static void add(run::StepBuilder& /*builder*/) {}
};

static_assert(CompressorPolicy<Dense>);

}  // namespace compress
}  // namespace v0
}  // namespace reef
