#pragma once

#include <memory>
#include <utility>

#include <reef/graph/graph.hpp>
#include <reef/graph/rows.hpp>

namespace reef {
inline namespace v0 {
namespace graph::detail {

/// The code for rows of an operator whose type is known only where a RowModel was made.
template <class Device, real T>
class AnyRowOperator {
public:
  virtual ~AnyRowOperator() = default;
  [[nodiscard]] virtual RowsSignature signature(const RowsSignatureCall<Device, T>& call) const = 0;
  virtual void prepare(const PrepareRowsCall<Device, T>& call) const = 0;
  virtual void forward(const RowsCall<Device, T>& call) const = 0;
};

/// The code of an operator as it stands in the graph.
template <class Op, class Device, real T>
class StoredRowOperator final : public AnyRowOperator<Device, T> {
public:
  explicit StoredRowOperator(Op op) : op_(std::move(op)) {}
  [[nodiscard]] RowsSignature signature(const RowsSignatureCall<Device, T>& call) const override {
    if constexpr (requires { op_.rows_signature(call); }) return op_.rows_signature(call);
    return {};
  }
  void prepare(const PrepareRowsCall<Device, T>& call) const override {
    if constexpr (requires { op_.prepare_rows(call); }) op_.prepare_rows(call);
  }
  void forward(const RowsCall<Device, T>& call) const override { op_.forward_rows(call); }

private:
  Op op_;
};

/// Returns the code for rows of a node, or null if its operator is no Op.
template <class Op, class Device, real T>
std::unique_ptr<AnyRowOperator<Device, T>> row_code_of(const Graph<Device, T>& graph, int node) {
  const Op* const op = graph.template operator_as<Op>(node);
  if (op == nullptr) return nullptr;
  return std::make_unique<StoredRowOperator<Op, Device, T>>(*op);
}

}  // namespace graph::detail
}  // namespace v0
}  // namespace reef
