#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <ranges>
#include <span>
#include <type_traits>
#include <vector>

#include <reef/core/language.hpp>

namespace reef {
inline namespace v0 {
namespace data {

/// A type of tokens stored in a file or array, of 1, 2 or 4 bytes.
template <class T>
concept stored_token = std::same_as<T, std::uint8_t> || std::same_as<T, std::uint16_t> ||
    std::same_as<T, std::uint32_t> || std::same_as<T, std::int32_t>;

/// A view of tokens as one sequence. The view does not own the tokens, which are in one array or in several,
/// with 1, 2 or 4 bytes for each token.
///
/// | memory | 32 bytes an array; the tokens are not copied, and must outlive the view      |
/// | cost   | copy: a binary search over the arrays, then one loop for each array it reads |
///
/// \code
/// // given: const std::vector<std::uint16_t>& tokens
/// const data::TokenView view(tokens);
/// std::vector<std::int32_t> window(256);
/// view.copy(1000, window);  // tokens 1000 to 1255
/// \endcode
class TokenView {
public:
  TokenView() = default;

  /// Constructs a view of all tokens of a span, vector or array.
  template <std::ranges::contiguous_range Tokens>
    requires(stored_token<std::remove_cv_t<std::ranges::range_value_t<Tokens>>>&&
                 std::ranges::sized_range<Tokens>)
  TokenView(const Tokens& tokens) {  // implicit: so that functions that accept a view accept these too
    append(std::span(std::ranges::data(tokens), std::ranges::size(tokens)));
  }

  /// Appends tokens to the view, without copying them.
  template <stored_token T>
  void append(std::span<const T> tokens) {
    if (!tokens.empty()) add({tokens.data(), size(), size() + tokens.size(), sizeof(T)});
  }
  void append(const TokenView& tokens);

  [[nodiscard]] std::size_t size() const { return pieces_.empty() ? 0 : pieces_.back().end; }
  [[nodiscard]] bool empty() const { return pieces_.empty(); }

  [[nodiscard]] std::int32_t operator[](std::size_t index) const;

  /// Copies tokens [first, first + to.size()), which must exist, as int32. A token above 2^31 - 1 becomes
  /// negative.
  void copy(std::size_t first, std::span<std::int32_t> to) const;

  /// Returns a view of tokens [first, first + count), which must exist.
  [[nodiscard]] TokenView part(std::size_t first, std::size_t count) const;

  /// Calls f(span of std::uint8_t, std::uint16_t or std::uint32_t) for each array of tokens, in order.
  template <class F>
  void for_each_piece(F&& f) const {
    for (const Piece& piece : pieces_) {
      piece.visit([&](const auto* tokens) { f(std::span(tokens, piece.end - piece.begin)); });
    }
  }

private:
  struct Piece {
    const void* data;
    std::size_t begin;  // the index of its first token in the whole
    std::size_t end;
    std::size_t width;  // bytes of each token

    template <class F>
    void visit(F&& f) const {
      switch (width) {
        case 1: f(static_cast<const std::uint8_t*>(data)); break;
        case 2: f(static_cast<const std::uint16_t*>(data)); break;
        default: f(static_cast<const std::uint32_t*>(data)); break;
      }
    }
  };

  void add(const Piece& piece) { pieces_.push_back(piece); }

  std::vector<Piece> pieces_;
};

}  // namespace data
}  // namespace v0
}  // namespace reef

#ifndef REEF_COMPILED
#include <reef/data/token_view.ipp>
#endif
