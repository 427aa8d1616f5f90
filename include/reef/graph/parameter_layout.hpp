#pragma once

#include <cstdint>
#include <vector>

#include <reef/core/random.hpp>
#include <reef/graph/dag.hpp>

namespace reef {
inline namespace v0 {
namespace graph {

/// The offsets of a model's parameters and their gradients in flat arrays, counted in elements.
///
///     weights    [ trained parameter 0 | trained parameter 1 | ... ] frozen parameters ]  parameter_elements
///     gradients  [ first uses, as the trained weights | tied uses of trained parameters ]   gradient_elements
///
/// | order   | parameters are in the order of first use; each begins at a multiple of 16 elements    |
/// | frozen  | frozen parameters are behind all trained ones; their uses have no gradient, offset -1 |
/// | tied    | the first use has the offset of its parameter; other uses follow all first uses       |
/// | padding | belongs to no parameter: zero weights, zero gradients                                 |
struct ParameterLayout {
  static constexpr std::int64_t alignment = 16;

  std::vector<std::int64_t> parameters;  ///< offset of each parameter in the flat weights, in elements
  /// Offset of each use's gradient in the flat gradients, in elements; -1 if the parameter is frozen.
  std::vector<std::int64_t> uses;
  std::int64_t trained_elements = 0;     ///< number of elements of trained parameters, which come first, with padding
  std::int64_t parameter_elements = 0;
  std::int64_t gradient_elements = 0;

  /// Returns the number of elements that a parameter occupies, including the padding behind it.
  [[nodiscard]] static std::int64_t room(const Parameter& parameter) {
    return static_cast<std::int64_t>(round_up(static_cast<Bytes>(parameter.spec.shape.size()), alignment));
  }
};

/// Returns the offsets of all parameters of the graph in one flat array.
ParameterLayout parameter_layout(const Dag& dag);

/// Writes a parameter's initial elements [first, last) to target[0], target[1], ...
///
/// Element i depends only on the key and on i: any part can be computed on any rank, in any order,
/// with the same bits. The key of a parameter is {seed, 0, 0, its id}. Init::given depends on no key.
template <real T>
void initialise(const Parameter& parameter, const DrawKey& key, T* target, std::int64_t first,
                std::int64_t last) {
  switch (parameter.init.law) {
    case Init::Law::zeros:
      for (std::int64_t i = first; i < last; ++i) target[i - first] = T(0);
      return;
    case Init::Law::ones:
      for (std::int64_t i = first; i < last; ++i) target[i - first] = T(1);
      return;
    case Init::Law::normal: {
      const RandomStream stream(key);
      for (std::int64_t i = first; i < last;) {
        const Philox block = stream.block(static_cast<std::uint64_t>(i / 4));
        for (std::int64_t k = i % 4; k < 4 && i < last; ++k, ++i) {
          target[i - first] = static_cast<T>(normal_from(block.word[k]) * parameter.init.scale);
        }
      }
      return;
    }
    case Init::Law::given:
      for (std::int64_t i = first; i < last; ++i) target[i - first] = static_cast<T>((*parameter.init.values)(i));
      return;
  }
}

/// Writes all initial elements of a parameter.
///
/// \code
/// // given: const graph::Dag& dag
/// const graph::ParameterLayout layout = graph::parameter_layout(dag);
/// std::vector<float> weights(static_cast<std::size_t>(layout.parameter_elements));
/// graph::initialise(dag.parameters[0], {.seed = 1}, weights.data() + layout.parameters[0]);
/// \endcode
template <real T>
void initialise(const Parameter& parameter, const DrawKey& key, T* target) {
  initialise(parameter, key, target, 0, parameter.spec.shape.size());
}

}  // namespace graph
}  // namespace v0
}  // namespace reef

#ifndef REEF_COMPILED
#include <reef/graph/parameter_layout.ipp>
#endif
