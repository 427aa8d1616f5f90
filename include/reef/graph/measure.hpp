#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include <reef/core/random.hpp>
#include <reef/graph/estimate.hpp>
#include <reef/graph/graph.hpp>
#include <reef/profile/profile.hpp>

namespace reef {
inline namespace v0 {
namespace graph {

struct MeasureOptions {
  int repeats = 5;           ///< number of timed runs, of which the median is reported, after one untimed run
  std::int32_t classes = 1;  ///< end of the range [0, classes) of random integer inputs
};

namespace detail {

/// Measures the seconds of function() by the clock of a device queue. If the queue runs ahead of its device, times
/// several calls in a row, so that the time to enqueue is not counted. Must be called on the queue's thread.
template <class Device, class F>
Seconds time_on(typename Device::Lane& lane, typename Device::Event& event, std::uint64_t& epoch,
                const F& function) {
  constexpr int in_a_row = Device::on_host ? 1 : 8;
  Seconds begin = 0;
  Seconds end = 0;
  const auto drain = [&] {
    lane.record(event);
    event.synchronize(++epoch);
  };
  lane.stamp(begin);
  try {
    for (int run = 0; run < in_a_row; ++run) function();
    lane.stamp(end);
  } catch (...) {  // the enqueued stamps write to `begin` and `end`
    drain();
    throw;
  }
  drain();
  return (end - begin) / in_a_row;
}

/// An operator whose time is to be measured, with its memory on the device, filled with numbers that are neither zero
/// nor alike.
template <class Device, real T>
class MeasuredNode {
public:
  using Lane = typename Device::Lane;

  MeasuredNode(Device& device, const Graph<Device, T>& graph, int node,
               const MeasureOptions& options)
      : device_(device),
        graph_(graph),
        segment_(plan_segment(graph.dag(), node, node + 1)),
        bindings_(graph.dag()),
        event_(device),
        classes_(options.classes) {
    const Dag& dag = graph.dag();
    for (const int id : segment_.boundary_inputs)
      bindings_.tensor(id) = make(dag.tensor_at(id).spec);
    for (const int id : segment_.boundary_outputs)
      bindings_.tensor(id) = make(dag.tensor_at(id).spec);
    for (const int id : segment_.output_gradients)
      bindings_.gradient(id) = make(dag.tensor_at(id).spec);
    for (const int id : segment_.input_gradients)
      bindings_.gradient(id) = make(dag.tensor_at(id).spec);
    Bytes largest = 0;
    for (const int id : segment_.parameters) {
      const TensorSpec& spec = dag.parameter_at(id).spec;
      bindings_.parameter(id) = make(spec);
      loads_.push_back({bindings_.parameter(id), spec.bytes()});
      largest = (std::max)(largest, spec.bytes());
    }
    if (largest > 0) {
      on_host_ = device.allocate_pinned(largest, "profile");
      std::fill_n(static_cast<std::byte*>(on_host_.data()), largest, std::byte{1});
    }
    for (const int id : segment_.uses) {
      bindings_.use(id) = make(dag.gradient_spec(dag.parameter_at(dag.use_at(id).parameter)));
    }
    bindings_.saved = reserve(segment_.saved_bytes);
    bindings_.workspace =
        reserve((std::max)(segment_.forward_workspace_bytes, segment_.backward_workspace_bytes));
  }

  /// Measures the time to load the operator's parameters onto the device. Must run on the queue's thread.
  Seconds time_load(Lane& lane) {
    return time(lane, [&] {
      for (const Load& load : loads_) {
        lane.copy(load.target, on_host_.data(), load.bytes, device::Copy::to_device);
      }
    });
  }
  void fill(Lane& lane) {
    for (const InitialValues& filling : fillings_) {
      lane.copy(filling.target, filling.values.data(), filling.values.size(),
                device::Copy::to_device);
      wait(lane);
    }
    fillings_.clear();
  }
  Seconds time_forward(Lane& lane) {
    return time(lane, [&] { graph_.forward(segment_, bindings_, lane, {}, Forward::keeps); });
  }
  Seconds time_backward(Lane& lane) {
    return time(lane, [&] { graph_.backward(segment_, bindings_, lane, {}, true); });
  }

private:
  struct Load {
    void* target;
    Bytes bytes;
  };
  struct InitialValues {
    void* target;
    std::vector<std::byte> values;
  };

  void* reserve(Bytes bytes) {
    if (bytes == 0) return nullptr;
    buffers_.push_back(device_.allocate(bytes, "profile"));
    return buffers_.back().data();
  }

  void* make(const TensorSpec& spec) {
    void* const target = reserve(spec.bytes());
    if (target == nullptr) return nullptr;
    InitialValues filling{target, std::vector<std::byte>(static_cast<std::size_t>(spec.bytes()))};
    const auto fill_with = [&]<class U>(U* values) {
      for (std::int64_t i = 0; i < spec.shape.size(); ++i) {
        // Numbers repeat after a period that is no power of two, so that rows differ, and that large parameters are
        // filled quickly.
        const DrawKey key{1, 0, 0, static_cast<std::uint32_t>(buffers_.size())};
        const auto at = static_cast<std::uint64_t>(i);
        if (i >= 4093) {
          values[i] = values[i - 4093];
        } else if constexpr (std::is_integral_v<U>) {
          values[i] = static_cast<U>(random_bits(key, at) % static_cast<std::uint32_t>(classes_));
        } else {
          values[i] = static_cast<U>(uniform(key, at) - 0.5F);
        }
      }
    };
    void* const memory = filling.values.data();
    switch (spec.element) {
      case Element::float32: fill_with(static_cast<float*>(memory)); break;
      case Element::float64: fill_with(static_cast<double*>(memory)); break;
      case Element::int32: fill_with(static_cast<std::int32_t*>(memory)); break;
      case Element::uint8: fill_with(static_cast<std::uint8_t*>(memory)); break;
      case Element::bfloat16: fill_with(static_cast<Bfloat16*>(memory)); break;
    }
    fillings_.push_back(std::move(filling));
    return target;
  }

  void wait(Lane& lane) {
    lane.record(event_);
    event_.synchronize(++epoch_);
  }

  template <class F>
  Seconds time(Lane& lane, const F& function) {
    return time_on<Device>(lane, event_, epoch_, function);
  }

  Device& device_;
  const Graph<Device, T>& graph_;
  Segment segment_;
  SegmentBindings bindings_;
  typename Device::Event event_;
  std::uint64_t epoch_ = 0;
  std::int32_t classes_;
  std::vector<typename Device::Buffer> buffers_;
  std::vector<InitialValues> fillings_;
  std::vector<Load> loads_;
  typename Device::PinnedBuffer on_host_;
};

/// Returns the medians of the times that `times` returns in `repeats` calls, after one call that is not counted, since
/// its caches, clocks and, on a GPU, the code itself are cold.
template <class F>
auto medians_of(int repeats, const F& times) {
  auto result = times();
  constexpr std::size_t count = std::tuple_size_v<decltype(result)>;
  std::array<std::vector<Seconds>, count> all;
  for (int repeat = 0; repeat < repeats; ++repeat) {
    const auto taken = times();
    for (std::size_t i = 0; i < count; ++i) all[i].push_back(taken[i]);
  }
  for (std::size_t i = 0; i < count; ++i) {
    const auto middle = all[i].begin() + repeats / 2;
    std::nth_element(all[i].begin(), middle, all[i].end());
    result[i] = *middle;
  }
  return result;
}

/// Allocates memory for measuring: `bytes`, or if that fails, a half, a quarter and so on.
template <class F>
auto allocate_up_to(Bytes bytes, const F& allocate) {
  for (;; bytes /= 2) {
    try {
      return allocate(bytes);
    } catch (const MemoryError&) {
      if (bytes <= Bytes{1} << 12) throw;
    }
  }
}

/// Measures the bandwidth of memory and of the link to the host: times a sum in place over more bytes than a cache
/// holds, if they fit in the device's and in pinned host memory, and copies of two sizes.
template <class Device>
void measure_rates(Device& device, profile::Profile& profile, typename Device::Lane& lane,
                   int repeats) {
  constexpr Bytes large = Bytes{1} << 28;
  const auto memory = allocate_up_to(
      large, [&](Bytes bytes) { return device.allocate(bytes, "profile"); });
  const auto pinned = allocate_up_to(
      device.discrete() ? memory.bytes() : Bytes{1} << 12,
      [&](Bytes bytes) { return device.allocate_pinned(bytes, "profile"); });
  std::fill_n(static_cast<std::byte*>(pinned.data()), pinned.bytes(), std::byte{0});
  const Bytes most = std::min<Bytes>(pinned.bytes() / 2, Bytes{1} << 23);
  const Bytes least = std::min<Bytes>(most / 4, Bytes{1} << 14);
  typename Device::Event event(device);
  std::uint64_t epoch = 0;
  lane.submit([&](typename Device::Lane& own) {
    own.fill_zero(memory.data(), memory.bytes());
    const auto rate_of_sums = [&](void* of, Bytes bytes) {
      const Bytes part = bytes / 2;
      const auto n = static_cast<std::int64_t>(part / sizeof(float));
      const AnyView b(static_cast<std::byte*>(of) + part, Shape{n}, Element::float32);
      const auto [sum] = medians_of(repeats, [&] {
        return std::array{time_on<Device>(
            own, event, epoch, [&] { AddTo<float>::run(own, static_cast<float*>(of), b); })};
      });
      return 3 * static_cast<double>(part) / sum;
    };
    profile.memory_bytes_per_second = rate_of_sums(memory.data(), memory.bytes());
    if (!device.discrete()) return;
    profile.host_bytes_per_second = rate_of_sums(pinned.data(), pinned.bytes());
    const auto copy = [&](Bytes bytes) {
      return time_on<Device>(own, event, epoch, [&] {
        own.copy(memory.data(), pinned.data(), bytes, device::Copy::to_device);
      });
    };
    const auto [longer, shorter] = medians_of(repeats, [&] {
      return std::array{copy(most), copy(least)};
    });
    if (!(longer > 0)) return;
    const Seconds more = longer - shorter;
    if (!(more > 0)) {  // the clock cannot tell the sizes apart: the time counts as bytes, without latency
      profile.copy_bytes_per_second = static_cast<double>(most) / longer;
      return;
    }
    profile.copy_bytes_per_second = static_cast<double>(most - least) / more;
    profile.copy_latency =
        (std::max)(0.0, shorter - static_cast<double>(least) / profile.copy_bytes_per_second);
  });
  lane.synchronize();
}

}  // namespace detail

/// Times every operator alone on the device, one after another, and the load of its parameters: reports medians of
/// seconds by the device queue's clock. Operands are random values in memory that this function allocates, so a model
/// can be measured on a device that it does not fit on. Also measures the bandwidth of memory and of the link to the
/// host.
///
/// | memory | the operands of one operator at a time, and pinned host memory for its largest parameter; |
/// |        | before, for bandwidths, 256 MiB of the device and as much pinned memory, or what is free  |
/// | blocks | until all operators are measured; the function creates a queue of its own                 |
/// | errors | MemoryError if a single operator does not fit; OptionError for invalid options            |
///
/// \code
/// // given: const graph::Graph<device::Host, float>& model
/// device::Host host({.threads = 2});
/// const profile::Profile profile = graph::measure(host, model, {.repeats = 3, .classes = 50257});
/// \endcode
template <class Device, real T>
profile::Profile measure(Device& device, const Graph<Device, T>& graph,
                         MeasureOptions options = {}) {
  if (options.repeats < 1 || options.classes < 1) {
    throw OptionError("reef::graph::measure: repeats is ", options.repeats, " and classes ",
                      options.classes, ".\n  fix: at least 1 of each.");
  }
  profile::Profile result = workload(graph.dag());
  result.device = std::string(Device::name);
  result.measured = true;
  if constexpr (requires { device.options().link_bytes_per_second; }) {
    result.link_bytes_per_second = device.options().link_bytes_per_second;
    result.link_latency = device.options().link_latency;
    result.slowdown = device.options().slowdown;
  }
  typename Device::Lane lane(device, "profile");
  result.threads = lane.threads();
  detail::measure_rates(device, result, lane, options.repeats);
  for (int n = 0; n < graph.dag().node_count(); ++n) {
    profile::OperatorProfile& entry = result.operators[static_cast<std::size_t>(n)];
    detail::MeasuredNode<Device, T> node(device, graph, n, options);
    const bool backward = plan_segment(graph.dag(), n, n + 1).nodes[0].active;
    lane.submit([&](typename Device::Lane& own) {
      if (entry.parameter_bytes > 0) {
        const auto load = [&] { return std::array{node.time_load(own)}; };
        entry.load_s = detail::medians_of(options.repeats, load)[0];
      }
      node.fill(own);
      const auto [forward_s, backward_s] = detail::medians_of(options.repeats, [&] {
        // The forward runs first, since the backward reads the tensors that it saves.
        const Seconds forward = node.time_forward(own);
        return std::array{forward, backward ? node.time_backward(own) : 0};
      });
      entry.forward_s = forward_s;
      entry.backward_s = backward_s;
    });
    lane.synchronize();
  }
  return result;
}

}  // namespace graph
}  // namespace v0
}  // namespace reef
