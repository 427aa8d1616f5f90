#pragma once

// Included where oneDNN is there (REEF_HAS_DNNL).

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string_view>
#include <type_traits>
#include <utility>

#include <oneapi/dnnl/dnnl.h>

#include <reef/core/element.hpp>
#include <reef/core/error.hpp>
#include <reef/core/units.hpp>
#include <reef/device/instruction_set.hpp>
#include <reef/nn/host/detail/scratch.hpp>
#include <reef/nn/kernels.hpp>

namespace reef {
inline namespace v0 {
namespace nn::host::detail {

/// The processor multiplies bf16 and sums in fp32, and kernels may use that: AVX512_BF16, with the
/// interface of oneDNN 2, which 3 has replaced.
inline bool multiplies_bf16() {
#if DNNL_VERSION_MAJOR == 2 && defined(__x86_64__) && defined(__GNUC__)
  static const bool has = __builtin_cpu_supports("avx512bf16");
  return has && device::instruction_set() == device::InstructionSet::avx512;
#else
  return false;
#endif
}

#if DNNL_VERSION_MAJOR == 2

/// C (m,n) = op(A) (m,k) op(B) (k,n) + beta C by oneDNN's matmul on the calling thread, with sums in
/// fp32.
///
/// oneDNN makes code for a shape, so each thread keeps what it has made, by shape. Its scratchpad is the
/// caller's: of the products of a GPT with 768 channels at most 1.4 MB.
class DnnlMatmul {
public:
  struct Shape {
    Transpose ta, tb;
    std::int64_t m, n, k, lda, ldb, ldc;
    float beta;
    Element operands;  ///< of A and B: bf16 or fp32
    Element result;    ///< of C: likewise
    auto operator<=>(const Shape&) const = default;
  };

  /// False, and nothing is done, where oneDNN has only its reference code for the shape, or none, or
  /// wants a scratchpad of more than the `room` bytes at `scratch`.
  static bool run(const Shape& shape, const void* a, const void* b, void* c, Scratch scratch,
                  Bytes room) {
    const DnnlMatmul& matmul = of(shape);
    if (matmul.primitive_ == nullptr || matmul.scratch_bytes_ > room) return false;
    matmul.execute(const_cast<void*>(a), const_cast<void*>(b), c,
                   scratch.take<std::byte>(static_cast<std::int64_t>(matmul.scratch_bytes_)));
    return true;
  }

  /// The scratchpad that run() wants for the shape; 0 where it does nothing.
  static Bytes scratch_bytes(const Shape& shape) { return of(shape).scratch_bytes_; }

  ~DnnlMatmul() {
    for (dnnl_memory_t memory : memories_) {
      if (memory != nullptr) dnnl_memory_destroy(memory);
    }
    if (primitive_ != nullptr) dnnl_primitive_destroy(primitive_);
    if (stream_ != nullptr) dnnl_stream_destroy(stream_);
    if (engine_ != nullptr) dnnl_engine_destroy(engine_);
  }
  DnnlMatmul(const DnnlMatmul&) = delete;
  DnnlMatmul& operator=(const DnnlMatmul&) = delete;

private:
  static const DnnlMatmul& of(const Shape& shape) {
    thread_local std::map<Shape, std::unique_ptr<DnnlMatmul>> made;
    if (made.size() > 1024) made.clear();  // shapes that never come again
    auto& matmul = made[shape];
    if (!matmul) {
      std::unique_ptr<DnnlMatmul> planned(new DnnlMatmul);
      planned->plan(shape);
      matmul = std::move(planned);
    }
    return *matmul;
  }

  DnnlMatmul() = default;

  void plan(const Shape& shape) {
    const auto matrix = [](std::int64_t rows, std::int64_t columns, std::int64_t ld, Transpose t,
                           Element element) {
      const dnnl_dims_t extents{rows, columns};
      const bool as_is = t == Transpose::no;
      const dnnl_dims_t strides{as_is ? ld : 1, as_is ? 1 : ld};
      dnnl_memory_desc_t result;
      check_dnnl(dnnl_memory_desc_init_by_strides(
          &result, 2, extents, element == Element::bfloat16 ? dnnl_bf16 : dnnl_f32, strides));
      return result;
    };
    const auto a = matrix(shape.m, shape.k, shape.lda, shape.ta, shape.operands);
    const auto b = matrix(shape.k, shape.n, shape.ldb, shape.tb, shape.operands);
    const auto c = matrix(shape.m, shape.n, shape.ldc, Transpose::no, shape.result);
    dnnl_matmul_desc_t description;
    check_dnnl(dnnl_matmul_desc_init(&description, &a, &b, nullptr, &c));

    const auto attributes =
        owned<dnnl_primitive_attr_t>(dnnl_primitive_attr_create, dnnl_primitive_attr_destroy);
    check_dnnl(
        dnnl_primitive_attr_set_scratchpad_mode(attributes.get(), dnnl_scratchpad_mode_user));
    const auto after = owned<dnnl_post_ops_t>(dnnl_post_ops_create, dnnl_post_ops_destroy);
    if (shape.beta != 0.0F) check_dnnl(dnnl_post_ops_append_sum(after.get(), shape.beta));
    check_dnnl(dnnl_primitive_attr_set_post_ops(attributes.get(), after.get()));

    check_dnnl(dnnl_engine_create(&engine_, dnnl_cpu, 0));
    check_dnnl(dnnl_stream_create(&stream_, engine_, dnnl_stream_default_flags));
    dnnl_status_t planned = dnnl_success;
    const auto plan = owned<dnnl_primitive_desc_t>(
        [&](dnnl_primitive_desc_t* made) {
          planned =
              dnnl_primitive_desc_create(made, &description, attributes.get(), engine_, nullptr);
          return planned == dnnl_unimplemented ? dnnl_success : planned;
        },
        dnnl_primitive_desc_destroy);
    if (planned == dnnl_unimplemented) return;
    make(plan.get(), std::array<const dnnl_memory_desc_t*, 3>{&a, &b, &c});
  }

  /// What `create` makes, until it goes out of scope.
  template <class Handle, class Create>
  static std::unique_ptr<std::remove_pointer_t<Handle>, dnnl_status_t (*)(Handle)> owned(
      const Create& create, dnnl_status_t (*destroy)(Handle)) {
    Handle made = nullptr;
    check_dnnl(create(&made));
    return {made, destroy};
  }

  void make(const_dnnl_primitive_desc_t plan,
            const std::array<const dnnl_memory_desc_t*, 3>& kinds) {
    const char* code = "";
    check_dnnl(dnnl_primitive_desc_query(plan, dnnl_query_impl_info_str, 0, &code));
    if (std::string_view(code).starts_with("ref")) return;
    const dnnl_memory_desc_t scratchpad =
        *dnnl_primitive_desc_query_md(plan, dnnl_query_scratchpad_md, 0);
    scratch_bytes_ = dnnl_memory_desc_get_size(&scratchpad);
    for (std::size_t i = 0; i < kinds.size(); ++i) {
      check_dnnl(dnnl_memory_create(&memories_[i], kinds[i], engine_, nullptr));
    }
    check_dnnl(dnnl_memory_create(&memories_.back(), &scratchpad, engine_, nullptr));
    check_dnnl(dnnl_primitive_create(&primitive_, plan));
  }

  void execute(void* a, void* b, void* c, void* scratchpad) const {
    check_dnnl(dnnl_memory_set_data_handle(memories_[0], a));
    check_dnnl(dnnl_memory_set_data_handle(memories_[1], b));
    check_dnnl(dnnl_memory_set_data_handle(memories_[2], c));
    check_dnnl(dnnl_memory_set_data_handle(memories_[3], scratchpad));
    const std::array<dnnl_exec_arg_t, 4> arguments{{{DNNL_ARG_SRC, memories_[0]},
                                                    {DNNL_ARG_WEIGHTS, memories_[1]},
                                                    {DNNL_ARG_DST, memories_[2]},
                                                    {DNNL_ARG_SCRATCHPAD, memories_[3]}}};
    check_dnnl(dnnl_primitive_execute(primitive_, stream_, static_cast<int>(arguments.size()),
                                      arguments.data()));
    check_dnnl(dnnl_stream_wait(stream_));
  }

  static void check_dnnl(dnnl_status_t status) {
    if (status == dnnl_success) return;
    throw Error("reef::nn: oneDNN refused a product of bf16 matrices with status ",
                static_cast<int>(status), ".");
  }

  dnnl_engine_t engine_ = nullptr;
  dnnl_stream_t stream_ = nullptr;
  dnnl_primitive_t primitive_ = nullptr;
  std::array<dnnl_memory_t, 4> memories_{};
  Bytes scratch_bytes_ = 0;
};

#endif

}  // namespace nn::host::detail
}  // namespace v0
}  // namespace reef
