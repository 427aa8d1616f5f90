#pragma once

#include <algorithm>
#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include <reef/core/element.hpp>
#include <reef/core/error.hpp>
#include <reef/core/tensor_view.hpp>
#include <reef/core/text.hpp>
#include <reef/core/units.hpp>
#include <reef/device/concept.hpp>
#include <reef/graph/operator.hpp>
#include <reef/nn/detail/samples_of_row.hpp>
#include <reef/nn/embedding.hpp>
#include <reef/nn/token_embedding.hpp>

namespace reef {
inline namespace v0 {
namespace nn {

namespace detail {

/// The name of the operator kind of nn::Packed<Op>: "Packed" and the kind of Op.
template <class Op>
struct PackedKind {
  static constexpr std::string_view before = "Packed";
  static constexpr auto letters = [] {
    std::array<char, before.size() + Op::kind.size()> all{};
    std::copy(Op::kind.begin(), Op::kind.end(), std::copy(before.begin(), before.end(), all.begin()));
    return all;
  }();
  static constexpr std::string_view text{letters.data(), letters.size()};
};

}  // namespace detail

/// An operator that applies Op to each of several samples that lie one after another in a row, as if each sample had a
/// row of its own: no token attends to another sample, and the positions of each sample begin at 0.
///
///     out[b, s_i ... s_(i+1)) = op(in[b, s_i ... s_(i+1)))      for the samples i of row b, which begin at s_i
///
/// | inputs   | those of Op, (B, T, ...), and then the tokens (B, T) int32, unless Op reads these itself             |
/// | samples  | begin at position 0, and at each negative token: token v is then written as ~v, which is -1 - v      |
/// | bits     | those of Op on each sample alone, as (1, its length, ...), in forward and in gradients of inputs     |
/// | order    | gradients of parameters sum samples in ascending order, rows first                                   |
/// | cost     | that of Op for each sample: for attention the sum of squared lengths, instead of T^2 for a whole row |
/// | threads  | those of Op within a sample: samples do not run in parallel                                          |
/// | errors   | OptionError for dropout in Op, since all samples of a row would draw the same numbers; the errors of |
/// |          | Op                                                                                                   |
///
/// Where samples begin is read while kernels are started. The host reads the tokens where they are; another device
/// copies them, and each call waits for the work that was enqueued before. Op is any operator whose inputs, outputs and
/// saved tensors have B T times as many elements as one position has, and whose workspace grows with T; views of saved
/// tensors are flat.
///
/// \code
/// // given: graph::Graph<device::Host, float>& g, int qkv, int tokens
/// const nn::Packed<nn::CausalAttention> op{{.heads = 12}};
/// const int out = g.add("attn", op, {qkv, tokens})[0];
/// \endcode
template <class Op>
struct Packed {
  static constexpr std::string_view kind = detail::PackedKind<Op>::text;
  /// True if the token ids are an input of Op itself.
  static constexpr bool reads_tokens = std::same_as<Op, Embedding> || std::same_as<Op, TokenEmbedding>;

  Op op{};

  template <class Device, real T>
  [[nodiscard]] graph::Signature signature(const graph::SignatureCall<Device, T>& call) const {
    if constexpr (requires { op.dropout; }) {
      if (op.dropout > 0) {
        throw OptionError("reef::nn::Packed: the node '", call.node, "' has dropout of ", op.dropout,
                          ".\n  why: samples of one row would draw the same.\n  fix: dropout 0 in attention.");
      }
    }
    constexpr std::size_t least = reads_tokens ? 1 : 2;
    if (call.inputs.size() < least) call.expect_inputs(least);
    const std::size_t last = call.inputs.size() - 1;
    const graph::TensorSpec& tokens = call.inputs[last];
    call.expect(last, tokens.shape.rank() == 2 && tokens.element == Element::int32, "tokens (B, T) int32");
    graph::SignatureCall<Device, T> own = call;
    if (!reads_tokens) {
      const Shape& rows = call.inputs[0].shape;
      call.expect(0, rows.rank() >= 2 && rows[0] == tokens.shape[0] && rows[1] == tokens.shape[1],
                  concat("(B, T, ...) of the B and T of the tokens, ", tokens.shape.text()));
      own.inputs = call.inputs.first(last);
      own.input_names = call.input_names.first(last);
    }
    graph::Signature result = op.signature(own);
    if (reads_tokens) {
      result.forward_workspace += space_of(tokens.shape);
      result.backward_workspace += space_of(tokens.shape);
    } else if (!result.backward_reads_inputs) {
      result.saved.push_back(tokens);
    }
    return result;
  }

  template <class Device, real T>
  void forward(const graph::ForwardCall<Device, T>& call) const {
    const auto tokens = call.integers(call.inputs.size() - 1);
    if (keeps_tokens(call)) {
      call.lane.copy(call.saved.back().template as<std::int32_t>().data(), tokens.data(), bytes_of(tokens.shape()),
                     device::Copy::on_device);
    }
    graph::ForwardCall<Device, T> own = call;
    const detail::ReadableTokens<Device> readable(call.lane, tokens);
    const std::vector<AnyView> inputs = inputs_of(call, readable, own.workspace);
    detail::for_each_sample(readable.data(), tokens.shape(), [&](const detail::SampleOfRow& sample) {
      const auto views = [&](const auto& all, std::size_t count) { return detail::parts_of(all, count, sample); };
      const auto in = views(inputs, inputs.size());
      const auto out = views(call.outputs, call.outputs.size());
      const auto saved = detail::flat_parts_of(call.saved, call.saved.size(), sample);
      own.inputs = in;
      own.outputs = out;
      own.saved = saved;
      own.key.sample = call.key.sample + static_cast<std::uint64_t>(sample.row);
      op.forward(own);
    });
  }

  template <class Device, real T>
  void backward(const graph::BackwardCall<Device, T>& call) const {
    const bool kept = keeps_tokens(call);
    const auto tokens =
        kept ? call.saved.back().template as<const std::int32_t>() : call.integers(call.inputs.size() - 1);
    graph::BackwardCall<Device, T> own = call;
    const detail::ReadableTokens<Device> readable(call.lane, tokens);
    const std::vector<AnyView> inputs = inputs_of(call, readable, own.workspace);
    own.writes = call.writes.first(inputs.size());
    detail::for_each_sample(readable.data(), tokens.shape(), [&](const detail::SampleOfRow& sample) {
      const auto in = detail::parts_of(inputs, inputs.size(), sample);
      const auto out = detail::parts_of(call.outputs, call.outputs.size(), sample);
      const auto saved = detail::flat_parts_of(call.saved, call.saved.size(), sample);
      const auto d_out = detail::parts_of(call.output_gradients, call.output_gradients.size(), sample);
      const auto d_in = detail::parts_of(call.input_gradients, inputs.size(), sample);
      own.inputs = in;
      own.outputs = out;
      own.saved = saved;
      own.output_gradients = d_out;
      own.input_gradients = d_in;
      own.key.sample = call.key.sample + static_cast<std::uint64_t>(sample.row);
      op.backward(own);
      own.accumulate_parameters = true;
    });
  }

private:
  static Bytes bytes_of(const Shape& tokens) { return static_cast<Bytes>(tokens.size()) * sizeof(std::int32_t); }
  static Bytes space_of(const Shape& tokens) { return round_up(bytes_of(tokens), 64); }

  /// Returns true if the signature has added the token ids to the tensors saved for backward, of which only they are
  /// integers.
  static bool keeps_tokens(const auto& call) {
    return !reads_tokens && !call.saved.empty() && call.saved.back().element() == Element::int32;
  }

  /// Returns the inputs of the wrapped operator Op. If the token ids are among them, a copy without marks of sample
  /// ends is written to the workspace, whose rest is left for Op.
  template <class Device>
  static std::vector<AnyView> inputs_of(const auto& call, const detail::ReadableTokens<Device>& tokens,
                                        void*& workspace) {
    if constexpr (reads_tokens) {
      auto* const plain = static_cast<std::int32_t*>(workspace);
      workspace = static_cast<char*>(workspace) + space_of(tokens.shape());
      tokens.write_without_marks(call.lane, plain);
      return {AnyView(plain, tokens.shape(), Element::int32)};
    } else {
      return {call.inputs.begin(), call.inputs.end() - 1};
    }
  }
};

}  // namespace nn
}  // namespace v0
}  // namespace reef
