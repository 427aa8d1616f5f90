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

  /// Returns the spec as text: "(8, 64, 128) fp32".
  [[nodiscard]] std::string text() const { return concat(shape.text(), " ", name_of(element)); }

  friend bool operator==(const TensorSpec&, const TensorSpec&) = default;
};

/// The initialisation of a parameter: all zeros, all ones, independent normal numbers of deviation `scale`, or
/// `values`, which give the element at a place in its rows. Given values are the same on all ranks: a Trainer compares
/// their hash.
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

/// A parameter that an operator asks for. Weight decay applies where `decay` is set: to matrices,
/// not to biases and norms. `linear`: the parameter is a matrix that rows of an input are multiplied by, not a table of
/// vectors.
struct ParameterSpec {
  std::string name;
  Shape shape;
  Init init;
  bool decay = false;
  bool linear = false;
};

/// An input and an output, by their positions; one may be written over the other.
struct Share {
  int input = 0;
  int output = 0;
};

/// The facts that an operator states about itself, given the shapes of its inputs.
///
/// | attributes             | the other facts that decide its results, as a text ("heads 4"): ranks                 |
/// |                        | and checkpoints compare it                                                            |
/// | outputs                | the tensors that forward writes                                                       |
/// | saved                  | the tensors that forward keeps for backward beside inputs and outputs                 |
/// | *_workspace            | bytes of scratch memory that one call needs, 64-byte aligned                          |
/// | heap_bytes             | the most memory of its own that a call takes, kept memory included: it is not planned |
/// | kept_heap_bytes        | the part of heap_bytes kept from a forward to its backward: of the last forward alone |
/// | backward_reads_*       | whether backward reads the values of the inputs, of the outputs                       |
/// | forward_shares         | output may lie where input lies: forward then runs in place                           |
/// | gradient_shares        | the input's gradient may lie where the output's lies: backward in place               |
/// | gradient_passes        | the input's gradient is the output's: it may lie there, read by others                |
/// | gradient_over_input    | the gradient of this input may lie where the input's value lies                       |
/// | overwrites_gradients   | backward cannot add to an input's gradient; the graph adds for it                     |
/// | writes_all_gradients   | backward writes an input's gradient also where nobody wants it                        |
/// | skips_gradients        | backward takes null for the gradient of a frozen parameter, which it does not write   |
/// | inputs_for_parameters  | backward reads the inputs for gradients of parameters alone                           |
/// | splits_backward        | backward can run in two halves, BackwardPart::input and weight, with                  |
/// |                        | the bits of one; `weight_flops` are the operations of the weight half                 |
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
