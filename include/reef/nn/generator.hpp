#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <numeric>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <reef/core/element.hpp>
#include <reef/core/error.hpp>
#include <reef/core/finite.hpp>
#include <reef/core/random.hpp>
#include <reef/core/text.hpp>
#include <reef/device/concept.hpp>
#include <reef/graph/graph.hpp>

namespace reef {
inline namespace v0 {
namespace nn {

/// How tokens are drawn from logits.
struct GenerateOptions {
  std::int64_t tokens = 100;    ///< to add to the prompt
  double temperature = 1;       ///< logits are divided by it; 0 takes the likeliest token
  std::int64_t top_k = 40;      ///< draw among so many likeliest; 0 among all
  std::int64_t vocabulary = 0;  ///< draw tokens below it, where logits are padded; 0: all logits
  std::uint64_t seed = 0;
  std::function<bool()> proceed = {};  ///< asked before each token: false ends it there

  /// Throws OptionError, naming the first member that cannot be with so many logits.
  void validate(std::int64_t logits) const {
    const auto require_that = [](bool holds, const char* member, auto value,
                                 const std::string& range) {
      if (holds) return;
      throw OptionError("reef::nn::GenerateOptions: ", member, " is ", value, ".\n  fix: ", range,
                        ".");
    };
    require_that(tokens >= 0, "tokens", tokens, "0 or more");
    require_that(is_finite(temperature) && temperature >= 0, "temperature", temperature,
                 "0 for the likeliest token, or above 0");
    require_that(top_k >= 0, "top_k", top_k, "0 for all tokens, or how many to draw among");
    require_that(vocabulary >= 0 && vocabulary <= logits, "vocabulary", vocabulary,
                 concat("0, or 1 to the model's ", logits, " logits"));
  }
};

/// The token that `uniform` in [0, 1) draws among the top_k largest logits, with the weights
/// exp(logit / temperature). Of equal logits the lower token comes first.
///
/// | cost   | O(V log k)                                                    |
/// | errors | NonFiniteError, naming the first logit that is not finite     |
inline std::int32_t draw_token(std::span<const float> logits, const GenerateOptions& options,
                               double uniform) {
  for (std::size_t i = 0; i < logits.size(); ++i) {
    if (!is_finite(logits[i])) {
      throw NonFiniteError("reef::nn::draw_token: logit ", i, " of ", logits.size(), " is ",
                           logits[i], ".\n  fix: weights from before the training diverged.");
    }
  }
  std::vector<std::int32_t> order(logits.size());
  std::iota(order.begin(), order.end(), 0);
  const auto logit = [&](std::int32_t token) { return logits[static_cast<std::size_t>(token)]; };
  const auto before = [&](std::int32_t a, std::int32_t b) {
    return logit(a) != logit(b) ? logit(a) > logit(b) : a < b;
  };
  if (options.temperature == 0) return *std::min_element(order.begin(), order.end(), before);

  const auto all = static_cast<std::int64_t>(order.size());
  const std::int64_t kept = options.top_k == 0 ? all : (std::min)(options.top_k, all);
  std::partial_sort(order.begin(), order.begin() + kept, order.end(), before);
  order.resize(static_cast<std::size_t>(kept));

  std::vector<double> weights;
  for (const std::int32_t token : order) {
    const double below = static_cast<double>(logit(token)) - static_cast<double>(logit(order[0]));
    weights.push_back(std::exp(below / options.temperature));
  }
  double left = uniform * std::accumulate(weights.begin(), weights.end(), 0.0);
  for (std::size_t i = 0; i < order.size(); ++i) {
    left -= weights[i];
    if (left < 0) return order[i];
  }
  return order.back();  // by rounding alone
}

/// Continues sequences of tokens with a language model: a graph with the input "tokens" (1, T) int32
/// and the tensor "logits" (1, T, V), whose position t depends on tokens 0 to t alone.
///
///     p(next) = softmax(logits[t] / temperature) over the top_k largest;  t: the last token's place
///
/// | memory | parameters, logits and an inference's workspace on the device, allocated once           |
/// | cost   | a token runs all T positions once: nothing is kept from one token to the next            |
/// | bits   | the same for the same parameters, prompt, options and T                                  |
/// | window | of a sequence beyond T tokens, the last T                                                |
/// | errors | ShapeError for a graph without such tensors; OptionError for an empty prompt, a token    |
/// |        | outside the vocabulary or options that cannot be; NonFiniteError for logits that are    |
/// |        | not; MemoryError. After any of these it can be used again                                |
///
/// The device must outlive it.
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

  /// Parameters are unspecified until each has been set.
  Generator(Device& device, const Graph& model)
      : device_(device), model_(model.serving(device.threads())), lane_(device, "generate"), bindings_(model.dag()) {
    const graph::Dag& dag = model_.dag();
    tokens_ = dag.tensor("tokens");
    logits_ = dag.tensor("logits");
    const graph::TensorSpec& tokens = dag.tensor_at(tokens_).spec;
    const graph::TensorSpec& outputs = dag.tensor_at(logits_).spec;
    const Shape& logits = outputs.shape;
    if (tokens.element != Element::int32 || outputs.element != element_of<T> ||
        tokens.shape.rank() != 2 || tokens.shape[0] != 1 || tokens.shape[1] < 1 ||
        logits.rank() != 3 || logits.rows() != tokens.shape[1]) {
      throw ShapeError("reef::nn::Generator: tokens are ", name_of(tokens.element), " ",
                       tokens.shape.text(), ", logits ", name_of(outputs.element), " ",
                       logits.text(), ", expected int32 (1, T) and ", name_of(element_of<T>),
                       " (1, T, V).\n", "  fix: make the model with a batch of 1.");
    }
    segment_ = graph::plan_segment_to(dag, logits_);
    for (const int id : segment_.parameters) {
      bindings_.parameter(id) = allocate(dag.parameter_at(id).spec.bytes());
    }
    for (const int id : segment_.boundary_inputs) bind(id);
    for (const int id : segment_.boundary_outputs) bind(id);
    bindings_.workspace = allocate(segment_.inference_workspace_bytes);
  }

  /// T and V of the model.
  [[nodiscard]] std::int64_t context() const { return shape_of(tokens_)[1]; }
  [[nodiscard]] std::int64_t vocabulary() const { return shape_of(logits_)[2]; }

  /// Copies a parameter in, rounded to T. Throws ShapeError for an unknown name or another size.
  void set_parameter(std::string_view name, std::span<const sum_t<T>> values) {
    const graph::Dag& dag = model_.dag();
    const int id = dag.parameter(name);
    const std::int64_t elements = dag.parameter_at(id).spec.shape.size();
    if (static_cast<std::int64_t>(values.size()) != elements) {
      throw ShapeError("reef::nn::Generator: the parameter '", name, "' has ", elements,
                       " elements, ", values.size(), " were given.\n  fix: give all of them.");
    }
    if (bindings_.parameter(id) == nullptr) return;  // no node up to the logits reads it
    const std::vector<T> rounded(values.begin(), values.end());
    run([&](Lane& lane) {
      lane.copy(bindings_.parameter(id), rounded.data(), rounded.size() * sizeof(T),
                device::Copy::to_device);
    });
  }

  /// The V logits of the token that follows the sequence.
  std::vector<float> logits(std::span<const std::int32_t> sequence) {
    if (sequence.empty()) {
      throw OptionError("reef::nn::Generator: the prompt is empty.\n  fix: at least one token.");
    }
    for (std::size_t i = 0; i < sequence.size(); ++i) {
      if (sequence[i] >= 0 && sequence[i] < vocabulary()) continue;
      throw OptionError("reef::nn::Generator: token ", i, " of the prompt is ", sequence[i],
                        ".\n  fix: tokens from 0 to ", vocabulary() - 1, ".");
    }
    // The last T tokens, at the front of the window: no position looks at what follows.
    const auto length = (std::min)(sequence.size(), static_cast<std::size_t>(context()));
    std::vector<std::int32_t> window(static_cast<std::size_t>(context()), 0);
    std::copy(sequence.end() - static_cast<std::ptrdiff_t>(length), sequence.end(), window.begin());
    std::vector<T> row(static_cast<std::size_t>(vocabulary()));
    const auto* const last =
        static_cast<const T*>(bindings_.tensor(logits_)) + (length - 1) * row.size();
    run([&](Lane& lane) {
      lane.copy(bindings_.tensor(tokens_), window.data(), window.size() * sizeof(std::int32_t),
                device::Copy::to_device);
      model_.forward(segment_, bindings_, lane, {}, graph::Forward::infers);
      lane.copy(row.data(), last, row.size() * sizeof(T), device::Copy::to_host);
    });
    std::vector<float> result;
    for (const T value : row) result.push_back(static_cast<float>(value));
    return result;
  }

  /// The prompt and the tokens that follow it.
  std::vector<std::int32_t> generate(std::span<const std::int32_t> prompt,
                                     const GenerateOptions& options = {}) {
    options.validate(vocabulary());
    const std::int64_t drawn = options.vocabulary == 0 ? vocabulary() : options.vocabulary;
    std::vector<std::int32_t> sequence(prompt.begin(), prompt.end());
    for (std::int64_t i = 0; i < options.tokens; ++i) {
      if (options.proceed && !options.proceed()) break;
      const std::vector<float> next = logits(sequence);
      sequence.push_back(
          draw_token(std::span(next).first(static_cast<std::size_t>(drawn)), options,
                     uniform({options.seed, 0, 1, 0}, static_cast<std::uint64_t>(i))));
    }
    return sequence;
  }

private:
  using Lane = typename Device::Lane;

  [[nodiscard]] const Shape& shape_of(int tensor) const {
    return model_.dag().tensor_at(tensor).spec.shape;
  }
  void* allocate(Bytes bytes) {
    memory_.push_back(device_.allocate(bytes, "generation"));
    return memory_.back().data();
  }
  void bind(int tensor) {
    bindings_.tensor(tensor) = allocate(model_.dag().tensor_at(tensor).spec.bytes());
  }
  template <class F>
  void run(const F& work) {
    lane_.submit([&work](Lane& lane) { work(lane); });
    lane_.synchronize();
  }

  Device& device_;
  Graph model_;
  std::vector<typename Device::Buffer> memory_;
  Lane lane_;
  graph::SegmentBindings bindings_;
  graph::Segment segment_;
  int tokens_ = -1;
  int logits_ = -1;
};

}  // namespace nn
}  // namespace v0
}  // namespace reef
