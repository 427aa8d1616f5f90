#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

#include <reef/core/element.hpp>
#include <reef/core/product.hpp>
#include <reef/core/units.hpp>
#include <reef/device/for_each.hpp>
#include <reef/device/host.hpp>
#include <reef/device/simd.hpp>
#include <reef/nn/host/detail/scratch.hpp>
#include <reef/nn/rotary_frequencies.hpp>

namespace reef {
inline namespace v0 {
namespace nn::host {

namespace detail {

// A function that turns the columns [0, 2 half) of each of H heads of D columns, in rows (rows, H, D), by angles whose
// cosines and sines are given (rows, half); it copies the other columns, or adds them.
struct TurnPairs {
  template <class V, class S, class T>
  void run(S* out, const S* in, const T* cosines, const T* sines, std::int64_t rows, std::int64_t H,
           std::int64_t D, std::int64_t half, bool accumulate) const {
    const V zero(T(0));
    for (std::int64_t r = 0; r < rows; ++r) {
      for (std::int64_t h = 0; h < H; ++h) {
        const S* const x = in + (r * H + h) * D;
        S* const y = out + (r * H + h) * D;
        for (std::int64_t i = 0; i < half; i += V::width) {
          const std::int64_t n = half - i;
          const V a = V::load(x + i, n);
          const V b = V::load(x + half + i, n);
          const V c = V::load(cosines + r * half + i, n);
          const V s = V::load(sines + r * half + i, n);
          const V before_a = accumulate ? V::load(y + i, n) : zero;
          const V before_b = accumulate ? V::load(y + half + i, n) : zero;
          fma(a, c, fma(-b, s, before_a)).store(y + i, n);
          fma(b, c, fma(a, s, before_b)).store(y + half + i, n);
        }
        for (std::int64_t i = 2 * half; i < D; i += V::width) {
          const V still = V::load(x + i, D - i);
          (accumulate ? still + V::load(y + i, D - i) : still).store(y + i, D - i);
        }
      }
    }
  }
};

}  // namespace detail

/// The kernels of rotary positions. A task is 32 positions of all samples: it computes the cosines and sines of their
/// angles in its part of the scratch memory, for the first position by the library, for each next position by one more
/// turn, in fp64.
struct Rotary {
  template <real T>
  static Bytes rotary_workspace(std::int64_t T_, std::int64_t turned, int threads) {
    return static_cast<Bytes>(std::min<std::int64_t>(threads, tasks(T_))) * slot<T>(turned);
  }

  template <real T>
  static void rotary(device::Host::Lane& lane, T* out, const T* in, std::int64_t B, std::int64_t T_,
                     std::int64_t H, std::int64_t D, std::int64_t turned,
                     const RotaryFrequencies& frequencies, bool back, bool accumulate, void* workspace) {
    using E = sum_t<T>;
    const std::int64_t half = turned / 2;
    device::for_each_in_slots(lane, tasks(T_), [&](std::int64_t slot_of, std::int64_t task) {
      detail::Scratch scratch = detail::Scratch::of(workspace, slot_of, slot<T>(turned));
      E* const cosines = scratch.take<E>(block * half);
      E* const sines = scratch.take<E>(block * half);
      const std::int64_t t0 = task * block;
      const std::int64_t rows = (std::min)(T_, t0 + block) - t0;
      for (std::int64_t i = 0; i < half; ++i) {
        const double angle = frequencies.of(i, turned);
        tabulate(cosines + i, sines + i, half, rows, static_cast<double>(t0),
                 back ? -angle : angle);
      }
      for (std::int64_t b = 0; b < B; ++b) {
        const std::int64_t at = (b * T_ + t0) * H * D;
        device::run_vectors<T>(detail::TurnPairs{}, out + at, in + at,
                               static_cast<const E*>(cosines), static_cast<const E*>(sines), rows,
                               H, D, half, accumulate);
      }
    });
  }

private:
  static constexpr std::int64_t block = 32;

  static std::int64_t tasks(std::int64_t T_) { return (T_ + block - 1) / block; }
  template <real T>
  static Bytes slot(std::int64_t turned) {
    return 2 * detail::Scratch::bytes<sum_t<T>>(block * (turned / 2));
  }

  // Writes the cosines and sines of the angles first * a, (first + 1) * a, ..., one for each of `rows` rows, which are
  // `stride` apart.
  template <class E>
  static void tabulate(E* cosines, E* sines, std::int64_t stride, std::int64_t rows, double first,
                       double a) {
    const double turn_c = std::cos(a);
    const double turn_s = std::sin(a);
    double c = std::cos(product(first, a));
    double s = std::sin(product(first, a));
    for (std::int64_t r = 0; r < rows; ++r) {
      cosines[r * stride] = static_cast<E>(c);
      sines[r * stride] = static_cast<E>(s);
      const double next = product(c, turn_c) - product(s, turn_s);
      s = product(s, turn_c) + product(c, turn_s);
      c = next;
    }
  }
};

}  // namespace nn::host
}  // namespace v0
}  // namespace reef
