#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <reef/core/element.hpp>
#include <reef/core/shape.hpp>
#include <reef/core/text.hpp>
#include <reef/core/units.hpp>

namespace reef {
inline namespace v0 {
namespace graph {

/// The specification of a tensor: its shape and element type, known before it exists.
///
/// \code
/// const graph::TensorSpec tokens{{8, 256}, Element::int32};  // (B, T)
/// const Bytes bytes = tokens.bytes();
/// \endcode
struct TensorSpec {
  Shape shape;
  Element element = Element::float32;

  [[nodiscard]] Bytes bytes() const { return static_cast<Bytes>(shape.size()) * size_of(element); }

  /// Returns the shape and element type as text: "(8, 64, 128) fp32".
  [[nodiscard]] std::string text() const { return concat(shape.text(), " ", name_of(element)); }

  friend bool operator==(const TensorSpec&, const TensorSpec&) = default;
};

/// The initialisation of a parameter: all zeros, all ones, independent normal numbers of standard deviation `scale`, or
/// `values`, a function that returns the element of a row-major index. The function must be the same on all ranks: a
/// Trainer compares a hash of the values.
struct Init {
  enum class Law : std::uint8_t { zeros, ones, normal, given };
  using Values = std::function<double(std::int64_t)>;

  Law law = Law::zeros;
  double scale = 0;
  std::shared_ptr<const Values> values{};

  static Init zeros() { return {Law::zeros, 0}; }
  static Init ones() { return {Law::ones, 0}; }
  static Init normal(double scale) { return {Law::normal, scale}; }
  static Init given(Values values) { return {Law::given, 0, std::make_shared<const Values>(std::move(values))}; }

  friend bool operator==(const Init&, const Init&) = default;
};

/// A parameter that an operator declares. Weight decay applies if `decay` is set: for matrices,
/// not for biases and norms. `linear`: the parameter is a matrix that multiplies rows of an input, not a table of
/// vectors.
struct ParameterSpec {
  std::string name;
  Shape shape;
  Init init;
  bool decay = false;
  bool linear = false;
};

/// An input and an output of an operator, by index, of which one may be stored in the memory of the other (in place).
struct Share {
  int input = 0;
  int output = 0;
};

/// The properties of an operator for inputs of given shapes, as its signature() states them.
///
/// | attributes             | all other settings that affect its results, as text ("heads 4"): ranks and            |
/// |                        | checkpoints compare it                                                                |
/// | outputs                | the tensors that forward writes                                                       |
/// | saved                  | the tensors that forward keeps for backward in addition to inputs and outputs         |
/// | *_workspace            | bytes of scratch memory that one call needs, 64-byte aligned                          |
/// | heap_bytes             | the most memory that a call itself allocates, outside the plan, kept memory included  |
/// | kept_heap_bytes        | the part of heap_bytes kept from a forward to its backward, for the last forward only |
/// | backward_reads_*       | whether backward reads the values of the inputs, of the outputs                       |
/// | forward_shares         | the output may be stored in the input's memory: forward then runs in place            |
/// | gradient_shares        | the input's gradient may be stored in the output gradient's memory: backward in place |
/// | gradient_passes        | the input's gradient equals the output's and may share its memory, also with others   |
/// | gradient_over_input    | the gradient of this input may be stored in the memory of the input's value           |
/// | overwrites_gradients   | backward cannot add to an input's gradient; the graph adds for it                     |
/// | writes_all_gradients   | backward writes an input's gradient even if nobody needs it                           |
/// | skips_gradients        | backward accepts null for the gradient of a frozen parameter, and does not write it   |
/// | inputs_for_parameters  | backward reads the inputs only to compute gradients of parameters                     |
/// | splits_backward        | backward can run in two halves, BackwardPart::input and weight, with the same bits as |
/// |                        | one call; `weight_flops` are the operations of the weight half                        |
struct Signature {
  std::string attributes;
  std::vector<TensorSpec> outputs;
  std::vector<TensorSpec> saved;
  std::vector<ParameterSpec> parameters;
  Bytes forward_workspace = 0;
  Bytes backward_workspace = 0;
  Bytes heap_bytes = 0;
  Bytes kept_heap_bytes = 0;
  double forward_flops = 0;
  double backward_flops = 0;
  bool backward_reads_inputs = true;
  bool backward_reads_outputs = false;
  std::vector<Share> forward_shares;
  std::vector<Share> gradient_shares;
  std::vector<Share> gradient_passes;
  std::vector<int> gradient_over_input;
  bool overwrites_gradients = false;
  bool writes_all_gradients = false;
  bool skips_gradients = false;
  bool inputs_for_parameters = false;
  bool splits_backward = false;
  double weight_flops = 0;
};

}  // namespace graph
}  // namespace v0
}  // namespace reef
