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
