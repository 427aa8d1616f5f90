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
    if (!holds(p)) continue;
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
      set_elements(p, begin, values);
    }
  }
}

/// Throws OptionError on all ranks unless they have the same weights: every parameter that they hold, and the master
/// weights where each rank keeps all of them. Weights that are not here as they were committed are not compared.
template <class... Policies>
void Trainer<Policies...>::require_same_weights() {
  const bool here = weights_are_committed || !pending_ || ahead_in_buffer_;
  if (ranks() > 1 && here) {
    const std::int64_t step = state_.committed + 1;
    const comm::AtWork at_work(
        *progress_, concat("the comparison of weights before step ", step),
        weights_set_.empty()
            ? std::string()
            : concat("weights were set (parameter '", weights_set_, "') before step ", step));
    constexpr Bytes piece = Bytes{1} << 20;
    std::vector<std::byte> room;
    const auto checksum = [&](Bytes all, const auto& part) {
      std::uint32_t crc = 0;
      for (Bytes offset = 0; offset < all; offset += piece) {
        room.resize(static_cast<std::size_t>((std::min)(piece, all - offset)));
        crc = io::crc32c(part(offset, std::span(room)), crc);
      }
      return concat("checksum ", crc);
    };
    std::vector<comm::Alike> mine;
    for (const graph::Parameter& parameter : plan_.dag->parameters) {
      if (!holds(parameter.name)) continue;
      const auto bytes = static_cast<Bytes>(parameter.spec.shape.size()) * sizeof(T);
      mine.push_back({concat("weights of '", parameter.name, "'"),
                      checksum(bytes, [&](Bytes offset, std::span<std::byte> to) {
                        return parameter_bytes(parameter.name, offset, to);
                      })});
    }
    for (const StateRange& range : state_ranges()) {
      if (!range.master || range.kept != StateRange::Kept::whole) continue;
      mine.push_back({concat("master weights from element ", range.begin, " on"),
                      checksum(range.bytes(), [&](Bytes offset, std::span<std::byte> to) {
                        return state_bytes(range, offset, to);
                      })});
    }
    comm::require_alike(
        *progress_, "reef::Trainer::step", "weights", mine,
        "set_parameter with the same values on every rank, or start all of them from "
        "the same file.",
        plan_.topology.stages == 1 ? comm::Missing::differs : comm::Missing::ignored);
  }
  same_weights_ = true;
  weights_set_.clear();
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
    if (!holds(p) || owns(p)) continue;
    swap(builder().tied_weights[p], builder().tied_buffer[p],
         plan_.dag->parameters[p].spec.shape.size());
  }
  lane.synchronize();
  ahead_in_buffer_ = !ahead_in_buffer_;
}

template <class... Policies>
auto Trainer<Policies...>::locate(std::string_view name, bool in_buffer) const -> Located {
  const auto p = static_cast<std::size_t>(plan_.dag->parameter(name));
  const auto b = static_cast<std::size_t>(plan_.bucket_of_parameter[p]);
  if (!holds(p)) {
    throw OptionError("reef::Trainer::parameter: '", name, "' is not on rank ", rank(),
                      ", but on those of stage ", plan_.buckets[b].stage,
                      ".\n  fix: ask one of them; Trainer::plan() says which.");
  }
  const std::int64_t elements = plan_.dag->parameters[p].spec.shape.size();
  if (!owns(p)) {
    const run::StorageId own = (in_buffer ? builder().tied_buffer : builder().tied_weights)[p];
    return {own, memory().template at<T>(own), elements};
  }
  const run::StorageId whole = (in_buffer ? builder().comm_buffer : builder().weights)[b];
  T* const bucket = memory().template at<T>(whole);
  return {whole, bucket + (plan_.layout.parameters[p] - plan_.buckets[b].begin), elements};
}

template <class... Policies>
void Trainer<Policies...>::require_committed_weights(std::string_view name) const {
  if (!weights_are_committed && pending_ && !ahead_in_buffer_) {
    throw OptionError(
        "reef::Trainer::parameter: '", name,
        "' is not here as it was committed, but ahead of that.\n  why: this optimizer "
        "leaves committed weights on their owners.\n  fix: gather_committed_weights() on all ranks "
        "first.");
  }
}

template <class... Policies>
auto Trainer<Policies...>::parameter(std::string_view name) -> std::vector<Sum> {
  require_committed_weights(name);
  const Located from = locate(name);
  std::vector<T> values(static_cast<std::size_t>(from.elements));
  copy(from.bucket, values.data(), from.begin, values.size() * sizeof(T), device::Copy::to_host);
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
auto Trainer<Policies...>::parameter_bytes(std::string_view name, Bytes offset,
                                           std::span<std::byte> room)
    -> std::span<const std::byte> {
  require_committed_weights(name);
  const Located at = locate(name);
  require_inside(name, offset, room.size(), static_cast<Bytes>(at.elements) * sizeof(T));
  const auto* const from = reinterpret_cast<const std::byte*>(at.begin) + offset;
  if (on_host(at.bucket)) return {from, room.size()};
  copy(at.bucket, room.data(), from, room.size(), device::Copy::to_host);
  return room;
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
  if (!holds(name)) {
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
  const int p = plan_.dag->parameter(name);
  const std::int64_t count = plan_.dag->parameter_at(p).spec.shape.size();
  if (first < 0 || first > count || static_cast<std::int64_t>(values.size()) > count - first) {
    throw ShapeError("reef::Trainer::set_parameter: '", name, "' has ", count, " elements, ",
                     values.size(), " after ", first, " were given.");
  }
  if (holds(name)) {
    set_elements(static_cast<std::size_t>(p), first, values);
  } else {
    weights_were_set(name);
  }
}

/// Elements of parameter p from `first` on.
template <class... Policies>
void Trainer<Policies...>::set_elements(std::size_t p, std::int64_t first,
                                        std::span<const Sum> values) {
  const std::string& name = plan_.dag->parameters[p].name;
  const auto rounded = [&] {
    if constexpr (std::is_same_v<T, Sum>)
      return values;
    else
      return std::vector<T>(values.begin(), values.end());
  }();
  const auto set = [&](const Located& at) {
    copy(at.bucket, at.begin + first, rounded.data(), rounded.size() * sizeof(T),
         device::Copy::to_device);
  };
  weights_were_set(name);
  set(locate(name));
  set_master(plan_.layout.parameters[p] + first, values);
  if (ahead_in_buffer_) set(locate(name, true));
}

/// The part of the master weights from `begin` on, in the layout, that this rank keeps, where it keeps
/// any.
template <class... Policies>
void Trainer<Policies...>::set_master(std::int64_t begin, std::span<const Sum> values) {
  const auto end = begin + static_cast<std::int64_t>(values.size());
  for (const StateRange& range : detail::hooks::state_of<Composition>(builder())) {
    const std::int64_t from = (std::max)(begin, range.begin);
    const std::int64_t to = (std::min)(end, range.begin + range.elements);
    if (!range.master || from >= to) continue;
    Sum* const master = memory().template at<Sum>(range.storage);
    copy(range.storage, master + (from - range.begin), values.data() + (from - begin),
         static_cast<Bytes>(to - from) * sizeof(Sum), device::Copy::to_device);
  }
}

template <class... Policies>
std::vector<optim::StateRange> Trainer<Policies...>::state_ranges(bool pending,
                                                                  bool ahead_in_buffer) const {
  std::vector<StateRange> ranges = detail::hooks::state_of<Composition>(builder());
  std::erase_if(ranges, [pending, ahead_in_buffer](const StateRange& range) {
    return (range.kept == StateRange::Kept::pending && !pending) ||
           (range.kept == StateRange::Kept::ahead && !ahead_in_buffer);
  });
  return ranges;
}

template <class... Policies>
void Trainer<Policies...>::require_inside(std::string_view name, Bytes offset, std::size_t bytes,
                                          Bytes all) {
  if (offset <= all && bytes <= all - offset) return;
  throw ShapeError("reef::Trainer: '", name, "' has ", all, " bytes, not ", bytes, " after ",
                   offset, ".\n  fix: the bytes that it has.");
}

template <class... Policies>
std::byte* Trainer<Policies...>::host_memory(const StateRange& range) {
  return on_host(range.storage) ? memory().template at<std::byte>(range.storage) : nullptr;
}

template <class... Policies>
auto Trainer<Policies...>::state_bytes(const StateRange& range, Bytes offset,
                                       std::span<std::byte> room) -> std::span<const std::byte> {
  require_inside(range.name, offset, room.size(), range.bytes());
  if (const std::byte* const here = host_memory(range)) return {here + offset, room.size()};
  copy(range.storage, room.data(), memory().template at<std::byte>(range.storage) + offset,
       room.size(), device::Copy::to_host);
  return room;
}

template <class... Policies>
void Trainer<Policies...>::set_state(const StateRange& range, Bytes offset,
                                     std::span<const std::byte> bytes) {
  require_inside(range.name, offset, bytes.size(), range.bytes());
  if (std::byte* const here = host_memory(range)) {
    std::copy(bytes.begin(), bytes.end(), here + offset);
  } else {
    copy(range.storage, memory().template at<std::byte>(range.storage) + offset, bytes.data(),
         bytes.size(), device::Copy::to_device);
  }
}

/// Between the host and where a storage lives; no lane has work between steps.
template <class... Policies>
void Trainer<Policies...>::copy(run::StorageId storage, void* to, const void* from, Bytes bytes,
                                device::Copy direction) {
  if (bytes == 0) return;
  if (on_host(storage)) {
    std::memcpy(to, from, static_cast<std::size_t>(bytes));
    return;
  }
  auto& lane = *lanes_->lanes[static_cast<std::size_t>(schedule::Lane::compute)];
  lane.submit([=](typename Device::Lane& self) { self.copy(to, from, bytes, direction); });
  lane.synchronize();
}

}  // namespace v0
}  // namespace reef
