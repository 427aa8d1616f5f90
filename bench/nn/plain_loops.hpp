#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "support/compare.hpp"

/// What one would write: the formulas as loops over single numbers, as llm.c has them, made into what
/// gcc -O3 makes of them for AVX2. Each takes rows [begin, end), a thread's share.
namespace reef_bench::plain {

REEF_BENCH_PLAIN_LOOP inline void gelu_forward(float* y, const float* x, std::int64_t begin,
                                               std::int64_t end) {
  for (std::int64_t i = begin; i < end; ++i) {
    const float u = 0.79788456F * (x[i] + 0.044715F * x[i] * x[i] * x[i]);
    y[i] = 0.5F * x[i] * (1.0F + tanhf(u));
  }
}

REEF_BENCH_PLAIN_LOOP inline void gelu_backward(float* dx, const float* dy, const float* x,
                                                std::int64_t begin, std::int64_t end) {
  for (std::int64_t i = begin; i < end; ++i) {
    const float t = tanhf(0.79788456F * (x[i] + 0.044715F * x[i] * x[i] * x[i]));
    const float du = 0.79788456F * (1.0F + 3 * 0.044715F * x[i] * x[i]);
    dx[i] = dy[i] * (0.5F * (1.0F + t) + 0.5F * x[i] * (1.0F - t * t) * du);
  }
}

REEF_BENCH_PLAIN_LOOP inline void layer_norm_forward(float* out, float* mean, float* rstd,
                                                     const float* in, const float* w,
                                                     const float* b, std::int64_t begin,
                                                     std::int64_t end, std::int64_t C) {
  for (std::int64_t r = begin; r < end; ++r) {
    const float* const x = in + r * C;
    float m = 0;
    for (std::int64_t i = 0; i < C; ++i) m += x[i];
    m /= static_cast<float>(C);
    float v = 0;
    for (std::int64_t i = 0; i < C; ++i) v += (x[i] - m) * (x[i] - m);
    const float s = 1.0F / sqrtf(v / static_cast<float>(C) + 1e-5F);
    for (std::int64_t i = 0; i < C; ++i) out[r * C + i] = (x[i] - m) * s * w[i] + b[i];
    mean[r] = m;
    rstd[r] = s;
  }
}

/// dw and db (C) are the thread's own and are added to.
REEF_BENCH_PLAIN_LOOP inline void layer_norm_backward(float* d_in, float* dw, float* db,
                                                      const float* d_out, const float* in,
                                                      const float* w, const float* mean,
                                                      const float* rstd, std::int64_t begin,
                                                      std::int64_t end, std::int64_t C) {
  for (std::int64_t r = begin; r < end; ++r) {
    const float* const x = in + r * C;
    const float* const dy = d_out + r * C;
    float sum = 0;
    float sum_normal = 0;
    for (std::int64_t i = 0; i < C; ++i) {
      sum += w[i] * dy[i];
      sum_normal += w[i] * dy[i] * (x[i] - mean[r]) * rstd[r];
    }
    sum /= static_cast<float>(C);
    sum_normal /= static_cast<float>(C);
    for (std::int64_t i = 0; i < C; ++i) {
      const float normal = (x[i] - mean[r]) * rstd[r];
      db[i] += dy[i];
      dw[i] += normal * dy[i];
      d_in[r * C + i] = (w[i] * dy[i] - sum - normal * sum_normal) * rstd[r];
    }
  }
}

REEF_BENCH_PLAIN_LOOP inline void cross_entropy_forward(float* lse, const float* logits,
                                                        std::int64_t begin, std::int64_t end,
                                                        std::int64_t V) {
  for (std::int64_t r = begin; r < end; ++r) {
    const float* const x = logits + r * V;
    float top = x[0];
    for (std::int64_t i = 1; i < V; ++i) top = std::max(top, x[i]);
    float sum = 0;
    for (std::int64_t i = 0; i < V; ++i) sum += expf(x[i] - top);
    lse[r] = top + logf(sum);
  }
}

REEF_BENCH_PLAIN_LOOP inline void cross_entropy_backward(float* d, const float* logits,
                                                         const float* lse,
                                                         const std::int32_t* targets, float scale,
                                                         std::int64_t begin, std::int64_t end,
                                                         std::int64_t V) {
  for (std::int64_t r = begin; r < end; ++r) {
    for (std::int64_t i = 0; i < V; ++i) {
      const float p = expf(logits[r * V + i] - lse[r]);
      d[r * V + i] = scale * (p - (targets[r] == i ? 1.0F : 0.0F));
    }
  }
}

/// Shapes of attention: qkv (B, T, 3, H, D), out (B, T, H, D), lse (B, H, T).
struct Heads {
  std::int64_t T, H, D;
  [[nodiscard]] std::int64_t row() const { return 3 * H * D; }
};

/// Heads [begin, end) of B * H; `p` (T) is the thread's own.
REEF_BENCH_PLAIN_LOOP inline void attention_forward(float* out, float* lse, const float* qkv,
                                                    float* p, Heads s, std::int64_t begin,
                                                    std::int64_t end) {
  const std::int64_t C = s.H * s.D;
  const float scale = 1.0F / sqrtf(static_cast<float>(s.D));
  for (std::int64_t head = begin; head < end; ++head) {
    const std::int64_t b = head / s.H;
    const std::int64_t h = head % s.H;
    const float* const q = qkv + b * s.T * s.row() + h * s.D;
    const float* const k = q + C;
    const float* const v = q + 2 * C;
    for (std::int64_t t = 0; t < s.T; ++t) {
      float top = -1e30F;
      for (std::int64_t j = 0; j <= t; ++j) {
        float score = 0;
        for (std::int64_t i = 0; i < s.D; ++i) score += q[t * s.row() + i] * k[j * s.row() + i];
        p[j] = score * scale;
        top = std::max(top, p[j]);
      }
      float sum = 0;
      for (std::int64_t j = 0; j <= t; ++j) sum += p[j] = expf(p[j] - top);
      float* const y = out + (b * s.T + t) * C + h * s.D;
      for (std::int64_t i = 0; i < s.D; ++i) y[i] = 0;
      for (std::int64_t j = 0; j <= t; ++j) {
        const float weight = p[j] / sum;
        for (std::int64_t i = 0; i < s.D; ++i) y[i] += weight * v[j * s.row() + i];
      }
      lse[head * s.T + t] = top + logf(sum);
    }
  }
}

/// Heads [begin, end) of B * H; `p` (T) is the thread's own.
REEF_BENCH_PLAIN_LOOP inline void attention_backward(float* d_qkv, const float* d_out,
                                                     const float* qkv, const float* out,
                                                     const float* lse, float* p, Heads s,
                                                     std::int64_t begin, std::int64_t end) {
  const std::int64_t C = s.H * s.D;
  const float scale = 1.0F / sqrtf(static_cast<float>(s.D));
  for (std::int64_t head = begin; head < end; ++head) {
    const std::int64_t b = head / s.H;
    const std::int64_t h = head % s.H;
    const std::int64_t at = b * s.T * s.row() + h * s.D;
    const float* const q = qkv + at;
    const float* const k = q + C;
    const float* const v = q + 2 * C;
    float* const dq = d_qkv + at;
    float* const dk = dq + C;
    float* const dv = dq + 2 * C;
    for (std::int64_t t = 0; t < s.T; ++t) {
      for (std::int64_t i = 0; i < s.D; ++i) {
        dq[t * s.row() + i] = dk[t * s.row() + i] = dv[t * s.row() + i] = 0;
      }
    }
    for (std::int64_t t = 0; t < s.T; ++t) {
      const float* const y = out + (b * s.T + t) * C + h * s.D;
      const float* const dy = d_out + (b * s.T + t) * C + h * s.D;
      float delta = 0;
      for (std::int64_t i = 0; i < s.D; ++i) delta += y[i] * dy[i];
      for (std::int64_t j = 0; j <= t; ++j) {
        float score = 0;
        float dp = 0;
        for (std::int64_t i = 0; i < s.D; ++i) {
          score += q[t * s.row() + i] * k[j * s.row() + i];
          dp += dy[i] * v[j * s.row() + i];
        }
        p[j] = expf(score * scale - lse[head * s.T + t]);
        const float ds = p[j] * (dp - delta) * scale;
        for (std::int64_t i = 0; i < s.D; ++i) {
          dv[j * s.row() + i] += p[j] * dy[i];
          dq[t * s.row() + i] += ds * k[j * s.row() + i];
          dk[j * s.row() + i] += ds * q[t * s.row() + i];
        }
      }
    }
  }
}

}  // namespace reef_bench::plain
