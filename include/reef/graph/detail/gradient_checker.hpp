#pragma once

#include <algorithm>
#include <cmath>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <reef/core/error.hpp>
#include <reef/core/random.hpp>
#include <reef/device/concept.hpp>
#include <reef/graph/gradient_check.hpp>
#include <reef/graph/graph.hpp>

namespace reef {
inline namespace v0 {
namespace graph::detail {

/// A graph as one segment with memory of its own, which is NaN where no operator has written, where a backward may not
/// read, and for `guard` bytes behind each tensor.
template <device::device Device, std::floating_point T>
class GradientChecker {
public:
  using Lane = typename Device::Lane;

  GradientChecker(Device& device, const Graph<Device, T>& graph,
                  const GradientCheckOptions& options)
      : device_(device),
        graph_(graph.serving(device.threads())),
        options_(options),
        lane_(device, "check"),
        all_(plan_segment(graph_.dag())),
        bindings_(graph_.dag()) {
    if (options_.step == 0) options_.step = in_fp64 ? 2e-3 : 5e-2;
    result_.tolerance = options_.tolerance > 0 ? options_.tolerance : in_fp64 ? 1e-6 : 5e-3;
    bind_tensors();
    bind_parameters();
    bindings_.saved = allocate(all_.saved_bytes, "the tensors saved for backward");
    bindings_.workspace =
        allocate((std::max)(all_.forward_workspace_bytes, all_.backward_workspace_bytes), "the workspace");
    if (variables_.empty()) {
      refuse_gradient_check("no input is differentiable, and it has no parameter",
                            "graph.input(name, spec, true) for an input whose gradient is wanted.");
    }
    if (results_.empty())
      refuse_gradient_check("no result depends on one that is differentiable",
                            "a loss, or a tensor that nobody reads.");
  }

  GradientCheck run() {
    for (Variable& variable : variables_) variable.first.resize(variable.at.size());
    backward(false);
    read(&Variable::first);
    backward(true);
    read(&Variable::second);
    write_values();
    for (Variable& variable : variables_) variable.differences = differences_of(variable);
    for (const Variable& variable : variables_) compare(variable);
    return result_;
  }

private:
  static constexpr bool in_fp64 = sizeof(T) == sizeof(double);
  static constexpr std::size_t guard = 256;  ///< bytes behind each tensor that nobody may write

  /// An input or a parameter whose gradient is checked.
  struct Variable {
    std::string name;
    Shape shape;
    T* values = nullptr;                ///< the values, on the device
    std::vector<const T*> gradients{};  ///< pointers to gradients: one for an input, one for each use of a parameter
    bool accumulates = false;           ///< whether a second micro-batch adds to the gradients
    std::vector<T> at{};
    std::vector<double> first{}, second{},
        differences{};  ///< first: the gradient after one backward; second: after another that adds to it
    std::vector<std::int64_t> entries{};
  };
  struct Result {
    int tensor;
    std::vector<T> seed;
  };
  /// Values of an input that has no gradient.
  struct Constant {
    void* to;
    std::vector<T> values;
  };
  struct Memory {
    typename Device::Buffer buffer;
    Bytes bytes;  ///< without the guard
    std::string name;
  };

  [[nodiscard]] const Dag& dag() const { return graph_.dag(); }

  T draw(std::uint32_t stream, std::int64_t i, double low, double high) const {
    const double share =
        uniform(DrawKey{options_.seed, 0, 0, stream}, static_cast<std::uint64_t>(i));
    return static_cast<T>(low + (high - low) * share);
  }
  std::vector<T> draws(std::uint32_t stream, std::int64_t size, double low, double high) const {
    std::vector<T> values;
    for (std::int64_t i = 0; i < size; ++i) values.push_back(draw(stream, i, low, high));
    return values;
  }

  void bind_tensors() {
    const GradientFlow flow = gradient_flow(dag());
    const auto allocate_tensor = [&](int id, std::string_view what) {
      const Tensor& tensor = dag().tensor_at(id);
      return allocate(tensor.spec.bytes(), concat(what, " '", tensor.name, "'"));
    };
    for (const int id : all_.boundary_outputs) bindings_.tensor(id) = allocate_tensor(id, "the output");
    for (const int id : all_.output_gradients) bindings_.gradient(id) = allocate_tensor(id, "the gradient of");
    for (const int id : all_.input_gradients) bindings_.gradient(id) = allocate_tensor(id, "the gradient of");
    for (const int id : all_.boundary_inputs) {
      const Tensor& tensor = dag().tensor_at(id);
      bindings_.tensor(id) = allocate_tensor(id, "the input");
      if (tensor.spec.element == Element::int32) {
        std::vector<std::int32_t> values;
        for (std::int64_t i = 0; i < tensor.spec.shape.size(); ++i) {
          const std::uint32_t bits = random_bits(
              {options_.seed, 0, 1, static_cast<std::uint32_t>(id)}, static_cast<std::uint64_t>(i));
          values.push_back(
              static_cast<std::int32_t>(bits % static_cast<std::uint32_t>(options_.classes)));
        }
        copy(bindings_.tensor(id), values.data(), values.size() * sizeof(std::int32_t),
             device::Copy::to_device);
        continue;
      }
      require_element(tensor);
      Variable variable{tensor.name, tensor.spec.shape, static_cast<T*>(bindings_.tensor(id))};
      variable.at =
          draws(static_cast<std::uint32_t>(id), variable.shape.size(), options_.low, options_.high);
      if (flow.tensors[static_cast<std::size_t>(id)]) {
        variable.gradients.push_back(static_cast<const T*>(bindings_.gradient(id)));
        variables_.push_back(std::move(variable));
      } else {
        constants_.push_back({variable.values, std::move(variable.at)});
      }
    }
    for (const int id : all_.output_gradients) {
      const Tensor& tensor = dag().tensor_at(id);
      require_element(tensor);
      results_.push_back(
          {id, draws(static_cast<std::uint32_t>(1U << 20U) + static_cast<std::uint32_t>(id),
                     tensor.spec.shape.size(), -1, 1)});
    }
  }

  void bind_parameters() {
    for (std::size_t p = 0; p < dag().parameters.size(); ++p) {
      const Parameter& parameter = dag().parameters[p];
      const int id = static_cast<int>(p);
      Variable variable{
          parameter.name, parameter.spec.shape,
          static_cast<T*>(allocate(parameter.spec.bytes(), concat("the parameter '", parameter.name, "'")))};
      bindings_.parameter(id) = variable.values;
      const double middle = parameter.init.law == Init::Law::ones ? 1 : 0;
      variable.at = draws(static_cast<std::uint32_t>(2U << 20U) + static_cast<std::uint32_t>(p),
                          variable.shape.size(), middle - 0.5, middle + 0.5);
      if (parameter.frozen) {
        constants_.push_back({variable.values, std::move(variable.at)});
        continue;
      }
      for (const int use : parameter.uses) {
        bindings_.use(use) =
            allocate(dag().gradient_spec(parameter).bytes(), concat("the gradient of '", parameter.name, "'"));
        variable.gradients.push_back(static_cast<const T*>(bindings_.use(use)));
      }
      variable.accumulates = true;
      variables_.push_back(std::move(variable));
    }
  }

  static void require_element(const Tensor& tensor) {
    if (tensor.spec.element == element_of<T>) return;
    throw OptionError("reef::graph::check_gradients: '", tensor.name, "' is ", tensor.spec.text(),
                      ", in a graph of ", name_of(element_of<T>),
                      ".\n  fix: int32 for numbers that choose, the graph's own type for those "
                      "that have gradients.");
  }

  void write_values() {
    for (const Variable& variable : variables_) {
      copy(variable.values, variable.at.data(), variable.at.size() * sizeof(T),
           device::Copy::to_device);
    }
    for (const Constant& constant : constants_) {
      copy(constant.to, constant.values.data(), constant.values.size() * sizeof(T), device::Copy::to_device);
    }
  }

  /// Fills the inputs and outputs that no node's backward reads with NaN, as other values may be there in a step.
  void spoil_values() {
    for (const std::vector<int>* tensors : {&all_.boundary_inputs, &all_.boundary_outputs}) {
      for (const int id : *tensors) {
        const TensorSpec& spec = dag().tensor_at(id).spec;
        if (spec.element == Element::int32 || std::ranges::count(all_.backward_reads, id) > 0) continue;
        fill_with_nan(bindings_.tensor(id), spec.bytes());
      }
    }
  }

  /// Throws ShapeError if an operator has written behind a tensor.
  void check_guards() {
    std::vector<std::byte> found(guard);
    for (const Memory& memory : memory_) {
      copy(found.data(), static_cast<const std::byte*>(memory.buffer.data()) + memory.bytes, guard,
           device::Copy::to_host);
      if (std::ranges::count(found, std::byte{0xFF}) != static_cast<std::ptrdiff_t>(guard))
        refuse_write_behind(memory.name);
    }
  }

  /// Returns the value of the function that is differentiated, the sum of the results weighted by the seeds, and the
  /// sum of the absolute values of its terms.
  std::pair<double, double> evaluate() {
    submit([&](Lane& lane) { graph_.forward(all_, bindings_, lane, {}, Forward::keeps); });
    double sum = 0;
    double absolute = 0;
    std::vector<T> values;
    for (const Result& result : results_) {
      values.resize(result.seed.size());
      copy(values.data(), bindings_.tensor(result.tensor), values.size() * sizeof(T),
           device::Copy::to_host);
      for (std::size_t i = 0; i < values.size(); ++i) {
        const double term = static_cast<double>(values[i]) * static_cast<double>(result.seed[i]);
        sum += term;
        absolute += (std::abs)(term);
      }
    }
    return {sum, absolute};
  }

  void backward(bool accumulate) {
    write_values();
    magnitude_ = evaluate().second;
    for (const Result& result : results_) {
      copy(bindings_.gradient(result.tensor), result.seed.data(), result.seed.size() * sizeof(T),
           device::Copy::to_device);
    }
    spoil_values();
    submit([&](Lane& lane) { graph_.backward(all_, bindings_, lane, {}, accumulate); });
    check_guards();
  }

  void read(std::vector<double> Variable::*to) {
    for (Variable& variable : variables_) {
      std::vector<double>& sum = variable.*to;
      sum.assign(variable.at.size(), 0);
      std::vector<T> part(variable.at.size());
      for (const T* const gradient : variable.gradients) {
        copy(part.data(), gradient, part.size() * sizeof(T), device::Copy::to_host);
        for (std::size_t i = 0; i < part.size(); ++i) sum[i] += static_cast<double>(part[i]);
      }
    }
  }

  /// Computes a variable's gradient by fourth-order central differences:
  /// (8 (F(x + h) - F(x - h)) - (F(x + 2h) - F(x - 2h))) / 12 h.
  std::vector<double> differences_of(Variable& variable) {
    const std::int64_t size = variable.shape.size();
    const std::int64_t count = (std::min)(size, options_.entries);
    std::vector<double> result;
    for (std::int64_t k = 0; k < count; ++k) {
      const std::int64_t i = k * size / count;
      const T at = variable.at[static_cast<std::size_t>(i)];
      const auto value = [&](double steps) {
        const T moved = static_cast<T>(static_cast<double>(at) + steps * options_.step);
        copy(variable.values + i, &moved, sizeof(T), device::Copy::to_device);
        return evaluate().first;
      };
      const double one_step = value(1) - value(-1);
      const double two_steps = value(2) - value(-2);
      copy(variable.values + i, &at, sizeof(T), device::Copy::to_device);
      variable.entries.push_back(i);
      result.push_back((8 * one_step - two_steps) / (12 * options_.step));
    }
    return result;
  }

  /// Compares both gradients of a variable. Errors are relative to the tensor's greatest entry, or to a floor if that
  /// is smaller: the rounding error of the results, which are a sum over all variables.
  void compare(const Variable& variable) {
    double scale = 1e-5 * magnitude_;
    for (const Variable& other : variables_) {
      const double share = &other == &variable ? 1 : 1e-4;
      for (const double difference : other.differences)
        scale = (std::max)(scale, share * (std::abs)(difference));
    }
    for (std::size_t k = 0; k < variable.entries.size(); ++k) {
      const std::int64_t i = variable.entries[k];
      ++result_.compared;
      consider(variable, i, false, variable.first[static_cast<std::size_t>(i)],
               variable.differences[k], scale);
      if (!variable.accumulates) continue;
      consider(variable, i, true, variable.second[static_cast<std::size_t>(i)],
               2 * variable.differences[k], 2 * scale);
    }
  }
  void consider(const Variable& variable, std::int64_t index, bool added, double backward,
                double differences, double scale) {
    const double off = (std::abs)(backward - differences);
    const double error = off == 0             ? 0
                         : std::isfinite(off) ? off / scale
                                              : std::numeric_limits<double>::infinity();
    if (error <= result_.error && !result_.name.empty()) return;
    result_ = {error,       variable.name,    variable.shape,   index, added, backward,
               differences, result_.compared, result_.tolerance, {}};
  }

  /// Allocates memory, and the guard behind it, and fills both with NaN.
  void* allocate(Bytes bytes, std::string name) {
    if (bytes == 0) return nullptr;
    const Bytes guarded = bytes + static_cast<Bytes>(guard);
    memory_.push_back({device_.allocate(guarded, "check of gradients"), bytes, std::move(name)});
    fill_with_nan(memory_.back().buffer.data(), guarded);
    return memory_.back().buffer.data();
  }
  void fill_with_nan(void* to, Bytes bytes) {
    const std::vector<std::byte> nan(static_cast<std::size_t>(bytes), std::byte{0xFF});
    copy(to, nan.data(), bytes, device::Copy::to_device);
  }
  void copy(void* to, const void* from, Bytes bytes, device::Copy direction) {
    submit([&](Lane& lane) { lane.copy(to, from, bytes, direction); });
  }
  template <class F>
  void submit(const F& function) {
    lane_.submit(function);
    lane_.synchronize();
  }

  Device& device_;
  Graph<Device, T> graph_;
  GradientCheckOptions options_;
  Lane lane_;
  Segment all_;
  SegmentBindings bindings_;
  std::vector<Memory> memory_;
  std::vector<Variable> variables_;
  std::vector<Constant> constants_;
  std::vector<Result> results_;
  double magnitude_ = 0;
  GradientCheck result_;
};

}  // namespace graph::detail
}  // namespace v0
}  // namespace reef
