#pragma once

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <type_traits>
#include <vector>

#include <reef/core/element.hpp>
#include <reef/core/error.hpp>
#include <reef/device/concept.hpp>
#include <reef/device/host.hpp>
#include <reef/graph/graph.hpp>
#include <reef/graph/row_model.hpp>
#include <reef/nn/continue_texts.hpp>
#include <reef/nn/detail/window_model.hpp>
#include <reef/nn/draw_token.hpp>
#include <reef/nn/session.hpp>

namespace reef {
inline namespace v0 {
namespace nn {

/// A generator that continues a sequence of tokens with a language model: a graph with the input "tokens" (1, T) int32
/// and the tensor "logits" (1, T, V), whose position t depends on tokens 0 to t alone.
///
///     p(next) = softmax(logits[t] / temperature) over the top_k largest;  t: the position of the last token
///
/// If the model's operators run by rows, as those of nn::gpt and nn::llama do on the host, the Generator uses a Session
/// of one sequence; otherwise it runs all T positions for each token.
///
/// | memory | a Session's, or parameters, logits and an inference's workspace on the device, allocated once   |
/// | cost   | with a Session a token costs one row, as long as the text has at most T tokens; otherwise a     |
/// |        | token costs T positions                                                                         |
/// | bits   | the same for the same parameters, prompt, options and T                                         |
/// | random | the token at position p is drawn by uniform({seed, 0, 1, 0}, p)                                 |
/// | window | of a sequence of more than T tokens, only the last T are read                                   |
/// | errors | ShapeError for a graph without these tensors; OptionError for an empty prompt, a token          |
/// |        | outside the vocabulary or invalid options; NonFiniteError for logits that are not               |
/// |        | finite; MemoryError. After any of these errors the Generator can be used again                  |
///
/// The device must outlive the Generator.
///
/// \code
/// // given: const graph::Graph<device::Host, float>& model, const std::vector<float>& wte
/// device::Host host;
/// nn::Generator<device::Host, float> generator(host, model);
/// generator.set_parameter("transformer.wte.weight", wte);  // and the other parameters
/// const auto tokens = generator.generate(std::vector<std::int32_t>{15496}, {.tokens = 20});
/// \endcode
template <device::device Device, real T>
class Generator {
public:
  using Graph = graph::Graph<Device, T>;

  /// Allocates the memory of a model on the device for generating text. Parameters are unspecified until each has been
  /// set.
  Generator(Device& device, const Graph& model) {
    const graph::Dag& dag = model.dag();
    const int made = dag.tensor("logits");
    const graph::TensorSpec& tokens = dag.tensor_at(dag.tensor("tokens")).spec;
    const graph::TensorSpec& logits = dag.tensor_at(made).spec;
    if (tokens.element != Element::int32 || logits.element != element_of<T> || tokens.shape.rank() != 2 ||
        tokens.shape[0] != 1 || tokens.shape[1] < 1 || logits.shape.rank() != 3 ||
        logits.shape.rows() != tokens.shape[1]) {
      throw ShapeError("reef::nn::Generator: tokens are ", name_of(tokens.element), " ", tokens.shape.text(),
                       ", logits ", name_of(logits.element), " ", logits.shape.text(), ", expected int32 (1, T) and ",
                       name_of(element_of<T>), " (1, T, V).\n", "  fix: make the model with a batch of 1.");
    }
    context_ = tokens.shape[1];
    vocabulary_ = logits.shape[2];
    if constexpr (has_rows) {
      if (runs_by_rows(model, dag.tensor_at(made).producer)) {
        session_.emplace(device, model, SessionOptions{.positions = context_});
        sequence_ = session_->open();
        return;
      }
    }
    window_.emplace(device, model);
  }

  /// Returns T, the longest sequence (context) that the model reads; vocabulary() returns V.
  [[nodiscard]] std::int64_t context() const { return context_; }
  [[nodiscard]] std::int64_t vocabulary() const { return vocabulary_; }

  /// Copies a parameter's values to the device, rounded to the model's element type T. Throws ShapeError for an unknown
  /// name or another size.
  void set_parameter(std::string_view name, std::span<const sum_t<T>> values) {
    if constexpr (has_rows) {
      if (session_) {
        session_->set_parameter(name, values);
        keep(0);
        return;
      }
    }
    window_->set_parameter(name, values);
  }

  /// Returns the logits, one for each token of the vocabulary, of the token that follows the sequence.
  std::vector<float> logits(std::span<const std::int32_t> sequence) {
    if (sequence.empty()) {
      throw OptionError("reef::nn::Generator: the prompt is empty.\n  fix: at least one token.");
    }
    for (std::size_t i = 0; i < sequence.size(); ++i) {
      if (sequence[i] >= 0 && sequence[i] < vocabulary()) continue;
      throw OptionError("reef::nn::Generator: token ", i, " of the prompt is ", sequence[i],
                        ".\n  fix: tokens from 0 to ", vocabulary() - 1, ".");
    }
    const auto text = sequence.last((std::min)(sequence.size(), static_cast<std::size_t>(context_)));
    if constexpr (has_rows) {
      if (session_) {
        const auto common =
            std::mismatch(text.begin(), text.end() - 1, held_.begin(), held_.end()).first - text.begin();
        keep(static_cast<std::size_t>(common));
        const Logits next = session_->append({{sequence_, text.subspan(held_.size())}});
        held_.assign(text.begin(), text.end());
        return {next.values.begin(), next.values.end()};
      }
    }
    return window_->logits(text);
  }

  /// Returns the prompt and the generated tokens that follow it: those of nn::generate for this prompt alone.
  std::vector<std::int32_t> generate(std::span<const std::int32_t> prompt,
                                     const GenerateOptions& options = {}) {
    std::vector<std::int32_t> sequence(prompt.begin(), prompt.end());
    std::vector<float> row;
    const auto next_logits = [&](const auto&, const auto& texts) {
      row = logits(texts[0]);
      return Logits{row, vocabulary()};
    };
    const auto found = continue_texts({&sequence, 1}, vocabulary(), next_logits, options);
    sequence.insert(sequence.end(), found[0].tokens.begin(), found[0].tokens.end());
    return sequence;
  }

private:
  static constexpr bool has_rows = std::same_as<Device, device::Host>;  // the device that has RowKernels
  struct NoSession {};

  /// Returns true if a Session (generation with a key-value cache) accepts the model, whose logits the node `head`
  /// computes.
  static bool runs_by_rows(const Graph& model, int head) {
    const graph::Dag& dag = model.dag();
    return head >= 0 && dag.node_at(head).inputs.size() == 1 &&
           graph::first_not_by_rows(model, 0, head + 1, RowOperators()) == head + 1 &&
           std::all_of(dag.inputs.begin(), dag.inputs.end(),
                       [&](int id) { return dag.tensor_at(id).spec.shape.rank() >= 2; });
  }

  /// Truncates the generator's cached sequence to its first `length` tokens.
  void keep(std::size_t length) {
    session_->truncate(sequence_, static_cast<std::int64_t>(length));
    held_.resize(length);
  }

  std::optional<std::conditional_t<has_rows, Session<Device, T>, NoSession>> session_;
  std::optional<detail::WindowModel<Device, T>> window_;  // used if there is no session
  int sequence_ = -1;
  std::vector<std::int32_t> held_;  // the tokens that the session holds
  std::int64_t context_ = 0;
  std::int64_t vocabulary_ = 0;
};

}  // namespace nn
}  // namespace v0
}  // namespace reef
