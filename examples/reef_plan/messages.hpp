#pragma once

#include <string>
#include <vector>

#include <reef/core/text.hpp>
#include <reef/graph/placed_dag.hpp>
#include <reef/graph/remote_messages.hpp>
#include <reef/io/json.hpp>

namespace reef_examples {

/// What goes where in a model, in the names of its nodes, tensors and parameters.
///
///     "node:head#0"   what the first input of the node head adds to the gradient of the tensor that it reads
///     "rank:2"        the sum that rank 2 sends
class MessagesAnswer {
public:
  explicit MessagesAnswer(const reef::graph::PlacedDag& model)
      : dag_(model.dag), found_(reef::graph::remote_messages(model.dag, model.rank_of_node)) {}

  [[nodiscard]] reef::io::Json json() const {
    const auto each = [](const auto& values, const auto& text) {
      Json list = Json::array();
      for (const auto& value : values) list.push_back(text(value));
      return list;
    };
    const auto of_tensor = [&](const Message& m) { return with("tensor", tensor(m.of), text(m)); };
    Json differentiable = Json::array();
    for (const reef::graph::Tensor& tensor : dag_.tensors) {
      if (tensor.differentiable) differentiable.push_back(tensor.name);
    }
    Json bytes = Json::object();
    for (const auto& [pair, sum] : found_.bytes()) {
      bytes[reef::concat(pair.first, ">", pair.second)] = sum;
    }
    return {{"differentiable", differentiable},
            {"forward", each(found_.forward, of_tensor)},
            {"backward", each(found_.backward, of_tensor)},
            {"sums", each(found_.sums, [&](const auto& sum) { return star(sum); })},
            {"chained", each(found_.chained, [&](const auto& sum) { return chain(sum); })},
            {"tied", each(found_.tied, [&](const auto& parameter) { return tied(parameter); })},
            {"bytes", bytes}};
  }

private:
  using Json = reef::io::Json;
  using Message = reef::graph::RemoteMessage;

  static Json text(const Message& m) {
    return {{"from", m.from}, {"to", m.to}, {"bytes", m.bytes}};
  }
  static Json with(const char* key, const std::string& value, Json object) {
    object[key] = value;
    return object;
  }
  [[nodiscard]] const std::string& tensor(int id) const { return dag_.tensor_at(id).name; }
  [[nodiscard]] const std::string& node_of_use(int use) const {
    return dag_.node_at(dag_.use_at(use).node).name;
  }
  [[nodiscard]] Json texts(const std::vector<reef::graph::GradientTerm>& terms) const {
    Json list = Json::array();
    for (const reef::graph::GradientTerm& term : terms) {
      list.push_back(reef::concat("node:", dag_.node_at(term.node).name, "#", term.input));
    }
    return list;
  }

  [[nodiscard]] Json star(const reef::graph::StarSum& sum) const {
    Json order = Json::array();
    Json parts = Json::object();
    for (const reef::graph::GradientStep& term : sum.terms) {
      if (term.place == sum.place) {
        order.push_back(texts(term.adds).front());
        continue;
      }
      const std::string from = reef::concat("rank:", term.place);
      order.push_back(from);
      parts[from] = texts(term.adds);
    }
    return {{"tensor", tensor(sum.tensor)},
            {"rank", sum.place},
            {"order", order},
            {"parts", parts},
            {"serial_bits", sum.serial_bits}};
  }

  [[nodiscard]] Json chain(const reef::graph::ChainedSum& sum) const {
    Json messages = Json::array();
    for (const Message& m : sum.messages) messages.push_back(text(m));
    Json steps = Json::array();
    for (const reef::graph::GradientStep& step : sum.steps) {
      steps.push_back({{"rank", step.place}, {"adds", texts(step.adds)}});
    }
    return {{"tensor", tensor(sum.tensor)}, {"messages", messages}, {"steps", steps}};
  }

  [[nodiscard]] Json tied(const reef::graph::TiedParameter& parameter) const {
    Json fold = Json::array();
    for (const int use : parameter.uses) fold.push_back(node_of_use(use));
    Json gradients = Json::array();
    for (const Message& m : parameter.gradients) {
      gradients.push_back(with("use", node_of_use(m.of), text(m)));
    }
    Json weights = Json::array();
    for (const Message& m : parameter.weights) weights.push_back(text(m));
    return {{"parameter", dag_.parameter_at(parameter.parameter).name},
            {"owner", parameter.owner},
            {"fold", fold},
            {"gradient_messages", gradients},
            {"parameter_messages", weights}};
  }

  const reef::graph::Dag& dag_;
  reef::graph::RemoteMessages found_;
};

}  // namespace reef_examples
