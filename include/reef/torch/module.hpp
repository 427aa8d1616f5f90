#pragma once

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <optional>
#include <span>
#include <sstream>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include <torch/torch.h>

#include <reef/core/error.hpp>
#include <reef/core/text.hpp>
#include <reef/core/units.hpp>
#include <reef/device/host.hpp>
#include <reef/graph/operator.hpp>
#include <reef/torch/detail/errors.hpp>
#include <reef/torch/detail/forward.hpp>
#include <reef/torch/detail/meter.hpp>
#include <reef/torch/detail/place.hpp>
#include <reef/torch/detail/shared_module.hpp>
#include <reef/torch/detail/trial.hpp>

namespace reef {
inline namespace v0 {
namespace torch {

/// The options with which a libtorch module is called.
struct ModuleOptions {
  /// The number of libtorch's threads in each call, whatever the device has; the bits may depend on it.
  int threads = 1;
  /// The most bytes that tensors of a call may use; 0: no limit. On a GPU, the first calls on a queue also include
  /// libtorch's workspaces, some 32 MiB, and copies of a module's constants that are in host memory.
  Bytes heap_bytes = 0;

  /// If true, keeps the autograd graph of the last forward, with the tensors that it saves, until the backward of the
  /// same micro-batch, which then need not call the module again. The bits are the same. Applies to a module whose
  /// parameters have the type of the computation (fp64 in an fp64 graph, else fp32), and are on its device. Not given:
  /// true under data_parallel alone.
  std::optional<bool> keeps_graph{};

  /// If true, libtorch refuses operations on a GPU that may give other bits in a second call. libtorch's products then
  /// need the environment variable CUBLAS_WORKSPACE_CONFIG to be :4096:8. If false, equal calls may give different
  /// bits.
  bool deterministic = true;
};

/// A libtorch module as an operator of a model's graph.
///
///     outputs = module.forward(inputs);   backward: the same forward again under autograd, and its gradients
///
/// | inputs     | of the graph's element type; int32 arrives as int64, uint8 unchanged                                |
/// | outputs    | a tensor, or a tuple, array or vector of tensors; floating-point; without axes: a loss, fp32 if     |
/// |            | bf16                                                                                                |
/// | parameters | "node.name", with the names of named_parameters(); they begin with the module's values when a       |
/// |            | Trainer is constructed. Reef owns them: the module has them during a call only                      |
/// | frozen     | parameters with requires_grad(false) are constants, as are buffers                                  |
/// | modes      | training in each submodule's own mode: one in eval() stays so; evaluations in eval()                |
/// | decay      | applies to parameters with two axes or more                                                         |
/// | bf16       | weights and inputs are widened: the module computes in fp32                                         |
/// | device     | the graph's: device::Host, or device::Cuda with reef/torch/cuda.hpp. The module is tried on its     |
/// |            | tensors' device                                                                                     |
/// | random     | libtorch's default generator is seeded for each call by seed, sample and node; backward draws what  |
/// |            | forward drew                                                                                        |
/// | threads    | ModuleOptions::threads, whatever the device has                                                     |
/// | memory     | saves only its inputs. Tensors of a call are not in the exact peak: Signature::heap_bytes, also in  |
/// |            | StepEstimate, has the bytes that they used when the node was added. The parameters' initial values  |
/// |            | stay in the module; on a GPU, or in a type other than fp32 and fp64, a copy is in host memory too   |
/// | once       | in a process, only one call of any such module runs at a time                                       |
/// | errors     | ShapeError, when the node is added, for a module that writes to inputs, parameters or buffers       |
/// |            | (running statistics), or gives other bits in a second call; MemoryError for a call above heap_bytes |
///
/// \code
/// #include <reef/graph/graph.hpp>
/// // given: graph::Graph<device::Host, float>& g, int x
/// const int y = g.add("head", reef::torch::Module(::torch::nn::Linear(64, 10)), {x})[0];
/// \endcode
class Module {
public:
  static constexpr std::string_view kind = "TorchModule";

  /// Constructs an operator that calls module->forward with all inputs of the graph's node, at most 8.
  template <class M>
    requires std::derived_from<M, ::torch::nn::Module>
  explicit Module(std::shared_ptr<M> module, ModuleOptions options = {})
      : Module(std::move(module), detail::call_forward<M>, options) {
    static_assert(detail::has_forward<M>,
                  "reef::torch::Module: no forward of this module takes 1 to 8 tensors and gives tensors.\n"
                  "  fix: Module(module, [](M& module, const reef::torch::Tensors& inputs) { return "
                  "reef::torch::Tensors{...}; })");
  }

  /// Constructs an operator from a module wrapped by TORCH_MODULE, such as torch::nn::Linear(3, 4).
  template <class Holder>
    requires requires(const Holder& holder) { typename Holder::ContainedType; holder.ptr(); }
  explicit Module(const Holder& holder, ModuleOptions options = {}) : Module(holder.ptr(), options) {}

  /// Constructs an operator that calls the function with the module and the inputs of the graph's node.
  template <class M, class F>
    requires std::derived_from<M, ::torch::nn::Module> && std::is_invocable_r_v<Tensors, const F&, M&, const Tensors&>
  Module(std::shared_ptr<M> module, F function, ModuleOptions options = {})
      : options_(options), shared_(std::make_shared<detail::SharedModule>()) {
    if (module == nullptr) throw OptionError("reef::torch::Module: there is no module.\n  fix: one that was made.");
    if (options.threads < 1) {
      throw OptionError("reef::torch::Module: ", options.threads, " threads.\n  fix: 1 or more.");
    }
    shared_->forward = [raw = module.get(), function = std::move(function)](const Tensors& inputs) {
      return function(*raw, inputs);
    };
    shared_->module = std::move(module);
    shared_->threads = options.threads;
    shared_->deterministic = options.deterministic;
    collect();
  }

  /// Returns the operator's signature (outputs, memory, ...), found by two calls, with and without autograd. Inputs are
  /// normal numbers, and integers 0.
  template <class Device, real T>
    requires detail::has_place<Device>
  [[nodiscard]] graph::Signature signature(const graph::SignatureCall<Device, T>& call) const {
    require_reachable<Device>();
    if (options_.deterministic) detail::Place<Device>::require_settings();
    const detail::Released<Device> when_tried(shared_->device);
    std::optional<detail::Trial> trial;
    try {
      named([&] { trial.emplace(*shared_, call.node, call.inputs, computes_in<T>, std::is_same_v<T, Bfloat16>); });
    } catch (const graph::OperatorError& error) {
      if (detail::is_of_memory(error.cause())) {
        throw MemoryError("reef::torch: the node '", call.node, "' cannot be tried: ", error.what(),
                          "\n  fix: a smaller micro-batch.");
      }
      throw ShapeError("reef::torch: the node '", call.node,
                       "' cannot be called with inputs of these shapes: ", error.what(),
                       "\n  fix: a module that takes made-up inputs of them: normal numbers, and integers that are 0.");
    }
    graph::Signature result;
    result.attributes = attributes();
    for (const at::Tensor& output : trial->outputs()) {
      const Shape shape = detail::shape_of(output, concat("an output of the node '", call.node, "'"));
      result.outputs.push_back(shape.rank() == 0 ? call.sums(shape) : call.tensor(shape));
    }
    for (const detail::Named& parameter : shared_->parameters) {
      result.parameters.push_back(detail::spec_of_parameter(*shared_, parameter));
    }
    result.forward_flops = trial->flops();
    result.backward_flops = 3 * trial->flops();
    result.heap_bytes = trial->heap_bytes();
    result.kept_heap_bytes =
        keeps_graph<T>(at::Device(detail::Place<Device>::type, shared_->device.index())) ? trial->kept_bytes() : 0;
    return result;
  }

  template <class Device, real T>
    requires detail::has_place<Device>
  void forward(const graph::ForwardCall<Device, T>& call) const {
    named([&] { detail::Place<Device>::run(call.lane, [&](at::Device device) { run_forward(call, device); }); });
  }

  template <class Device, real T>
    requires detail::has_place<Device>
  void backward(const graph::BackwardCall<Device, T>& call) const {
    named([&] { detail::Place<Device>::run(call.lane, [&](at::Device device) { run_backward(call, device); }); });
  }

  [[nodiscard]] std::string name() const { return shared_->module->name(); }
  [[nodiscard]] std::shared_ptr<::torch::nn::Module> module() const { return shared_->module; }
  /// Returns the module's parameters that have a gradient, in the order of the node's parameters. Between calls the
  /// module has its own values.
  [[nodiscard]] std::span<const detail::Named> parameters() const& { return shared_->parameters; }
  void parameters() const&& = delete;
  /// Returns the state that all copies of this operator share.
  [[nodiscard]] detail::SharedModule& shared() const& { return *shared_; }
  void shared() const&& = delete;

private:
  template <real T>
  static constexpr at::ScalarType computes_in = std::is_same_v<sum_t<T>, double> ? at::kDouble : at::kFloat;

  void collect() {
    shared_->modes = detail::modes_of(*shared_->module);
    std::vector<const void*> seen;
    const auto is_new = [&](const at::Tensor& tensor) {
      if (std::find(seen.begin(), seen.end(), tensor.unsafeGetTensorImpl()) != seen.end()) return false;
      seen.push_back(tensor.unsafeGetTensorImpl());
      return true;
    };
    for (const auto& entry : shared_->module->named_parameters()) {
      const at::Tensor& tensor = entry.value();
      if (!tensor.defined() || !is_new(tensor)) continue;
      require_with_others(entry.key(), tensor, seen.size() == 1);
      if (!tensor.is_contiguous()) {
        throw ShapeError("reef::torch: the parameter '", entry.key(), "' of ", name(),
                         " is not contiguous.\n  fix: contiguous().");
      }
      auto& list = tensor.requires_grad() ? shared_->parameters : shared_->constants;
      list.push_back({entry.key(), tensor, tensor.variable_data()});
    }
    for (const auto& entry : shared_->module->named_buffers()) {
      const at::Tensor& tensor = entry.value();
      if (!tensor.defined() || !is_new(tensor)) continue;
      require_with_others(entry.key(), tensor, seen.size() == 1);
      shared_->constants.push_back({entry.key(), tensor, tensor.variable_data()});
    }
  }

  /// Throws ShapeError unless the tensor is dense, and on the device of the module's first tensor.
  void require_with_others(const std::string& which, const at::Tensor& tensor, bool first) const {
    if (tensor.layout() != at::kStrided) {
      throw ShapeError("reef::torch: the tensor '", which, "' of ", name(), " is not dense.\n  fix: to_dense().");
    }
    if (first) shared_->device = tensor.device();
    if (tensor.device() == shared_->device) return;
    throw ShapeError("reef::torch: the tensor '", which, "' of ", name(), " lies on ", tensor.device().str(),
                     ", the first on ", shared_->device.str(), ".\n  fix: one device, by module->to().");
  }

  /// Throws ShapeError unless the module's tensors are in host memory, or on a device of the kind on which the graph
  /// computes: the module is tried there.
  template <class Device>
  void require_reachable() const {
    if (shared_->device.is_cpu() || shared_->device.type() == detail::Place<Device>::type) return;
    throw ShapeError("reef::torch: the tensors of ", name(), " lie on ", shared_->device.str(),
                     ", and the graph computes on a ", Device::name,
                     ".\n  fix: module->to(torch::kCPU), or a graph of that device.");
  }

  /// Returns the facts that affect the results besides inputs and parameters: the module's printed form, its constants,
  /// and the number of threads.
  [[nodiscard]] std::string attributes() const {
    std::ostringstream printed;
    printed << *shared_->module;
    std::string text = printed.str();
    std::replace(text.begin(), text.end(), '\n', ' ');
    Hash constants;
    for (const detail::Named& constant : shared_->constants) {
      constants.add(constant.name).add(detail::hash_of(constant.original));
    }
    return concat(text, ", constants ", constants.value(), ", threads ", options_.threads,
                  options_.deterministic ? "" : ", not deterministic");
  }

  static at::Tensor input_of(const AnyView& view, at::Device device, at::ScalarType type) {
    const at::Tensor tensor = detail::tensor_of(view, device);
    if (view.element() == Element::int32) return tensor.to(at::kLong);
    return view.element() == Element::uint8 ? tensor : tensor.to(type);
  }

  static void write(const AnyView& to, at::Device device, const at::Tensor& gradient, bool accumulate) {
    at::Tensor target = detail::tensor_of(to, device);
    if (gradient.defined()) {
      const at::Tensor shaped = gradient.reshape(target.sizes());
      accumulate ? target.add_(shaped) : target.copy_(shaped);
    } else if (!accumulate) {
      target.zero_();
    }
  }

  /// Calls a function; to an exception from it, adds the module's name in its text.
  template <class F>
  void named(const F& function) const {
    try {
      function();
    } catch (const Error& error) {
      if (std::string_view(error.what()).find(name()) != std::string_view::npos) throw;
      throw failed();
    } catch (...) {
      throw failed();
    }
  }

  /// Returns an error that names the module and has the current exception as its cause.
  [[nodiscard]] graph::OperatorError failed() const {
    const std::string words = detail::words_of(std::current_exception());
    const bool differs = options_.deterministic && words.find("use_deterministic_algorithms") != std::string::npos;
    return graph::OperatorError(std::current_exception(), name(), ": ", words,
                                differs ? "\n  fix: another operation, or ModuleOptions::deterministic = false." : "");
  }

  template <class Device, real T>
  void run_forward(const graph::ForwardCall<Device, T>& call, at::Device device) const {
    const Meter heap = meter();
    const detail::Call module(*shared_, {call.training, call.key, computes_in<T>, device}, call.parameters);
    const bool keeps = call.training && keeps_graph<T>(device);
    drop(shared_->kept, heap);
    const Bytes before = heap == nullptr ? 0 : heap->now();
    Tensors inputs;
    Tensors outputs;
    {
      const ::torch::AutoGradMode gradients(keeps);
      for (const AnyView& view : call.inputs) {
        inputs.push_back(input_of(view, device, computes_in<T>));
        if (keeps && inputs.back().is_floating_point()) inputs.back().set_requires_grad(true);
      }
      outputs = module(inputs);
    }
    require_outputs(outputs, call.outputs);
    const ::torch::NoGradGuard no_gradients;
    for (std::size_t i = 0; i < outputs.size(); ++i) write(call.outputs[i], device, outputs[i].detach(), false);
    require_within(heap, "forward");
    if (keeps)
      shared_->kept = {call.key, detail::addresses_of(call.inputs, call.parameters), inputs, outputs,
                       heap == nullptr ? 0 : heap->now() - before};
  }

  template <class Device, real T>
  void run_backward(const graph::BackwardCall<Device, T>& call, at::Device device) const {
    const Meter heap = meter();
    const detail::Call module(*shared_, {true, call.key, computes_in<T>, device}, call.parameters);
    const ::torch::AutoGradMode with_gradients(true);
    // If a tensor has another address than in the forward, it may have been moved since, and its old memory
    // overwritten: then the kept graph is not used.
    std::optional<detail::KeptGraph> kept = std::exchange(shared_->kept, std::nullopt);
    if (kept && (kept->key != call.key || kept->places != detail::addresses_of(call.inputs, call.parameters)))
      drop(kept, heap);
    const Bytes before = kept ? kept->bytes : 0;
    Tensors inputs = kept ? std::move(kept->inputs) : Tensors();
    Tensors wanted;
    for (std::size_t i = 0; i < call.inputs.size(); ++i) {
      if (!kept) inputs.push_back(input_of(call.inputs[i], device, computes_in<T>).set_requires_grad(call.wants(i)));
      if (call.wants(i)) wanted.push_back(inputs[i]);
    }
    for (const detail::Named& parameter : shared_->parameters) wanted.push_back(parameter.tensor);
    const Tensors outputs = kept ? std::move(kept->outputs) : module(inputs);
    Tensors seeds;
    for (const AnyView& view : call.output_gradients) {
      seeds.push_back(view ? detail::tensor_of(view, device).to(computes_in<T>) : at::Tensor());
    }
    const Tensors results = detail::gradients(outputs, wanted, seeds);
    const ::torch::NoGradGuard no_gradients;
    std::size_t k = 0;
    for (std::size_t i = 0; i < call.inputs.size(); ++i) {
      if (call.wants(i)) write(call.input_gradients[i], device, results[k++], call.accumulates(i));
    }
    for (const AnyView& view : call.parameter_gradients) write(view, device, results[k++], call.accumulate_parameters);
    require_within(heap, "backward", before);
  }

  /// Returns true if a forward on `device` may keep its autograd graph for the backward: the options ask for it, and no
  /// parameter or constant is converted for each call, which would be another leaf in the backward.
  template <real T>
  [[nodiscard]] bool keeps_graph(at::Device device) const {
    if (!options_.keeps_graph.value_or(false)) return false;
    if (shared_->device != device && !(shared_->parameters.empty() && shared_->constants.empty())) return false;
    const auto same = [](const detail::Named& parameter) { return parameter.original.scalar_type() == computes_in<T>; };
    return std::all_of(shared_->parameters.begin(), shared_->parameters.end(), same);
  }

  void require_outputs(const Tensors& outputs, std::span<const AnyView> views) const {
    bool same = outputs.size() == views.size();
    for (std::size_t i = 0; same && i < outputs.size(); ++i) {
      same = outputs[i].defined() && outputs[i].sizes() == at::IntArrayRef(detail::sizes_of(views[i].shape()));
    }
    if (same) return;
    throw ShapeError("reef::torch: the module ", name(),
                     " gives undefined outputs, or of other shapes than when its node was added.\n",
                     "  fix: shapes that depend on those of the inputs alone.");
  }

  /// A meter of the bytes that libtorch allocates in a call; null if heap_bytes is 0, so that libtorch reports none.
  using Meter = std::unique_ptr<detail::HeapMeter>;
  [[nodiscard]] Meter meter() const {
    return options_.heap_bytes == 0 ? nullptr : std::make_unique<detail::HeapMeter>();
  }

  /// Drops a kept autograd graph without counting its memory in the meter, which belongs to another call.
  static void drop(std::optional<detail::KeptGraph>& kept, const Meter& heap) {
    if (heap == nullptr) return kept.reset();
    heap->without([&] { kept.reset(); });
  }

  /// Throws MemoryError if a call of the module used more than heap_bytes. `before`: the bytes in use when the call
  /// began.
  void require_within(const Meter& heap, std::string_view what, Bytes before = 0) const {
    if (heap == nullptr || before + heap->peak() <= options_.heap_bytes) return;
    throw MemoryError("reef::torch: the tensors of a ", what, " of ", name(), " took ",
                      format_bytes(before + heap->peak()), ", above heap_bytes, ", format_bytes(options_.heap_bytes),
                      ".\n  fix: a smaller micro-batch, or a higher limit.");
  }

  ModuleOptions options_;
  std::shared_ptr<detail::SharedModule> shared_;
};

static_assert(graph::operator_for<Module, device::Host, float>);
static_assert(graph::operator_for<Module, device::Host, double>);
static_assert(graph::operator_for<Module, device::Host, Bfloat16>);

}  // namespace torch
}  // namespace v0
}  // namespace reef
