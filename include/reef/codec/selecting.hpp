#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include <reef/codec/concept.hpp>
#include <reef/codec/message.hpp>
#include <reef/core/units.hpp>

namespace reef {
inline namespace v0 {
namespace codec {

/// A codec that sends some of n numbers, with their indices apart: the numbers themselves may go in another format (Chain).
///
///     kept(n)                             the count of numbers that are sent
///     select(values)                      the indices of the numbers that are sent, ascending
///     write_selection(indices, n, to)     to has selection_bytes(n) bytes; returns how many are used
///     read_selection(from, n, indices)    all kept(n), ascending, below n; false where `from` says anything else
///     id, parameter(n)                    the codec and parameter in a message's head: both ends select by the same rule
///
/// | laws   | read_selection gives what write_selection was given; of any other bytes it believes nothing;             |
/// |        | selection_bytes never grows as fewer are kept                                                         |
/// | may have | scale(n): the factor of a number that was sent, in decoding                                           |
/// | models | ChunkTopK, RandomK, TopK                                                                                 |
///
/// \code
/// #include <reef/codec/top_k.hpp>
/// // given: std::span<const float> values
/// const codec::TopK format{.ratio = 100};
/// static_assert(codec::selecting_codec<codec::TopK>);
/// const std::vector<std::uint32_t> indices = format.select(values);
/// const auto n = static_cast<std::int64_t>(values.size());
/// std::vector<std::byte> selection(format.selection_bytes(n));
/// selection.resize(format.write_selection(indices, n, selection));
/// \endcode
template <class C>
concept selecting_codec =
    codec<C> && requires(const C& format, std::int64_t n, std::span<const float> values,
                         std::span<const std::uint32_t> indices, std::span<std::uint32_t> read,
                         std::span<std::byte> to, std::span<const std::byte> from) {
      { C::id } -> std::convertible_to<CodecId>;
      { format.parameter(n) } -> std::same_as<std::uint64_t>;
      { format.kept(n) } -> std::same_as<std::int64_t>;
      { format.select(values) } -> std::same_as<std::vector<std::uint32_t>>;
      { format.selection_bytes(n) } -> std::same_as<Bytes>;
      { format.write_selection(indices, n, to) } -> std::same_as<Bytes>;
      { format.read_selection(from, n, read) } -> std::same_as<bool>;
    };

}  // namespace codec
}  // namespace v0
}  // namespace reef
