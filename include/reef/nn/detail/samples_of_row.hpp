#pragma once

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <vector>

#include <reef/core/element.hpp>
#include <reef/core/shape.hpp>
#include <reef/core/tensor_view.hpp>
#include <reef/core/units.hpp>
#include <reef/device/concept.hpp>
#include <reef/device/host.hpp>

// Several samples in a row of tokens: where each begins, and the parts of tensors that belong to it.

namespace reef {
inline namespace v0 {
namespace nn::detail {

/// Returns a token without the mark that a sample begins with it.
constexpr std::int32_t token_without_mark(std::int32_t token) { return token < 0 ? ~token : token; }

/// Tokens in the memory of a device, (B, T), and where the host can read them: as they lie, if the device is the host;
/// else a copy, for which the constructor waits.
template <class Device>
class ReadableTokens {
public:
  ReadableTokens([[maybe_unused]] typename Device::Lane& lane,
                 TensorView<const std::int32_t> tokens)
      : tokens_(tokens) {
    if constexpr (!std::same_as<Device, device::Host>) {
      copy_.resize(static_cast<std::size_t>(tokens.size()));
      lane.copy(copy_.data(), tokens.data(), copy_.size() * sizeof(std::int32_t),
                device::Copy::to_host);
      lane.settle();
    }
  }

  [[nodiscard]] const std::int32_t* data() const {
    return copy_.empty() ? tokens_.data() : copy_.data();
  }
  [[nodiscard]] Shape shape() const { return tokens_.shape(); }

  /// Writes the tokens without marks to memory of the device.
  void write_without_marks([[maybe_unused]] typename Device::Lane& lane, std::int32_t* to) const {
    if constexpr (std::same_as<Device, device::Host>) {
      std::transform(data(), data() + tokens_.size(), to, token_without_mark);
    } else {
      std::vector<std::int32_t> plain(copy_.size());
      std::transform(copy_.begin(), copy_.end(), plain.begin(), token_without_mark);
      lane.copy(to, plain.data(), plain.size() * sizeof(std::int32_t), device::Copy::to_device);
      lane.settle();  // `plain` has been read
    }
  }

private:
  TensorView<const std::int32_t> tokens_;
  std::vector<std::int32_t> copy_;
};

/// A sample: positions [begin, end) of a row of T, among B rows.
struct SampleOfRow {
  std::int64_t B, T_, row, begin, end;

  [[nodiscard]] std::int64_t first() const { return row * T_ + begin; }
  [[nodiscard]] std::int64_t length() const { return end - begin; }
};

/// Calls a function of each SampleOfRow of tokens (B, T), in ascending order.
template <class F>
void for_each_sample(const std::int32_t* tokens, const Shape& shape, const F& function) {
  const std::int64_t B = shape[0];
  const std::int64_t T_ = shape[1];
  for (std::int64_t b = 0; b < B; ++b) {
    for (std::int64_t begin = 0, end = 0; begin < T_; begin = end) {
      for (end = begin + 1; end < T_ && tokens[b * T_ + end] >= 0; ++end) {
      }
      function(SampleOfRow{B, T_, b, begin, end});
    }
  }
}

/// Returns a sample's part of a tensor of which each position has the same number of elements; null stays null.
inline AnyView part_of(const AnyView& all, const SampleOfRow& sample, bool flat) {
  if (!all) return all;
  const std::int64_t width = all.shape().size() / (sample.B * sample.T_);
  char* const data = static_cast<char*>(all.data()) + static_cast<std::size_t>(sample.first() * width) *
                                                          static_cast<std::size_t>(size_of(all.element()));
  if (flat) return {data, {sample.length() * width}, all.element()};
  if (all.shape().rank() == 2) return {data, {1, sample.length()}, all.element()};
  return {data, {1, sample.length(), width}, all.element()};
}

/// Returns a sample's parts of the first `count` of some tensors (B, T) or (B, T, ...), as (1, length) or (1, length,
/// ...).
template <class Views>
std::vector<AnyView> parts_of(const Views& all, std::size_t count, const SampleOfRow& sample) {
  std::vector<AnyView> parts;
  for (std::size_t i = 0; i < count; ++i) parts.push_back(part_of(all[i], sample, false));
  return parts;
}

/// Returns a sample's parts of the first `count` of some tensors, each as one run of elements.
template <class Views>
std::vector<AnyView> flat_parts_of(const Views& all, std::size_t count, const SampleOfRow& sample) {
  std::vector<AnyView> parts;
  for (std::size_t i = 0; i < count; ++i) parts.push_back(part_of(all[i], sample, true));
  return parts;
}

}  // namespace nn::detail
}  // namespace v0
}  // namespace reef
