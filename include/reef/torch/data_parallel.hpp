#pragma once

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <torch/torch.h>

#include <reef/comm/communicator.hpp>
#include <reef/core/element.hpp>
#include <reef/core/error.hpp>
#include <reef/core/text.hpp>
#include <reef/core/units.hpp>
#include <reef/device/cores.hpp>
#include <reef/torch/detail/batches.hpp>
#include <reef/torch/detail/parts.hpp>
#include <reef/torch/detail/place.hpp>
#include <reef/torch/module.hpp>
#include <reef/torch/next_batch.hpp>
#include <reef/trainer/trainer.hpp>

namespace reef {
inline namespace v0 {
namespace torch {

/// The tensors of a libtorch module, by name.
using StateDict = ::torch::OrderedDict<std::string, at::Tensor>;

/// The options of data_parallel: those of the Trainer, and how the libtorch module is turned into nodes of its graph.
template <class... Policies>
struct DataParallelOptions : Trainer<Policies...>::Options {
  ModuleOptions module{};  ///< options of the module's calls; keeps_graph, if not given, is true

  /// The fewest bytes of parameters in a node of the graph made of a torch::nn::Sequential; a node's gradients are sent
  /// while those of the nodes before it are computed. 0 selects an eighth of the model, from 256 KiB to 16 MiB.
  Bytes node_bytes = 0;

  /// A function that returns the weight of a batch's loss, such as the number of its tokens; not given: 1.
  std::function<double(const Tensors& batch)> weight{};
};

/// A libtorch module that is trained on all ranks; it owns a Trainer of the module's graph. Created by data_parallel().
///
/// | batches | each rank gives its own batches, one for each micro-batch, all of the example's shapes               |
/// | loss    | the mean over a batch; the step's gradient is the weighted mean over all batches of all ranks        |
/// | weights | are Reef's. The module keeps its initial weights until module() copies the trained ones into it      |
/// | bits    | as Trainer guarantees; P ranks with a batch each give the bits of one process with virtual_ranks = P |
/// | memory  | besides the Trainer's: the tensors that autograd keeps of a micro-batch, the module's own weights,   |
/// |         | and the batches of two steps                                                                         |
template <class M, class... Policies>
class DataParallel {
public:
  using TrainerType = Trainer<Policies...>;
  using Options = DataParallelOptions<Policies...>;
  using T = typename TrainerType::T;
  using Sum = typename TrainerType::Sum;

  static_assert(detail::has_place<typename TrainerType::Device>,
                "reef::torch::data_parallel: libtorch does not know this device.\n"
                "  fix: device::Host, or device::Cuda with reef/torch/cuda.hpp.");
  static_assert(std::is_same_v<typename TrainerType::Pipeline, pipeline::Single>,
                "reef::torch::data_parallel: every rank has the whole module.\n"
                "  fix: no pipeline policy, or a Trainer of a graph of reef::torch::Module.");

  template <class Loss>
  DataParallel(std::shared_ptr<M> module, const Loss& loss, const Tensors& example, const Options& options,
               const comm::Communicator* ranks)
      : module_(std::move(module)),
        training_(batches(detail::Batches::Use::training, example, options)),
        held_out_(batches(detail::Batches::Use::evaluation, example, options)),
        trainer_(make(loss, example, options, ranks)) {}

  /// Runs one optimizer step on all ranks, each with one micro-batch of its own. Throws OptionError if the step needs
  /// more than one micro-batch for each rank.
  StepResult step(const Tensors& batch) {
    training_->begin(batch, trainer_->rank());
    return trainer_->step();
  }

  /// Runs one optimizer step with as many micro-batches as the options and the optimizer require.
  StepResult step(NextBatch next) {
    training_->begin(std::move(next), trainer_->rank());
    return trainer_->step();
  }

  /// Returns the mean loss of the weights after the last committed step, over `rounds` times this job's micro-batches,
  /// which are numbered from 0. All ranks must call it. The module runs in evaluation mode.
  double evaluate(NextBatch next, std::int64_t rounds = 1) {
    held_out_->begin(std::move(next), trainer_->rank());
    const double loss = trainer_->evaluate(rounds);
    held_out_->forget();
    return loss;
  }

  /// Returns the module with the weights of the last step, for torch::save, or for use without Reef. All ranks must
  /// call it. Later steps do not change these weights.
  std::shared_ptr<M> module() {
    const ::torch::NoGradGuard no_gradients;
    trainer_->gather_committed_weights();
    for (const detail::Named& parameter : parameters_) at::Tensor(parameter.original).copy_(learnt(parameter));
    return module_;
  }

  /// Returns the trained parameters and the buffers, by the module's names; a tensor may have several names. All
  /// ranks must call it. The module's own values stay unchanged.
  [[nodiscard]] StateDict state_dict() {
    const ::torch::NoGradGuard no_gradients;
    trainer_->gather_committed_weights();
    StateDict result;
    for (const auto& entry : tensors_of_module()) {
      const detail::Named* const parameter = parameter_of(entry.value());
      result.insert(entry.key(), parameter != nullptr ? learnt(*parameter) : entry.value().detach().clone());
    }
    return result;
  }

  /// Sets the weights. All ranks must call it, with the same tensors. Of a parameter's several names, one is enough.
  /// Throws OptionError for a parameter that is missing, has another shape, or other values under another name, and for
  /// a tensor that the module does not have, or has as a constant of other values; the weights are then unchanged.
  void load_state_dict(const StateDict& tensors) {
    const ::torch::NoGradGuard no_gradients;
    const auto fail = [](const std::string& name, const std::string& text) {
      throw OptionError("reef::torch::DataParallel::load_state_dict: '", name, "' ", text,
                        "\n  fix: what state_dict() of such a module gave.");
    };
    const StateDict wanted = tensors_of_module();
    std::vector<const StateDict::Item*> found(parameters_.size());
    for (const auto& entry : tensors) {
      const at::Tensor* const own = wanted.find(entry.key());
      if (own == nullptr) fail(entry.key(), "is no tensor of the module.");
      if (!entry.value().defined() || entry.value().sizes() != own->sizes()) {
        fail(entry.key(), concat("is ", detail::text_of(entry.value()), ", the module's ", detail::text_of(*own), "."));
      }
      const detail::Named* const parameter = parameter_of(*own);
      if (parameter == nullptr) {
        if (!at::equal(entry.value().to(own->options()), *own))
          fail(entry.key(), "is a constant of the module, with other values.");
        continue;
      }
      const StateDict::Item*& known = found[static_cast<std::size_t>(parameter - parameters_.data())];
      if (known != nullptr && !at::equal(known->value(), entry.value().to(known->value().device()))) {
        fail(entry.key(), concat("is the parameter '", known->key(), "' by another name, with other values."));
      }
      known = &entry;
    }
    for (std::size_t p = 0; p < parameters_.size(); ++p) {
      if (found[p] == nullptr) fail(parameters_[p].name, "is missing.");
    }
    for (std::size_t p = 0; p < parameters_.size(); ++p) {
      const at::Tensor values = found[p]->value().to(at::kCPU, type).contiguous();
      trainer_->set_parameter(parameters_[p].name,
                              {values.template data_ptr<Sum>(), static_cast<std::size_t>(values.numel())});
    }
  }

  /// Returns the Trainer, for checkpoints, figures and other functions: checkpoint::save(trainer(), folder).
  [[nodiscard]] TrainerType& trainer() { return *trainer_; }

private:
  static constexpr at::ScalarType type = std::is_same_v<Sum, double> ? at::kDouble : at::kFloat;

  static std::uint64_t samples_of(const Tensors& example) {
    if (example.empty()) {
      throw OptionError(
          "reef::torch::data_parallel: the example has no tensors.\n  fix: a batch of the shapes that all have.");
    }
    return example[0].defined() && example[0].dim() > 0 ? static_cast<std::uint64_t>(example[0].size(0)) : 1;
  }

  static std::shared_ptr<detail::Batches> batches(detail::Batches::Use use, const Tensors& example,
                                                  const Options& options) {
    return std::make_shared<detail::Batches>(use, samples_of(example), options.seed, options.module.threads,
                                             detail::Place<typename TrainerType::Device>::device(options.device),
                                             options.weight);
  }

  template <class Loss>
  std::unique_ptr<TrainerType> make(const Loss& loss, const Tensors& example, const Options& options,
                                    const comm::Communicator* ranks) {
    if (module_ == nullptr)
      throw OptionError("reef::torch::data_parallel: there is no module.\n  fix: one that was made.");
    require_own_gpu(detail::Place<typename TrainerType::Device>::device(options.device));
    const Bytes eighth = std::clamp<Bytes>(detail::bytes_of_parameters(*module_) / 8, 256_KiB, 16_MiB);
    ModuleOptions of_module = options.module;
    of_module.keeps_graph = of_module.keeps_graph.value_or(true);
    auto chain = detail::chain_of<typename TrainerType::Model>(module_, loss, example, element_of<Sum>,
                                                               device::threads_of(options.device), of_module,
                                                               options.node_bytes > 0 ? options.node_bytes : eighth);
    parameters_ = std::move(chain.parameters);
    const auto source = [](const std::shared_ptr<detail::Batches>& batches) {
      return [batches](std::uint64_t first_sample, std::span<const AnyView> inputs) {
        return batches->fill(first_sample, inputs);
      };
    };
    const typename TrainerType::Options& of_trainer = options;
    if (ranks != nullptr) {
      return std::make_unique<TrainerType>(std::move(chain.graph), source(training_), of_trainer, source(held_out_),
                                           *ranks);
    }
    return std::make_unique<TrainerType>(std::move(chain.graph), source(training_), of_trainer, source(held_out_));
  }

  /// Throws OptionError for a module on another GPU than `device`: the module could be called, but would keep no graph,
  /// and would use memory of that GPU.
  void require_own_gpu(at::Device device) const {
    for (const auto& entry : module_->named_parameters()) {
      const at::Device where = entry.value().device();
      if (where.is_cpu() || where.type() != device.type() || where == device) continue;
      throw OptionError("reef::torch::data_parallel: the parameter '", entry.key(), "' lies on ", where.str(),
                        ", the Trainer computes on ", device.str(), ".\n  fix: module->to(\"", device.str(),
                        "\"), or options.device.ordinal = ", int{where.index()}, ".");
    }
  }

  /// Returns the libtorch module's parameters and buffers.
  [[nodiscard]] StateDict tensors_of_module() const {
    StateDict all = module_->named_parameters();
    for (const auto& entry : module_->named_buffers()) all.insert(entry.key(), entry.value());
    return all;
  }

  /// Returns the trained parameter to which a tensor belongs, or null if the tensor is not trained.
  [[nodiscard]] const detail::Named* parameter_of(const at::Tensor& tensor) const {
    const auto found = std::find_if(parameters_.begin(), parameters_.end(),
                                    [&](const detail::Named& parameter) { return parameter.tensor.is_same(tensor); });
    return found == parameters_.end() ? nullptr : &*found;
  }

  /// Returns a copy of a parameter's weights after the last committed step, in the module's type. Must be called after
  /// they are gathered.
  [[nodiscard]] at::Tensor learnt(const detail::Named& parameter) const {
    std::vector<Sum> values = trainer_->parameter(parameter.name);
    return at::from_blob(values.data(), parameter.original.sizes(), type).to(parameter.original.options(), false, true);
  }

  std::shared_ptr<M> module_;
  std::vector<detail::Named> parameters_;  ///< trained parameters, each once, under one of its names
  std::shared_ptr<detail::Batches> training_;
  std::shared_ptr<detail::Batches> held_out_;
  std::unique_ptr<TrainerType> trainer_;
};

/// Returns a DataParallel that trains a libtorch module on all ranks.
///
/// | loss    | a number from (module, batch), or from (output, batch) with output = module.forward(batch[0])         |
/// | example | a batch with the shapes and types of all batches; its numbers are not read. Floating-point numbers    |
/// |         | arrive as fp32, or as fp64 in a Trainer of fp64, bools as bools, bytes as bytes, other integers as    |
/// |         | int64, sent as int32                                                                                  |
/// | nodes   | one; for a torch::nn::Sequential with the second form of loss several (node_bytes). Two parts are one |
/// |         | node if they pass each other what no node can (a tuple, integers, 5 axes), or the second writes in    |
/// |         | place                                                                                                 |
/// | ranks   | all ranks of MPI_COMM_WORLD, or of the given communicator, which must outlive the result              |
/// | errors  | those of Module and Trainer, also if the modules of ranks have different initial values               |
///
/// \code
/// #include <reef/optim/adamw.hpp>
/// #include <reef/optim/zero1.hpp>
/// // given: const reef::torch::Tensors& batch
/// const ::torch::nn::Sequential net(::torch::nn::Linear(64, 32), ::torch::nn::ReLU(), ::torch::nn::Linear(32, 10));
/// reef::torch::DataParallelOptions<optim::Zero1<optim::AdamW>> options;
/// options.learning_rate = {.peak = 1e-3};
/// const auto loss_of = [](const at::Tensor& output, const reef::torch::Tensors& in) {
///   return at::cross_entropy_loss(output, in[1]);
/// };
/// auto training = reef::torch::data_parallel(net, loss_of, batch, options);
/// const double loss = training.step(batch).loss;
/// ::torch::save(training.module(), "net.pt");
/// \endcode
template <class M, class Loss, class... Policies>
  requires std::derived_from<M, ::torch::nn::Module>
DataParallel<M, Policies...> data_parallel(std::shared_ptr<M> module, const Loss& loss, const Tensors& example,
                                           const DataParallelOptions<Policies...>& options,
                                           const comm::Communicator* ranks = nullptr) {
    static_assert(detail::loss_of_module<M, Loss> || detail::loss_of_output<M, Loss>,
                  "reef::torch::data_parallel: the loss is called in neither of its two ways.\n"
                  "  fix: at::Tensor(M& module, const Tensors& batch), or at::Tensor(const at::Tensor& output, const "
                  "Tensors& batch).");
    return DataParallel<M, Policies...>(std::move(module), loss, example, options, ranks);
}

/// Returns a DataParallel that trains a module wrapped by TORCH_MODULE on all ranks.
template <class Holder, class Loss, class... Policies>
  requires requires(const Holder& holder) { typename Holder::ContainedType; holder.ptr(); }
auto data_parallel(const Holder& module, const Loss& loss, const Tensors& example,
                   const DataParallelOptions<Policies...>& options, const comm::Communicator* ranks = nullptr) {
  return data_parallel(module.ptr(), loss, example, options, ranks);
}

}  // namespace torch
}  // namespace v0
}  // namespace reef
