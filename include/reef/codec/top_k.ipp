#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>

#include <reef/codec/detail/bits.hpp>
#include <reef/codec/detail/blocks.hpp>
#include <reef/codec/detail/largest.hpp>
#include <reef/codec/detail/selected.hpp>
#include <reef/codec/top_k.hpp>

namespace reef {
inline namespace v0 {
namespace codec {

namespace detail {

inline constexpr std::int64_t index_block = 65536;

inline Bytes bitmap_bytes(std::int64_t n) { return static_cast<Bytes>((n + 7) / 8); }
inline Bytes blocked_bytes(std::int64_t n, std::size_t count) {
  return 4 * static_cast<Bytes>((n + index_block - 1) / index_block) + 2 * count;
}
inline Bytes all_but_bytes(std::int64_t n, std::size_t count) {
  return sizeof(std::uint32_t) * (static_cast<Bytes>(n) - count);
}
inline Bytes rice_bytes(std::span<const std::uint32_t> indices, unsigned parameter) {
  std::uint64_t bits = indices.size() * (1 + std::uint64_t{parameter});
  std::uint32_t next = 0;
  for (const std::uint32_t index : indices) {
    bits += (index - next) >> parameter;
    next = index + 1;
  }
  return (bits + 7) / 8;
}

}  // namespace detail

REEF_INLINE IndexCoding coding_in(std::span<const std::uint32_t> indices, std::int64_t n, IndexForm form,
                                  std::uint8_t parameter) {
  switch (form) {
    case IndexForm::bitmap: return {form, 0, detail::bitmap_bytes(n)};
    case IndexForm::blocked: return {form, 0, detail::blocked_bytes(n, indices.size())};
    case IndexForm::rice: return {form, parameter, detail::rice_bytes(indices, parameter)};
    case IndexForm::all_but: return {form, 0, detail::all_but_bytes(n, indices.size())};
    default: return {};
  }
}

REEF_INLINE IndexCoding least_coding(std::span<const std::uint32_t> indices, std::int64_t n) {
  if (static_cast<std::int64_t>(indices.size()) == n) return {};
  if (indices.empty()) return {IndexForm::rice, 0, 0};
  IndexCoding best = coding_in(indices, n, IndexForm::bitmap);
  const auto consider = [&best](const IndexCoding& other) {
    if (other.bytes < best.bytes) best = other;
  };
  consider(coding_in(indices, n, IndexForm::blocked));
  consider(coding_in(indices, n, IndexForm::all_but));
  // Around the best parameter for gaps that are geometric: log2 of their mean times ln 2.
  const double mean = static_cast<double>(n) / static_cast<double>(indices.size());
  const int guess =
      (std::max)(0, static_cast<int>(std::floor(std::log2((std::max)(mean * 0.6931, 1.0)))));
  for (int parameter = (std::max)(0, guess - 1); parameter <= (std::min)(guess + 1, 31);
       ++parameter) {
    consider(coding_in(indices, n, IndexForm::rice, static_cast<std::uint8_t>(parameter)));
  }
  return best;
}

REEF_INLINE void write_indices(std::span<const std::uint32_t> indices, std::int64_t n, const IndexCoding& coding,
                               std::span<std::byte> to) {
  switch (coding.form) {
    case IndexForm::all:
    case IndexForm::in_chunks: break;
    case IndexForm::bitmap:
      std::fill(to.begin(), to.end(), std::byte{});
      for (const std::uint32_t index : indices) to[index / 8] |= std::byte{1} << static_cast<int>(index % 8);
      break;
    case IndexForm::blocked: {
      std::byte* at = to.data();
      std::size_t i = 0;
      for (std::int64_t end = detail::index_block; end - detail::index_block < n; end += detail::index_block) {
        std::byte* const head = at;
        at += sizeof(std::uint32_t);
        std::uint32_t count = 0;
        for (; i < indices.size() && static_cast<std::int64_t>(indices[i]) < end; ++i, ++count) {
          const auto low = static_cast<std::uint16_t>(indices[i]);
          std::memcpy(at, &low, sizeof low);
          at += sizeof low;
        }
        std::memcpy(head, &count, sizeof count);
      }
      break;
    }
    case IndexForm::rice: {
      detail::BitWriter writer(to.data());
      std::uint32_t next = 0;
      for (const std::uint32_t index : indices) {
        const std::uint32_t gap = index - next;
        const std::uint64_t low = gap & ((std::uint64_t{1} << coding.parameter) - 1);
        std::uint32_t ones = gap >> coding.parameter;
        if (coding.parameter + ones < 32) {
          writer.write(((std::uint64_t{1} << ones) - 1) << coding.parameter | low, coding.parameter + ones + 1);
          next = index + 1;
          continue;
        }
        writer.write(low, coding.parameter);
        for (; ones > 0; ones -= (std::min)(ones, 31U)) {
          writer.write((std::uint64_t{1} << (std::min)(ones, 31U)) - 1, (std::min)(ones, 31U));
        }
        writer.write(0, 1);
        next = index + 1;
      }
      writer.finish();
      break;
    }
    case IndexForm::all_but: {
      std::byte* at = to.data();
      std::uint32_t next = 0;
      const auto leave_out = [&](std::uint32_t end) {
        for (; next < end; ++next, at += sizeof next) std::memcpy(at, &next, sizeof next);
        ++next;
      };
      for (const std::uint32_t index : indices) leave_out(index);
      leave_out(static_cast<std::uint32_t>(n));
      break;
    }
  }
}

REEF_INLINE bool read_indices(std::span<const std::byte> from, std::int64_t n, const IndexCoding& coding,
                              std::span<std::uint32_t> indices) {
  const std::size_t count = indices.size();
  switch (coding.form) {
    case IndexForm::all:
      for (std::size_t i = 0; i < count; ++i) indices[i] = static_cast<std::uint32_t>(i);
      return from.empty() && static_cast<std::int64_t>(count) == n;
    case IndexForm::bitmap: {
      if (from.size() != detail::bitmap_bytes(n)) return false;
      std::size_t found = 0;
      for (std::size_t byte = 0; byte < from.size(); ++byte) {
        for (auto bits = std::to_integer<unsigned>(from[byte]); bits != 0; bits &= bits - 1) {
          const auto index = static_cast<std::int64_t>(8 * byte) + std::countr_zero(bits);
          if (found == count || index >= n) return false;
          indices[found++] = static_cast<std::uint32_t>(index);
        }
      }
      return found == count;
    }
    case IndexForm::blocked: {
      if (from.size() != detail::blocked_bytes(n, count)) return false;
      const std::byte* at = from.data();
      std::size_t found = 0;
      for (std::int64_t begin = 0; begin < n; begin += detail::index_block) {
        std::uint32_t in_block = 0;
        std::memcpy(&in_block, at, sizeof in_block);
        at += sizeof in_block;
        if (in_block > count - found) return false;
        std::int64_t before = begin - 1;
        for (std::uint32_t i = 0; i < in_block; ++i) {
          std::uint16_t low = 0;
          std::memcpy(&low, at, sizeof low);
          at += sizeof low;
          const std::int64_t index = begin + low;
          if (index <= before || index >= n) return false;
          indices[found++] = static_cast<std::uint32_t>(index);
          before = index;
        }
      }
      return found == count;
    }
    case IndexForm::rice: {
      if (coding.parameter > 31) return false;
      detail::BitReader reader(from);
      std::int64_t next = 0;
      for (std::uint32_t& index : indices) {
        if (!reader.has(coding.parameter)) return false;
        const std::uint64_t low = reader.read(coding.parameter);
        const auto most = static_cast<std::uint64_t>(n) >> coding.parameter;
        const std::uint64_t ones = reader.ones(most);
        const std::uint64_t gap = (ones << coding.parameter) + low;
        if (ones > most || gap >= static_cast<std::uint64_t>(n - next)) return false;
        index = static_cast<std::uint32_t>(static_cast<std::uint64_t>(next) + gap);
        next = std::int64_t{index} + 1;
      }
      return reader.ended();
    }
    case IndexForm::all_but: {
      if (static_cast<std::int64_t>(count) > n || from.size() != detail::all_but_bytes(n, count)) return false;
      std::uint32_t next = 0;
      std::size_t found = 0;
      const auto keep_below = [&](std::uint32_t end) {
        while (next < end) indices[found++] = next++;
        ++next;
      };
      for (std::size_t at = 0; at < from.size(); at += sizeof next) {
        std::uint32_t left_out = 0;
        std::memcpy(&left_out, from.data() + at, sizeof left_out);
        if (left_out < next || static_cast<std::int64_t>(left_out) >= n) return false;
        if (left_out - next > count - found) return false;
        keep_below(left_out);
      }
      if (static_cast<std::size_t>(n) - next != count - found) return false;
      keep_below(static_cast<std::uint32_t>(n));
      return true;
    }
    case IndexForm::in_chunks: return false;
  }
  return false;
}

REEF_INLINE Bytes write_coded(std::span<const std::uint32_t> indices, std::int64_t n, const IndexCoding& coding,
                              std::span<std::byte> to) {
  to[0] = static_cast<std::byte>(coding.form);
  to[1] = static_cast<std::byte>(coding.parameter);
  write_indices(indices, n, coding, to.subspan(2, static_cast<std::size_t>(coding.bytes)));
  return 2 + coding.bytes;
}

REEF_INLINE IndexCoding coding_said(std::span<const std::byte> from) {
  return {static_cast<IndexForm>(from[0]), std::to_integer<std::uint8_t>(from[1]), from.size() - 2};
}

REEF_INLINE std::vector<std::uint32_t> largest_indices(std::span<const float> values, std::int64_t k,
                                                       const Threads& threads) {
  return detail::largest(values, (std::min)(k, static_cast<std::int64_t>(values.size())), threads)
      .indices;
}

REEF_INLINE std::int64_t TopK::kept(std::int64_t n) const { return detail::one_in(ratio, n, name); }

REEF_INLINE std::vector<std::uint32_t> TopK::select(std::span<const float> values, const Threads& threads) const {
  return largest_indices(values, kept(static_cast<std::int64_t>(values.size())), threads);
}

REEF_INLINE Bytes TopK::selection_bytes(std::int64_t n) const {
  return 2 + (std::min)(detail::bitmap_bytes(n),
                        detail::blocked_bytes(n, static_cast<std::size_t>(kept(n))));
}

REEF_INLINE Bytes TopK::write_selection(std::span<const std::uint32_t> indices, std::int64_t n,
                                        std::span<std::byte> to) const {
  return write_coded(indices, n, least_coding(indices, n), to);
}

REEF_INLINE bool TopK::read_selection(std::span<const std::byte> from, std::int64_t n,
                                      std::span<std::uint32_t> indices) const {
  return from.size() >= 2 && read_indices(from.subspan(2), n, coding_said(from), indices);
}

REEF_INLINE Bytes TopK::encoded_bytes(std::int64_t n) const { return detail::selected_bytes(*this, n); }
REEF_INLINE Bytes TopK::encode(std::span<const float> values, std::span<std::byte> message,
                               const Threads& threads) const {
  return detail::encode_selected(*this, values, message, threads);
}
REEF_INLINE Bytes TopK::encode_residual(std::span<float> values, std::span<std::byte> message,
                                        const Threads& threads) const {
  return detail::encode_selected_residual(*this, values, message, threads);
}
REEF_INLINE void TopK::decode(std::span<const std::byte> message, std::span<float> values,
                              const Threads& threads) const {
  detail::decode_selected(*this, message, values, threads);
}
REEF_INLINE void TopK::accumulate(std::span<const std::byte> message, std::span<float> values) const {
  detail::accumulate_selected(*this, message, values);
}

}  // namespace codec
}  // namespace v0
}  // namespace reef
