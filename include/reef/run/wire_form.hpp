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

/// How what messages of one sort carry goes over the wire, where that is not as it is in memory: what programs and
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
  std::function<Bytes(int index, std::int64_t n)> bytes{};  ///< the most that they take; empty: as in memory
  std::function<std::int64_t(int index, std::int64_t n)> state{};           ///< what the sender remembers of them
  std::function<std::int64_t(int index, std::int64_t n)> received_state{};  ///< what the receiver does
  bool by_element = false;  ///< these are a number for each of a bucket's, and belong to it wherever it is cut
  std::string codec{};   ///< what it is, for errors and for checkpoints
  bool exact = true;     ///< they take as many bytes whatever they are
  bool lossless = true;  ///< what arrives is what was sent, bit for bit
  std::vector<int> masks{};      ///< by index of a gradient's edge that of its tensor's, whose zeros it leaves out; -1: none
  /// Steps after which samples come again, each with a memory of its own; 0: one memory, of all messages.
  std::int64_t period = 0;
  std::vector<double> ratios{};  ///< by index, of a codec that has one: 0 for its own, 1 for what stays as it is

  /// Some of them are encoded, or that of an edge or bucket is.
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
