#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <reef/comm/functions.hpp>
#include <reef/core/group.hpp>

namespace reef {
inline namespace v0 {
namespace comm {

/// Returns the numbers of all ranks, in the order of ranks, on each rank. All ranks call it, with the same name; with a
/// group, only its members do, and get the members' numbers in their order. Blocks.
///
/// \code
/// // given: comm::Progress& progress, Seconds step
/// const std::vector<Seconds> steps = comm::gather_numbers(progress, "step time", step);
/// const Seconds slowest = *std::max_element(steps.begin(), steps.end());
/// \endcode
template <movable_element T>
std::vector<T> gather_numbers(Progress& progress, std::string name, T mine,
                              std::optional<Group> group = {}) {
  const int ranks = group ? group->size() : progress.size();
  std::vector<T> all(static_cast<std::size_t>(ranks));
  all_gather<T>(progress, std::move(name), std::span<const T>(&mine, 1), all,
                even_offsets(ranks, ranks), std::move(group));
  return all;
}

/// Returns the elementwise maximum of all ranks' lists. If the lists differ in length,
/// each rank gets its own list back. All ranks call it, with the same name. Blocks.
template <movable_element T>
std::vector<T> largest_of_ranks(Progress& progress, const std::string& name, std::vector<T> mine) {
  const auto sizes = gather_numbers(progress, name + " (how many)", mine.size());
  if (std::any_of(sizes.begin(), sizes.end(), [&](std::size_t size) { return size != sizes[0]; }))
    return mine;
  const auto ranks = static_cast<std::int64_t>(sizes.size());
  const auto count = static_cast<std::int64_t>(mine.size());
  std::vector<T> all(sizes.size() * mine.size());
  all_gather<T>(progress, name, mine, all, even_offsets(ranks * count, progress.size()));
  for (std::size_t i = 0; i < all.size(); ++i) {
    T& largest = mine[i % mine.size()];
    largest = (std::max)(largest, all[i]);
  }
  return mine;
}

/// Returns on rank 0 the texts of all ranks, of at most 1 GiB each, by rank; on other ranks an empty
/// list. All ranks call it, with the same name. Blocks. Rank 0 temporarily holds the texts twice.
/// Throws MpiError for a longer text, on all ranks that learn of it, before memory for it is allocated.
std::vector<std::string> gather_texts(Progress& progress, const std::string& name,
                                      const std::string& mine);

/// Returns the text of rank 0, of at most 1 GiB, on all ranks. All ranks call it,
/// with the same name. Blocks. Throws MpiError for a longer text, as gather_texts.
std::string broadcast_text(Progress& progress, const std::string& name, std::string text);

}  // namespace comm
}  // namespace v0
}  // namespace reef

#ifdef REEF_COMPILED
namespace reef {
inline namespace v0 {
namespace comm {

extern template std::vector<int> gather_numbers(Progress&, std::string, int, std::optional<Group>);
extern template std::vector<std::int64_t> gather_numbers(Progress&, std::string, std::int64_t, std::optional<Group>);
extern template std::vector<std::uint64_t> gather_numbers(Progress&, std::string, std::uint64_t, std::optional<Group>);
extern template std::vector<double> gather_numbers(Progress&, std::string, double, std::optional<Group>);
extern template std::vector<std::uint64_t> largest_of_ranks(Progress&, const std::string&, std::vector<std::uint64_t>);

}  // namespace comm
}  // namespace v0
}  // namespace reef
#endif

#ifndef REEF_COMPILED
#include <reef/comm/gather.ipp>
#endif
