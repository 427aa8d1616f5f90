#pragma once

#include <cstddef>
#include <functional>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include <torch/torch.h>

#include <reef/core/error.hpp>

namespace reef {
inline namespace v0 {
namespace torch {

using Tensors = std::vector<at::Tensor>;

namespace detail {

/// A module's forward, whatever the number of its arguments and results.
using Forward = std::function<Tensors(const Tensors&)>;

inline Tensors as_tensors(at::Tensor result) { return {std::move(result)}; }
inline Tensors as_tensors(Tensors results) { return results; }
template <class Tuple>
  requires requires { std::tuple_size<Tuple>::value; }
Tensors as_tensors(Tuple results) {
  return std::apply([](auto&&... each) { return Tensors{std::forward<decltype(each)>(each)...}; }, std::move(results));
}

template <class M, std::size_t... Index>
constexpr bool takes(std::index_sequence<Index...> /*unused*/) {
  return requires(M& module, const Tensors& inputs) { as_tensors(module.forward(inputs[Index]...)); };
}

/// The most inputs of a module whose forward is called by itself.
inline constexpr std::size_t max_inputs = 8;

template <class M>
constexpr bool has_forward = []<std::size_t... N>(std::index_sequence<N...>) {
  return (takes<M>(std::make_index_sequence<N + 1>()) || ...);
}(std::make_index_sequence<max_inputs>());

/// module.forward(inputs[0], inputs[1], ...), of as many as there are.
template <class M>
Tensors call_forward(M& module, const Tensors& inputs) {
  Tensors results;
  const auto with = [&]<std::size_t... Index>(std::index_sequence<Index...> indices) {
    if constexpr (takes<M>(indices)) {
      if (inputs.size() != sizeof...(Index)) return false;
      results = as_tensors(module.forward(inputs[Index]...));
      return true;
    } else {
      return false;
    }
  };
  const bool called = [&]<std::size_t... N>(std::index_sequence<N...>) {
    return (with(std::make_index_sequence<N + 1>()) || ...);
  }(std::make_index_sequence<max_inputs>());
  if (!called) {
    throw ShapeError("reef::torch: the forward of the module ", module.name(), " takes no ", inputs.size(),
                     " tensors.\n  fix: as many inputs as it takes, or a function that calls it.");
  }
  return results;
}

}  // namespace detail
}  // namespace torch
}  // namespace v0
}  // namespace reef
