#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include <reef/codec/message.hpp>
#include <reef/compress/detail/coded_numbers.hpp>
#include <reef/compress/detail/device_codecs.hpp>
#include <reef/compress/detail/memories.hpp>
#include <reef/core/error.hpp>
#include <reef/core/units.hpp>

/// \file
/// The lane code of what EncodingCode's instructions do where the device has the codec (device_codecs.hpp): payloads
/// are the device's, heads and checksums the host's.

namespace reef {
inline namespace v0 {
namespace compress::detail {

/// An error in a message says whose it was.
template <class F>
auto saying_whose(const std::string& what, const F& f) {
  try {
    return f();
  } catch (const DecodeError& error) {
    throw DecodeError("reef::compress: ", what, " is refused.\n  why: ", error.what());
  }
}

template <class Lane, class C>
inline constexpr bool device_has = CodecsOfLane<Lane>::template has<std::remove_cvref_t<C>>;

/// What of a message lies behind its head.
template <class C>
Bytes payload_of(const C& codec, std::int64_t n) {
  return codec.encoded_bytes(n) - codec::message_head_bytes;
}

/// f(part, where its numbers lie, how many) for each part.
template <class Parts, class F>
void each_part_of(const CodedNumbers& numbers, const Parts& parts, const F& f) {
  for (std::size_t part = 0; part + 1 < parts.numbers.size(); ++part) {
    const Bytes before = static_cast<Bytes>(parts.numbers[part]) * size_of(numbers.element);
    f(part, static_cast<std::byte*>(numbers.at) + before, size_of_part(parts.numbers, part));
  }
}

/// A message for each part.
template <class Lane, class C, class Parts>
void encode_by_device(Lane& lane, const C& codec, const CodedNumbers& numbers, const Parts& parts,
                      std::span<std::byte> messages) {
  std::size_t end = 0;
  each_part_of(numbers, parts, [&](std::size_t part, const std::byte* at, std::int64_t n) {
    const std::span<std::byte> room = parts.room(messages, part, end);
    const std::span<std::byte> payload = codec::begin_message(room, codec.head(n), payload_of(codec, n));
    CodecsOfLane<Lane>::encode(lane, codec, at, numbers.element, n, payload.data());
    end = static_cast<std::size_t>(payload.data() - messages.data()) + payload.size();
  });
  lane.settle();
  end = 0;
  each_part_of(numbers, parts, [&](std::size_t part, const std::byte*, std::int64_t n) {
    const std::span<std::byte> room = parts.room(messages, part, end);
    const Bytes used = codec::seal_message(room, codec.head(n), payload_of(codec, n));
    end = static_cast<std::size_t>(room.data() - messages.data()) + static_cast<std::size_t>(used);
  });
}

/// Each part from its message; or all of them, added in their order. Nothing is written before all are believed.
template <class Lane, class C, class Parts>
void decode_by_device(Lane& lane, const C& codec, const CodedNumbers& numbers, const Parts& parts,
                      std::span<const std::byte> messages, const std::vector<std::string>& whose, bool folds) {
  std::vector<const std::byte*> payloads;
  std::size_t end = 0;
  for (std::size_t part = 0; part + 1 < parts.numbers.size(); ++part) {
    const std::int64_t n = size_of_part(parts.numbers, part);
    const std::span<const std::byte> message = codec::message_in(parts.room(messages, part, end));
    end = static_cast<std::size_t>(message.data() - messages.data()) + message.size();
    payloads.push_back(saying_whose(whose[part], [&] {
      return codec::open_message(message, codec.head(n), payload_of(codec, n), payload_of(codec, n)).data();
    }));
  }
  if (folds) {
    for (std::size_t part = 0; part < payloads.size(); ++part) {
      CodecsOfLane<Lane>::decode(lane, codec, payloads[part], numbers.at, numbers.element, numbers.count, part > 0);
    }
    return;
  }
  each_part_of(numbers, parts, [&](std::size_t part, std::byte* at, std::int64_t n) {
    CodecsOfLane<Lane>::decode(lane, codec, payloads[part], at, numbers.element, n, false);
  });
}

/// Each part by a message that nobody else gets.
template <class Lane, class C, class Parts>
void code_in_place_by_device(Lane& lane, const C& codec, const CodedNumbers& numbers, const Parts& parts,
                             std::span<std::byte> message) {
  each_part_of(numbers, parts, [&](std::size_t, std::byte* at, std::int64_t n) {
    std::byte* const payload = codec::begin_message(message, codec.head(n), payload_of(codec, n)).data();
    CodecsOfLane<Lane>::encode(lane, codec, at, numbers.element, n, payload);
    CodecsOfLane<Lane>::decode(lane, codec, payload, at, numbers.element, n, false);
  });
}

}  // namespace compress::detail
}  // namespace v0
}  // namespace reef
