#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include <reef/core/element.hpp>
#include <reef/core/tensor_view.hpp>
#include <reef/core/units.hpp>
#include <reef/graph/operator.hpp>

namespace reef {
inline namespace v0 {
namespace graph {

/// A row of a batch that continues sequences: the index of its sequence in the call's table, and its position there.
struct Row {
  int sequence = 0;
  std::int64_t position = 0;
};

/// The positions of a sequence whose states lie in one page.
inline constexpr std::int64_t page_positions = 64;

/// The pages of a sequence: that of positions [64 i, 64 (i + 1)) at place i.
using Pages = std::span<std::byte* const>;

/// The form of the matrices that rows are multiplied by. They are computed with as the numbers that the form decodes to.
///
/// | as_given   | as the parameters are                                                                  |
/// | bf16       | rounded to bfloat16                                                                    |
/// | int8       | each column over its largest magnitude, times 127, rounded: 8 bits                     |
/// | blockwise8 | the nearest value of the dynamic code times the largest of 64 inputs: 8.5 bits         |
/// | nf4        | the nearest of 16 quantiles of a normal distribution likewise, nested: 4.13 bits       |
///
/// Source: Dettmers et al., LLM.int8(), arXiv 2208.07339; 8-bit optimizers, arXiv 2110.02861; QLoRA, arXiv 2305.14314.
enum class WeightForm : std::uint8_t { as_given, bf16, int8, blockwise8, nf4 };

/// Choices of a RowModel.
struct RowOptions {
  WeightForm weights = WeightForm::as_given;
  std::int64_t positions = page_positions;  ///< the most positions of a sequence
};

/// The memory that an operator asks for to run by rows.
///
/// | prepared  | bytes of its first parameter in the form that rows read: prepare_rows writes them once    |
/// | layout    | how they are arranged: uses of one parameter with the same bytes and layout share them    |
/// | state     | bytes that a position leaves to later ones of its sequence, such as its key and value     |
/// | workspace | bytes of scratch memory that a call needs, 64-byte aligned                                |
struct RowsSignature {
  Bytes prepared = 0;
  std::string_view layout;
  Bytes state = 0;
  Bytes workspace = 0;
};

/// The facts that an operator has when it states its RowsSignature. Inputs are of one row each: their first extent is
/// the number of rows, their second 1.
template <class Device, real T>
struct RowsSignatureCall {
  std::span<const TensorSpec> inputs;
  RowOptions options;
  int threads = 1;
};

/// The preparation of a parameter: the first of an operator with prepared memory. `values` and `prepared` are memory of
/// the device.
template <class Device, real T>
struct PrepareRowsCall {
  typename Device::Lane& lane;
  TensorView<const T> values;
  void* prepared = nullptr;
  RowOptions options;
};

/// One application of an operator to rows of sequences, each with the states of the positions before it.
///
/// | rows      | rows of one sequence ascend by one position, behind what their pages hold      |
/// | state     | of page i of a sequence: 64 times RowsSignature::state bytes, of this operator |
/// | prepared  | what prepare_rows wrote, or null                                               |
template <class Device, real T>
struct RowsCall {
  using device_type = Device;
  using element_type = T;

  typename Device::Lane& lane;
  std::span<const AnyView> inputs;
  std::span<const AnyView> outputs;
  std::span<const AnyView> parameters;
  const void* prepared = nullptr;
  RowOptions options;
  void* workspace = nullptr;
  std::span<const Row> rows;
  std::span<const Pages> pages;
  Bytes state_offset = 0;

  [[nodiscard]] TensorView<const T> input(std::size_t i) const { return inputs[i].as<const T>(); }
  [[nodiscard]] TensorView<const std::int32_t> integers(std::size_t i) const {
    return inputs[i].as<const std::int32_t>();
  }
  [[nodiscard]] TensorView<T> output(std::size_t i) const { return outputs[i].as<T>(); }
  [[nodiscard]] TensorView<const T> parameter(std::size_t i) const {
    return parameters[i].as<const T>();
  }
  [[nodiscard]] std::byte* state(int sequence, std::int64_t page) const {
    return pages[static_cast<std::size_t>(sequence)][static_cast<std::size_t>(page)] + state_offset;
  }
};

/// An operator with code of its own for rows: since a row's position counts, since it keeps states, or since its
/// forward would give a row other bits beside others.
///
///     a row's outputs depend on its inputs, the parameters, its position and the states before it: not on the
///     other rows of the call, nor on their number
///
/// \code
/// struct Timed {  // out = in + position; signature, forward and backward stand beside, and if they are not all 0
///   template <class Device, real T>  // rows_signature, and prepare_rows where `prepared` is not 0
///   void forward_rows(const graph::RowsCall<Device, T>& call) const {
///     const std::int64_t C = call.input(0).shape().last();
///     for (std::int64_t i = 0; i < call.input(0).size(); ++i)
///       call.output(0).data()[i] = call.input(0).data()[i] + T(call.rows[static_cast<std::size_t>(i / C)].position);
///   }
/// };
/// \endcode
template <class Op, class Device, class T>
concept row_operator_for = operator_for<Op, Device, T> &&
    requires(const Op& op, const RowsCall<Device, T>& rows) {
  { op.forward_rows(rows) } -> std::same_as<void>;
};

}  // namespace graph
}  // namespace v0
}  // namespace reef
