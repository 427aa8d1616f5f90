#pragma once

// The members of Trainer that copy weights and state in and out. Included by trainer.hpp alone.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

#include <reef/comm/agreement.hpp>
#include <reef/comm/functions.hpp>
#include <reef/device/transform.hpp>
#include <reef/io/checksum.hpp>
#include <reef/trainer/trainer.hpp>

namespace reef {
inline namespace v0 {

/// A parameter's initial values depend on their indices alone. So they are made piece by piece,
/// which takes little memory, and threads share each piece.
template <class... Policies>
void Trainer<Policies...>::initialise_weights() {
  const graph::Dag& dag = model_.dag();
  std::vector<Sum> values;
  for (std::size_t p = 0; p < dag.parameters.size(); ++p) {
    if (!model_state_->holds(p)) continue;
    const graph::Parameter& parameter = dag.parameters[p];
    const DrawKey key{options_.seed, 0, 0, static_cast<std::uint32_t>(p)};
    const std::int64_t size = parameter.spec.shape.size();
    for (std::int64_t begin = 0; begin < size; begin += staged_elements) {
      const std::int64_t count = (std::min)(staged_elements, size - begin);
      const std::int64_t parts = std::clamp<std::int64_t>(count >> 16, 1, device_.threads());
      values.resize(static_cast<std::size_t>(count));
      {
        std::vector<std::jthread> threads;
        const auto make = [&](std::int64_t part) {
          const std::int64_t first = count * part / parts;
          graph::initialise(parameter, key, values.data() + first, begin + first,
                            begin + count * (part + 1) / parts);
        };
        for (std::int64_t part = 1; part < parts; ++part) threads.emplace_back(make, part);
        make(0);
      }
      model_state_->set_weights(parameter.name, begin, std::as_bytes(std::span(values)), element_of<Sum>);
    }
  }
}

/// The model's weights and those in builder.comm_buffer and tied_buffer change places.
template <class... Policies>
void Trainer<Policies...>::swap_with_comm_buffer() {
  auto& lane = *lanes_->lanes[static_cast<std::size_t>(schedule::Lane::compute)];
  const auto swap = [&](run::StorageId weights, run::StorageId buffer, std::int64_t elements) {
    const optim::detail::SwapKernel<T> kernel{memory().template at<T>(weights),
                                              memory().template at<T>(buffer)};
    lane.submit([kernel, elements](typename Device::Lane& self) {
      transform_vectors<T>(self, elements, kernel);
    });
  };
  for (const std::size_t b : builder().held()) {
    swap(builder().weights[b], builder().comm_buffer[b], plan_.buckets[b].size());
  }
  for (std::size_t p = 0; p < plan_.dag->parameters.size(); ++p) {
    if (!model_state_->holds(p) || model_state_->owns(p)) continue;
    swap(builder().tied_weights[p], builder().tied_buffer[p],
         plan_.dag->parameters[p].spec.shape.size());
  }
  lane.synchronize();
  model_state_->buffers_were_swapped();
}

/// How ModelState reaches the memory of the training program.
template <class... Policies>
ModelState::Memory Trainer<Policies...>::reached_memory() {
  ModelState::Memory reached;
  reached.at = [this](run::StorageId storage) { return memory().template at<std::byte>(storage); };
  reached.on_host = [this](run::StorageId storage) {
    return !device_.discrete() || builder().program.storages[storage].place == schedule::Place::host;
  };
  reached.copy = [this](void* to, const void* from, Bytes bytes, device::Copy direction) {
    auto& lane = *lanes_->lanes[static_cast<std::size_t>(schedule::Lane::compute)];
    lane.submit([=](typename Device::Lane& self) { self.copy(to, from, bytes, direction); });
    lane.synchronize();
  };
  return reached;
}

template <class... Policies>
auto Trainer<Policies...>::parameter(std::string_view name) -> std::vector<Sum> {
  const std::int64_t size = plan_.dag->parameter_at(plan_.dag->parameter(name)).spec.shape.size();
  std::vector<T> values(static_cast<std::size_t>(size));
  const auto room = std::as_writable_bytes(std::span(values));
  const auto bytes = model_state_->weights(name, 0, room);
  if (bytes.data() != room.data()) std::memcpy(room.data(), bytes.data(), bytes.size());
  if constexpr (std::is_same_v<T, Sum>) {
    return values;
  } else {
    return {values.begin(), values.end()};
  }
}

template <class... Policies>
auto Trainer<Policies...>::gather_parameter(std::string_view name) -> std::vector<Sum> {
  const detail::OneThread::Entry entry(one_thread_, "reef::Trainer", "gather_parameter");
  if (plan_.topology.stages == 1) return parameter(name);
  const int p = plan_.dag->parameter(name);
  const int owner = plan_.topology.rank(0, plan_.owner_of(p));
  std::vector<Sum> values(static_cast<std::size_t>(plan_.dag->parameter_at(p).spec.shape.size()));
  if (rank() == owner) values = parameter(name);
  comm::broadcast(*progress_, concat("parameter '", name, "'"), owner, std::span(values));
  return values;
}

template <class... Policies>
void Trainer<Policies...>::set_parameter(std::string_view name, std::span<const Sum> values) {
  const detail::OneThread::Entry entry(one_thread_, "reef::Trainer", "set_parameter");
  const int p = plan_.dag->parameter(name);
  const std::int64_t count = plan_.dag->parameter_at(p).spec.shape.size();
  if (static_cast<std::int64_t>(values.size()) != count) {
    throw ShapeError("reef::Trainer::set_parameter: '", name, "' has ", count, " elements, ",
                     values.size(), " were given.");
  }
  if (count == 0 || !holds(name)) {
    weights_were_set(name);
    return;
  }
  for (std::int64_t begin = 0; begin < count; begin += staged_elements) {
    set_parameter(
        name, begin,
        values.subspan(static_cast<std::size_t>(begin),
                       static_cast<std::size_t>((std::min)(staged_elements, count - begin))));
  }
}

template <class... Policies>
void Trainer<Policies...>::set_parameter(std::string_view name, std::int64_t first,
                                         std::span<const Sum> values) {
  const detail::OneThread::Entry entry(one_thread_, "reef::Trainer", "set_parameter");
  model_state_->set_weights(name, first, std::as_bytes(values), element_of<Sum>);
}

}  // namespace v0
}  // namespace reef
