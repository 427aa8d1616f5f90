#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include <reef/comm/functions.hpp>

namespace reef::inline v0::comm {

/// One number of every rank, by rank. All ranks call it, with the same name. Blocks.
inline std::vector<double> gather_numbers(Progress& progress, const std::string& name,
                                          double mine) {
  const int ranks = progress.size();
  std::vector<double> all(static_cast<std::size_t>(ranks));
  all_gather<double>(progress, name, std::span<const double>(&mine, 1), std::span<double>(all),
                     even_offsets(ranks, ranks));
  return all;
}

/// A text of every rank, of any length, by rank: on rank 0; nothing elsewhere. All ranks call it, with
/// the same name. Blocks.
inline std::vector<std::string> gather_texts(Progress& progress, const std::string& name,
                                             const std::string& mine) {
  const auto sizes = gather_numbers(progress, name + " (bytes)", static_cast<double>(mine.size()));
  if (progress.rank() != 0) {
    if (!mine.empty()) send(progress, name, 0, std::span<const char>(mine));
    return {};
  }
  std::vector<std::string> texts{mine};
  for (int rank = 1; rank < progress.size(); ++rank) {
    texts.emplace_back(static_cast<std::size_t>(sizes[static_cast<std::size_t>(rank)]), '\0');
    if (!texts.back().empty()) receive(progress, name, rank, std::span<char>(texts.back()));
  }
  return texts;
}

/// The text of rank 0, on all ranks. All ranks call it, with the same name. Blocks.
inline std::string broadcast_text(Progress& progress, const std::string& name, std::string text) {
  const auto sizes = gather_numbers(progress, name + " (bytes)", static_cast<double>(text.size()));
  if (sizes.front() == 0) return {};
  if (progress.rank() != 0) {
    text.assign(static_cast<std::size_t>(sizes.front()), '\0');
    receive(progress, name, 0, std::span<char>(text));
    return text;
  }
  for (int rank = 1; rank < progress.size(); ++rank) {
    send(progress, name, rank, std::span<const char>(text));
  }
  return text;
}

}  // namespace reef::inline v0::comm
