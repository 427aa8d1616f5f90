#pragma once

#include <string_view>
#include <utility>

#include <reef/graph/operator.hpp>

namespace reef {
inline namespace v0 {
namespace graph::detail {

/// An operator whose type is known only where it was added.
template <class Device, real T>
class AnyOperator {
public:
  virtual ~AnyOperator() = default;
  [[nodiscard]] virtual std::string_view kind() const = 0;
  [[nodiscard]] virtual Signature signature(const SignatureCall<Device, T>& call) const = 0;
  virtual void forward(const ForwardCall<Device, T>& call) const = 0;
  [[nodiscard]] virtual bool by_rows() const = 0;
  virtual void backward(const BackwardCall<Device, T>& call) const = 0;
};

/// The operator as it was added.
template <class Op, class Device, real T>
class StoredOperator final : public AnyOperator<Device, T> {
public:
  explicit StoredOperator(Op op) : op_(std::move(op)) {}
  [[nodiscard]] const Op& op() const { return op_; }
  [[nodiscard]] std::string_view kind() const override { return Op::kind; }
  [[nodiscard]] Signature signature(const SignatureCall<Device, T>& call) const override { return op_.signature(call); }
  void forward(const ForwardCall<Device, T>& call) const override { op_.forward(call); }
  void backward(const BackwardCall<Device, T>& call) const override { op_.backward(call); }
  [[nodiscard]] bool by_rows() const override { return row_wise<Op>; }

private:
  Op op_;
};

}  // namespace graph::detail
}  // namespace v0
}  // namespace reef
