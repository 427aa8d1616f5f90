#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include <reef/core/random.hpp>

/// Scalar loops in fp64, straight from the formulas of nn/kernels.hpp: what kernels are held against.
namespace reef::test::reference {

using Values = std::vector<double>;
using Tokens = std::vector<std::int32_t>;
using Index = std::int64_t;

inline double& at(Values& values, Index i) { return values[static_cast<std::size_t>(i)]; }
inline double at(const Values& values, Index i) { return values[static_cast<std::size_t>(i)]; }
inline Index at(const Tokens& values, Index i) { return values[static_cast<std::size_t>(i)]; }
inline Values zeros(Index n) { return Values(static_cast<std::size_t>(n)); }

/// op(A) op(B), A and B with leading dimensions.
inline Values product(bool ta, bool tb, Index m, Index n, Index k, const Values& a, Index lda,
                      const Values& b, Index ldb) {
  Values c = zeros(m * n);
  for (Index i = 0; i < m; ++i) {
    for (Index j = 0; j < n; ++j) {
      for (Index p = 0; p < k; ++p) {
        at(c, i * n + j) +=
            at(a, ta ? p * lda + i : i * lda + p) * at(b, tb ? j * ldb + p : p * ldb + j);
      }
    }
  }
  return c;
}

inline double gelu(double x) {
  return 0.5 * x * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
}
inline double gelu_slope(double x) {
  const double t = std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x));
  return 0.5 * (1 + t) + 0.5 * x * (1 - t * t) * std::sqrt(2 / M_PI) * (1 + 3 * 0.044715 * x * x);
}

struct LayerNorm {
  Values out, mean, rstd, d_in, d_weight, d_bias;

  LayerNorm(const Values& in, const Values& weight, const Values& bias, const Values& d_out,
            Index R, Index C, double epsilon)
      : out(zeros(R * C)),
        mean(zeros(R)),
        rstd(zeros(R)),
        d_in(zeros(R * C)),
        d_weight(zeros(C)),
        d_bias(zeros(C)) {
    for (Index r = 0; r < R; ++r) {
      double variance = 0, g_mean = 0, gh_mean = 0;
      const double c_count = static_cast<double>(C);
      for (Index c = 0; c < C; ++c) at(mean, r) += at(in, r * C + c) / c_count;
      for (Index c = 0; c < C; ++c) {
        variance += std::pow(at(in, r * C + c) - at(mean, r), 2) / c_count;
      }
      at(rstd, r) = 1 / std::sqrt(variance + epsilon);
      const auto normal = [&](Index c) { return (at(in, r * C + c) - at(mean, r)) * at(rstd, r); };
      for (Index c = 0; c < C; ++c) {
        const double g = at(d_out, r * C + c);
        at(out, r * C + c) = normal(c) * at(weight, c) + at(bias, c);
        at(d_weight, c) += g * normal(c);
        at(d_bias, c) += g;
        g_mean += g * at(weight, c) / c_count;
        gh_mean += g * at(weight, c) * normal(c) / c_count;
      }
      for (Index c = 0; c < C; ++c) {
        at(d_in, r * C + c) =
            at(rstd, r) * (at(d_out, r * C + c) * at(weight, c) - g_mean - normal(c) * gh_mean);
      }
    }
  }
};

/// What dropout multiplies element `index` of a sample by.
inline double dropout_factor(float rate, reef::DrawKey key, std::uint64_t sample, Index index) {
  if (rate <= 0) return 1;
  key.sample += sample;
  const float draw = reef::uniform(key, static_cast<std::uint64_t>(index));
  return draw >= rate ? 1 / (1 - static_cast<double>(rate)) : 0;
}

struct Attention {
  Values out, lse, d_qkv;

  Attention(const Values& qkv, const Values& d_out, Index B, Index T, Index C, Index H, float rate,
            reef::DrawKey key)
      : out(zeros(B * T * C)), lse(zeros(B * H * T)), d_qkv(zeros(B * T * 3 * C)) {
    const Index D = C / H;
    const double scale = 1 / std::sqrt(static_cast<double>(D));
    for (Index b = 0; b < B; ++b) {
      for (Index h = 0; h < H; ++h) {
        for (Index t = 0; t < T; ++t) {
          const auto q = [&](Index row, Index d) { return (b * T + row) * 3 * C + h * D + d; };
          const auto o = [&](Index d) { return (b * T + t) * C + h * D + d; };
          Values p = zeros(t + 1);
          Values drop = zeros(t + 1);
          double sum = 0;
          for (Index s = 0; s <= t; ++s) {
            double score = 0;
            for (Index d = 0; d < D; ++d) score += at(qkv, q(t, d)) * at(qkv, q(s, d) + C);
            at(p, s) = std::exp(scale * score);
            sum += at(p, s);
            at(drop, s) =
                dropout_factor(rate, key, static_cast<std::uint64_t>(b), (h * T + t) * T + s);
          }
          at(lse, (b * H + h) * T + t) = std::log(sum);
          double delta = 0;
          for (Index s = 0; s <= t; ++s) {
            at(p, s) /= sum;
            for (Index d = 0; d < D; ++d) {
              at(out, o(d)) += at(p, s) * at(drop, s) * at(qkv, q(s, d) + 2 * C);
              at(d_qkv, q(s, d) + 2 * C) += at(p, s) * at(drop, s) * at(d_out, o(d));
            }
          }
          for (Index d = 0; d < D; ++d) delta += at(out, o(d)) * at(d_out, o(d));
          for (Index s = 0; s <= t; ++s) {
            double d_p = 0;
            for (Index d = 0; d < D; ++d) d_p += at(d_out, o(d)) * at(qkv, q(s, d) + 2 * C);
            const double d_s = at(p, s) * (at(drop, s) * d_p - delta) * scale;
            for (Index d = 0; d < D; ++d) {
              at(d_qkv, q(t, d)) += d_s * at(qkv, q(s, d) + C);
              at(d_qkv, q(s, d) + C) += d_s * at(qkv, q(t, d));
            }
          }
        }
      }
    }
  }
};

struct CrossEntropy {
  double loss = 0;
  Values lse, d_logits;

  CrossEntropy(const Values& logits, const Tokens& targets, double d_loss, Index R, Index V)
      : lse(zeros(R)), d_logits(zeros(R * V)) {
    double count = 0;
    for (Index r = 0; r < R; ++r) count += at(targets, r) >= 0 ? 1 : 0;
    for (Index r = 0; r < R; ++r) {
      double largest = -std::numeric_limits<double>::infinity();
      double sum = 0;
      for (Index v = 0; v < V; ++v) largest = std::max(largest, at(logits, r * V + v));
      for (Index v = 0; v < V; ++v) sum += std::exp(at(logits, r * V + v) - largest);
      at(lse, r) = largest + std::log(sum);
      const Index target = at(targets, r);
      if (target < 0) continue;
      loss += (at(lse, r) - at(logits, r * V + target)) / count;
      for (Index v = 0; v < V; ++v) {
        at(d_logits, r * V + v) =
            (std::exp(at(logits, r * V + v) - at(lse, r)) - (v == target ? 1 : 0)) * d_loss / count;
      }
    }
  }
};

}  // namespace reef::test::reference
