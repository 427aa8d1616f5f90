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

/// What is known of a tensor before it exists.
///
/// \code
/// const graph::TensorSpec tokens{{8, 256}, Element::int32};  // (B, T)
/// const Bytes bytes = tokens.bytes();
/// \endcode
struct TensorSpec {
  Shape shape;
  Element element = Element::float32;

  [[nodiscard]] Bytes bytes() const { return static_cast<Bytes>(shape.size()) * size_of(element); }

  /// "(8, 64, 128) fp32".
  [[nodiscard]] std::string text() const { return concat(shape.text(), " ", name_of(element)); }

  friend bool operator==(const TensorSpec&, const TensorSpec&) = default;
};

/// How a parameter begins: all zeros, all ones, independent normal numbers of deviation `scale`, or `values`, which give
/// the element at a place in its rows. Those are the same on all ranks: a Trainer compares their hash.
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
/// not to biases and norms. `linear`: a matrix that rows of an input are multiplied by; not a table of vectors.
struct ParameterSpec {
  std::string name;
  Shape shape;
  Init init;
  bool decay = false;
  bool linear = false;
};

/// An input and an output, by their positions, of which one may be written over the other.
struct Share {
  int input = 0;
  int output = 0;
};

/// What an operator says of itself, given the shapes of its inputs.
///
/// | attributes             | what else decides its results, as a text ("heads 4"): ranks and          |
/// |                        | checkpoints compare it                                                 |
/// | outputs                | the tensors that forward writes                                        |
/// | saved                  | what forward keeps for backward beside its inputs and outputs          |
/// | *_workspace            | bytes of scratch memory that one call needs, 64-byte aligned           |
/// | heap_bytes             | memory of its own that a call takes at most, what it keeps included: not in what is planned |
/// | kept_heap_bytes        | of that what stays from a forward to its backward: of the last forward alone |
/// | backward_reads_*       | whether backward reads the values of the inputs, of the outputs        |
/// | forward_shares         | output may lie where input lies: forward then runs in place            |
/// | gradient_shares        | the input's gradient may lie where the output's lies: backward in place |
/// | gradient_passes        | the input's gradient is the output's: it may lie there, read by others |
/// | gradient_over_input    | the gradient of this input may lie where the input's value lies        |
/// | overwrites_gradients   | backward cannot add to an input's gradient; the graph adds for it      |
/// | writes_all_gradients   | backward writes an input's gradient also where nobody wants it         |
/// | splits_backward        | backward can run in two halves, BackwardPart::input and weight, with    |
/// |                        | the bits of one; `weight_flops` of its operations are the latter's      |
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
  bool splits_backward = false;
  double weight_flops = 0;
};

}  // namespace graph
}  // namespace v0
}  // namespace reef
