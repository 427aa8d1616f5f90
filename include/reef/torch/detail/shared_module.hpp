#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <torch/torch.h>

#include <reef/core/error.hpp>
#include <reef/core/hash.hpp>
#include <reef/core/random.hpp>
#include <reef/core/shape.hpp>
#include <reef/core/tensor_view.hpp>
#include <reef/core/units.hpp>
#include <reef/torch/detail/errors.hpp>
#include <reef/torch/detail/forward.hpp>
#include <reef/torch/detail/generator.hpp>
#include <reef/torch/detail/place.hpp>

namespace reef {
inline namespace v0 {
namespace torch::detail {

struct Named {
  std::string name;
  at::Tensor tensor;                ///< the module's
  at::Tensor original;              ///< what it held when the module was given
  std::vector<at::Tensor> moved{};  ///< of a constant: a copy on each other device that calls run on
};

inline at::ScalarType type_of(Element element) {
  switch (element) {
    case Element::float32: return at::kFloat;
    case Element::float64: return at::kDouble;
    case Element::int32: return at::kInt;
    case Element::uint8: return at::kByte;
    case Element::bfloat16: return at::kBFloat16;
  }
  return at::kFloat;
}

inline std::vector<std::int64_t> sizes_of(const Shape& shape) {
  std::vector<std::int64_t> sizes;
  for (std::size_t axis = 0; axis < shape.rank(); ++axis) sizes.push_back(shape[axis]);
  return sizes;
}

/// Throws ShapeError for one of more axes than a Shape has.
inline Shape shape_of(const at::Tensor& tensor, const std::string& what) {
  const auto sizes = tensor.sizes();
  switch (sizes.size()) {
    case 0: return {};
    case 1: return {sizes[0]};
    case 2: return {sizes[0], sizes[1]};
    case 3: return {sizes[0], sizes[1], sizes[2]};
    case 4: return {sizes[0], sizes[1], sizes[2], sizes[3]};
    default:
      throw ShapeError("reef::torch: ", what, " has ", sizes.size(), " axes.\n  fix: at most 4, by view().");
  }
}

/// A tensor that lies where the view lies, in the memory of this device.
inline at::Tensor tensor_of(const AnyView& view, at::Device device = at::kCPU) {
  const auto sizes = sizes_of(view.shape());
  return at::for_blob(view.data(), sizes)
      .options(at::TensorOptions(type_of(view.element())).device(device))
      .target_device(device)
      .make_tensor();
}

inline std::uint64_t hash_of(const at::Tensor& tensor) {
  const at::Tensor rows = tensor.detach().cpu().contiguous();
  Hash hash;
  hash.add(std::string_view(static_cast<const char*>(rows.data_ptr()), rows.nbytes()));
  return hash.value();
}

inline bool same_bits(const at::Tensor& a, const at::Tensor& b) {
  if (a.sizes() != b.sizes() || a.scalar_type() != b.scalar_type()) return false;
  return std::memcmp(a.cpu().contiguous().data_ptr(), b.cpu().contiguous().data_ptr(), a.nbytes()) == 0;
}

/// Where a call's inputs and parameters lie.
inline std::vector<const void*> addresses_of(std::span<const AnyView> inputs, std::span<const AnyView> parameters) {
  std::vector<const void*> places;
  for (const AnyView& view : inputs) places.push_back(view.data());
  for (const AnyView& view : parameters) places.push_back(view.data());
  return places;
}

/// The autograd graph of a forward: it goes out from these inputs and the module's parameters.
struct KeptGraph {
  DrawKey key;
  std::vector<const void*> places;
  Tensors inputs;
  Tensors outputs;
  Bytes bytes = 0;  ///< what it saves
};

/// A module, or one within it, and whether it is in training mode where the whole one is.
struct Mode {
  std::shared_ptr<::torch::nn::Module> part;
  bool training = true;
};

/// A module with the tensors in it, of which a Call may take hold.
struct SharedModule {
  std::shared_ptr<::torch::nn::Module> module;
  Forward forward;
  at::Device device = at::kCPU;   ///< where its tensors lie
  int threads = 1;
  bool deterministic = true;
  std::vector<Named> parameters;  ///< those that have a gradient, each once
  std::vector<Named> constants;   ///< buffers, and parameters without a gradient
  std::vector<Mode> modes;        ///< as the module was given; what holds others comes before these
  std::optional<KeptGraph> kept;  ///< of the last forward
  bool is_loss = false;           ///< its output is: of the last in a chain that data_parallel makes
};

/// Of libtorch in this thread. To change the number costs threads that end and begin.
inline void use_threads(int threads) {
  if (at::get_num_threads() != threads) at::set_num_threads(threads);
}

/// Puts each part in a mode. Whoever holds others comes before these, which its own mode sets too.
inline void set_modes(const std::vector<Mode>& modes) {
  for (const Mode& mode : modes) {
    if (mode.part->is_training() != mode.training) mode.part->train(mode.training);
  }
}

/// In which mode the parts of a module are now.
inline std::vector<Mode> modes_of(::torch::nn::Module& module) {
  std::vector<Mode> modes;
  for (const auto& part : module.modules()) modes.push_back({part, part->is_training()});
  return modes;
}

/// When it goes, this thread has the number of threads that it had.
class KeptThreads {
public:
  KeptThreads() = default;
  KeptThreads(const KeptThreads&) = delete;
  KeptThreads& operator=(const KeptThreads&) = delete;
  ~KeptThreads() { use_threads(before_); }

private:
  int before_ = at::get_num_threads();
};

/// How and where a module is called.
struct CallOptions {
  bool training = true;
  DrawKey key{};
  at::ScalarType type = at::kFloat;  ///< of parameters and constants that are floating-point numbers
  at::Device device = at::kCPU;
};

/// While it lives, this thread alone calls a module of the process: in this mode, with random numbers of this key, and
/// parameters that lie in `views`, or are what they were. What was in evaluation mode when the module was given stays
/// in it. Then all is as before, but for the number of threads, which stays that of the module: a lane has a thread of
/// its own.
class Call {
public:
  explicit Call(SharedModule& shared, const CallOptions& options, std::span<const AnyView> views = {})
      : random_(seed_of(options.key), options.device),
        deterministic_(shared.deterministic && options.device.type() != at::kCPU),
        shared_(shared),
        modes_(modes_of(*shared.module)) {
    const ::torch::NoGradGuard no_gradients;
    try {
      use_threads(shared.threads);
      std::vector<Mode> modes = shared.modes;
      for (Mode& mode : modes) mode.training = mode.training && options.training;
      set_modes(modes);
      for (std::size_t i = 0; i < shared.parameters.size(); ++i) {
        const Named& parameter = shared.parameters[i];
        const at::Tensor value =
            views.empty() ? parameter.original : tensor_of(views[i], options.device).view(parameter.original.sizes());
        hold(parameter, value.to(options.type));
      }
      for (Named& constant : shared.constants) {
        const at::Tensor& value = on(options.device, constant);
        hold(constant, value.is_floating_point() ? value.to(options.type) : value);
      }
    } catch (...) {
      leave();
      throw;
    }
  }
  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;
  ~Call() { leave(); }

  /// What the module makes of the inputs. Throws what the module throws, and ShapeError where it
  /// has written to an input or a parameter.
  [[nodiscard]] Tensors operator()(const Tensors& inputs) const {
    std::vector<std::uint32_t> before;
    for (const at::Tensor& input : inputs) before.push_back(versions(input));
    for (const Named& parameter : shared_.parameters) before.push_back(versions(parameter.tensor));
    Tensors outputs = shared_.forward(inputs);
    std::size_t i = 0;
    const auto text = [&](const std::string& what) {
      return concat("reef::torch: the module ", shared_.module->name(), " writes to its ", what,
                    ", which others read.\n  fix: an operation that is not in place.");
    };
    for (std::size_t k = 0; k < inputs.size(); ++k) {
      if (versions(inputs[k]) != before[i++])
        throw BoundaryError(BoundaryError::Side::input, text(concat("input ", k)));
    }
    for (const Named& parameter : shared_.parameters) {
      if (versions(parameter.tensor) != before[i++]) throw ShapeError(text(concat("parameter '", parameter.name, "'")));
    }
    return outputs;
  }

private:
  static std::uint64_t seed_of(const DrawKey& key) {
    return Hash().add(key.seed).add(key.sample).add(key.draw).add(key.op).value();
  }

  /// Copied there once. Whatever stream reads it later, the copy has ended.
  static const at::Tensor& on(at::Device device, Named& constant) {
    if (constant.original.device() == device) return constant.original;
    for (const at::Tensor& copy : constant.moved) {
      if (copy.device() == device) return copy;
    }
    return constant.moved.emplace_back(constant.original.cpu().to(device));
  }

  static std::uint32_t versions(const at::Tensor& tensor) { return static_cast<std::uint32_t>(tensor._version()); }

  void hold(const Named& named, const at::Tensor& value) {
    at::Tensor(named.tensor).set_data(value);
  }

  void leave() noexcept {
    set_modes(modes_);
    for (const Named& parameter : shared_.parameters) hold(parameter, parameter.original);
    for (const Named& constant : shared_.constants) hold(constant, constant.original);
  }

  DefaultGenerator random_;
  Deterministic deterministic_;
  const SharedModule& shared_;
  std::vector<Mode> modes_;  ///< before it
};

}  // namespace torch::detail
}  // namespace v0
}  // namespace reef
