#pragma once

// Included where oneDNN is there (REEF_HAS_DNNL).

#include <array>
#include <cstdint>
#include <cstdlib>
#include <map>
#include <memory>
#include <string>
#include <type_traits>

#include <oneapi/dnnl/dnnl.h>

#include <reef/core/bfloat16.hpp>
#include <reef/core/error.hpp>
#include <reef/core/text.hpp>
#include <reef/device/instruction_set.hpp>
#include <reef/nn/kernels.hpp>

namespace reef::inline v0::nn::host::detail {

/// The processor multiplies bf16 and sums in fp32, and kernels may use that: AVX512_BF16.
inline bool multiplies_bf16() {
#if DNNL_VERSION_MAJOR == 2 && defined(__x86_64__) && defined(__GNUC__)
  static const bool has = __builtin_cpu_supports("avx512bf16");
  return has && device::instruction_set() == device::InstructionSet::avx512;
#else
  return false;
#endif
}

#if DNNL_VERSION_MAJOR == 2

/// C (m,n) = op(A) (m,k) op(B) (k,n) + beta C by oneDNN's matmul on the calling thread, with A and B of
/// bf16, C of bf16 or fp32, and sums in fp32.
///
/// oneDNN makes code for a shape, so each thread keeps what it has made, by shape.
class DnnlMatmul {
public:
  struct Shape {
    Transpose ta, tb;
    std::int64_t m, n, k, lda, ldb, ldc;
    float beta;
    bool wide;  ///< C is fp32
    auto operator<=>(const Shape&) const = default;
  };

  static void run(const Shape& shape, const Bfloat16* a, const Bfloat16* b, void* c) {
    thread_local std::map<Shape, std::unique_ptr<DnnlMatmul>> made;
    auto& matmul = made[shape];
    if (!matmul) matmul.reset(new DnnlMatmul(shape));
    matmul->execute(const_cast<Bfloat16*>(a), const_cast<Bfloat16*>(b), c);
  }

  ~DnnlMatmul() {
    for (dnnl_memory_t memory : memories_) dnnl_memory_destroy(memory);
    dnnl_primitive_destroy(primitive_);
    dnnl_stream_destroy(stream_);
    dnnl_engine_destroy(engine_);
    std::free(scratch_);
  }
  DnnlMatmul(const DnnlMatmul&) = delete;
  DnnlMatmul& operator=(const DnnlMatmul&) = delete;

private:
  explicit DnnlMatmul(const Shape& shape) {
    const auto matrix = [](std::int64_t rows, std::int64_t columns, std::int64_t ld, Transpose t,
                           dnnl_data_type_t type) {
      const dnnl_dims_t extents{rows, columns};
      const bool as_is = t == Transpose::no;
      const dnnl_dims_t strides{as_is ? ld : 1, as_is ? 1 : ld};
      dnnl_memory_desc_t result;
      check(dnnl_memory_desc_init_by_strides(&result, 2, extents, type, strides));
      return result;
    };
    const auto a = matrix(shape.m, shape.k, shape.lda, shape.ta, dnnl_bf16);
    const auto b = matrix(shape.k, shape.n, shape.ldb, shape.tb, dnnl_bf16);
    const auto c =
        matrix(shape.m, shape.n, shape.ldc, Transpose::no, shape.wide ? dnnl_f32 : dnnl_bf16);
    dnnl_matmul_desc_t description;
    check(dnnl_matmul_desc_init(&description, &a, &b, nullptr, &c));

    dnnl_primitive_attr_t attributes = nullptr;
    check(dnnl_primitive_attr_create(&attributes));
    check(dnnl_primitive_attr_set_scratchpad_mode(attributes, dnnl_scratchpad_mode_user));
    dnnl_post_ops_t after = nullptr;
    check(dnnl_post_ops_create(&after));
    if (shape.beta != 0.0F) check(dnnl_post_ops_append_sum(after, shape.beta));
    check(dnnl_primitive_attr_set_post_ops(attributes, after));

    check(dnnl_engine_create(&engine_, dnnl_cpu, 0));
    check(dnnl_stream_create(&stream_, engine_, dnnl_stream_default_flags));
    dnnl_primitive_desc_t plan = nullptr;
    check(dnnl_primitive_desc_create(&plan, &description, attributes, engine_, nullptr));
    const dnnl_memory_desc_t scratch =
        *dnnl_primitive_desc_query_md(plan, dnnl_query_scratchpad_md, 0);
    const std::size_t bytes = dnnl_memory_desc_get_size(&scratch);
    if (bytes > 0) scratch_ = std::aligned_alloc(64, (bytes + 63) / 64 * 64);
    check(dnnl_primitive_create(&primitive_, plan));
    const std::array<const dnnl_memory_desc_t*, 4> kinds{&a, &b, &c, &scratch};
    for (std::size_t i = 0; i < kinds.size(); ++i) {
      check(dnnl_memory_create(&memories_[i], kinds[i], engine_, i == 3 ? scratch_ : nullptr));
    }
    dnnl_primitive_desc_destroy(plan);
    dnnl_post_ops_destroy(after);
    dnnl_primitive_attr_destroy(attributes);
  }

  void execute(void* a, void* b, void* c) {
    check(dnnl_memory_set_data_handle(memories_[0], a));
    check(dnnl_memory_set_data_handle(memories_[1], b));
    check(dnnl_memory_set_data_handle(memories_[2], c));
    const std::array<dnnl_exec_arg_t, 4> arguments{{{DNNL_ARG_SRC, memories_[0]},
                                                    {DNNL_ARG_WEIGHTS, memories_[1]},
                                                    {DNNL_ARG_DST, memories_[2]},
                                                    {DNNL_ARG_SCRATCHPAD, memories_[3]}}};
    check(dnnl_primitive_execute(primitive_, stream_, static_cast<int>(arguments.size()),
                                 arguments.data()));
    check(dnnl_stream_wait(stream_));
  }

  static void check(dnnl_status_t status) {
    if (status == dnnl_success) return;
    throw Error("reef::nn: oneDNN refused a product of bf16 matrices with status ",
                static_cast<int>(status), ".");
  }

  dnnl_engine_t engine_ = nullptr;
  dnnl_stream_t stream_ = nullptr;
  dnnl_primitive_t primitive_ = nullptr;
  std::array<dnnl_memory_t, 4> memories_{};
  void* scratch_ = nullptr;
};

#endif

}  // namespace reef::inline v0::nn::host::detail
