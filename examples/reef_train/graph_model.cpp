#include "graph_model.hpp"

#include <array>
#include <cstddef>
#include <filesystem>
#include <utility>
#include <variant>

#include <reef/core/error.hpp>
#include <reef/core/text.hpp>
#include <reef/graph/hash.hpp>
#include <reef/io/json.hpp>
#include <reef/nn/adapter_file.hpp>
#include <reef/nn/class_head.hpp>
#include <reef/nn/host.hpp>
#include <reef/nn/model_config.hpp>
#include <reef/nn/model_folder.hpp>
#include <reef/nn/packing.hpp>
#include <reef/nn/registry.hpp>

#include "../support/weight_files.hpp"

namespace reef_examples {

namespace {

constexpr std::array<const char*, 2> input_names{"tokens", "targets"};

[[noreturn]] void refuse(const TrainOptions& options, const std::string& what, const std::string& fix) {
  throw reef::OptionError("--graph ", options.graph, ": ", what, ".\n  fix: ", fix, ".");
}

/// Two inputs of the same shape, which samplers fill in this order.
void require_inputs(const TrainOptions& options, const reef::graph::Dag& dag) {
  const char* const fix = "the inputs \"tokens\" and \"targets\", (B, T) int32, in this order, and no others";
  if (dag.inputs.size() != input_names.size()) {
    refuse(options, reef::concat("it has ", dag.inputs.size(), " inputs"), fix);
  }
  const reef::Shape shape = dag.tensor_at(dag.inputs[0]).spec.shape;
  for (std::size_t i = 0; i < input_names.size(); ++i) {
    const reef::graph::Tensor& input = dag.tensor_at(dag.inputs[i]);
    if (input.name != input_names[i] || input.spec.element != reef::Element::int32 || shape.rank() != 2 ||
        input.spec.shape != shape) {
      refuse(options, reef::concat("its input ", i, " is '", input.name, "' ", input.spec.text()), fix);
    }
  }
}

/// What a checkpoint compares beside the model: how its operators are trained.
std::string text_of_optimizers(const reef::graph::Model<reef::device::Host, float>& model) {
  std::string text;
  for (std::size_t n = 0; n < model.optimizers.size(); ++n) {
    if (!model.optimizers[n]) continue;
    const auto& optimizer = *model.optimizers[n];
    text += reef::concat(text.empty() ? "" : "; ", model.graph.dag().nodes[n].name, ": learning rate * ", optimizer.learning_rate);
    if (optimizer.weight_decay) text += reef::concat(", weight decay ", *optimizer.weight_decay);
    if (!optimizer.rule.empty()) text += ", " + optimizer.rule;
  }
  return text;
}

}  // namespace

void read_graph(TrainOptions& options) {
  if (options.graph.empty()) return;
  options.model = reef::io::read_json(options.graph);
  const auto model = graph_model<reef::device::Host, float>(options, 1);
  const reef::graph::Dag& dag = model.graph.dag();
  require_inputs(options, dag);
  if (dag.loss < 0) refuse(options, "it has no loss", "\"loss\": the name of the tensor that is the loss");
  const reef::Shape& shape = dag.tensor_at(dag.inputs[0]).spec.shape;
  options.batch = shape[0];
  options.context = shape[1];
  options.graph_hash = reef::graph::hash_of(dag);
  options.graph_optimizers = text_of_optimizers(model);
}

void require_vocabulary(const TrainOptions& options, std::int64_t vocabulary) {
  if (options.graph.empty()) return;
  const auto model = graph_model<reef::device::Host, float>(options, 1);
  const reef::graph::Dag& dag = model.graph.dag();
  const auto require = [&](const reef::graph::Node& node, const char* what, std::int64_t rows) {
    if (rows >= vocabulary) return;
    refuse(options, reef::concat("its operator '", node.name, "' has ", what, " for ", rows, " tokens, and --tokenizer ",
                                 options.tokenizer, " has ", vocabulary),
           "a larger vocabulary there, or another tokenizer");
  };
  for (const reef::graph::Node& node : dag.nodes) {
    if (node.kind == reef::nn::Embedding::kind && node.inputs[0] == dag.inputs[0]) {
      require(node, "vectors", dag.parameter_at(dag.use_at(node.uses[0]).parameter).spec.shape[0]);
    }
    if (node.kind == reef::nn::CrossEntropy::kind && node.inputs[1] == dag.inputs[1]) {
      require(node, "logits", dag.tensor_at(node.inputs[0]).spec.shape.last());
    }
  }
}

namespace {

/// Takes the classes of --init, if it has a class head. Throws OptionError for another number by --classes.
void read_labels_of_init(TrainOptions& options, const std::filesystem::path& config) {
  options.labels = reef::nn::read_class_labels(config);
  if (!options.labels) return;
  const std::int64_t classes = options.labels->classes();
  if (options.classes != 0 && options.classes != classes) {
    throw reef::OptionError("--classes is ", options.classes, ", but ", options.init, " tells ", classes,
                            " classes.\n  fix: leave it out, or the language model of --init.");
  }
  options.classes = classes;
}

}  // namespace

void read_init(TrainOptions& options) {
  const std::filesystem::path beside = config_beside(options.init);
  if (options.init.empty() || !exists(beside)) return;
  read_labels_of_init(options, beside);
  const reef::io::Json json = reef::io::read_json(beside);
  if (!json.is_object()) return;
  if (json.value("model_type", reef::io::Json("gpt2")) == "gpt2") {
    if (options.shape_given) return;
    const reef::nn::GptConfig gpt2 = reef::nn::read_gpt2_config(beside);
    options.layers = gpt2.layers;
    options.heads = gpt2.heads;
    options.channels = gpt2.channels;
    return;
  }
  options.given = reef::nn::read_model_config(beside);
  options.from_scratch = std::filesystem::path(options.init).filename() == beside.filename();
  if (!options.from_scratch) reef::nn::require_weights(options.init, *options.given);
  std::visit(
      [&](const auto& own) {
        options.layers = own.layers;
        options.heads = own.heads;
        options.channels = own.channels;
      },
      *options.given);
}

void read_adapter_options(TrainOptions& options) {
  if (!options.init_adapter.empty()) options.adapter = reef::nn::read_adapter_config(options.init_adapter);
  auto* const soft = options.adapter ? std::get_if<reef::nn::SoftPrompt>(&*options.adapter) : nullptr;
  if (soft != nullptr) soft->deep |= options.deep_prompts;
  auto* const lora = options.adapter ? std::get_if<reef::nn::Lora>(&*options.adapter) : nullptr;
  if (lora == nullptr) return;
  if (!options.init_adapter.empty() && lora->class_head != (options.classes > 0)) {
    throw reef::OptionError("--init-adapter ", options.init_adapter, " has ", lora->class_head ? "a" : "no",
                            " class head.\n  fix: ", lora->class_head ? "--classes N, of as many as it has." : "leave out --classes.");
  }
  lora->class_head = options.classes > 0;
}

template <class Device, reef::real T>
reef::graph::Graph<Device, T> given_model(const TrainOptions& options, int threads, std::int64_t batch) {
  return reef::nn::model_of<Device, T>(
      reef::nn::with_batch(options.given.value(), {.batch = batch, .sequence = options.context}), threads);
}

template reef::graph::Graph<reef::device::Host, float> given_model(const TrainOptions&, int, std::int64_t);
template reef::graph::Graph<reef::device::Host, reef::Bfloat16> given_model(const TrainOptions&, int, std::int64_t);

template <class Device, reef::real T>
reef::graph::Graph<Device, T> with_head(const TrainOptions& options, reef::graph::Graph<Device, T> model) {
  return options.classes > 0 ? reef::nn::with_class_head(model, {.classes = options.classes}) : std::move(model);
}

template <class Device, reef::real T>
reef::graph::Graph<Device, T> model_of(const TrainOptions& options, const reef::nn::GptConfig& config, int threads) {
  auto model = base_model_of<Device, T>(options, config, threads);
  if (options.adapter && !options.init_adapter.empty()) {
    model = reef::nn::with_adapter(model, *options.adapter, options.init_adapter);
  } else if (options.adapter) {
    model = reef::nn::with_adapter(model, *options.adapter);
  }
  model = with_head(options, std::move(model));
  for (const std::string& pattern : options.freeze) model.freeze(pattern);
  return model;
}

template <class Device, reef::real T>
reef::graph::Graph<Device, T> model_of_rows(const TrainOptions& options, const reef::nn::GptConfig& config, int threads) {
  auto model = model_of<Device, T>(options, config, threads);
  return options.pack ? reef::nn::with_packing(model) : std::move(model);
}

REEF_TRAIN_MODELS(, float)
REEF_TRAIN_MODELS(, reef::Bfloat16)

template <class Device, reef::real T>
reef::graph::Model<Device, T> graph_model(const TrainOptions& options, int threads, std::int64_t batch) {
  const auto registry = reef::nn::registry<Device, T>();
  if (batch == 0) return reef::graph::from_json(options.model, options.graph, registry, threads);
  reef::io::Json other = options.model;
  for (reef::io::Json& input : other["inputs"]) input["shape"][0] = batch;
  return reef::graph::from_json(other, options.graph, registry, threads);
}

template reef::graph::Model<reef::device::Host, float> graph_model(const TrainOptions&, int, std::int64_t);
template reef::graph::Model<reef::device::Host, reef::Bfloat16> graph_model(const TrainOptions&, int, std::int64_t);

}  // namespace reef_examples
