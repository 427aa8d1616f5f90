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

/// The form in which messages of one sort go over the wire, where it differs from the form in memory: what programs and
/// plans know of a codec.
///
/// | index | of the remote edge, or the bucket; of pseudo-gradients the piece of a fragment             |
/// | n     | numbers of one message                                                                  |
///
/// \code
/// run::WireForm halved;
/// halved.bytes = [](int, std::int64_t n) { return static_cast<Bytes>(n) * 2; };
/// halved.lossless = false;
/// \endcode
struct WireForm {
  std::function<Bytes(int index, std::int64_t n)> bytes{};  ///< most bytes of a message; empty: as in memory
  std::function<std::int64_t(int index, std::int64_t n)> state{};           ///< numbers that the sender remembers
  std::function<std::int64_t(int index, std::int64_t n)> received_state{};  ///< numbers that the receiver remembers
  bool by_element = false;  ///< a state is a number for each element of a bucket, wherever that is cut
  std::string codec{};   ///< description of the codec, for errors and for checkpoints
  bool exact = true;     ///< a message has the same length whatever its numbers are
  bool lossless = true;  ///< the numbers that arrive are those sent, bit for bit
  std::vector<int> masks{};      ///< by edge of a gradient: the edge of its tensor, whose zeros it leaves out; -1: none
  /// The number of steps after which samples come again (AQ-SGD's epoch), each with a state of its own; 0: one state
  /// for all messages.
  std::int64_t period = 0;
  std::vector<double> ratios{};  ///< ratio by index; 0: the codec's own; 1: the message stays as it is

  /// True if some messages are encoded, or those of one edge or bucket.
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
