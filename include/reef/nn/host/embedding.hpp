#pragma once

#include <algorithm>
#include <cstdint>
#include <string>

#include <reef/core/element.hpp>
#include <reef/core/error.hpp>
#include <reef/core/units.hpp>
#include <reef/device/for_each.hpp>
#include <reef/device/host.hpp>
#include <reef/device/simd.hpp>
#include <reef/nn/host/elementwise.hpp>

namespace reef {
inline namespace v0 {
namespace nn::host {

/// The kernels of the embedding of tokens and positions, and of tokens alone, on the host. The gradient is divided
/// among threads by channels, not by rows: one thread sums a channel of all rows of a token, in ascending order.
struct Embedding {
  template <real T>
  static void embedding_forward(device::Host::Lane& lane, T* out, const std::int32_t* tokens,
                                const T* wte, const T* wpe, std::int64_t B, std::int64_t T_,
                                std::int64_t C, std::int64_t V) {
    check_tokens(tokens, B * T_, V);
    const std::int64_t block = rows_of_block(C);
    device::for_each_block(lane, B * T_, block, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t row = begin; row < end; ++row) {
        device::run_vectors<T>(detail::Add{}, out + row * C, wte + tokens[row] * C,
                               wpe + row % T_ * C, C);
      }
    });
  }

  template <real T>
  static Bytes embedding_backward_workspace(std::int64_t /*B*/, std::int64_t /*T_*/,
                                            std::int64_t /*C*/, std::int64_t /*V*/) {
    return 0;
  }

  /// Computes the gradients of the token and the position table. The rows of d_wpe for positions from T_ on stay
  /// unchanged.
  template <real T>
  static void embedding_backward(device::Host::Lane& lane, sum_t<T>* d_wte, sum_t<T>* d_wpe,
                                 const T* d_out, const std::int32_t* tokens, std::int64_t B,
                                 std::int64_t T_, std::int64_t C, std::int64_t V, bool accumulate,
                                 void* /*workspace*/) {
    check_tokens(tokens, B * T_, V);
    if (!accumulate) {
      lane.fill_zero(d_wte, static_cast<Bytes>(V * C) * sizeof(sum_t<T>));
      lane.fill_zero(d_wpe, static_cast<Bytes>(T_ * C) * sizeof(sum_t<T>));
    }
    constexpr std::int64_t channels = 64;
    device::for_each_block(lane, C, channels, [&](std::int64_t begin, std::int64_t end) {
      device::run_vectors<T>(Scatter{}, d_wte + begin, d_wpe + begin, d_out + begin, tokens, B, T_,
                             C, end - begin);
    });
  }

  template <real T>
  static void token_embedding_forward(device::Host::Lane& lane, T* out, const std::int32_t* tokens,
                                      const T* weight, std::int64_t count, std::int64_t C,
                                      std::int64_t V) {
    check_tokens(tokens, count, V);
    device::for_each_block(lane, count, rows_of_block(C),
                           [&](std::int64_t begin, std::int64_t end) {
                             for (std::int64_t row = begin; row < end; ++row) {
                               device::run_vectors<T>(detail::CopyVectors{}, out + row * C,
                                                      weight + tokens[row] * C, C);
                             }
                           });
  }

  template <real T>
  static Bytes token_embedding_backward_workspace(std::int64_t /*count*/, std::int64_t /*C*/,
                                                  std::int64_t /*V*/) {
    return 0;
  }

  template <real T>
  static void token_embedding_backward(device::Host::Lane& lane, sum_t<T>* d_weight, const T* d_out,
                                       const std::int32_t* tokens, std::int64_t count,
                                       std::int64_t C, std::int64_t V, bool accumulate,
                                       void* /*workspace*/) {
    check_tokens(tokens, count, V);
    if (!accumulate) lane.fill_zero(d_weight, static_cast<Bytes>(V * C) * sizeof(sum_t<T>));
    constexpr std::int64_t channels = 64;
    device::for_each_block(lane, C, channels, [&](std::int64_t begin, std::int64_t end) {
      device::run_vectors<T>(ScatterTokens{}, d_weight + begin, d_out + begin, tokens, count, C,
                             end - begin);
    });
  }

private:
  struct ScatterTokens {
    template <class Vec, class T, class S>
    void run(T* d_weight, const S* d_out, const std::int32_t* tokens, std::int64_t count,
             std::int64_t C, std::int64_t channels) const {
      for (std::int64_t row = 0; row < count; ++row) {
        T* const token = d_weight + tokens[row] * C;
        for (std::int64_t i = 0; i < channels; i += Vec::width) {
          (Vec::load(token + i, channels - i) + Vec::load(d_out + row * C + i, channels - i))
              .store(token + i, channels - i);
        }
      }
    }
  };

  struct Scatter {
    template <class Vec, class T, class S>
    void run(T* d_wte, T* d_wpe, const S* d_out, const std::int32_t* tokens, std::int64_t B,
             std::int64_t T_, std::int64_t C, std::int64_t channels) const {
      for (std::int64_t row = 0; row < B * T_; ++row) {
        const S* const from = d_out + row * C;
        T* const token = d_wte + tokens[row] * C;
        T* const position = d_wpe + row % T_ * C;
        for (std::int64_t i = 0; i < channels; i += Vec::width) {
          const Vec g = Vec::load(from + i, channels - i);
          (Vec::load(token + i, channels - i) + g).store(token + i, channels - i);
          (Vec::load(position + i, channels - i) + g).store(position + i, channels - i);
        }
      }
    }
  };

  static std::int64_t rows_of_block(std::int64_t C) {
    return std::max<std::int64_t>(1, device::elementwise_block / std::max<std::int64_t>(1, C));
  }

  static void check_tokens(const std::int32_t* tokens, std::int64_t count, std::int64_t V) {
    const std::int32_t* const end = tokens + count;
    const std::int32_t* const bad =
        std::find_if(tokens, end, [V](std::int32_t token) { return token < 0 || token >= V; });
    if (bad == end) return;
    throw DecodeError("reef::nn: token ", *bad, " at place ", bad - tokens,
                      " is outside the vocabulary of ", V,
                      ".\n  fix: the tokenizer that belongs to the model.");
  }
};

}  // namespace nn::host
}  // namespace v0
}  // namespace reef
