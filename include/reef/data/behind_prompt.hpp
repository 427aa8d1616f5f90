#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include <reef/core/element.hpp>
#include <reef/core/error.hpp>
#include <reef/core/tensor_view.hpp>

namespace reef {
inline namespace v0 {
namespace data {

/// Returns a data source of samples of T tokens whose text stands behind a soft prompt of P = `prompt` positions. The
/// text is filled by `source`, which is called with inputs of T - P tokens.
///
///     tokens[b, p] = 0, targets[b, p] = -1 for p < P;   tokens[b, P + t], targets[b, P + t]: those of the source at t
///
/// | shape  | tokens, targets: (B, T) int32, B samples of T tokens                          |
/// | result | the weight that `source(first, inputs)` returns: of the targets that count    |
/// | memory | a copy of a batch, while it is filled; none if P = 0                          |
/// | errors | ShapeError for inputs with T <= P, or of another kind; the errors of `source` |
///
/// \code
/// // given: const data::Sampler& sampler
/// const auto source = data::behind_prompt(20, [&](std::uint64_t first, std::span<const AnyView> inputs) {
///   sampler.fill(first, inputs);  // of T - 20 tokens
///   return 1.0;
/// });
/// \endcode
template <class Source>
auto behind_prompt(std::int64_t prompt, Source source) {
  return
      [prompt, source = std::move(source)](std::uint64_t first, std::span<const AnyView> inputs) {
        if (prompt == 0) return source(first, inputs);
        const Shape shape = inputs.size() == 2 ? inputs[0].shape() : Shape{};
        if (shape.rank() != 2 || inputs[1].shape() != shape || shape[1] <= prompt) {
          throw ShapeError("reef::data::behind_prompt: ", inputs.size(), " inputs, the first of ",
                           shape.text(), ", have no room for text behind a prompt of ", prompt,
                           ".\n  fix: tokens and targets of (B, T), T above that.");
        }
        const std::int64_t B = shape[0];
        const std::int64_t T = shape[1];
        const std::int64_t own = T - prompt;
        std::vector<std::int32_t> tokens(static_cast<std::size_t>(B * own));
        std::vector<std::int32_t> targets(tokens.size());
        const std::vector<AnyView> texts{{tokens.data(), {B, own}, Element::int32},
                                         {targets.data(), {B, own}, Element::int32}};
        const auto weight = source(first, std::span<const AnyView>(texts));
        const auto write = [&](const AnyView& to, const std::vector<std::int32_t>& from,
                               std::int32_t in_prompt) {
          std::int32_t* const rows = to.as<std::int32_t>().data();
          for (std::int64_t b = 0; b < B; ++b) {
            std::fill_n(rows + b * T, prompt, in_prompt);
            std::copy_n(from.begin() + b * own, own, rows + b * T + prompt);
          }
        };
        write(inputs[0], tokens, 0);
        write(inputs[1], targets, -1);
        return weight;
      };
}

}  // namespace data
}  // namespace v0
}  // namespace reef
