#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <span>
#include <utility>

#include <reef/core/config.hpp>
#include <reef/core/element.hpp>
#include <reef/core/units.hpp>
#include <reef/device/concept.hpp>
#include <reef/device/sum_of_squares.hpp>
#include <reef/device/transform.hpp>
#include <reef/nn/host.hpp>
#include <reef/nn/kernels.hpp>
#include <reef/run/bucket.hpp>

namespace reef {
inline namespace v0 {
namespace optim::detail {

/// x *= factor.
template <class E>
struct FactorKernel {
  E* x = nullptr;
  E factor = 1;

  REEF_RULE template <class At>
  REEF_HOST_DEVICE void operator()(const At& at) const {
    using V = typename At::Vector;
    at.store(x, V(factor) * at.load(x));
  }
};

/// A quintic iteration that drives the singular values of a matrix to about 1, and leaves its singular vectors.
///
///     X = X / (|X|_F + epsilon);  `steps` times:  A = X X^T;  X = a X + (b A + c A A) X
///
/// | shape | X: (m, n), in place, or in the other of two buffers; A: (k, k), k = min(m, n); if m > n, A = X^T X |
/// | cost  | steps (4 k k max(m, n) + 2 k^3) operations                                                         |
/// | bits  | those of the library's products: the same for a shape, whatever the threads                        |
///
/// Source: Jordan, Muon: an optimizer for hidden layers in neural networks, 2024 (a, b, c and 5 steps from
/// there). Deviation: fp32 or fp64 throughout, where its source has bf16.
template <class Device, real E>
class NewtonSchulz {
  using Lane = typename Device::Lane;
  using Kernels = nn::Kernels<Device>;
  using T = nn::Transpose;

public:
  static constexpr double a = 3.4445, b = -4.7750, c = 2.0315;
  static constexpr double epsilon = 1e-7;

  NewtonSchulz(std::int64_t rows, std::int64_t columns)
      : m_(rows), n_(columns), k_((std::min)(rows, columns)), longer_((std::max)(rows, columns)) {}

  [[nodiscard]] Bytes workspace(int threads) const {
    const bool wide = m_ <= n_;
    const auto product = [&](T ta, T tb, std::int64_t m, std::int64_t n, std::int64_t k) {
      return Kernels::template gemm_workspace<E>(ta, tb, m, n, k, threads);
    };
    return 2 * matrix_bytes() + 2 * square_bytes() + sums_bytes() +
           (std::max)({wide ? product(T::no, T::yes, k_, k_, longer_)
                            : product(T::yes, T::no, k_, k_, longer_),
                       product(T::no, T::no, k_, k_, k_), product(T::no, T::no, m_, n_, k_)});
  }

  [[nodiscard]] double flops(int steps) const {
    const auto k = static_cast<double>(k_);
    return steps * (4 * k * k * static_cast<double>(longer_) + 2 * k * k * k);
  }

  /// Where X is to be written, in the workspace.
  [[nodiscard]] static E* input(void* workspace) { return static_cast<E*>(workspace); }

  /// Where the outcome is. On the lane's thread, of a device on the host.
  E* run(Lane& lane, void* workspace, int steps) const {
    auto* next = static_cast<std::byte*>(workspace);
    const auto take = [&](Bytes bytes) { return static_cast<void*>(std::exchange(next, next + bytes)); };
    E* x = static_cast<E*>(take(matrix_bytes()));
    E* y = static_cast<E*>(take(matrix_bytes()));
    E* const square = static_cast<E*>(take(square_bytes()));
    E* const polynomial = static_cast<E*>(take(square_bytes()));
    auto* const sums = static_cast<double*>(take(sums_bytes()));
    divide_by_norm(lane, x, sums);
    for (int step = 0; step < steps; ++step) {
      if (m_ <= n_) {
        gemm(lane, T::no, T::yes, k_, k_, n_, 1, x, n_, x, n_, 0, square, k_, next);
      } else {
        gemm(lane, T::yes, T::no, k_, k_, m_, 1, x, n_, x, n_, 0, square, k_, next);
      }
      lane.copy(polynomial, square, static_cast<Bytes>(k_ * k_) * sizeof(E), device::Copy::on_device);
      gemm(lane, T::no, T::no, k_, k_, k_, c, square, k_, square, k_, b, polynomial, k_, next);
      lane.copy(y, x, static_cast<Bytes>(m_ * n_) * sizeof(E), device::Copy::on_device);
      if (m_ <= n_) {
        gemm(lane, T::no, T::no, m_, n_, k_, 1, polynomial, k_, x, n_, a, y, n_, next);
      } else {
        gemm(lane, T::no, T::no, m_, n_, k_, 1, x, n_, polynomial, k_, a, y, n_, next);
      }
      std::swap(x, y);
    }
    return x;
  }

private:
  static Bytes rounded(std::int64_t elements, Bytes each) {
    return round_up(static_cast<Bytes>(elements) * each, 64);
  }
  [[nodiscard]] Bytes matrix_bytes() const { return rounded(m_ * n_, sizeof(E)); }
  [[nodiscard]] Bytes square_bytes() const { return rounded(k_ * k_, sizeof(E)); }
  [[nodiscard]] Bytes sums_bytes() const { return rounded(run::norm_blocks(m_ * n_), sizeof(double)); }

  void divide_by_norm(Lane& lane, E* x, double* sums) const {
    device::block_sums_of_squares(lane, m_ * n_, x, sums, run::norm_block);
    double squares = 0;
    for (const double sum : std::span(sums, static_cast<std::size_t>(run::norm_blocks(m_ * n_)))) squares += sum;
    transform_vectors<E>(lane, m_ * n_, FactorKernel<E>{x, static_cast<E>(1 / (std::sqrt(squares) + epsilon))});
  }

  static void gemm(Lane& lane, T ta, T tb, std::int64_t m, std::int64_t n, std::int64_t k, double alpha, const E* left,
                   std::int64_t lda, const E* right, std::int64_t ldb, double beta, E* to, std::int64_t ldc,
                   void* workspace) {
    Kernels::template gemm<E>(lane, ta, tb, m, n, k, static_cast<E>(alpha), left, lda, right, ldb,
                              static_cast<E>(beta), to, ldc, workspace);
  }

  std::int64_t m_, n_, k_, longer_;
};

}  // namespace optim::detail
}  // namespace v0
}  // namespace reef
