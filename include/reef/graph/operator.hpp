#pragma once

#include <concepts>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <string_view>

#include <reef/core/error.hpp>
#include <reef/core/finite.hpp>
#include <reef/core/random.hpp>
#include <reef/core/tensor_view.hpp>
#include <reef/graph/segment.hpp>
#include <reef/graph/signature.hpp>

namespace reef {
inline namespace v0 {
namespace graph {

/// An error that an operator of a model has thrown. Its text has the node's name and the operator's error; if a Trainer
/// runs the operator, also the rank, the micro-batch and its samples. The operator's outputs are unspecified.
class OperatorError : public CausedError {
public:
  using CausedError::CausedError;
};

namespace detail {

[[noreturn]] inline void refuse_operand(const char* what, std::size_t i, std::size_t count) {
  throw ShapeError("reef::graph: an operator asks for its ", what, " ", i, ", and has ", count,
                   ", numbered from 0.\n  fix: another number, or one more in its signature, or input of its node.");
}

[[noreturn]] inline void refuse_unread_output(std::size_t i) {
  throw ShapeError("reef::graph: a backward reads its output ", i, ", whose memory may hold other values by now.\n"
                   "  fix: backward_reads_outputs = true in its signature, so that it is kept.");
}

/// Returns operand i of an operator's call. Throws ShapeError, which calls the operand `what`, if there are i or fewer.
template <class Operand>
const Operand& operand(std::span<const Operand> operands, std::size_t i, const char* what) {
  if (i >= operands.size()) refuse_operand(what, i, operands.size());
  return operands[i];
}

}  // namespace detail

/// The argument of an operator's signature(): the node's name and kind, and the specs (shape, type) of its inputs
/// without their values.
template <class Device, real T>
struct SignatureCall {
  using element_type = T;

  std::string_view node;
  std::string_view kind;
  std::span<const TensorSpec> inputs;
  std::span<const std::string_view> input_names;
  int threads = 1;  ///< the largest number of threads that a kernel may use; scratch memory can depend on it

  /// Returns the spec of a tensor of this shape and the graph's element type.
  [[nodiscard]] TensorSpec tensor(Shape shape) const { return {shape, element_of<T>}; }

  /// Returns the spec of a tensor of this shape and of sum_t<T>, the type in which elements are summed: for a
  /// statistic, or a loss.
  [[nodiscard]] TensorSpec sums(Shape shape) const { return {shape, element_of<sum_t<T>>}; }

  /// Throws ShapeError unless the operator has `count` inputs.
  void expect_inputs(std::size_t count) const {
    if (inputs.size() == count) return;
    throw ShapeError(place(), " takes ", count, " inputs, ", inputs.size(),
                     " were given.\n  fix: give it ", count, ".");
  }

  /// Throws ShapeError unless `fits`, the caller's test of input i, is true; `expected` describes a valid input in
  /// words.
  void expect(std::size_t i, bool fits, std::string_view expected) const {
    if (fits) return;
    throw ShapeError(place(), ": its input ", i, ", '", input_names[i], "', is ", inputs[i].text(),
                     ".\n  fix: give it ", expected, ".");
  }

  /// Throws ShapeError unless input i has this shape and element type.
  void expect(std::size_t i, const TensorSpec& expected) const {
    expect(i, inputs[i] == expected, expected.text());
  }

  /// Throws ShapeError unless `value`, the operator's attribute `name`, is at least 1.
  void expect_positive(std::string_view name, std::int64_t value) const {
    if (value >= 1) return;
    throw ShapeError(place(), ": its ", name, " is ", value, ".\n  fix: 1 or more.");
  }

  /// Throws ShapeError unless `value`, the operator's attribute `name`, is at least 0, and finite also as sum_t<T>.
  void expect_not_negative(std::string_view name, double value) const {
    if (within(value, 0, (std::numeric_limits<sum_t<T>>::max)())) return;
    throw ShapeError(place(), ": its ", name, " is ", value, ".\n  fix: 0 or more, and finite as ",
                     name_of(element_of<sum_t<T>>), ".");
  }

  /// Throws ShapeError unless input i has at least one axis and the graph's element type.
  void expect_rows(std::size_t i) const {
    expect(i, inputs[i].shape.rank() >= 1 && inputs[i].element == element_of<T>,
           "rows (..., C) of " + std::string(name_of(element_of<T>)));
  }

private:
  [[nodiscard]] std::string place() const {
    return concat("reef::graph: the node '", node, "' of kind ", kind);
  }
};

/// The argument of an operator's forward(): one application of the operator. Views refer to the device's memory, which
/// stays valid until the device's queue has finished the work that forward() enqueues on it.
///
/// A tensor whose spec is SignatureCall::sums is read by a function of its own: output_sums(0) for a loss, kept_sums.
template <class Device, real T>
struct ForwardCall {
  using device_type = Device;
  using element_type = T;

  typename Device::Lane& lane;
  std::span<const AnyView> inputs;
  std::span<const AnyView> outputs;
  std::span<const AnyView> parameters;
  std::span<const AnyView> saved;
  void* workspace = nullptr;
  DrawKey key;  ///< key of random draws: its `sample` is that of row 0 of the micro-batch, its `op` the node
  bool training = false;

  [[nodiscard]] TensorView<const T> input(std::size_t i) const {
    return detail::operand(inputs, i, "input").as<const T>();
  }
  [[nodiscard]] TensorView<const std::int32_t> integers(std::size_t i) const {
    return detail::operand(inputs, i, "input").as<const std::int32_t>();
  }
  [[nodiscard]] TensorView<T> output(std::size_t i) const { return detail::operand(outputs, i, "output").as<T>(); }
  [[nodiscard]] TensorView<sum_t<T>> output_sums(std::size_t i) const {
    return detail::operand(outputs, i, "output").as<sum_t<T>>();
  }
  [[nodiscard]] TensorView<const T> parameter(std::size_t i) const {
    return detail::operand(parameters, i, "parameter").as<const T>();
  }
  [[nodiscard]] TensorView<T> kept(std::size_t i) const { return detail::operand(saved, i, "saved tensor").as<T>(); }
  [[nodiscard]] TensorView<sum_t<T>> kept_sums(std::size_t i) const {
    return detail::operand(saved, i, "saved tensor").as<sum_t<T>>();
  }
};

/// The argument of an operator's backward(): node, values and key are those of the forward().
///
///     input_gradient(i) (+)= sum over outputs o of  output_gradient(o) * d output(o) / d input(i);  (+)=: see below
///
/// | input_gradient    | empty unless wants(i); added to if accumulates(i), else overwritten                          |
/// | parameter_gradient | if wants_parameters(): added to if accumulate_parameters, else overwritten; elements        |
/// |                   | sum_t<T>; of a frozen parameter: null data if Signature::skips_gradients, else unread memory |
/// | input, output     | valid only if the signature says that backward reads them; else output(i) throws ShapeError  |
/// | part              | `all`, unless Signature::splits_backward is set                                              |
template <class Device, real T>
struct BackwardCall {
  using device_type = Device;
  using element_type = T;

  typename Device::Lane& lane;
  std::span<const AnyView> inputs;
  std::span<const AnyView> outputs;
  std::span<const AnyView> parameters;
  std::span<const AnyView> saved;
  std::span<const AnyView> output_gradients;
  std::span<const AnyView> input_gradients;
  std::span<const GradientWrite> writes;
  std::span<const AnyView> parameter_gradients;
  bool accumulate_parameters = false;
  void* workspace = nullptr;
  DrawKey key;
  BackwardPart part = BackwardPart::all;
  bool trains_parameters = true;  ///< true: at least one parameter of the node is trained

  [[nodiscard]] TensorView<const T> input(std::size_t i) const {
    return detail::operand(inputs, i, "input").as<const T>();
  }
  [[nodiscard]] TensorView<const std::int32_t> integers(std::size_t i) const {
    return detail::operand(inputs, i, "input").as<const std::int32_t>();
  }
  /// Returns the forward's output i. Throws ShapeError if the signature does not say that backward reads outputs.
  [[nodiscard]] TensorView<const T> output(std::size_t i) const {
    const AnyView& view = detail::operand(outputs, i, "output");
    if (!view && view.shape().size() > 0) detail::refuse_unread_output(i);
    return view.as<const T>();
  }
  [[nodiscard]] TensorView<const T> parameter(std::size_t i) const {
    return detail::operand(parameters, i, "parameter").as<const T>();
  }
  [[nodiscard]] TensorView<const T> kept(std::size_t i) const {
    return detail::operand(saved, i, "saved tensor").as<const T>();
  }
  [[nodiscard]] TensorView<const sum_t<T>> kept_sums(std::size_t i) const {
    return detail::operand(saved, i, "saved tensor").as<const sum_t<T>>();
  }
  [[nodiscard]] TensorView<const T> output_gradient(std::size_t i) const {
    return detail::operand(output_gradients, i, "output").as<const T>();
  }
  [[nodiscard]] TensorView<const sum_t<T>> output_gradient_sums(std::size_t i) const {
    return detail::operand(output_gradients, i, "output").as<const sum_t<T>>();
  }
  [[nodiscard]] bool wants(std::size_t i) const {
    return part != BackwardPart::weight && detail::operand(writes, i, "input") != GradientWrite::none;
  }
  [[nodiscard]] bool wants_parameters() const { return part != BackwardPart::input && trains_parameters; }
  [[nodiscard]] bool accumulates(std::size_t i) const {
    return detail::operand(writes, i, "input") == GradientWrite::add;
  }
  [[nodiscard]] TensorView<T> input_gradient(std::size_t i) const {
    return detail::operand(input_gradients, i, "input").as<T>();
  }
  [[nodiscard]] TensorView<sum_t<T>> parameter_gradient(std::size_t i) const {
    return detail::operand(parameter_gradients, i, "parameter").as<sum_t<T>>();
  }
};

/// An operator: a differentiable function with parameters that a graph can apply on the device to elements T.
///
///     backward is the transposed Jacobian of forward, at the same inputs, parameters and key
///     equal calls give equal bits, whatever the number of threads
///     forward writes every output and saved element; backward every gradient that is wanted
///
/// The three functions can be templates over the call: `void forward(const auto& call) const`.
///
/// Models: everything in nn/; a user's struct with `kind`, `signature`, `forward` and `backward`.
///
/// \code
/// struct Twice {  // out = 2 in; with parameters: examples/own_operator.cpp
///   static constexpr std::string_view kind = "Twice";
///   graph::Signature signature(const auto& call) const {
///     graph::Signature result;
///     result.outputs = {call.inputs[0]};
///     return result;
///   }
///   void forward(const auto& call) const {
///     const auto in = call.input(0).span();
///     for (std::size_t i = 0; i < in.size(); ++i) call.output(0).data()[i] = 2 * in[i];
///   }
///   void backward(const auto& call) const {
///     const auto d_in = call.input_gradient(0).span();
///     for (std::size_t i = 0; i < d_in.size(); ++i) {
///       d_in[i] = (call.accumulates(0) ? d_in[i] : 0) + 2 * call.output_gradient(0).data()[i];
///     }
///   }
/// };
/// static_assert(graph::operator_for<Twice, device::Host, float>);
/// \endcode
template <class Op, class Device, class T>
concept operator_for = std::copy_constructible<Op> &&
    requires(const Op& op, const SignatureCall<Device, T>& signature,
             const ForwardCall<Device, T>& forward, const BackwardCall<Device, T>& backward) {
  { Op::kind } -> std::convertible_to<std::string_view>;
  { op.signature(signature) } -> std::same_as<Signature>;
  { op.forward(forward) } -> std::same_as<void>;
  { op.backward(backward) } -> std::same_as<void>;
};

/// An operator that computes each row independently of other rows and of the row's position: forward accepts any number
/// of rows, and each row has the bits that it has alone. A user's operator declares this by `static constexpr bool
/// by_rows = true`.
template <class Op>
concept row_wise = requires {
  { Op::by_rows } -> std::convertible_to<bool>;
} && Op::by_rows;

}  // namespace graph
}  // namespace v0
}  // namespace reef
