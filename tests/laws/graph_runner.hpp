#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <map>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include <reef/graph/graph.hpp>
#include <reef/graph/parameter_layout.hpp>

namespace reef::test {

/// Runs a Graph cut into segments, with memory of its own that reports misuse: everything begins as
/// NaN, boundary values that backward does not read are NaN again when it runs, and guards behind
/// each piece of memory must stay whole. Values go in and out as vectors of the host: of the type that
/// T is summed in, rounded on the way in, exact on the way out.
template <class Device, real T>
class GraphRunner {
public:
  using Lane = typename Device::Lane;
  using E = sum_t<T>;

  /// `cuts`: where segments end, ascending, without 0 and the number of nodes; none: one segment. With
  /// halves all input halves run before the first weight half, which is that of the first segment.
  GraphRunner(Device& device, const graph::Graph<Device, T>& graph,
              const std::vector<int>& cuts = {}, int last = -1,
              graph::Halves halves = graph::Halves::no)
      : device_(device),
        lane_(device, "runner"),
        graph_(graph),
        dag_(graph.dag()),
        layout_(graph::parameter_layout(dag_)),
        bindings_(dag_),
        values_(dag_.tensors.size()),
        gradients_(dag_.tensors.size()),
        recomputed_(dag_.tensors.size()) {
    std::vector<int> ends = cuts;
    ends.push_back(last < 0 ? dag_.node_count() : last);
    int first = 0;
    for (const int end : ends) {
      segments_.push_back(graph::plan_segment(dag_, first, end, halves));
      first = end;
    }
    Bytes workspace = 0;
    for (const graph::Segment& segment : segments_) {
      saved_.push_back(make(segment.saved_bytes));
      pending_.push_back(make(segment.pending_bytes));
      workspace = std::max({workspace, segment.forward_workspace_bytes,
                            segment.inference_workspace_bytes, segment.backward_workspace_bytes,
                            segment.weight_half_workspace_bytes});
      const auto bind = [&](const std::vector<int>& ids) {
        for (const int id : ids) {
          const std::size_t i = static_cast<std::size_t>(id);
          if (values_[i].buffer.data() != nullptr) continue;
          values_[i] = make(dag_.tensor_at(id).spec.bytes());
          gradients_[i] = make(dag_.tensor_at(id).spec.bytes());
          bindings_.tensors[i] = values_[i].buffer.data();
          bindings_.gradients[i] = gradients_[i].buffer.data();
        }
      };
      bind(segment.boundary_inputs);
      bind(segment.boundary_outputs);
    }
    workspace_ = make(workspace);
    parameters_ = make(static_cast<Bytes>(layout_.parameter_elements) * sizeof(T));
    uses_ = make(static_cast<Bytes>(layout_.gradient_elements) * sizeof(E));
    for (std::size_t i = 0; i < dag_.parameters.size(); ++i) {
      bindings_.parameters[i] = static_cast<T*>(parameters_.buffer.data()) + layout_.parameters[i];
    }
    for (std::size_t i = 0; i < dag_.uses.size(); ++i) {
      if (layout_.uses[i] >= 0) bindings_.uses[i] = static_cast<E*>(uses_.buffer.data()) + layout_.uses[i];  // else frozen
    }
  }

  [[nodiscard]] const std::vector<graph::Segment>& segments() const { return segments_; }
  [[nodiscard]] const graph::Dag& dag() const { return dag_; }

  /// Sets a boundary tensor, its gradient, or a parameter. An input that nobody reads has no memory.
  template <class U>
  void set(int tensor, const std::vector<U>& value) {
    put(bindings_.tensors[static_cast<std::size_t>(tensor)], value, dag_.tensor_at(tensor).spec);
  }
  void set_gradient(int tensor, const std::vector<E>& value) {
    put(bindings_.gradients[static_cast<std::size_t>(tensor)], value, dag_.tensor_at(tensor).spec);
  }
  void set_parameter(int parameter, const std::vector<E>& value) {
    put(bindings_.parameters[static_cast<std::size_t>(parameter)], value,
        dag_.parameter_at(parameter).spec);
  }

  [[nodiscard]] std::vector<E> value(int tensor) {
    return get(bindings_.tensors[static_cast<std::size_t>(tensor)], dag_.tensor_at(tensor).spec);
  }
  [[nodiscard]] std::vector<E> gradient(int tensor) {
    return get(bindings_.gradients[static_cast<std::size_t>(tensor)], dag_.tensor_at(tensor).spec);
  }
  [[nodiscard]] std::vector<E> use_gradient(int use) {
    return get(bindings_.uses[static_cast<std::size_t>(use)],
               dag_.gradient_spec(dag_.parameter_at(dag_.use_at(use).parameter)));
  }
  /// The sum over all uses.
  [[nodiscard]] std::vector<E> parameter_gradient(int parameter) {
    std::vector<E> sum;
    for (const int use : dag_.parameter_at(parameter).uses) {
      const std::vector<E> part = use_gradient(use);
      if (sum.empty()) sum.resize(part.size());
      for (std::size_t i = 0; i < part.size(); ++i) sum[i] += part[i];
    }
    return sum;
  }

  /// From now on forward keeps nothing, and backward has each segment computed again before its own.
  void recompute() { recomputes_ = true; }

  void forward(DrawKey key = {}, bool training = true) {
    const graph::Forward trains =
        recomputes_ ? graph::Forward::drops : graph::Forward::keeps;
    for (std::size_t s = 0; s < segments_.size(); ++s) {
      run_forward(s, key, training ? trains : graph::Forward::infers);
    }
    check_guards();
  }

  /// Backward of all segments, the last first. What a segment says that it does not read is NaN.
  void backward(DrawKey key = {}, bool accumulate = false) {
    for (std::size_t s = segments_.size(); s-- > 0;) {
      poison_unread(s);
      if (recomputes_) run_forward(s, key, graph::Forward::recomputes);
      const bool splits = segments_[s].splits;
      if (splits) poison(pending_[s]);
      run_backward(s, key, accumulate, splits ? graph::BackwardPart::input : graph::BackwardPart::all);
    }
    if (segments_.front().splits) {
      poison_unread_by_weight_halves();
      for (std::size_t s = 0; s < segments_.size(); ++s) {
        run_backward(s, key, accumulate, graph::BackwardPart::weight);
      }
    }
    check_guards();
  }

private:
  void run_backward(std::size_t s, DrawKey key, bool accumulate, graph::BackwardPart part) {
    poison(workspace_);
    bindings_.saved = saved_[s].buffer.data();
    bindings_.pending = pending_[s].buffer.data();
    bindings_.workspace = workspace_.buffer.data();
    if (recomputes_) swap_recomputed(s);
    run([&](Lane& lane) {
      graph_.backward(segments_[s], bindings_, lane, key, accumulate, part);
    });
    if (recomputes_) swap_recomputed(s);
  }

  void run_forward(std::size_t s, DrawKey key, graph::Forward what) {
    const bool keeps = what == graph::Forward::keeps || what == graph::Forward::recomputes;
    poison(workspace_);
    poison(saved_[s]);
    bindings_.saved = keeps ? saved_[s].buffer.data() : nullptr;
    bindings_.workspace = workspace_.buffer.data();
    if (what == graph::Forward::recomputes) swap_recomputed(s);
    run([&](Lane& lane) { graph_.forward(segments_[s], bindings_, lane, key, what); });
    if (what == graph::Forward::recomputes) swap_recomputed(s);
  }

  /// What a segment computes again lies in memory of its own: others may yet read what it passes by.
  void swap_recomputed(std::size_t s) {
    for (const int id : segments_[s].recompute_writes) {
      const auto i = static_cast<std::size_t>(id);
      Piece& piece = recomputed_[i];
      if (piece.buffer.data() == nullptr) piece = make(dag_.tensor_at(id).spec.bytes());
      void* const other = piece.buffer.data();
      bindings_.tensors[i] = bindings_.tensors[i] == other ? values_[i].buffer.data() : other;
    }
  }

  static constexpr Bytes guard_bytes = 256;

  struct Piece {
    typename Device::Buffer buffer;
    Bytes bytes = 0;
  };

  Piece make(Bytes bytes) {
    Piece piece{device_.allocate(bytes + guard_bytes, "graph runner"), bytes};
    const std::vector<unsigned char> guard(static_cast<std::size_t>(guard_bytes), guard_byte);
    poison(piece);
    copy(static_cast<std::byte*>(piece.buffer.data()) + bytes, guard.data(), guard_bytes,
         device::Copy::to_device);
    return piece;
  }

  static constexpr unsigned char guard_byte = 0xA5;

  void poison(Piece& piece) {
    if (piece.bytes == 0) return;
    const std::vector<unsigned char> nan(static_cast<std::size_t>(piece.bytes), 0xFF);
    copy(piece.buffer.data(), nan.data(), piece.bytes, device::Copy::to_device);
  }

  /// Boundary values of segment s that neither it nor an earlier segment reads in backward. What a segment
  /// makes itself it does not read where it is computed again.
  void poison_unread(std::size_t s) {
    const auto lists = [](const std::vector<int>& list, int id) {
      return std::find(list.begin(), list.end(), id) != list.end();
    };
    const auto reads = [&](int id) {
      for (std::size_t earlier = 0; earlier <= s; ++earlier) {
        const graph::Segment& segment = segments_[earlier];
        const bool own = recomputes_ && dag_.tensor_at(id).producer >= segment.first;
        if (!own && lists(segment.backward_reads, id)) return true;
        if (recomputes_ && lists(segment.recompute_reads, id)) return true;
      }
      for (const graph::Segment& segment : segments_) {
        if (lists(segment.weight_half_reads, id)) return true;
      }
      return false;
    };
    for (std::size_t id = 0; id < values_.size(); ++id) {
      const int tensor = static_cast<int>(id);
      const bool result = dag_.tensor_at(tensor).consumers.empty();
      if (values_[id].buffer.data() != nullptr && !result && dag_.tensor_at(tensor).producer >= 0 &&
          !reads(tensor)) {
        poison(values_[id]);
      }
    }
  }

  /// Boundary values and gradients that no weight half reads, but for those of inputs of the graph and of results.
  void poison_unread_by_weight_halves() {
    std::vector<bool> values(dag_.tensors.size());
    std::vector<bool> gradients(dag_.tensors.size());
    for (const graph::Segment& segment : segments_) {
      for (const int id : segment.weight_half_reads) values[static_cast<std::size_t>(id)] = true;
      for (const int id : segment.weight_half_gradients) gradients[static_cast<std::size_t>(id)] = true;
    }
    for (std::size_t id = 0; id < values_.size(); ++id) {
      const graph::Tensor& tensor = dag_.tensor_at(static_cast<int>(id));
      if (values_[id].buffer.data() == nullptr || tensor.consumers.empty() || tensor.producer < 0) continue;
      if (!values[id]) poison(values_[id]);
      if (!gradients[id]) poison(gradients_[id]);
    }
  }

  void check_guards() {
    const auto check = [&](Piece& piece, const std::string& what) {
      if (piece.buffer.data() == nullptr) return;
      std::vector<unsigned char> guard(static_cast<std::size_t>(guard_bytes));
      copy(guard.data(), static_cast<std::byte*>(piece.buffer.data()) + piece.bytes, guard_bytes,
           device::Copy::to_host);
      for (const unsigned char byte : guard) {
        if (byte != guard_byte) throw std::runtime_error("something wrote behind the " + what);
      }
    };
    check(workspace_, "workspace");
    check(parameters_, "parameters");
    check(uses_, "parameter gradients");
    for (Piece& piece : saved_) check(piece, "saved activations");
    for (Piece& piece : pending_) check(piece, "pending gradients");
    for (std::size_t id = 0; id < values_.size(); ++id) {
      check(values_[id], "value of " + dag_.tensors[id].name);
      check(gradients_[id], "gradient of " + dag_.tensors[id].name);
    }
  }

  template <class U>
  void put(void* target, const std::vector<U>& value, const graph::TensorSpec& spec) {
    if (target == nullptr) return;
    if (spec.element == Element::bfloat16) {
      if constexpr (std::is_same_v<U, float>) {
        std::vector<Bfloat16> rounded;
        for (const float number : value) rounded.emplace_back(number);
        copy(target, rounded.data(), spec.bytes(), device::Copy::to_device);
      }
    } else {
      copy(target, value.data(), spec.bytes(), device::Copy::to_device);
    }
  }
  std::vector<E> get(const void* source, const graph::TensorSpec& spec) {
    const auto read = [&]<class U>(U) {
      std::vector<U> value(static_cast<std::size_t>(spec.shape.size()));
      copy(value.data(), source, spec.bytes(), device::Copy::to_host);
      return std::vector<E>(value.begin(), value.end());
    };
    return spec.element == element_of<T> ? read(T{}) : read(E{});
  }
  void copy(void* to, const void* from, Bytes bytes, [[maybe_unused]] device::Copy direction) {
    if (bytes == 0) return;
    if constexpr (Device::on_host) {
      std::memcpy(to, from, static_cast<std::size_t>(bytes));  // the lane rests, and is not woken for each of thousands
    } else {
      run([=](Lane& lane) { lane.copy(to, from, bytes, direction); });
    }
  }

  template <class F>
  void run(F&& function) {
    lane_.submit(std::forward<F>(function));
    lane_.synchronize();
  }

  Device& device_;
  Lane lane_;
  const graph::Graph<Device, T>& graph_;
  const graph::Dag& dag_;
  graph::ParameterLayout layout_;
  graph::SegmentBindings bindings_;
  std::vector<graph::Segment> segments_;
  std::vector<Piece> values_;
  std::vector<Piece> gradients_;
  std::vector<Piece> recomputed_;
  std::vector<Piece> saved_;
  std::vector<Piece> pending_;
  Piece workspace_;
  Piece parameters_;
  Piece uses_;
  bool recomputes_ = false;
};

/// Pseudo-random numbers in [-1, 1), the same in fp32 and fp64 and on every device.
template <class T>
std::vector<T> noise(std::int64_t size, std::uint32_t stream) {
  std::vector<T> values(static_cast<std::size_t>(size));
  for (std::size_t i = 0; i < values.size(); ++i) {
    values[i] = static_cast<T>(2 * uniform(DrawKey{7, 0, 1, stream}, i) - 1);
  }
  return values;
}

/// Every input, parameter and result's gradient of a graph, by id: one point at which it is run.
template <class T>
struct Point {
  using E = sum_t<T>;
  std::map<int, std::vector<E>> inputs;
  std::map<int, std::vector<std::int32_t>> integers;
  std::map<int, std::vector<E>> parameters;
  std::map<int, std::vector<E>> seeds;

  /// `classes`: integers cycle through [0, classes).
  static Point make(const graph::Dag& dag, std::int32_t classes) {
    Point point;
    for (const int id : dag.inputs) {
      const graph::TensorSpec& spec = dag.tensor_at(id).spec;
      if (spec.element == Element::int32) {
        std::vector<std::int32_t>& values = point.integers[id];
        for (std::int64_t i = 0; i < spec.shape.size(); ++i) {
          const std::uint32_t bits = random_bits(DrawKey{3, 0, 0, static_cast<std::uint32_t>(id)},
                                                 static_cast<std::uint64_t>(i));
          values.push_back(static_cast<std::int32_t>(bits % static_cast<std::uint32_t>(classes)));
        }
      } else {
        point.inputs[id] = noise<E>(spec.shape.size(), static_cast<std::uint32_t>(100 + id));
      }
    }
    for (std::size_t i = 0; i < dag.parameters.size(); ++i) {
      const graph::Parameter& parameter = dag.parameters[i];
      std::vector<E> values =
          noise<E>(parameter.spec.shape.size(), static_cast<std::uint32_t>(1000 + i));
      const bool scale = parameter.init.law == graph::Init::Law::ones;
      for (E& value : values) value = (scale ? E(1) : E(0)) + E(0.5) * value;
      point.parameters[static_cast<int>(i)] = std::move(values);
    }
    for (std::size_t id = 0; id < dag.tensors.size(); ++id) {
      const graph::Tensor& tensor = dag.tensors[id];
      const bool result = dag.loss >= 0 ? static_cast<int>(id) == dag.loss
                                        : tensor.consumers.empty() && tensor.producer >= 0;
      if (!result || !is_real(tensor.spec.element)) continue;
      point.seeds[static_cast<int>(id)] =
          noise<E>(tensor.spec.shape.size(), static_cast<std::uint32_t>(2000 + id));
    }
    return point;
  }

  template <class Device>
  void apply(GraphRunner<Device, T>& runner) const {
    for (const auto& [id, values] : inputs) runner.set(id, values);
    for (const auto& [id, values] : integers) runner.set(id, values);
    for (const auto& [id, values] : parameters) runner.set_parameter(id, values);
  }
  template <class Device>
  void apply_seeds(GraphRunner<Device, T>& runner) const {
    for (const auto& [id, values] : seeds) {
      if (runner.dag().tensor_at(id).differentiable) runner.set_gradient(id, values);
    }
  }
};

/// The results and all gradients of one forward and backward, by readable names.
template <class T>
using Outcome = std::map<std::string, std::vector<sum_t<T>>>;

template <class Device, real T>
Outcome<T> run_once(GraphRunner<Device, T>& runner, const Point<T>& point, DrawKey key = {},
                    bool accumulate = false) {
  const graph::Dag& dag = runner.dag();
  point.apply(runner);
  runner.forward(key);
  Outcome<T> outcome;
  for (const auto& [id, seed] : point.seeds) {
    outcome["value of " + dag.tensor_at(id).name] = runner.value(id);
  }
  point.apply_seeds(runner);
  runner.backward(key, accumulate);
  const graph::GradientFlow flow = graph::gradient_flow(dag);
  for (const auto& [id, values] : point.inputs) {
    if (flow.tensors[static_cast<std::size_t>(id)]) {
      outcome["gradient of " + dag.tensor_at(id).name] = runner.gradient(id);
    }
  }
  for (std::size_t use = 0; use < dag.uses.size(); ++use) {
    const graph::Parameter& parameter = dag.parameter_at(dag.uses[use].parameter);
    if (parameter.frozen) continue;
    outcome["gradient of use " + std::to_string(use) + " of " + parameter.name] =
        runner.use_gradient(static_cast<int>(use));
  }
  return outcome;
}

/// d F / d x[i] of F = sum over results of <seed, result>, by fourth-order central differences.
///
///     (8 (F(x + h) - F(x - h)) - (F(x + 2h) - F(x - 2h))) / 12 h,   error h^4 F'''''/30 + eps F / h
template <class F>
std::vector<double> finite_differences(std::vector<double>& x, const F& evaluate, double h = 2e-3) {
  std::vector<double> result(x.size());
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double at = x[i];
    const auto value = [&](double step) {
      x[i] = at + step;
      return evaluate();
    };
    const double near = value(h) - value(-h);
    const double far = value(2 * h) - value(-2 * h);
    x[i] = at;
    result[i] = (8 * near - far) / (12 * h);
  }
  return result;
}

/// The largest difference as a part of the largest entry of either; 0 for two zeros.
template <class T, class U>
double relative_error(const std::vector<T>& a, const std::vector<U>& b) {
  if (a.size() != b.size()) return HUGE_VAL;
  double difference = 0;
  double scale = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const double x = static_cast<double>(a[i]);
    const double y = static_cast<double>(b[i]);
    if (!std::isfinite(x) || !std::isfinite(y)) return HUGE_VAL;
    difference = std::max(difference, std::abs(x - y));
    scale = std::max({scale, std::abs(x), std::abs(y)});
  }
  return difference == 0 ? 0 : difference / scale;
}

/// The greatest relative error of any gradient against finite differences, and whose it is.
template <class Device>
std::pair<double, std::string> gradient_error(Device& device,
                                              const graph::Graph<Device, double>& graph,
                                              std::int32_t classes, DrawKey key = {}) {
  GraphRunner<Device, double> runner(device, graph);
  const graph::Dag& dag = graph.dag();
  Point<double> point = Point<double>::make(dag, classes);
  run_once(runner, point, key);
  std::map<int, std::vector<double>> inputs;
  std::map<int, std::vector<double>> parameters;
  const graph::GradientFlow flow = graph::gradient_flow(dag);
  for (auto& [id, values] : point.inputs) {
    if (flow.tensors[static_cast<std::size_t>(id)]) inputs[id] = runner.gradient(id);
  }
  for (auto& [id, values] : point.parameters) parameters[id] = runner.parameter_gradient(id);

  const auto evaluate = [&] {
    runner.forward(key);
    double sum = 0;
    for (const auto& [id, seed] : point.seeds) {
      const std::vector<double> value = runner.value(id);
      for (std::size_t i = 0; i < value.size(); ++i) sum += value[i] * seed[i];
    }
    return sum;
  };
  std::pair<double, std::string> worst{0, "none"};
  const auto compare = [&](const std::vector<double>& got, const std::vector<double>& wanted,
                           const std::string& name) {
    const double error = relative_error(got, wanted);
    if (error > worst.first) worst = {error, name};
  };
  const auto differentiate = [&](std::vector<double>& x, const auto& set) {
    const std::vector<double> result = finite_differences(x, [&] {
      set();
      return evaluate();
    });
    set();
    return result;
  };
  for (auto& entry : inputs) {
    const int id = entry.first;
    std::vector<double>& x = point.inputs[id];
    compare(entry.second, differentiate(x, [&, id] { runner.set(id, x); }), dag.tensor_at(id).name);
  }
  for (auto& entry : parameters) {
    const int id = entry.first;
    std::vector<double>& x = point.parameters[id];
    compare(entry.second, differentiate(x, [&, id] { runner.set_parameter(id, x); }),
            dag.parameter_at(id).name);
  }
  return worst;
}

}  // namespace reef::test
