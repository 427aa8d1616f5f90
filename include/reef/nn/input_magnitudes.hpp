#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <reef/core/element.hpp>
#include <reef/core/text.hpp>
#include <reef/device/for_each.hpp>
#include <reef/device/host.hpp>
#include <reef/graph/graph.hpp>
#include <reef/graph/operator.hpp>
#include <reef/graph/rewritten.hpp>
#include <reef/nn/host.hpp>
#include <reef/nn/kernels.hpp>
#include <reef/nn/linear.hpp>
#include <reef/nn/lora_linear.hpp>

namespace reef {
inline namespace v0 {
namespace nn {

/// The largest magnitude of each of the K inputs of each matrix of a model, among all rows that with_input_magnitudes
/// saw: what calibration gives to Session::set_parameter, which chooses the outliers of an int8 matrix by it.
///
/// Copies share the magnitudes. A NaN among the inputs counts as infinity.
class InputMagnitudes {
public:
  /// Returns the magnitudes (K) of the inputs of a matrix, zeros before anything ran; none for a parameter that no
  /// nn::Linear multiplies with. They stay valid, and grow while the model runs.
  [[nodiscard]] std::span<const float> of(std::string_view parameter) const& {
    const auto found = all_->find(parameter);
    return found == all_->end() ? std::span<const float>() : *found->second;
  }
  void of(std::string_view parameter) const&& = delete;

  /// Returns the memory of the magnitudes of the K inputs of a matrix, one for all nodes that multiply with it.
  std::shared_ptr<std::vector<float>> memory(std::string_view parameter, std::int64_t K) {
    auto& memory = (*all_)[std::string(parameter)];
    if (memory == nullptr) memory = std::make_shared<std::vector<float>>(static_cast<std::size_t>(K));
    return memory;
  }

private:
  using All = std::map<std::string, std::shared_ptr<std::vector<float>>, std::less<>>;
  std::shared_ptr<All> all_ = std::make_shared<All>();
};

namespace detail {

/// Copies its input, and records the largest magnitude of each of its K columns, on the host.
///
///     largest[k] = max(largest[k], max over rows of |in[r, k]|)
struct RecordedInput {
  static constexpr std::string_view kind = "RecordedInput";
  static constexpr bool by_rows = true;

  std::shared_ptr<std::vector<float>> largest;  ///< (K)

  template <class Device, real T>
  [[nodiscard]] graph::Signature signature(const graph::SignatureCall<Device, T>& call) const {
    call.expect_inputs(1);
    graph::Signature result;
    result.outputs = {call.inputs[0]};
    result.backward_reads_inputs = false;
    result.gradient_passes = {{0, 0}};
    return result;
  }

  template <class Device, real T>
  void forward(const graph::ForwardCall<Device, T>& call) const {
    const auto in = call.input(0);
    record(call.lane, in.data(), in.shape().rows(), in.shape().last());
    Kernels<Device>::template copy_or_add<T>(call.lane, call.output(0).data(), in.data(), in.size(), false);
  }

  template <class Device, real T>
  void backward(const graph::BackwardCall<Device, T>& call) const {
    if (!call.wants(0)) return;
    const auto d_out = call.output_gradient(0);
    Kernels<Device>::template copy_or_add<T>(call.lane, call.input_gradient(0).data(), d_out.data(), d_out.size(),
                                             call.accumulates(0));
  }

private:
  /// Records R rows of K numbers. A thread has columns of its own.
  template <class T>
  void record(device::Host::Lane& lane, const T* in, std::int64_t R, std::int64_t K) const {
    float* const to = largest->data();
    device::for_each_block(lane, K, 64, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t r = 0; r < R; ++r) {
        for (std::int64_t k = begin; k < end; ++k) {
          const float x = (std::abs)(static_cast<float>(in[r * K + k]));
          to[k] = (std::max)(to[k], x == x ? x : std::numeric_limits<float>::infinity());
        }
      }
    });
  }
};

}  // namespace detail

/// Returns the model with nodes that record the inputs of its matrices, those of each nn::Linear and nn::LoraLinear: it
/// computes the same bits, and what runs it, a nn::Session or any other, collects the largest magnitudes.
///
/// | device  | the host alone                                                                                     |
/// | names   | those of the model; a node NAME has NAME.input before it                                           |
/// | weights | of any form: where there is no room for fp32, a Session in bf16 finds much the same magnitudes     |
/// | result  | does not depend on the order of texts, on chunks, batches or threads                               |
/// | cost    | one read and one write of each input, beside the products                                          |
///
/// Source: Dettmers et al., LLM.int8(), arXiv 2208.07339, section 3.2. Deviation: there an input is an outlier of a
/// batch in which its magnitude is 6.0 or more; here outliers are the inputs with the largest magnitudes, as many as
/// SessionOptions::outliers says, so that a row has the same bits beside any others.
///
/// \code
/// #include <reef/nn/session.hpp>
/// // given: const graph::Graph<device::Host, float>& model, const std::vector<std::int32_t>& text
/// device::Host host;
/// nn::InputMagnitudes magnitudes;
/// nn::Session<device::Host, float> session(host, nn::with_input_magnitudes(model, magnitudes));
/// session.append({{session.open(), text}});  // with the weights of the model, which set_parameter sets
/// nn::Session<device::Host, float> smaller(host, model, {.weights = graph::WeightForm::int8, .outliers = 1});
/// const std::vector<float> zeros(64 * 64);
/// smaller.set_parameter("model.layers.0.self_attn.q_proj.weight", zeros,
///                       magnitudes.of("model.layers.0.self_attn.q_proj.weight"));
/// \endcode
template <real T>
graph::Graph<device::Host, T> with_input_magnitudes(const graph::Graph<device::Host, T>& model,
                                                    InputMagnitudes& magnitudes) {
  return graph::rewritten(model, [&](graph::Rewriting<device::Host, T>& to, int n) {
    const bool multiplies =
        model.template operator_as<Linear>(n) != nullptr || model.template operator_as<LoraLinear>(n) != nullptr;
    if (!multiplies) return std::vector<int>{};
    const graph::Node& node = model.dag().node_at(n);
    const std::int64_t K = model.dag().tensor_at(node.inputs[0]).spec.shape.last();
    std::vector<int> inputs = to.inputs_of(n);
    const auto memory = magnitudes.memory(to.parameters_of(n).front(), K);
    inputs[0] = to.result.add(concat(node.name, ".input"), detail::RecordedInput{memory}, {inputs[0]})[0];
    return to.result.add_copy(model, n, std::move(inputs));
  });
}

}  // namespace nn
}  // namespace v0
}  // namespace reef
