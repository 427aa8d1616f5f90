#pragma once

#include <algorithm>
#include <cstring>
#include <utility>

#include <reef/core/bfloat16.hpp>
#include <reef/core/element.hpp>
#include <reef/core/error.hpp>
#include <reef/core/finite.hpp>
#include <reef/core/inline.hpp>
#include <reef/core/text.hpp>
#include <reef/io/checksum.hpp>
#include <reef/trainer/model_state.hpp>

namespace reef {
inline namespace v0 {

namespace detail {

inline void require_inside(std::string_view name, Bytes offset, std::size_t bytes, Bytes all) {
  if (offset <= all && bytes <= all - offset) return;
  throw ShapeError("reef::Trainer: '", name, "' has ", all, " bytes, not ", bytes, " after ",
                   offset, ".\n  fix: the bytes that it has.");
}

/// Numbers of one type as those of another: bf16 from fp32, or fp32 from bf16.
inline std::span<const std::byte> converted(std::span<const std::byte> numbers, Element from,
                                            Element to, std::vector<std::byte>& room) {
  if (from == to) return numbers;
  const std::size_t count = numbers.size() / static_cast<std::size_t>(size_of(from));
  room.resize(count * static_cast<std::size_t>(size_of(to)));
  const auto convert = [&]<class A, class B>(A, B) {
    for (std::size_t i = 0; i < count; ++i) {
      A one;
      std::memcpy(&one, numbers.data() + i * sizeof one, sizeof one);
      const B other{one};
      std::memcpy(room.data() + i * sizeof other, &other, sizeof other);
    }
  };
  from == Element::bfloat16 ? convert(Bfloat16(), 0.0F) : convert(0.0F, Bfloat16());
  return room;
}

/// The checksum of each part of 4096 numbers that begins at a multiple of that, of those from `begin` on.
template <class Part>
std::vector<std::uint32_t> checksums_of(std::int64_t begin, std::int64_t elements, Bytes width,
                                        const Part& part) {
  std::vector<std::uint32_t> result;
  std::vector<std::byte> room(static_cast<std::size_t>(ModelState::checksum_numbers) *
                              static_cast<std::size_t>(width));
  for (std::int64_t at = 0; at < elements;) {
    const std::int64_t to_next =
        ModelState::checksum_numbers - (begin + at) % ModelState::checksum_numbers;
    const std::int64_t count = (std::min)(to_next, elements - at);
    result.push_back(io::crc32c(
        part(static_cast<Bytes>(at) * width,
             std::span(room).first(static_cast<std::size_t>(static_cast<Bytes>(count) * width)))));
    at += count;
  }
  return result;
}

/// The checksum of all of it, in pieces of 1 MiB.
template <class Part>
std::uint32_t checksum_of(Bytes all, const Part& part) {
  constexpr Bytes piece = Bytes{1} << 20;
  std::vector<std::byte> room(static_cast<std::size_t>((std::min)(piece, all)));
  std::uint32_t crc = 0;
  for (Bytes offset = 0; offset < all; offset += piece)
    crc = io::crc32c(part(offset, std::span(room).first(
                                      static_cast<std::size_t>((std::min)(piece, all - offset)))),
                     crc);
  return crc;
}

}  // namespace detail

REEF_INLINE ModelState::ModelState(const run::StepPlan& plan, const run::StepBuilder& builder,
                                   std::vector<Range> ranges, Layout facts, Memory memory,
                                   std::function<void(std::string_view)> changed)
    : plan_(plan),
      builder_(builder),
      ranges_(std::move(ranges)),
      facts_(facts),
      memory_(std::move(memory)),
      changed_(std::move(changed)) {}

REEF_INLINE bool ModelState::owns(std::size_t parameter) const {
  return plan_.owner_of(static_cast<int>(parameter)) == builder_.stage();
}

REEF_INLINE bool ModelState::holds(std::size_t parameter) const {
  return owns(parameter) || builder_.tied_weights[parameter] != run::no_storage ||
         builder_.frozen[parameter] != run::no_storage;
}

REEF_INLINE Bytes ModelState::bytes_of(std::string_view name) const {
  const auto p = static_cast<std::size_t>(plan_.dag->parameter(name));
  return static_cast<Bytes>(plan_.dag->parameters[p].spec.shape.size()) * size_of(facts_.element);
}

REEF_INLINE auto ModelState::locate(std::string_view name, bool in_buffer) const -> ParameterMemory {
  const auto p = static_cast<std::size_t>(plan_.dag->parameter(name));
  if (!holds(p)) {
    throw OptionError("reef::Trainer::parameter: '", name, "' is not on rank ", builder_.rank(),
                      ", but on those of stage ", plan_.owner_of(static_cast<int>(p)),
                      ".\n  fix: ask one of them; Trainer::plan() says which.");
  }
  const std::int64_t elements = plan_.dag->parameters[p].spec.shape.size();
  if (const run::StorageId frozen = builder_.frozen[p]; frozen != run::no_storage) {
    return {frozen, memory_.at(frozen), elements};
  }
  if (!owns(p)) {
    const run::StorageId own = (in_buffer ? builder_.tied_buffer : builder_.tied_weights)[p];
    return {own, memory_.at(own), elements};
  }
  const auto b = static_cast<std::size_t>(plan_.bucket_of_parameter[p]);
  const run::StorageId whole = (in_buffer ? builder_.comm_buffer : builder_.weights)[b];
  const auto first = static_cast<Bytes>(plan_.layout.parameters[p] - plan_.buckets[b].begin);
  return {whole, memory_.at(whole) + first * size_of(facts_.element), elements};
}

namespace detail {

/// Where the first of some numbers is that is not finite, and that; else as many as there are.
template <class T>
std::pair<std::size_t, double> first_not_finite(std::span<const std::byte> bytes) {
  const std::size_t count = bytes.size() / sizeof(T);
  for (std::size_t i = 0; i < count; ++i) {
    T value;
    std::memcpy(&value, bytes.data() + i * sizeof(T), sizeof(T));
    if (!is_finite(value)) return {i, static_cast<double>(static_cast<sum_t<T>>(value))};
  }
  return {count, 0};
}

}  // namespace detail

REEF_INLINE ModelState::NotFinite ModelState::weight_not_finite() const {
  constexpr std::int64_t at_once = std::int64_t{1} << 18;
  const Bytes size = size_of(facts_.element);
  std::vector<std::byte> room;
  for (std::size_t p = 0; p < plan_.dag->parameters.size(); ++p) {
    if (!holds(p)) continue;
    const ParameterMemory at = locate(plan_.dag->parameters[p].name);
    for (std::int64_t begin = 0; begin < at.elements; begin += at_once) {
      const std::int64_t count = (std::min)(at_once, at.elements - begin);
      room.resize(static_cast<Bytes>(count) * size);
      copy(at.storage, room.data(), at.begin + static_cast<Bytes>(begin) * size, room.size(), device::Copy::to_host);
      const auto [found, value] = facts_.element == Element::bfloat16  ? detail::first_not_finite<Bfloat16>(room)
                                  : facts_.element == Element::float64 ? detail::first_not_finite<double>(room)
                                                                       : detail::first_not_finite<float>(room);
      if (found < static_cast<std::size_t>(count))
        return {static_cast<int>(p), begin + static_cast<std::int64_t>(found), value};
    }
  }
  return {};
}

REEF_INLINE void ModelState::require_committed_weights(std::string_view name) const {
  if (has_committed_weights()) return;
  throw OptionError(
      "reef::Trainer::parameter: '", name,
      "' is not here as it was committed, but ahead of that.\n  why: this optimizer "
      "leaves committed weights on their owners.\n  fix: gather_committed_weights() on all ranks "
      "first.");
}

REEF_INLINE std::span<const std::byte> ModelState::weights(std::string_view name, Bytes offset,
                                                           std::span<std::byte> room) const {
  require_committed_weights(name);
  const ParameterMemory at = locate(name);
  detail::require_inside(name, offset, room.size(), bytes_of(name));
  const std::byte* const from = at.begin + offset;
  if (memory_.on_host(at.storage)) return {from, room.size()};
  copy(at.storage, room.data(), from, room.size(), device::Copy::to_host);
  return room;
}

REEF_INLINE void ModelState::set_weights(std::string_view name, std::int64_t first,
                                         std::span<const std::byte> numbers, Element of) {
  const auto p = static_cast<std::size_t>(plan_.dag->parameter(name));
  const std::int64_t count = plan_.dag->parameters[p].spec.shape.size();
  if ((of != facts_.element && of != facts_.sum) || numbers.size() % size_of(of) != 0) {
    throw OptionError("reef::ModelState::set_weights: ", numbers.size(), " bytes of ", name_of(of), " for '", name,
                      "', whose weights are ", name_of(facts_.element), " and its master weights ", name_of(facts_.sum),
                      ".\n  fix: whole numbers of one of these types.");
  }
  const auto given =
      static_cast<std::int64_t>(numbers.size()) / static_cast<std::int64_t>(size_of(of));
  if (first < 0 || first > count || given > count - first) {
    throw ShapeError("reef::Trainer::set_parameter: '", name, "' has ", count, " elements, ", given,
                     " after ", first, " were given.");
  }
  changed_(name);
  if (!holds(p)) return;
  std::vector<std::byte> rounded;
  const std::span<const std::byte> weights =
      detail::converted(numbers, of, facts_.element, rounded);
  const auto set = [&](const ParameterMemory& at) {
    copy(at.storage, at.begin + static_cast<Bytes>(first) * size_of(facts_.element), weights.data(),
         weights.size(), device::Copy::to_device);
  };
  set(locate(name));
  std::vector<std::byte> widened;
  set_master(plan_.layout.parameters[p] + first,
             detail::converted(numbers, of, facts_.sum, widened));
  if (ahead_in_buffer_) set(locate(name, true));
}

/// The part of the master weights from `begin` on, in the layout, that this rank keeps, where it keeps any.
REEF_INLINE void ModelState::set_master(std::int64_t begin, std::span<const std::byte> sums) {
  const auto width = static_cast<std::int64_t>(size_of(facts_.sum));
  const std::int64_t end = begin + static_cast<std::int64_t>(sums.size()) / width;
  for (const Range& range : ranges_) {
    const std::int64_t from = (std::max)(begin, range.begin);
    const std::int64_t to = (std::min)(end, range.begin + range.elements);
    if (!range.master || from >= to) continue;
    copy(range.storage, memory_.at(range.storage) + (from - range.begin) * width,
         sums.data() + (from - begin) * width, static_cast<Bytes>((to - from) * width),
         device::Copy::to_device);
  }
}

REEF_INLINE std::vector<run::StateRange> ModelState::ranges(bool pending,
                                                            bool ahead_in_buffer) const {
  std::vector<Range> ranges = ranges_;
  std::erase_if(ranges, [pending, ahead_in_buffer](const Range& range) {
    return (range.distribution == Range::Distribution::pending && !pending) ||
           (range.distribution == Range::Distribution::ahead && !ahead_in_buffer);
  });
  return ranges;
}

REEF_INLINE std::byte* ModelState::host_memory(const Range& range) const {
  return memory_.on_host(range.storage) ? memory_.at(range.storage) : nullptr;
}

REEF_INLINE std::span<const std::byte> ModelState::read(const Range& range, Bytes offset,
                                                        std::span<std::byte> room) const {
  detail::require_inside(range.name, offset, room.size(), range.bytes());
  if (const std::byte* const here = host_memory(range)) return {here + offset, room.size()};
  copy(range.storage, room.data(), memory_.at(range.storage) + offset, room.size(),
       device::Copy::to_host);
  return room;
}

REEF_INLINE void ModelState::write(const Range& range, Bytes offset,
                                   std::span<const std::byte> bytes) {
  detail::require_inside(range.name, offset, bytes.size(), range.bytes());
  if (std::byte* const here = host_memory(range)) {
    std::copy(bytes.begin(), bytes.end(), here + offset);
  } else {
    copy(range.storage, memory_.at(range.storage) + offset, bytes.data(), bytes.size(),
         device::Copy::to_device);
  }
}

REEF_INLINE void ModelState::copy(run::StorageId storage, void* to, const void* from, Bytes bytes,
                                  device::Copy direction) const {
  if (bytes == 0) return;
  if (memory_.on_host(storage)) {
    std::memcpy(to, from, static_cast<std::size_t>(bytes));
  } else {
    memory_.copy(to, from, bytes, direction);
  }
}

REEF_INLINE std::vector<std::uint32_t> ModelState::checksums(std::string_view name) const {
  const Bytes width = size_of(facts_.element);
  return detail::checksums_of(
      0, static_cast<std::int64_t>(bytes_of(name) / width), width,
      [&](Bytes offset, std::span<std::byte> room) { return weights(name, offset, room); });
}

REEF_INLINE std::vector<std::uint32_t> ModelState::checksums(const Range& range) const {
  return detail::checksums_of(
      range.begin, range.elements, size_of(range.element),
      [&](Bytes offset, std::span<std::byte> room) { return read(range, offset, room); });
}

REEF_INLINE std::uint32_t ModelState::checksum(std::string_view name) const {
  return detail::checksum_of(bytes_of(name), [&](Bytes offset, std::span<std::byte> room) {
    return weights(name, offset, room);
  });
}

REEF_INLINE std::uint32_t ModelState::checksum(const Range& range) const {
  return detail::checksum_of(range.bytes(), [&](Bytes offset, std::span<std::byte> room) {
    return read(range, offset, room);
  });
}

}  // namespace v0
}  // namespace reef
