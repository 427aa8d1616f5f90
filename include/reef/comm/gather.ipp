#pragma once

#include <reef/comm/gather.hpp>
#include <reef/core/inline.hpp>

namespace reef {
inline namespace v0 {
namespace comm {

namespace detail {

/// The most bytes of a rank's text.
inline constexpr std::size_t max_text_bytes = std::size_t{1} << 30;

/// Throws MpiError, on all ranks that are told, before anything is set aside for a text that is longer than any.
inline void require_text(const std::string& name, std::size_t size) {
  if (size <= max_text_bytes) return;
  throw MpiError("reef::comm: a rank says that its text of '", name, "' has ", size, " bytes, and a text has at most ",
                 max_text_bytes,
                 ".\n  state: nothing of it was received, and all ranks throw this.\n  fix: several shorter texts; or "
                 "find out which rank sends "
                 "what is none.");
}

}  // namespace detail

REEF_INLINE std::vector<std::string> gather_texts(Progress& progress, const std::string& name,
                                                  const std::string& mine) {
  const auto sizes = gather_numbers(progress, name + " (bytes)", mine.size());
  std::vector<std::int64_t> offsets{0};
  for (const std::size_t size : sizes) {
    detail::require_text(name, size);
    offsets.push_back(offsets.back() + static_cast<std::int64_t>(size));
  }
  const bool root = progress.rank() == 0;
  std::string whole(root ? static_cast<std::size_t>(offsets.back()) : 0, '\0');
  gather<char>(progress, name, 0, mine, whole, offsets);
  std::vector<std::string> texts;
  for (std::size_t rank = 0; root && rank < sizes.size(); ++rank) {
    texts.push_back(whole.substr(static_cast<std::size_t>(offsets[rank]), sizes[rank]));
  }
  return texts;
}

REEF_INLINE std::string broadcast_text(Progress& progress, const std::string& name,
                                       std::string text) {
  std::size_t size = text.size();
  broadcast(progress, name + " (bytes)", 0, std::span(&size, 1));
  detail::require_text(name, size);
  text.resize(size);
  broadcast<char>(progress, name, 0, text);
  return text;
}

#ifdef REEF_COMPILED
template std::vector<int> gather_numbers(Progress&, std::string, int, std::optional<Group>);
template std::vector<std::int64_t> gather_numbers(Progress&, std::string, std::int64_t, std::optional<Group>);
template std::vector<std::uint64_t> gather_numbers(Progress&, std::string, std::uint64_t, std::optional<Group>);
template std::vector<double> gather_numbers(Progress&, std::string, double, std::optional<Group>);
template std::vector<std::uint64_t> largest_of_ranks(Progress&, const std::string&, std::vector<std::uint64_t>);
#endif

}  // namespace comm
}  // namespace v0
}  // namespace reef
