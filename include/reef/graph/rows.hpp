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

/// A row of a batch: one position (token) of a sequence. `sequence` is the index of the sequence in the call's table of
/// pages.
struct Row {
  int sequence = 0;
  std::int64_t position = 0;
};

/// The number of positions of a sequence whose states (such as keys and values) one page of the cache holds.
inline constexpr std::int64_t page_positions = 64;

/// The cache pages of a sequence: element i points to the page of positions [64 i, 64 (i + 1)).
using Pages = std::span<std::byte* const>;

/// The form in which matrices that multiply rows are stored. Products use the numbers that the stored form decodes to.
///
/// | as_given   | unchanged, in the element type of the parameters                                       |
/// | bf16       | rounded to bfloat16                                                                    |
/// | int8       | each column divided by its largest magnitude, times 127, rounded: 8 bits; outliers     |
/// |            | (RowOptions::outliers) are inputs whose numbers are as given, apart from all columns   |
/// | blockwise8 | 64 inputs divided by their largest magnitude, as values of the dynamic code: 8.5 bits  |
/// | nf4        | the same with 16 quantiles of a normal distribution and nested scales: 4.13 bits       |
///
/// Source: Dettmers et al., LLM.int8(), arXiv 2208.07339; 8-bit optimizers, arXiv 2110.02861; QLoRA, arXiv 2305.14314.
enum class WeightForm : std::uint8_t { as_given, bf16, int8, blockwise8, nf4 };

/// The form in which the pages of a key-value cache hold the states of positions, such as keys and values.
///
/// | as_given | unchanged, in the element type of the model                                                    |
/// | bf16     | rounded to bfloat16                                                                            |
/// | int8     | each key and value of a head divided by its largest magnitude, times 127, rounded: 8 bits, and |
/// |          | one scale of the element type in which sums are taken; NaNs where a number is not finite       |
enum class StateForm : std::uint8_t { as_given, bf16, int8 };

/// Options of a RowModel, which runs a model token by token with a key-value cache.
struct RowOptions {
  WeightForm weights = WeightForm::as_given;
  std::int64_t positions = page_positions;  ///< the largest number of positions (tokens) of a sequence
  StateForm states = StateForm::as_given;
  /// Number of outliers among 256 inputs of an int8 matrix, inputs that are not quantised: 0 to 256.
  std::int64_t outliers = 0;

  /// Returns the number of outliers (inputs that are not quantised) of a matrix of K inputs, rounded up; 0 in another
  /// form than int8.
  [[nodiscard]] std::int64_t outliers_of(std::int64_t K) const {
    return weights == WeightForm::int8 ? (K * outliers + 255) / 256 : 0;
  }
};

/// The memory that an operator needs to process rows (single tokens of sequences).
///
/// | prepared  | the bytes of its first parameter in the form that rows read, written once by prepare_rows |
/// | layout    | the name of that form: uses of one parameter with equal `prepared` and `layout` share it  |
/// | state     | the bytes stored for each position, such as its key and value, which later positions read |
/// | workspace | bytes of scratch memory that a call needs, 64-byte aligned                                |
struct RowsSignature {
  Bytes prepared = 0;
  std::string_view layout;
  Bytes state = 0;
  Bytes workspace = 0;
};

/// The argument of an operator's rows_signature(): the specs of its inputs, without their values. The first extent of
/// each input is the number of rows, the second is 1.
template <class Device, real T>
struct RowsSignatureCall {
  std::span<const TensorSpec> inputs;
  RowOptions options;
  int threads = 1;
};

/// The argument of an operator's prepare_rows(), which converts the operator's first parameter, `values`, into the form
/// that its code for rows reads, `prepared`. Both are in the device's memory. `magnitudes`, on the host: the size of
/// each of the K inputs of a matrix, in calibration data, by which outliers are chosen; empty if that is not known.
template <class Device, real T>
struct PrepareRowsCall {
  typename Device::Lane& lane;
  TensorView<const T> values;
  void* prepared = nullptr;
  RowOptions options;
  std::span<const float> magnitudes = {};
};

/// The argument of an operator's forward_rows(): rows of sequences, and the stored states of the positions before them.
///
/// | rows      | the rows of one sequence have consecutive positions, behind those in its pages |
/// | state     | state(s, i): 64 * RowsSignature::state bytes in page i of sequence s           |
/// | prepared  | the memory that prepare_rows wrote, or null if nothing is prepared             |
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

/// An operator with its own code for rows (tokens of sequences): because a row's position matters, because it stores
/// states, or because its forward would give a row different bits when other rows are beside it.
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
