#pragma once

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <torch/torch.h>

#include <reef/core/text.hpp>
#include <reef/core/units.hpp>
#include <reef/graph/graph.hpp>
#include <reef/torch/detail/forward.hpp>
#include <reef/torch/module.hpp>

namespace reef::inline v0::torch::detail {

/// A function of the module and a batch, or of what module.forward(batch[0]) gives, and the batch.
template <class M, class Loss>
concept loss_of_module = std::is_invocable_r_v<at::Tensor, const Loss&, M&, const Tensors&>;
template <class M, class Loss>
concept loss_of_output = std::is_invocable_r_v<at::Tensor, const Loss&, const at::Tensor&, const Tensors&> &&
                         requires(M& module, const at::Tensor& x) { { module.forward(x) } -> std::convertible_to<at::Tensor>; };

template <class M, class Loss>
at::Tensor loss_of(M& module, const Loss& loss, const at::Tensor& x, const Tensors& batch) {
  if constexpr (loss_of_module<M, Loss>) {
    return loss(module, batch);
  } else {
    return loss(module.forward(x), batch);
  }
}

inline Bytes bytes_of_parameters(const ::torch::nn::Module& module) {
  Bytes bytes = 0;
  for (const at::Tensor& parameter : module.parameters()) bytes += parameter.nbytes();
  return bytes;
}

/// The children in their order, in parts of at least so many bytes of parameters, but the last.
inline std::vector<std::shared_ptr<::torch::nn::SequentialImpl>> parts_of(::torch::nn::SequentialImpl& all, Bytes least) {
  std::vector<std::shared_ptr<::torch::nn::SequentialImpl>> parts;
  const auto names = all.named_children().keys();
  Bytes room = 0;
  for (std::size_t i = 0; i < all.size(); ++i) {
    const ::torch::nn::AnyModule& child = *(all.begin() + static_cast<std::ptrdiff_t>(i));
    const Bytes bytes = bytes_of_parameters(*child.ptr());
    // What has no parameters stays with what comes before it.
    if (parts.empty() || (room == 0 && bytes > 0)) {
      parts.push_back(std::make_shared<::torch::nn::SequentialImpl>());
      room = least;
    }
    parts.back()->push_back(names[i], child);
    room -= std::min(room, bytes);
  }
  return parts;
}

/// Adds a module as a node whose parameters have the names that the module gives them.
template <class Model>
std::vector<int> add_named(Model& graph, std::string name, Module op, std::vector<int> inputs, std::vector<Named>& parameters) {
  std::vector<std::string> names;
  for (const Named& parameter : op.parameters()) {
    // What two parts share has the name that it has in the first.
    const auto same = [&](const Named& known) { return known.tensor.is_same(parameter.tensor); };
    const auto known = std::find_if(parameters.begin(), parameters.end(), same);
    names.push_back(known != parameters.end() ? known->name : parameter.name);
    if (known == parameters.end()) parameters.push_back(parameter);
  }
  return graph.add(std::move(name), std::move(op), std::move(inputs), std::move(names));
}

/// The graph of a module and its loss, one node, or of a Sequential a node for each part. Appends the parameters.
template <class Model, class M, class Loss>
void add_module(Model& graph, const std::shared_ptr<M>& module, const Loss& loss, const std::vector<int>& batch,
                const ModuleOptions& options, Bytes node_bytes, std::vector<Named>& parameters) {
  const auto add_last = [&]<class Last>(std::string name, const std::shared_ptr<Last>& last, int x) {
    std::vector<int> inputs{x};
    inputs.insert(inputs.end(), batch.begin() + (x == batch[0] ? 1 : 0), batch.end());
    const bool whole = x == batch[0];
    Module op(last, [loss, whole](Last& part, const Tensors& given) {
      if (whole) return Tensors{loss_of(part, loss, given[0], given)};
      return Tensors{loss_of(part, loss, given[0], Tensors(given.begin() + 1, given.end()))};
    }, options);
    graph.loss(add_named(graph, std::move(name), std::move(op), std::move(inputs), parameters).front());
  };
  if constexpr (std::is_same_v<M, ::torch::nn::SequentialImpl> && !loss_of_module<M, Loss>) {
    const auto parts = parts_of(*module, node_bytes);
    int x = batch[0];
    for (std::size_t k = 0; k + 1 < parts.size(); ++k) {
      x = add_named(graph, concat("part.", k), Module(parts[k], options), {x}, parameters).front();
    }
    if (!parts.empty()) return add_last("loss", parts.back(), x);
  }
  add_last("loss", module, batch[0]);
}

}  // namespace reef::inline v0::torch::detail
