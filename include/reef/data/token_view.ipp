#pragma once

#include <algorithm>
#include <utility>

#include <reef/core/inline.hpp>
#include <reef/data/token_view.hpp>

namespace reef {
inline namespace v0 {
namespace data {

REEF_INLINE void TokenView::append(const TokenView& tokens) {
  const std::vector<Piece> added = tokens.pieces_;  // a copy: a view may be added to itself
  for (const Piece& piece : added) {
    add({piece.data, size(), size() + (piece.end - piece.begin), piece.width});
  }
}

REEF_INLINE std::int32_t TokenView::operator[](std::size_t index) const {
  std::int32_t token = 0;
  copy(index, {&token, 1});
  return token;
}

REEF_INLINE void TokenView::copy(std::size_t first, std::span<std::int32_t> to) const {
  if (to.empty()) return;
  auto piece = std::upper_bound(pieces_.begin(), pieces_.end(), first,
                                [](std::size_t at, const Piece& p) { return at < p.end; });
  for (; !to.empty(); ++piece) {
    const std::size_t count = (std::min)(to.size(), piece->end - first);
    piece->visit([&](const auto* tokens) {
      std::transform(tokens + (first - piece->begin), tokens + (first - piece->begin) + count,
                     to.data(), [](auto token) { return static_cast<std::int32_t>(token); });
    });
    first += count;
    to = to.subspan(count);
  }
}

REEF_INLINE TokenView TokenView::part(std::size_t first, std::size_t count) const {
  TokenView result;
  for (const Piece& piece : pieces_) {
    const std::size_t from = (std::max)(first, piece.begin);
    const std::size_t to = (std::min)(first + count, piece.end);
    if (from >= to) continue;
    piece.visit([&](const auto* tokens) {
      result.append(std::span(tokens + (from - piece.begin), to - from));
    });
  }
  return result;
}

}  // namespace data
}  // namespace v0
}  // namespace reef
