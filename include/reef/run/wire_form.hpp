#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include <reef/core/units.hpp>

namespace reef {
inline namespace v0 {
namespace run {

/// The form in which messages of one sort (activations, gradients, ...) are sent, if it differs from that in memory:
/// the properties of a codec that programs and plans need.
///
/// | index | the index of the edge between stages, or of the bucket; for pseudo-gradients: of the piece |
/// | n     | the number of numbers in one message                                                       |
///
/// \code
/// run::WireForm halved;
/// halved.bytes = [](int, std::int64_t n) { return static_cast<Bytes>(n) * 2; };
/// halved.lossless = false;
/// \endcode
struct WireForm {
  /// Function that returns the most bytes of a message of n numbers; empty: as in memory.
  std::function<Bytes(int index, std::int64_t n)> bytes{};
  /// How many numbers the codec's memory has at the sender.
  std::function<std::int64_t(int index, std::int64_t n)> state{};
  /// How many numbers the codec's memory has at the receiver.
  std::function<std::int64_t(int index, std::int64_t n)> received_state{};
  /// True if the codec's memory has a number for each element of a bucket, however that is sharded.
  bool by_element = false;
  std::string codec{};   ///< a description of the codec, for errors and for checkpoints
  bool exact = true;     ///< true if the length of a message does not depend on its numbers
  bool lossless = true;  ///< true if the numbers that arrive equal those sent, bit for bit
  /// For each edge of a gradient: the edge of the tensor whose zeros it leaves out; -1: none.
  std::vector<int> masks{};
  /// The number of steps after which the same samples are repeated (AQ-SGD's epoch), each with a codec memory of its
  /// own; 0: one memory for all messages.
  std::int64_t period = 0;
  std::vector<double> ratios{};  ///< the compression ratio by index; 0: the codec's own; 1: the message is not encoded

  /// Returns true if some messages of this sort are encoded; with an index, if those of that edge or bucket are.
  [[nodiscard]] bool encodes() const { return static_cast<bool>(bytes); }
  [[nodiscard]] bool encodes(int index) const { return encodes() && ratio(index) != 1; }
  [[nodiscard]] int mask(int index) const {
    const auto at = static_cast<std::size_t>(index);
    return at < masks.size() ? masks[at] : -1;
  }
  [[nodiscard]] double ratio(int index) const {
    const auto at = static_cast<std::size_t>(index);
    return at < ratios.size() ? ratios[at] : 0;
  }
};

}  // namespace run
}  // namespace v0
}  // namespace reef
