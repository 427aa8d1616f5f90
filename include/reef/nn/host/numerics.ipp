#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include <reef/core/hash.hpp>
#include <reef/core/inline.hpp>
#include <reef/core/random.hpp>
#include <reef/core/units.hpp>
#include <reef/device/host.hpp>
#include <reef/device/instruction_set.hpp>
#include <reef/nn/host.hpp>
#include <reef/nn/host/numerics.hpp>

namespace reef {
inline namespace v0 {
namespace nn::host {

namespace detail {

/// Drawn numbers, arrays of their own for what kernels answer, and the hash of the answers.
class Questions {
public:
  std::vector<float> numbers(std::int64_t n, float scale = 1) {
    std::vector<float> values(static_cast<std::size_t>(n));
    const RandomStream stream({.seed = 1, .op = ++drawn_});
    for (std::size_t i = 0; i < values.size(); i += 4) {
      const Philox four = stream.block(i / 4);
      for (std::size_t k = i; k < (std::min)(i + 4, values.size()); ++k) {
        values[k] = scale * (uniform_from(four.word[k % 4]) - 0.5F);
      }
    }
    return values;
  }
  void answered(std::span<const float> values) {
    for (const float value : values) hash_.add(std::bit_cast<std::uint32_t>(value));
  }
  [[nodiscard]] std::uint64_t value() const { return hash_.value(); }

private:
  std::uint32_t drawn_ = 0;
  Hash hash_;
};

/// Memory of a workspace's alignment.
class WorkspaceOf {
public:
  explicit WorkspaceOf(Bytes bytes) : memory_((bytes + sizeof(Line) - 1) / sizeof(Line) + 1) {}
  [[nodiscard]] void* data() { return memory_.data(); }

private:
  struct alignas(64) Line {
    std::byte bytes[64];
  };
  std::vector<Line> memory_;
};

inline void ask_elementwise(device::Host::Lane& lane, Questions& ask) {
  constexpr std::int64_t n = 101;
  const std::vector<float> x = ask.numbers(n, 8);
  const std::vector<float> tiny = ask.numbers(n, 1e-38F);  // no denormal number is kept by some flags
  const std::vector<float> d = ask.numbers(n);
  std::vector<float> y(n);
  std::vector<float> dx(n);
  Elementwise::gelu_forward<float>(lane, y.data(), x.data(), n);
  Elementwise::gelu_backward<float>(lane, dx.data(), d.data(), x.data(), n, false);
  ask.answered(y);
  ask.answered(dx);
  host::ExactGelu::exact_gelu_forward<float>(lane, y.data(), x.data(), n);
  host::ExactGelu::exact_gelu_backward<float>(lane, dx.data(), d.data(), x.data(), n, false);
  ask.answered(y);
  ask.answered(dx);
  Elementwise::gelu_forward<float>(lane, y.data(), tiny.data(), n);
  ask.answered(y);
  Dropout::dropout<float>(lane, y.data(), d.data(), n, 1, 0.3F, {.seed = 2}, true);
  ask.answered(y);
}

inline void ask_layer_norm(device::Host::Lane& lane, Questions& ask) {
  constexpr std::int64_t rows = 3, channels = 45;
  const std::vector<float> x = ask.numbers(rows * channels, 3);
  const std::vector<float> d = ask.numbers(rows * channels);
  const std::vector<float> weight = ask.numbers(channels);
  const std::vector<float> bias = ask.numbers(channels);
  std::vector<float> y(x.size()), mean(rows), rstd(rows), dx(x.size()), d_weight(channels), d_bias(channels);
  WorkspaceOf space(LayerNorm::layer_norm_backward_workspace<float>(rows, channels));
  LayerNorm::layer_norm_forward<float>(lane, y.data(), mean.data(), rstd.data(), x.data(), weight.data(), bias.data(),
                                       rows, channels, 1e-5F);
  LayerNorm::layer_norm_backward<float>(lane, dx.data(), d_weight.data(), d_bias.data(), d.data(), x.data(),
                                        weight.data(), mean.data(), rstd.data(), rows, channels, false, false,
                                        space.data());
  for (const auto* answer : {&y, &mean, &rstd, &dx, &d_weight, &d_bias}) ask.answered(*answer);
}

inline void ask_attention(device::Host::Lane& lane, Questions& ask) {
  constexpr std::int64_t B = 1, T_ = 19, C = 24, H = 2;
  const std::vector<float> qkv = ask.numbers(B * T_ * 3 * C, 4);
  const std::vector<float> d = ask.numbers(B * T_ * C);
  std::vector<float> y(d.size()), lse(B * H * T_), d_qkv(qkv.size());
  WorkspaceOf space((std::max)(Attention::attention_forward_workspace<float>(B, T_, C, H, 1),
                               Attention::attention_backward_workspace<float>(B, T_, C, H, 1)));
  Attention::attention_forward<float>(lane, y.data(), lse.data(), qkv.data(), B, T_, C, H, space.data(), 0, {});
  Attention::attention_backward<float>(lane, d_qkv.data(), d.data(), qkv.data(), y.data(), lse.data(), B, T_, C, H,
                                       space.data(), 0, {});
  for (const auto* answer : {&y, &lse, &d_qkv}) ask.answered(*answer);
  // With ALiBi: q, k and v are what begins there, one behind the other.
  const float* const q = qkv.data();
  Attention::grouped_attention_forward<float>(lane, y.data(), lse.data(), q, q + T_ * C, q + 2 * T_ * C, B, T_, H, H,
                                              C / H, 0, true, space.data(), 0, {});
  for (const auto* answer : {&y, &lse}) ask.answered(*answer);
}

inline void ask_cross_entropy(device::Host::Lane& lane, Questions& ask) {
  constexpr std::int64_t rows = 3, vocabulary = 61;
  const std::vector<float> logits = ask.numbers(rows * vocabulary, 6);
  const std::array<std::int32_t, rows> targets{0, 60, -1};
  const float d_loss = 0.7F;
  std::vector<float> loss(1), lse(rows), d(logits.size());
  WorkspaceOf space(CrossEntropy::cross_entropy_forward_workspace<float>(rows, vocabulary));
  CrossEntropy::cross_entropy_forward<float>(lane, loss.data(), lse.data(), logits.data(), targets.data(), rows,
                                             vocabulary, space.data());
  CrossEntropy::cross_entropy_backward<float>(lane, d.data(), &d_loss, logits.data(), lse.data(), targets.data(), rows,
                                              vocabulary);
  for (const auto* answer : {&loss, &lse, &d}) ask.answered(*answer);
}

inline void ask_linear(device::Host::Lane& lane, Questions& ask) {
  constexpr std::int64_t rows = 35, in = 70, out = 37;
  for (const Transpose tw : {Transpose::no, Transpose::yes}) {
    const std::vector<float> x = ask.numbers(rows * in);
    const std::vector<float> weight = ask.numbers(in * out);
    const std::vector<float> bias = ask.numbers(out);
    const std::vector<float> d = ask.numbers(rows * out);
    std::vector<float> y(d.size()), dx(x.size()), d_weight(weight.size()), d_bias(bias.size());
    WorkspaceOf space((std::max)(Linear::linear_forward_workspace<float>(rows, in, out, tw, 1),
                                 Linear::linear_backward_workspace<float>(rows, in, out, tw, 1)));
    Linear::linear_forward<float>(lane, y.data(), x.data(), weight.data(), bias.data(), rows, in, out, tw,
                                  space.data());
    Linear::linear_backward_input<float>(lane, dx.data(), d.data(), weight.data(), rows, in, out, tw, false,
                                         space.data());
    Linear::linear_backward_weight<float>(lane, d_weight.data(), d_bias.data(), x.data(), d.data(), rows, in, out, tw,
                                          false, space.data());
    for (const auto* answer : {&y, &dx, &d_weight, &d_bias}) ask.answered(*answer);
  }
}

inline std::uint64_t ask_kernels() {
  device::Host host({.threads = 1});
  device::Host::Lane lane(host, "numerics");
  Questions ask;
  lane.submit([&ask](device::Host::Lane& own) {
    ask_elementwise(own, ask);
    ask_layer_norm(own, ask);
    ask_attention(own, ask);
    ask_cross_entropy(own, ask);
    ask_linear(own, ask);
  });
  lane.synchronize();
  return ask.value();
}

}  // namespace detail

REEF_INLINE std::uint64_t numerics_class() {
  static std::array<std::atomic<std::uint64_t>, 3> known{};  // 0: not yet; two threads find the same
  std::atomic<std::uint64_t>& mine = known.at(static_cast<std::size_t>(device::instruction_set()));
  std::uint64_t found = mine.load(std::memory_order_relaxed);
  if (found == 0) mine.store(found = detail::ask_kernels(), std::memory_order_relaxed);
  return found;
}

REEF_INLINE std::string text_of_numerics_class(std::uint64_t of) {
  constexpr const char* digits = "0123456789abcdef";
  std::string text(16, '0');
  for (std::size_t i = 0; i < text.size(); ++i, of <<= 4) text[i] = digits[of >> 60];
  return text;
}

}  // namespace nn::host
}  // namespace v0
}  // namespace reef
