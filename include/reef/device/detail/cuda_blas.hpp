#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <type_traits>

#include <cublasLt.h>
#include <cuda_runtime.h>

#include <reef/core/element.hpp>
#include <reef/core/text.hpp>
#include <reef/core/units.hpp>
#include <reef/device/detail/cuda_error.hpp>

namespace reef {
inline namespace v0 {
namespace device::detail {

/// The shape of a matrix product in cuBLASLt's column-major terms: D(m,n) = alpha op(A) op(B) + beta D.
struct CudaProduct {
  bool transpose_a = false;
  bool transpose_b = false;
  std::int64_t m = 0, n = 0, k = 0;
  std::int64_t lda = 0, ldb = 0, ldd = 0;
  Element factors = Element::float32;  // A and B
  Element target = Element::float32;   // D: as the factors, or what they are summed in
  std::uint32_t alignment = 4;         // of all addresses, in bytes
  bool bias = false;  // a vector of m, of D's element, is added to every column before D is rounded

  // NOLINTNEXTLINE(modernize-use-nullptr): the check takes its 0 for a pointer
  friend auto operator<=>(const CudaProduct&, const CudaProduct&) = default;
};

/// Descriptors and the chosen algorithm of one shape.
class CudaProductPlan {
public:
  CudaProductPlan(cublasLtHandle_t handle, const CudaProduct& shape, Bytes workspace, int ordinal) {
    try {
      make(handle, shape, workspace, ordinal);
    } catch (...) {
      release();
      throw;
    }
  }
  CudaProductPlan(const CudaProductPlan&) = delete;
  CudaProductPlan& operator=(const CudaProductPlan&) = delete;
  ~CudaProductPlan() { release(); }

  cublasLtMatmulDesc_t operation = nullptr;
  cublasLtMatrixLayout_t a = nullptr, b = nullptr, d = nullptr;
  cublasLtMatmulAlgo_t algorithm{};
  bool possible = true;  ///< false: cuBLASLt adds no bias to such a product

private:
  static cudaDataType_t cuda_type(Element element) {
    return element == Element::float64    ? CUDA_R_64F
           : element == Element::bfloat16 ? CUDA_R_16BF
                                          : CUDA_R_32F;
  }

  void make(cublasLtHandle_t handle, const CudaProduct& s, Bytes workspace, int ordinal) {
    const auto expect_success = [ordinal](cublasStatus_t status, const char* call) {
      check_cublas(status, call, ordinal);
    };
    // COMPUTE_32F is true fp32: TF32 and bf16 emulation are compute types of their own.
    const bool wide = s.factors == Element::float64;
    expect_success(
        cublasLtMatmulDescCreate(&operation, wide ? CUBLAS_COMPUTE_64F : CUBLAS_COMPUTE_32F,
                                 cuda_type(sum_of(s.factors))),
        "cublasLtMatmulDescCreate");
    const cublasOperation_t op_a = s.transpose_a ? CUBLAS_OP_T : CUBLAS_OP_N;
    const cublasOperation_t op_b = s.transpose_b ? CUBLAS_OP_T : CUBLAS_OP_N;
    expect_success(
        cublasLtMatmulDescSetAttribute(operation, CUBLASLT_MATMUL_DESC_TRANSA, &op_a, sizeof op_a),
        "cublasLtMatmulDescSetAttribute(TRANSA)");
    expect_success(
        cublasLtMatmulDescSetAttribute(operation, CUBLASLT_MATMUL_DESC_TRANSB, &op_b, sizeof op_b),
        "cublasLtMatmulDescSetAttribute(TRANSB)");
    const auto layout = [&](cublasLtMatrixLayout_t& made, Element element, std::int64_t rows,
                            std::int64_t columns, std::int64_t stride) {
      expect_success(
          cublasLtMatrixLayoutCreate(&made, cuda_type(element), static_cast<std::uint64_t>(rows),
                                     static_cast<std::uint64_t>(columns), stride),
          "cublasLtMatrixLayoutCreate");
    };
    if (s.bias) {
      constexpr cublasLtEpilogue_t adds = CUBLASLT_EPILOGUE_BIAS;
      const cublasStatus_t status = cublasLtMatmulDescSetAttribute(
          operation, CUBLASLT_MATMUL_DESC_EPILOGUE, &adds, sizeof adds);
      possible = status != CUBLAS_STATUS_NOT_SUPPORTED;
      if (!possible) return;
      expect_success(status, "cublasLtMatmulDescSetAttribute(EPILOGUE)");
    }
    layout(a, s.factors, s.transpose_a ? s.k : s.m, s.transpose_a ? s.m : s.k, s.lda);
    layout(b, s.factors, s.transpose_b ? s.n : s.k, s.transpose_b ? s.k : s.n, s.ldb);
    layout(d, s.target, s.m, s.n, s.ldd);
    choose(handle, s, workspace, ordinal);
  }

  void choose(cublasLtHandle_t handle, const CudaProduct& s, Bytes workspace, int ordinal) {
    struct Preference {
      cublasLtMatmulPreference_t value = nullptr;
      ~Preference() {
        if (value != nullptr) static_cast<void>(cublasLtMatmulPreferenceDestroy(value));
      }
    } preference;
    check_cublas(cublasLtMatmulPreferenceCreate(&preference.value),
                 "cublasLtMatmulPreferenceCreate", ordinal);
    const auto set = [&](cublasLtMatmulPreferenceAttributes_t name, const auto& value) {
      check_cublas(
          cublasLtMatmulPreferenceSetAttribute(preference.value, name, &value, sizeof value),
          "cublasLtMatmulPreferenceSetAttribute", ordinal);
    };
    set(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, static_cast<std::uint64_t>(workspace));
    // Parts of a split sum go to the workspace and are folded in order by a step of their own.
    set(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
        static_cast<std::uint32_t>(CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE));
    // The choice, and with it the bits, follow from the shape and its one alignment, not from the
    // addresses of this call.
    for (const auto name :
         {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
          CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES}) {
      set(name, s.alignment);
    }
    cublasLtMatmulHeuristicResult_t best{};
    int found = 0;
    const cublasStatus_t status = cublasLtMatmulAlgoGetHeuristic(
        handle, operation, a, b, d, d, preference.value, 1, &best, &found);
    if (s.bias && (status == CUBLAS_STATUS_NOT_SUPPORTED || found < 1)) {
      possible = false;
      return;
    }
    check_cublas(status, "cublasLtMatmulAlgoGetHeuristic", ordinal);
    if (found < 1) {
      throw CudaError(concat("reef::device::Cuda: cuBLASLt knows no algorithm for the product (",
                             s.m, ", ", s.k, ") x (", s.k, ", ", s.n, ") in ", name_of(s.factors),
                             " on ", cuda_device_text(ordinal), "."),
                      static_cast<int>(CUBLAS_STATUS_NOT_SUPPORTED));
    }
    algorithm = best.algo;
  }

  void release() {
    if (d != nullptr) static_cast<void>(cublasLtMatrixLayoutDestroy(d));
    if (b != nullptr) static_cast<void>(cublasLtMatrixLayoutDestroy(b));
    if (a != nullptr) static_cast<void>(cublasLtMatrixLayoutDestroy(a));
    if (operation != nullptr) static_cast<void>(cublasLtMatmulDescDestroy(operation));
  }
};

/// A lane's matrix products: a cuBLASLt handle, a workspace and the algorithms chosen so far.
///
/// | order  | everything is enqueued on the one stream, so the workspace is free again for what follows |
/// | memory | 32 MiB, taken with the handle; like the driver's own context it is not of the budget      |
/// | bits   | depend on the device and the shape alone, not on addresses or on what ran before; of bf16 |
/// |        | also on whether the matrices begin at a multiple of 16 bytes, as Reef's tensors do        |
/// | thread | of the lane                                                                               |
class CudaBlas {
public:
  static constexpr Bytes workspace_bytes = Bytes{32} << 20;

  CudaBlas(int ordinal, cudaStream_t stream) : ordinal_(ordinal), stream_(stream) {
    check_cublas(cublasLtCreate(&handle_), "cublasLtCreate", ordinal_);
    const cudaError_t code = cudaMalloc(&workspace_, workspace_bytes);
    if (code != cudaSuccess) {
      static_cast<void>(cublasLtDestroy(handle_));
      check_cuda(code, "cudaMalloc (32 MiB, workspace of a lane)", ordinal_);
    }
  }
  CudaBlas(const CudaBlas&) = delete;
  CudaBlas& operator=(const CudaBlas&) = delete;
  ~CudaBlas() {
    plans_.clear();
    static_cast<void>(cudaFree(workspace_));
    static_cast<void>(cublasLtDestroy(handle_));
  }

  [[nodiscard]] cublasLtHandle_t handle() const { return handle_; }

  /// Scratch memory for kernels on this lane's stream, free again for whatever is enqueued later.
  [[nodiscard]] void* workspace() const { return workspace_; }

  /// D = alpha op(A) op(B) + beta D, column-major; m, n and k are at least 1. With beta 0, D is
  /// not read. Of `shape`, elements and alignment are filled in here.
  template <real T, class C>
  void product(CudaProduct shape, sum_t<T> alpha, const T* a, const T* b, sum_t<T> beta, C* d) {
    static_assert(
        std::is_same_v<C, T> || std::is_same_v<C, sum_t<T>>,
        "reef::device::Cuda: a product has the element of its factors, or of their sums.");
    multiply(plan_of(described<T, C>(shape, a, b, d, nullptr)), alpha, a, b, beta, d);
  }

  /// D = op(A) op(B), with bias (m) added to every column before it is rounded; or false and nothing, where cuBLASLt
  /// does not do that.
  template <real T>
  [[nodiscard]] bool product_with_bias(CudaProduct shape, const T* a, const T* b, const T* bias,
                                       T* d) {
    shape.bias = true;
    const CudaProductPlan& plan = plan_of(described<T, T>(shape, a, b, d, bias));
    if (!plan.possible) return false;
    const void* const at = bias;
    check_cublas(cublasLtMatmulDescSetAttribute(plan.operation, CUBLASLT_MATMUL_DESC_BIAS_POINTER,
                                                &at, sizeof at),
                 "cublasLtMatmulDescSetAttribute(BIAS_POINTER)", ordinal_);
    multiply(plan, sum_t<T>(1), a, b, sum_t<T>(0), d);
    return true;
  }

private:
  template <real T, class C>
  static CudaProduct described(CudaProduct shape, const T* a, const T* b, const C* d,
                               const T* bias) {
    shape.factors = element_of<T>;
    shape.target = element_of<C>;
    shape.alignment = sizeof(T);
    // The kernels that feed tensor cores fastest read 16 bytes at once.
    if constexpr (std::is_same_v<T, Bfloat16>) {
      const auto places =
          reinterpret_cast<std::uintptr_t>(a) | reinterpret_cast<std::uintptr_t>(b) |
          reinterpret_cast<std::uintptr_t>(d) | reinterpret_cast<std::uintptr_t>(bias);
      if (places % 16 == 0) shape.alignment = 16;
    }
    return shape;
  }

  template <class E, class T, class C>
  void multiply(const CudaProductPlan& plan, E alpha, const T* a, const T* b, E beta, C* d) {
    check_cublas(
        cublasLtMatmul(handle_, plan.operation, &alpha, a, plan.a, b, plan.b, &beta, d, plan.d, d,
                       plan.d, &plan.algorithm, workspace_, workspace_bytes, stream_),
        "cublasLtMatmul", ordinal_);
  }

  const CudaProductPlan& plan_of(const CudaProduct& shape) {
    const auto found = plans_.find(shape);
    if (found != plans_.end()) return found->second;
    return plans_.try_emplace(shape, handle_, shape, workspace_bytes, ordinal_).first->second;
  }

  int ordinal_;
  cudaStream_t stream_;
  cublasLtHandle_t handle_ = nullptr;
  void* workspace_ = nullptr;
  std::map<CudaProduct, CudaProductPlan> plans_;
};

}  // namespace device::detail
}  // namespace v0
}  // namespace reef
