#pragma once

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <c10/util/Type.h>
#include <torch/torch.h>

#include <reef/core/element.hpp>
#include <reef/core/error.hpp>
#include <reef/core/text.hpp>
#include <reef/core/units.hpp>
#include <reef/graph/graph.hpp>
#include <reef/torch/detail/batches.hpp>
#include <reef/torch/detail/errors.hpp>
#include <reef/torch/detail/forward.hpp>
#include <reef/torch/detail/shared_module.hpp>
#include <reef/torch/module.hpp>

namespace reef {
inline namespace v0 {
namespace torch::detail {

/// A function of the module and a batch, or of what module.forward(batch[0]) gives, and the batch.
template <class M, class Loss>
concept loss_of_module = std::is_invocable_r_v<at::Tensor, const Loss&, M&, const Tensors&>;
template <class M, class Loss>
concept loss_of_output = std::is_invocable_r_v<at::Tensor, const Loss&, const at::Tensor&, const Tensors&> &&
    requires(M& module, const at::Tensor& x) {
  { module.forward(x) } -> std::convertible_to<at::Tensor>;
};

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

using Part = std::shared_ptr<::torch::nn::SequentialImpl>;

/// The children in their order, in parts of at least so many bytes of parameters, but the last.
inline std::vector<Part> parts_of(::torch::nn::SequentialImpl& all, Bytes least) {
  std::vector<Part> parts;
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
    room -= (std::min)(room, bytes);
  }
  return parts;
}

/// Makes one of part k and the next.
inline void join(std::vector<Part>& parts, std::size_t k) {
  const auto names = parts[k + 1]->named_children().keys();
  for (std::size_t i = 0; i < names.size(); ++i) {
    parts[k]->push_back(names[i], *(parts[k + 1]->begin() + static_cast<std::ptrdiff_t>(i)));
  }
  parts.erase(parts.begin() + static_cast<std::ptrdiff_t>(k) + 1);
}

/// "children.2-4": a name of the node, by the names of the children.
inline std::string name_of(const Part& part) {
  const auto names = part->named_children().keys();
  return concat("children.", names.front(), names.size() > 1 ? concat("-", names.back()) : "");
}

/// What a part gives that is not the last.
inline at::Tensor output_of(::torch::nn::SequentialImpl& part, const at::Tensor& x) {
  ::torch::nn::AnyValue value{at::Tensor(x)};
  for (::torch::nn::AnyModule& child : part) value = child.any_forward(std::move(value));
  if (at::Tensor* const tensor = value.try_get<at::Tensor>(); tensor != nullptr) return std::move(*tensor);
  throw BoundaryError(BoundaryError::Side::output, "reef::torch: the last child of a part of ", part.name(),
                      " gives a ", c10::demangle(value.type_info().name()),
                      ", no tensor.\n  fix: node_bytes that make one node of it and the next.");
}

/// A graph of modules, each of which reads what the one before it gives, and the last the whole batch.
template <class Model>
struct Chain {
  Chain(const Tensors& example, Element real, int threads) : graph(threads) {
    for (std::size_t i = 0; i < example.size(); ++i) {
      batch.push_back(graph.input(concat("batch.", i), spec_of_input(example[i], i, real)));
    }
  }

  /// Adds a module whose parameters have the names that it gives them.
  int add(std::string name, const Module& op, std::vector<int> inputs) {
    std::vector<std::string> names;
    for (const Named& parameter : op.parameters()) {
      // What two parts share has the name that it has in the first.
      const auto same = [&](const Named& known) { return known.tensor.is_same(parameter.tensor); };
      const auto known = std::find_if(parameters.begin(), parameters.end(), same);
      names.push_back(known != parameters.end() ? known->name : parameter.name);
      if (known == parameters.end()) parameters.push_back(parameter);
    }
    return graph.add(std::move(name), op, std::move(inputs), std::move(names)).front();
  }

  /// Adds a part that is not the last.
  int add_part(const Part& module, int x, const BatchTypes& types, const ModuleOptions& options) {
    const auto function = [first = x == batch[0], types](::torch::nn::SequentialImpl& part, const Tensors& in) {
      return Tensors{output_of(part, first ? types.restored(in, 0)[0] : in[0])};
    };
    return add(name_of(module), Module(module, function, options), {x});
  }

  /// Adds the module whose output, or whose function, the loss is of.
  template <class M, class Loss>
  void add_loss(const std::shared_ptr<M>& module, const Loss& loss, int x, const BatchTypes& types,
                const ModuleOptions& options) {
    const bool whole = x == batch[0];
    std::vector<int> inputs{x};
    inputs.insert(inputs.end(), batch.begin() + (whole ? 1 : 0), batch.end());
    const Module op(module, [loss, whole, types](M& last, const Tensors& given) {
      const Tensors own = types.restored(given, whole ? 0 : 1);
      const at::Tensor result = loss_of(last, loss, whole ? own[0] : given[0], own);
      return Tensors{result.defined() && result.numel() == 1 ? result.reshape({}) : result};
    }, options);
    op.shared().is_loss = true;
    graph.loss(add("loss", op, std::move(inputs)));
  }

  Model graph;
  std::vector<int> batch;
  std::vector<Named> parameters;  ///< each once
};

/// The chain of a Sequential's parts; where two parts can only be a node together, they are joined. Nothing, where one
/// part is left.
template <class Model, class Loss>
std::optional<Chain<Model>> chain_of_parts(std::vector<Part> parts, const Loss& loss, const Tensors& example,
                                           Element real, int threads, const ModuleOptions& options) {
  const BatchTypes types(example);
  while (parts.size() > 1) {
    Chain<Model> chain(example, real, threads);
    std::size_t k = 0;
    try {
      int x = chain.batch[0];
      for (; k + 1 < parts.size(); ++k) x = chain.add_part(parts[k], x, types, options);
      chain.add_loss(parts[k], loss, x, types, options);
      return chain;
    } catch (const BoundaryError& error) {
      const bool to_next = error.side() == BoundaryError::Side::output;
      if (to_next ? k + 1 == parts.size() : k == 0) throw;
      join(parts, to_next ? k : k - 1);
    } catch (const ShapeError& error) {
      throw ShapeError(error.what(),
                       "\n  or: where children share more than the tensor between two of them, node_bytes that make ",
                       "one node of it all. This is the part ", name_of(parts[k]), " of the Sequential.");
    }
  }
  return std::nullopt;
}

/// The graph of a module and its loss, one node, or of a Sequential a node for each part.
template <class Model, class M, class Loss>
Chain<Model> chain_of(const std::shared_ptr<M>& module, const Loss& loss, const Tensors& example, Element real,
                      int threads, const ModuleOptions& options, Bytes node_bytes) {
  if constexpr (std::is_same_v<M, ::torch::nn::SequentialImpl> && !loss_of_module<M, Loss>) {
    auto parts = chain_of_parts<Model>(parts_of(*module, node_bytes), loss, example, real, threads, options);
    if (parts) return std::move(*parts);
  }
  Chain<Model> chain(example, real, threads);
  chain.add_loss(module, loss, chain.batch[0], BatchTypes(example), options);
  return chain;
}

}  // namespace torch::detail
}  // namespace v0
}  // namespace reef
