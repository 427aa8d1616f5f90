#pragma once

#include <concepts>
#include <exception>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>

#include <torch/torch.h>

#include <reef/core/element.hpp>
#include <reef/core/error.hpp>
#include <reef/core/text.hpp>
#include <reef/graph/attribute.hpp>
#include <reef/graph/detail/attribute_json.hpp>
#include <reef/graph/operator.hpp>
#include <reef/torch/detail/errors.hpp>
#include <reef/torch/detail/place.hpp>
#include <reef/torch/module.hpp>

namespace reef {
inline namespace v0 {
namespace torch {

/// A description of a kind of libtorch module: its name in files, its attributes, and a function module() that returns
/// an object from which a Module can be constructed, or a Module.
template <class Description>
concept module_description =
    graph::described_operator<Description> && std::copyable<Description> && requires(const Description& description) {
      { Description::kind } -> std::convertible_to<std::string_view>;
      Module(description.module());
    };

/// A libtorch module as an operator that model files can name, with attributes: graph::Registry::add accepts it.
///
/// | parameters | begin with the values of the module that is constructed when the node is added, by libtorch's    |
/// |            | default generator: after torch::manual_seed, a file begins as C++ does that adds equal nodes     |
/// | errors     | those of Module; ShapeError with the node for attributes from which no module can be constructed |
/// | all else   | as for Module                                                                                    |
///
/// \code
/// #include <reef/graph/registry.hpp>
/// // given: graph::Registry<device::Host, float>& registry
/// struct Hidden {
///   static constexpr std::string_view kind = "Hidden";
///   std::int64_t features = 64;
///   static constexpr auto attributes() {
///     return std::tuple(graph::required_attribute("features", &Hidden::features, "of input and output"));
///   }
///   auto module() const {
///     return ::torch::nn::Sequential(::torch::nn::Linear(features, features), ::torch::nn::ReLU());
///   }
/// };
/// registry.add<reef::torch::DescribedModule<Hidden>>();  // a file: {"kind": "Hidden", "attributes": {"features": 64}}
/// \endcode
template <module_description Description>
class DescribedModule : public Description {
public:
  static constexpr std::string_view kind = Description::kind;

  explicit DescribedModule(Description description = {}) : Description(std::move(description)) {}

  template <class Device, real T>
    requires detail::has_place<Device>
  [[nodiscard]] graph::Signature signature(const graph::SignatureCall<Device, T>& call) const {
    if (!module_) module_.emplace(make_module(call.node));
    graph::Signature result = module_->signature(call);
    // The attributes are added, since modules of different attributes may have the same printed form.
    std::apply([&](const auto&... each) { ((result.attributes += text_of(each)), ...); }, Description::attributes());
    return result;
  }

  void forward(const auto& call) const { module_->forward(call); }
  void backward(const auto& call) const { module_->backward(call); }

private:
  [[nodiscard]] Module make_module(std::string_view node) const {
    try {
      return Module(this->module());
    } catch (...) {
      throw ShapeError("reef::torch: the node '", node, "': no module of kind ", kind,
                       " can be made of its attributes: ", detail::words_of(std::current_exception()),
                       "\n  fix: attributes that it takes.");
    }
  }

  [[nodiscard]] std::string text_of(const auto& attribute) const {
    return concat(", ", attribute.name, " ", graph::detail::attribute_json(this->*attribute.member).dump());
  }

  mutable std::optional<Module> module_;  ///< module that is constructed when its node is added to the graph
};

}  // namespace torch
}  // namespace v0
}  // namespace reef
