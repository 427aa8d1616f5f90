#pragma once

#include <cstdint>
#include <string>

#include <reef/core/element.hpp>
#include <reef/core/units.hpp>
#include <reef/run/step_builder.hpp>

namespace reef {
inline namespace v0 {
namespace run {

/// A part of a policy's saved state (such as a moment) that a rank keeps in a storage of its own: values with a name,
/// for the weights [begin, begin + elements) of the flat parameter vector. It does not refer to buckets or ranks, so
/// that a run with other buckets or ranks can load it.
///
/// \code
/// // given: const run::Bucket& bucket, run::StorageId residual, int rank
/// run::StateRange range;
/// range.storage = residual;
/// range.name = concat("rank.", rank, ".residual");  // each rank has its own
/// range.begin = bucket.begin;
/// range.elements = bucket.size();
/// \endcode
struct StateRange {
  /// The distribution of saved state over ranks.
  /// | shard   | the rank's part; the ranks' parts together are the whole                             |
  /// | whole   | every rank has all of it                                                             |
  /// | pending | a rank's own gradient with which a step begins, or its own state between outer steps |
  /// | ahead   | the weights of the next gradients, whole, while they differ from the committed ones  |
  enum class Distribution : std::uint8_t { shard, whole, pending, ahead };

  StorageId storage = no_storage;
  std::string name;
  std::int64_t begin = 0;
  std::int64_t elements = 0;
  Element element = Element::float32;
  Distribution distribution = Distribution::shard;
  bool master = false;  ///< true for master weights, from which those of the model are rounded
  bool own = false;     ///< true for weights that differ between ranks, and are named after the rank
  bool memory = false;  ///< true for the memory of a codec, which is reset if ranks, cuts or codecs change
  bool copy = false;    ///< true for this stage's copy of a parameter that another stage owns and saves

  [[nodiscard]] Bytes bytes() const { return static_cast<Bytes>(elements) * size_of(element); }
};

}  // namespace run
}  // namespace v0
}  // namespace reef
