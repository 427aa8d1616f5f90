#pragma once

// The members of Trainer that copy weights and state in and out. Included by trainer.hpp alone.

#include <algorithm>
#include <cstring>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

#include <reef/trainer/trainer.hpp>

namespace reef::inline v0 {

/// Any part of a parameter can be made anywhere with the same bits: so it is made by parts, for little
/// memory, and threads share each.
template <class... Policies>
void Trainer<Policies...>::initialise_weights() {
  const graph::Dag& dag = model_.dag();
  std::vector<Sum> values;
  for (std::size_t p = 0; p < dag.parameters.size(); ++p) {
    const graph::Parameter& parameter = dag.parameters[p];
    const DrawKey key{options_.seed, 0, 0, static_cast<std::uint32_t>(p)};
    const std::int64_t size = parameter.spec.shape.size();
    for (std::int64_t begin = 0; begin < size; begin += staged_elements) {
      const std::int64_t count = std::min(staged_elements, size - begin);
      const std::int64_t parts = std::clamp<std::int64_t>(count >> 16, 1, device_.threads());
      values.resize(static_cast<std::size_t>(count));
      {
        std::vector<std::jthread> threads;
        for (std::int64_t part = 0; part < parts; ++part) {
          threads.emplace_back([&, first = count * part / parts,
                                last = count * (part + 1) / parts] {
            graph::initialise(parameter, key, values.data() + first, begin + first, begin + last);
          });
        }
      }
      set_elements(p, begin, values);
    }
  }
}

/// The model's weights and those in builder.exchanged change places.
template <class... Policies>
void Trainer<Policies...>::exchange_weights() {
  auto& lane = *lanes_->lanes[static_cast<std::size_t>(schedule::Lane::compute)];
  for (std::size_t b = 0; b < plan_.buckets.size(); ++b) {
    const optim::detail::ExchangeKernel<T> kernel{memory().template at<T>(builder().weights[b]),
                                                  memory().template at<T>(builder().exchanged[b])};
    lane.submit([kernel, n = plan_.buckets[b].size()](typename Device::Lane& self) {
      transform_vectors<T>(self, n, kernel);
    });
  }
  lane.synchronize();
  exchanged_ = !exchanged_;
}

template <class... Policies>
auto Trainer<Policies...>::address_of(std::string_view name,
                                      const std::vector<run::StorageId>& buckets) const
    -> std::pair<T*, std::int64_t> {
  const auto p = static_cast<std::size_t>(plan_.dag->parameter(name));
  const auto b = static_cast<std::size_t>(plan_.bucket_of_parameter[p]);
  T* const bucket = memory().template at<T>(buckets[b]);
  return {bucket + (plan_.layout.parameters[p] - plan_.buckets[b].begin),
          plan_.dag->parameters[p].spec.shape.size()};
}

template <class... Policies>
auto Trainer<Policies...>::parameter(std::string_view name) -> std::vector<Sum> {
  if (!settled_policy && pending_ && !exchanged_) {
    throw OptionError(
        "reef::Trainer::parameter: '", name,
        "' is not here as it was committed, but ahead of that.\n  why: this optimizer "
        "leaves committed weights on their owners.\n  fix: settle() on all ranks first.");
  }
  const auto [from, count] = address_of(name, builder().weights);
  std::vector<T> values(static_cast<std::size_t>(count));
  copy(values.data(), from, values.size() * sizeof(T), device::Copy::to_host);
  if constexpr (std::is_same_v<T, Sum>) {
    return values;
  } else {
    return {values.begin(), values.end()};
  }
}

template <class... Policies>
void Trainer<Policies...>::set_parameter(std::string_view name, std::span<const Sum> values) {
  const std::int64_t count = address_of(name, builder().weights).second;
  if (static_cast<std::int64_t>(values.size()) != count) {
    throw ShapeError("reef::Trainer::set_parameter: '", name, "' has ", count, " elements, ",
                     values.size(), " were given.");
  }
  const auto p = static_cast<std::size_t>(plan_.dag->parameter(name));
  for (std::int64_t begin = 0; begin < count; begin += staged_elements) {
    set_elements(
        p, begin,
        values.subspan(static_cast<std::size_t>(begin),
                       static_cast<std::size_t>(std::min(staged_elements, count - begin))));
  }
}

/// Elements of parameter p from `first` on, at most staged_elements of them.
template <class... Policies>
void Trainer<Policies...>::set_elements(std::size_t p, std::int64_t first,
                                        std::span<const Sum> values) {
  const std::string& name = plan_.dag->parameters[p].name;
  const std::vector<T> rounded(values.begin(), values.end());
  copy(address_of(name, builder().weights).first + first, rounded.data(),
       rounded.size() * sizeof(T), device::Copy::to_device);
  set_master(plan_.layout.parameters[p] + first, values);
  state_.began = state_.committed;
  if (!exchanged_) return;
  copy(address_of(name, builder().exchanged).first + first, rounded.data(),
       rounded.size() * sizeof(T), device::Copy::to_device);
}

/// The part of the master weights from `begin` on, in the layout, that this rank keeps, where it keeps
/// any.
template <class... Policies>
void Trainer<Policies...>::set_master(std::int64_t begin, std::span<const Sum> values) {
  const auto end = begin + static_cast<std::int64_t>(values.size());
  for (const StateRange& range : Optim::state(builder())) {
    const std::int64_t from = std::max(begin, range.begin);
    const std::int64_t to = std::min(end, range.begin + range.elements);
    if (!range.master || from >= to) continue;
    Sum* const master = memory().template at<Sum>(range.storage);
    copy(master + (from - range.begin), values.data() + (from - begin),
         static_cast<Bytes>(to - from) * sizeof(Sum), device::Copy::to_device);
  }
}

template <class... Policies>
std::vector<optim::StateRange> Trainer<Policies...>::state_ranges() const {
  std::vector<StateRange> ranges = Optim::state(builder());
  std::erase_if(ranges, [this](const StateRange& range) {
    return (range.kept == StateRange::Kept::pending && !pending_) ||
           (range.kept == StateRange::Kept::ahead && !exchanged_);
  });
  return ranges;
}

template <class... Policies>
void Trainer<Policies...>::copy_state(const StateRange& range, void* to) {
  transfer(range, to, memory().at(range.storage), device::Copy::to_host);
}

template <class... Policies>
void Trainer<Policies...>::set_state(const StateRange& range, const void* from) {
  transfer(range, memory().at(range.storage), from, device::Copy::to_device);
}

/// Between the caller's memory and where the range is, on the device or not.
template <class... Policies>
void Trainer<Policies...>::transfer(const StateRange& range, void* to, const void* from,
                                    device::Copy direction) {
  const Bytes bytes = static_cast<Bytes>(range.elements) * size_of(range.element);
  if (builder().program.storages[range.storage].place == schedule::Place::device) {
    copy(to, from, bytes, direction);
  } else {
    std::memcpy(to, from, bytes);
  }
}

template <class... Policies>
void Trainer<Policies...>::copy(void* to, const void* from, Bytes bytes, device::Copy direction) {
  auto& lane = *lanes_->lanes[static_cast<std::size_t>(schedule::Lane::compute)];
  lane.submit([=](typename Device::Lane& self) { self.copy(to, from, bytes, direction); });
  lane.synchronize();
}

}  // namespace reef::inline v0
