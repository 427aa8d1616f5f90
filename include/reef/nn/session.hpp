#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string_view>
#include <vector>

#include <reef/core/element.hpp>
#include <reef/core/error.hpp>
#include <reef/device/concept.hpp>
#include <reef/device/host.hpp>
#include <reef/graph/graph.hpp>
#include <reef/graph/row_model.hpp>
#include <reef/nn/causal_attention.hpp>
#include <reef/nn/detail/open_sequences.hpp>
#include <reef/nn/detail/served_model.hpp>
#include <reef/nn/embedding.hpp>
#include <reef/nn/grouped_attention.hpp>
#include <reef/nn/host/rows.hpp>
#include <reef/nn/layer_norm.hpp>
#include <reef/nn/layer_prompt.hpp>
#include <reef/nn/linear.hpp>
#include <reef/nn/lora_linear.hpp>
#include <reef/nn/prompt_embedding.hpp>
#include <reef/nn/rms_norm.hpp>
#include <reef/nn/rotary.hpp>
#include <reef/nn/token_embedding.hpp>

namespace reef {
inline namespace v0 {
namespace nn {

/// The operators of nn/ with code of their own for the passes of a Session, over rows: a row is one token of a
/// sequence.
using RowOperators =
    graph::RowOperators<Linear, LoraLinear, Embedding, TokenEmbedding, PromptEmbedding<Embedding>,
                        PromptEmbedding<TokenEmbedding>, LayerPrompt, LayerNorm, RmsNorm, Rotary, CausalAttention,
                        GroupedAttention>;

/// Options of a Session, which generates text with a key-value cache.
struct SessionOptions {
  std::int64_t positions = 1024;  ///< the largest number of positions (tokens) of one sequence
  /// The number of sequences of `positions` that fit in memory, in pages of 64 positions.
  std::int64_t sequences = 1;
  /// The largest number of tokens (rows) computed in one pass; longer prompts are read in several passes.
  std::int64_t rows = 256;
  /// The form in which weight matrices are stored (quantised or not); they are packed when they are set.
  graph::WeightForm weights = graph::WeightForm::as_given;
  graph::StateForm states = graph::StateForm::as_given;     ///< the form of cached keys and values
  std::int64_t outliers = 0;  ///< number of unquantised inputs among 256 of an int8 matrix; 0 to 256
};

/// Tokens to append to a sequence of a Session. `all`: logits are returned after each of them, not only after the last.
struct Append {
  int sequence = 0;
  std::span<const std::int32_t> tokens;
  bool all = false;
};

/// The logits of a call of Session::append: `rows` rows of `vocabulary` numbers, valid until the next call.
struct Logits {
  std::span<const float> values;
  std::int64_t vocabulary = 0;

  [[nodiscard]] std::int64_t rows() const { return std::ssize(values) / vocabulary; }
  [[nodiscard]] std::span<const float> row(std::int64_t i) const {
    return values.subspan(static_cast<std::size_t>(i * vocabulary), static_cast<std::size_t>(vocabulary));
  }
};

/// A language model that continues sequences and stores what it has computed for them: the keys and values of each
/// position are in pages of memory (a key-value cache), and a further token costs one row of computation.
///
/// | model  | a graph with the input "tokens" (B, T) int32 and the tensor "logits" (B, T, V), of any B and T, whose |
/// |        | operators run by rows (graph::RowModel), such as nn::gpt and nn::llama                                |
/// | bits   | the logits after a token depend on the tokens of its sequence up to it and on the weights alone: not  |
/// |        | on how these were split into calls, chunks or batches, or on other sequences, forks, truncations, or  |
/// |        | threads                                                                                               |
/// | memory | on the device, allocated once: parameters (matrices and tables packed, once if a table is also the    |
/// |        | head), pages, one pass' activations                                                                   |
/// | cost   | each matrix is multiplied once for all rows of a pass; a row's attention reads its sequence's pages   |
/// | class  | of nn::with_class_head: logits are those of classes, and a text's are behind its last token           |
/// | errors | ShapeError for a graph without these tensors; OptionError for a node that does not run by rows, by    |
/// |        | name, a sequence that is not open, a token outside the vocabulary, a sequence beyond its positions or |
/// |        | when pages run out; MemoryError. After any of these errors, sequences are as before the call          |
///
/// The device must outlive the Session, which one thread may use at a time.
///
/// \code
/// #include <reef/nn/model_folder.hpp>
/// // given: const graph::Graph<device::Host, float>& model, const std::vector<std::int32_t>& prompt
/// device::Host host;
/// nn::Session<device::Host, float> session(host, model, {.positions = 512});
/// nn::read_weights<float>("llama", model.dag(), [&](const auto& name, const auto& values) {
///   session.set_parameter(name, values);
/// });
/// const int sequence = session.open();
/// const nn::Logits next = session.append({{sequence, prompt}});  // behind the prompt's last token
/// \endcode
template <device::device Device, real T>
class Session {
public:
  using Graph = graph::Graph<Device, T>;

  /// Allocates the memory of a model and its cache on the device. Parameters are zeros until each has been set.
  Session(Device& device, const Graph& model, const SessionOptions& options = {});

  /// Constructs a Session with the caller's list of operators that have code for single tokens (rows), beside or in
  /// place of nn's.
  template <class... Ops>
  Session(Device& device, const Graph& model, const SessionOptions& options, graph::RowOperators<Ops...> operators)
      : options_(checked(options)),
        model_(device, model, {options_.weights, options_.positions, options_.states, options_.outliers}, options_.rows,
               operators),
        sequences_(options_.sequences * detail::OpenSequences::pages_of(options_.positions)),
        pages_(device.allocate(model_.page_bytes() * static_cast<Bytes>(sequences_.pages()), "pages of sequences")) {}

  [[nodiscard]] const SessionOptions& options() const& { return options_; }
  [[nodiscard]] SessionOptions options() const&& { return options_; }
  /// Returns V, the number of logits behind a token: the vocabulary, or for a model with a class head the number of
  /// classes.
  [[nodiscard]] std::int64_t vocabulary() const { return model_.vocabulary(); }

  /// Returns the number of different tokens that sequences may have: V, or with a class head the number of vectors of
  /// its table.
  [[nodiscard]] std::int64_t tokens() const { return model_.tokens(); }

  /// Copies a parameter's values to the device, rounded to T; a matrix is packed in the form of
  /// SessionOptions::weights. Throws ShapeError for an unknown name or another size. The states of open sequences stay
  /// as they were computed.
  ///
  /// The outliers of an int8 matrix are the inputs that stand out most in its weights; or those with the largest
  /// `magnitudes`, one for each input, such as the largest that calibration found. They never depend on the tokens of a
  /// pass.
  void set_parameter(std::string_view name, std::span<const sum_t<T>> values, std::span<const float> magnitudes = {}) {
    model_.set_parameter(name, values, magnitudes);
  }

  /// Opens an empty sequence in the cache; returns its number.
  int open() { return sequences_.open(); }

  /// Opens a copy of a sequence; returns its number. Pages of cached keys and values are shared until one of the two
  /// sequences writes to them.
  int fork(int sequence) { return sequences_.fork(sequence); }

  /// Closes a sequence; its cache pages are free again.
  void close(int sequence) { sequences_.close(sequence); }

  /// Removes all positions of a sequence from `length` on.
  void truncate(int sequence, std::int64_t length) { sequences_.truncate(sequence, length); }

  /// Returns the number of tokens of a sequence.
  [[nodiscard]] std::int64_t length(int sequence) const { return sequences_.at(sequence).length; }

  /// Returns the number of positions in the cache pages that no sequence uses.
  [[nodiscard]] std::int64_t free_positions() const {
    return static_cast<std::int64_t>(sequences_.free_pages()) * graph::page_positions;
  }

  /// Appends tokens to sequences; returns logits after the last token of each, or after all of its tokens if
  /// Append::all, in the order of `appends`. A sequence may occur once.
  Logits append(std::span<const Append> appends) {
    require_valid(appends);
    std::vector<detail::OpenSequences::Growth> growths;
    for (const Append& append : appends) growths.push_back({append.sequence, std::ssize(append.tokens)});
    const std::vector<detail::OpenSequences::PageCopy> copies = sequences_.reserve(growths);
    std::span<const detail::OpenSequences::PageCopy> undone_by_failure = copies;
    try {
      for (const auto& copy : copies) model_.copy(address_of(copy.to), address_of(copy.from), model_.page_bytes());
      undone_by_failure = {};  // a sequence that keeps a page may write to where its former sharers have their numbers
      result_.clear();
      run(appends);
    } catch (...) {
      sequences_.give_back(growths, undone_by_failure);
      throw;
    }
    sequences_.commit(growths);
    return {result_, vocabulary()};
  }
  Logits append(std::initializer_list<Append> appends) {
    return append(std::span<const Append>(appends.begin(), appends.size()));
  }

private:
  static SessionOptions checked(const SessionOptions& options) {
    const auto require_that = [](bool holds, const char* member, std::int64_t value) {
      if (holds) return;
      throw OptionError("reef::nn::SessionOptions: ", member, " is ", value, ".\n  fix: 1 or more.");
    };
    require_that(options.positions >= 1, "positions", options.positions);
    require_that(options.sequences >= 1, "sequences", options.sequences);
    require_that(options.rows >= 1, "rows", options.rows);
    if (options.outliers < 0 || options.outliers > 256) {
      throw OptionError("reef::nn::SessionOptions: outliers are ", options.outliers,
                        " of 256 inputs.\n  fix: 0 to 256.");
    }
    return options;
  }

  void require_valid(std::span<const Append> appends) const {
    for (std::size_t i = 0; i < appends.size(); ++i) {
      const Append& append = appends[i];
      const std::int64_t length = this->length(append.sequence) + std::ssize(append.tokens);
      if (append.tokens.empty()) {
        throw OptionError("reef::nn::Session: sequence ", append.sequence,
                          " is given no token.\n  fix: at least one for each sequence of a call.");
      }
      if (length > options_.positions) {
        throw OptionError("reef::nn::Session: sequence ", append.sequence, " would have ", length,
                          " tokens, but has room for ", options_.positions,
                          ".\n  fix: more SessionOptions::positions, or a shorter sequence.");
      }
      for (std::size_t k = 0; k < append.tokens.size(); ++k) {
        if (append.tokens[k] >= 0 && append.tokens[k] < tokens()) continue;
        throw OptionError("reef::nn::Session: token ", k, " for sequence ", append.sequence, " is ", append.tokens[k],
                          ".\n  fix: tokens from 0 to ", tokens() - 1, ".");
      }
      for (std::size_t k = 0; k < i; ++k) {
        if (appends[k].sequence != append.sequence) continue;
        throw OptionError("reef::nn::Session: sequence ", append.sequence,
                          " stands twice in one call.\n  fix: all of its tokens at once.");
      }
    }
  }

  /// Runs the model on the tokens (rows) of all appends, at most options.rows at once, sequence by sequence.
  void run(std::span<const Append> appends) {
    std::vector<std::vector<std::byte*>> addresses;
    std::vector<graph::Pages> tables;
    for (const Append& append : appends) {
      auto& list = addresses.emplace_back();
      for (const auto page : sequences_.at(append.sequence).pages) list.push_back(address_of(page));
    }
    for (const auto& list : addresses) tables.emplace_back(list);
    std::vector<detail::RowToRun> rows;
    const auto pass = [&] {
      if (!rows.empty()) model_.run_rows(rows, tables, result_);
      rows.clear();
    };
    for (std::size_t i = 0; i < appends.size(); ++i) {
      const std::int64_t first = length(appends[i].sequence);
      for (std::size_t k = 0; k < appends[i].tokens.size(); ++k) {
        const bool last = k + 1 == appends[i].tokens.size();
        rows.push_back({{static_cast<int>(i), first + static_cast<std::int64_t>(k)},
                        appends[i].tokens[k],
                        last || appends[i].all});
        if (std::ssize(rows) == options_.rows) pass();
      }
    }
    pass();
  }

  [[nodiscard]] std::byte* address_of(detail::OpenSequences::Page page) {
    return static_cast<std::byte*>(pages_.data()) + static_cast<Bytes>(page) * model_.page_bytes();
  }

  SessionOptions options_;
  detail::ServedModel<Device, T> model_;
  detail::OpenSequences sequences_;
  typename Device::Buffer pages_;
  std::vector<float> result_;
};

// The constructor is defined outside the class, so that its kernels are those of the compiled library, if it has them.
template <device::device Device, real T>
Session<Device, T>::Session(Device& device, const Graph& model, const SessionOptions& options)
    : Session(device, model, options, RowOperators()) {}

}  // namespace nn

#ifdef REEF_MODELS_IN_LIBRARY  // reef::compiled defines it
extern template class nn::Session<device::Host, float>;
extern template graph::RowModel<device::Host, float>::RowModel(const graph::Graph<device::Host, float>&, int, int,
                                                               nn::RowOperators, graph::RowOptions);
#endif

}  // namespace v0
}  // namespace reef
