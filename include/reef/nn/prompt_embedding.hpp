#pragma once

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include <reef/core/element.hpp>
#include <reef/core/units.hpp>
#include <reef/graph/operator.hpp>
#include <reef/nn/embedding.hpp>
#include <reef/nn/host.hpp>
#include <reef/nn/kernels.hpp>
#include <reef/nn/row_kernels.hpp>
#include <reef/nn/token_embedding.hpp>

namespace reef {
inline namespace v0 {
namespace nn {

/// Returns true if a parameter is a soft prompt: NODE.prompt_embeddings.
inline bool is_of_prompt(std::string_view parameter) {
  return parameter.ends_with(".prompt_embeddings");
}

/// The vectors of tokens behind a soft prompt: a Table, nn::Embedding or nn::TokenEmbedding, in which the first P =
/// `prompt` positions take rows of a trained parameter in place of tokens' vectors.
///
///     out[b, t] = prompt[t] (+ wpe[t])   for t < P;   that of Table elsewhere
///
/// | shape      | tokens: (B, T) int32, not read at t < P; out: (B, T, C); prompt: (P, C)                    |
/// | parameters | those of Table, and "prompt_embeddings": normal of deviation 0.02; decays                  |
/// | order      | the gradient of the prompt sums samples in ascending order                                 |
/// | cost       | the gradient of a frozen table is not computed                                             |
/// | by rows    | a row of position p < P takes prompt[p]; its token is a placeholder, any of the vocabulary |
/// | errors     | ShapeError for P below 1; DecodeError for a token behind the prompt outside the vocabulary |
///
/// Source: Lester et al., The power of scale for parameter-efficient prompt tuning, arXiv 2104.08691, section 2.
///
/// \code
/// // given: graph::Graph<device::Host, float>& g, int tokens
/// const nn::PromptEmbedding<nn::TokenEmbedding> op{.table = {.vocabulary = 32000, .channels = 4096}, .prompt = 20};
/// const int x = g.add("embed_tokens", op, {tokens})[0];
/// g.freeze("embed_tokens.weight");
/// \endcode
template <class Table>
  requires std::same_as<Table, Embedding> || std::same_as<Table, TokenEmbedding>
struct PromptEmbedding {
  static constexpr bool has_positions = std::same_as<Table, Embedding>;
  static constexpr std::string_view kind =
      has_positions ? "PromptEmbedding" : "PromptTokenEmbedding";

  Table table{};
  std::int64_t prompt = 0;

  template <class Device, real T>
  [[nodiscard]] graph::Signature signature(const graph::SignatureCall<Device, T>& call) const {
    graph::Signature result = table.signature(call);
    call.expect_positive("prompt", prompt);
    result.parameters.push_back(
        {"prompt_embeddings", {prompt, table.channels}, graph::Init::normal(0.02), true});
    result.backward_workspace = 0;
    result.skips_gradients = true;
    return result;
  }

  template <class Device, real T>
  void forward(const graph::ForwardCall<Device, T>& call) const {
    using Own = Kernels<Device>;
    const auto tokens = call.integers(0);
    const std::int64_t B = tokens.shape()[0];
    const std::int64_t T_ = tokens.shape()[1];
    const std::int64_t C = table.channels;
    const std::int64_t P = (std::min)(prompt, T_);
    T* const out = call.output(0).data();
    const T* wpe = nullptr;
    if constexpr (has_positions) wpe = call.parameter(1).data();
    Own::template prefix_forward<T>(call.lane, out, call.parameter(slot()).data(), wpe, B, T_, C,
                                    P);
    for (std::int64_t b = 0; b < B && P < T_; ++b) {
      const std::int64_t at = b * T_ + P;
      if constexpr (has_positions) {
        Own::template embedding_forward<T>(call.lane, out + at * C, tokens.data() + at,
                                           call.parameter(0).data(), wpe + P * C, 1, T_ - P, C,
                                           table.vocabulary);
      } else {
        Own::template token_embedding_forward<T>(call.lane, out + at * C, tokens.data() + at,
                                                 call.parameter(0).data(), T_ - P, C,
                                                 table.vocabulary);
      }
    }
  }

  /// Computes the gradients of the trained tables and of the soft prompt. Positions that no sample has keep a zero
  /// gradient.
  template <class Device, real T>
  void backward(const graph::BackwardCall<Device, T>& call) const {
    if (!call.wants_parameters()) return;
    const auto tokens = call.integers(0);
    const std::int64_t B = tokens.shape()[0];
    const std::int64_t T_ = tokens.shape()[1];
    const std::int64_t C = table.channels;
    const std::int64_t P = (std::min)(prompt, T_);
    const T* const d_out = call.output_gradient(0).data();
    sum_prefix(call, slot(), d_out, B, T_, prompt);
    if constexpr (has_positions) sum_prefix(call, 1, d_out, B, T_, table.positions);
    sum_t<T>* const d_table = call.parameter_gradient(0).data();
    if (d_table == nullptr) return;
    for (std::int64_t b = 0; b < B; ++b) {
      const std::int64_t at = b * T_ + P;
      Kernels<Device>::template token_embedding_backward<T>(
          call.lane, d_table, d_out + at * C, tokens.data() + at, T_ - P, C, table.vocabulary,
          call.accumulate_parameters || b > 0, call.workspace);
    }
  }

  template <class Device, real T>
  [[nodiscard]] graph::RowsSignature rows_signature(
      const graph::RowsSignatureCall<Device, T>& call) const {
    return table.rows_signature(call);
  }

  template <class Device, real T>
  void prepare_rows(const graph::PrepareRowsCall<Device, T>& call) const {
    table.prepare_rows(call);
  }

  template <class Device, real T>
  void forward_rows(const graph::RowsCall<Device, T>& call) const {
    table.forward_rows(call);
    const T* wpe = nullptr;
    if constexpr (has_positions) wpe = call.parameter(1).data();
    RowKernels<Device>::template rows_prefix<T>(call.lane, call.output(0).data(),
                                                call.parameter(slot()).data(), wpe, call.rows,
                                                table.channels, prompt);
  }

private:
  static constexpr std::size_t slot() { return has_positions ? 2 : 1; }

  /// Sums over the batch the gradient of a parameter that has a row for each of `count` positions, if it is trained.
  template <class Device, real T>
  void sum_prefix(const graph::BackwardCall<Device, T>& call, std::size_t parameter, const T* d_out,
                  std::int64_t B, std::int64_t T_, std::int64_t count) const {
    using E = sum_t<T>;
    E* const d_rows = call.parameter_gradient(parameter).data();
    if (d_rows == nullptr) return;
    const std::int64_t C = table.channels;
    const std::int64_t P = (std::min)(count, T_);
    Kernels<Device>::template prefix_backward<T>(call.lane, d_rows, d_out, B, T_, C, P,
                                                 call.accumulate_parameters);
    if (!call.accumulate_parameters && P < count)
      call.lane.fill_zero(d_rows + P * C, static_cast<Bytes>((count - P) * C) * sizeof(E));
  }
};

}  // namespace nn
}  // namespace v0
}  // namespace reef
