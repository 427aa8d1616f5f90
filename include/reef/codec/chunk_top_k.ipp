#pragma once

#include <algorithm>
#include <bit>
#include <functional>

#include <reef/codec/chunk_top_k.hpp>
#include <reef/codec/detail/bits.hpp>
#include <reef/codec/detail/blocks.hpp>
#include <reef/codec/detail/selected.hpp>
#include <reef/codec/top_k.hpp>
#include <reef/core/error.hpp>

namespace reef {
inline namespace v0 {
namespace codec {

namespace detail {

/// As largest_indices, of chunk after chunk: what was large enough in the last one is looked through first.
class LargestOfChunks {
public:
  explicit LargestOfChunks(std::size_t chunk) : candidates_(chunk), magnitudes_(chunk) {}

  /// The indices of the k largest, from `first` on, behind those that are there.
  void append(std::span<const float> values, std::size_t k, std::size_t first, std::vector<std::uint32_t>& indices) {
    std::size_t found = find(values);
    if (found < k) {
      least_ = 0;
      found = find(values);
    }
    for (std::size_t i = 0; i < found; ++i) magnitudes_[i] = magnitude_bits(values[candidates_[i]]);
    const auto kth = magnitudes_.begin() + static_cast<std::ptrdiff_t>(k - 1);
    std::nth_element(magnitudes_.begin(), kth, magnitudes_.begin() + static_cast<std::ptrdiff_t>(found),
                     std::greater<>{});
    const std::uint32_t threshold = *kth;
    auto as_large = 1 + std::count(magnitudes_.begin(), kth, threshold);  // that are taken, the lowest
    for (std::size_t i = 0; i < found; ++i) {
      const std::uint32_t bits = magnitude_bits(values[candidates_[i]]);
      if (bits < threshold || (bits == threshold && as_large == 0)) continue;
      if (bits == threshold) --as_large;
      indices.push_back(static_cast<std::uint32_t>(first + candidates_[i]));
    }
    constexpr std::uint32_t margin = 1U << 21;  // a quarter of an octave
    least_ = threshold > margin ? threshold - margin : 0;
  }

private:
  std::size_t find(std::span<const float> values) {
    std::size_t found = 0;
    for (std::size_t i = 0; i < values.size(); ++i) {
      candidates_[found] = static_cast<std::uint32_t>(i);
      found += magnitude_bits(values[i]) >= least_ ? 1U : 0U;
    }
    return found;
  }

  std::vector<std::uint32_t> candidates_;  ///< those of at least that magnitude, ascending
  std::vector<std::uint32_t> magnitudes_;
  std::uint32_t least_ = 0;
};

/// Of a chunk of `size`, how many are kept: its share, rounded up.
inline std::size_t kept_of_chunk(const ChunkTopK& format, std::size_t size) {
  const auto chunk = static_cast<std::size_t>(format.chunk);
  return (size * static_cast<std::size_t>(format.keep) + chunk - 1) / chunk;
}

inline unsigned bits_in_chunk(const ChunkTopK& format) {
  return static_cast<unsigned>(std::bit_width(static_cast<std::uint64_t>(format.chunk - 1)));
}

inline Bytes bytes_in_chunks(const ChunkTopK& format, std::int64_t kept) {
  return (static_cast<Bytes>(kept) * bits_in_chunk(format) + 7) / 8;
}

/// Calls f(begin, end, first, kept) for each chunk of n numbers: its bounds, and which of the indices are its.
template <class F>
void each_chunk(const ChunkTopK& format, std::int64_t n, const F& f) {
  std::size_t first = 0;
  each_block(n, format.chunk, [&](std::size_t /*chunk*/, std::size_t begin, std::size_t end) {
    const std::size_t kept = kept_of_chunk(format, end - begin);
    f(begin, end, first, kept);
    first += kept;
  });
}

}  // namespace detail

REEF_INLINE std::int64_t ChunkTopK::kept(std::int64_t n) const {
  if (keep < 1 || keep > chunk || chunk > max_elements) {
    throw OptionError("reef::codec::ChunkTopK: of ", chunk, " numbers ", keep,
                      " are kept.\n  fix: from 1 to all of at most ", max_elements, ", as 64 of 4096.");
  }
  return n / chunk * keep +
         static_cast<std::int64_t>(detail::kept_of_chunk(*this, static_cast<std::size_t>(n % chunk)));
}

REEF_INLINE std::uint64_t ChunkTopK::parameter(std::int64_t /*n*/) const {
  return static_cast<std::uint64_t>(chunk) << 32 | static_cast<std::uint64_t>(keep);
}

REEF_INLINE std::vector<std::uint32_t> ChunkTopK::select(std::span<const float> values) const {
  const auto n = static_cast<std::int64_t>(values.size());
  std::vector<std::uint32_t> indices;
  indices.reserve(static_cast<std::size_t>(kept(n)));
  detail::LargestOfChunks largest((std::min)(static_cast<std::size_t>(chunk), values.size()));
  detail::each_chunk(*this, n, [&](std::size_t begin, std::size_t end, std::size_t /*first*/, std::size_t of_chunk) {
    largest.append(values.subspan(begin, end - begin), of_chunk, begin, indices);
  });
  return indices;
}

REEF_INLINE Bytes ChunkTopK::selection_bytes(std::int64_t n) const {
  return 2 + (std::min)(coding_in({}, n, IndexForm::bitmap).bytes,
                        detail::bytes_in_chunks(*this, kept(n)));
}

/// Gaps begin anew with each chunk: what is behind its last index is left out, as if chunks ended there.
REEF_INLINE Bytes ChunkTopK::write_selection(std::span<const std::uint32_t> indices, std::int64_t n,
                                             std::span<std::byte> to) const {
  std::vector<std::uint32_t> closed(indices.begin(), indices.end());
  std::uint32_t left_out = 0;
  detail::each_chunk(*this, n, [&](std::size_t /*begin*/, std::size_t end, std::size_t first, std::size_t kept) {
    for (std::size_t i = first; i < first + kept; ++i) closed[i] -= left_out;
    left_out += static_cast<std::uint32_t>(end) - 1 - indices[first + kept - 1];
  });
  const IndexCoding coding = least_coding(closed, n);
  const IndexCoding in_chunks{IndexForm::in_chunks, 0,
                              detail::bytes_in_chunks(*this, static_cast<std::int64_t>(indices.size()))};
  if (coding.bytes <= in_chunks.bytes) return write_coded(closed, n, coding, to);
  const Bytes bytes = write_coded(indices, n, in_chunks, to);
  detail::BitWriter writer(to.data() + 2);
  for (const std::uint32_t index : indices) {
    writer.write(static_cast<std::uint64_t>(index % chunk), detail::bits_in_chunk(*this));
  }
  writer.finish();
  return bytes;
}

REEF_INLINE bool ChunkTopK::read_selection(std::span<const std::byte> from, std::int64_t n,
                                           std::span<std::uint32_t> indices) const {
  if (from.size() < 2) return false;
  const IndexCoding coding = coding_said(from);
  const auto coded = from.subspan(2);
  const bool in_chunks = coding.form == IndexForm::in_chunks;
  if (in_chunks) {
    if (coding.parameter != 0 ||
        coded.size() != detail::bytes_in_chunks(*this, static_cast<std::int64_t>(indices.size()))) {
      return false;
    }
  } else if (!read_indices(coded, n, coding, indices)) {
    return false;
  }
  detail::BitReader reader(coded);
  std::uint32_t left_out = 0;
  bool believed = true;
  detail::each_chunk(*this, n, [&](std::size_t begin, std::size_t end, std::size_t first, std::size_t kept) {
    std::size_t next = begin;  // the least that this one may be
    for (std::size_t i = first; i < first + kept; ++i) {
      if (in_chunks) {
        indices[i] = static_cast<std::uint32_t>(begin) + reader.read(detail::bits_in_chunk(*this));
      } else {
        indices[i] += left_out;
      }
      believed = believed && indices[i] >= next && indices[i] < end;
      next = std::size_t{indices[i]} + 1;
    }
    left_out += static_cast<std::uint32_t>(end - next);
  });
  return believed && (!in_chunks || reader.ended());
}

REEF_INLINE Bytes ChunkTopK::encoded_bytes(std::int64_t n) const { return detail::selected_bytes(*this, n); }
REEF_INLINE Bytes ChunkTopK::encode(std::span<const float> values, std::span<std::byte> message) const {
  return detail::encode_selected(*this, values, message);
}
REEF_INLINE Bytes ChunkTopK::encode_residual(std::span<float> values, std::span<std::byte> message) const {
  return detail::encode_selected_residual(*this, values, message);
}
REEF_INLINE void ChunkTopK::decode(std::span<const std::byte> message, std::span<float> values) const {
  detail::decode_selected(*this, message, values);
}
REEF_INLINE void ChunkTopK::accumulate(std::span<const std::byte> message, std::span<float> values) const {
  detail::accumulate_selected(*this, message, values);
}

}  // namespace codec
}  // namespace v0
}  // namespace reef
