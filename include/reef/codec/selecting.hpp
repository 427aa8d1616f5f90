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

/// A codec that sends some of n numbers, and their indices apart, so that another codec may encode the numbers (Chain).
///
///     kept(n)                             the count of numbers that are sent
///     select(values)                      the indices of the numbers that are sent, ascending
///     write_selection(indices, n, to)     to has selection_bytes(n) bytes; returns how many are used
///     read_selection(from, n, indices)    reads kept(n) indices, ascending, below n; false for any other content
///     id, parameter(n)                    the codec and parameter in a message's head, by which both ends select alike
///
/// | laws   | read_selection reads what write_selection wrote, and returns false for any other bytes; selection_bytes |
/// |        | does not grow when fewer numbers are kept                                                               |
/// | may have | scale(n): the factor by which decode() multiplies each number that was sent                           |
/// | models | ChunkTopK, RandomK, TopK                                                                                |
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
