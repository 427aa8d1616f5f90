#pragma once

#include <algorithm>
#include <utility>

#include <reef/core/error.hpp>
#include <reef/core/inline.hpp>
#include <reef/graph/rows.hpp>
#include <reef/nn/detail/open_sequences.hpp>

namespace reef {
inline namespace v0 {
namespace nn::detail {

REEF_INLINE std::int64_t OpenSequences::pages_of(std::int64_t positions) {
  return (positions + graph::page_positions - 1) / graph::page_positions;
}

REEF_INLINE int OpenSequences::add(Sequence sequence) {
  sequences_.emplace(next_, std::move(sequence));
  return next_++;
}

REEF_INLINE auto OpenSequences::at(int sequence) const& -> const Sequence& {
  const auto found = sequences_.find(sequence);
  if (found == sequences_.end()) {
    throw OptionError("reef::nn::", owner_, ": sequence ", sequence,
                      " is not open.\n  fix: a number that open() gave.");
  }
  return found->second;
}

REEF_INLINE int OpenSequences::fork(int sequence) {
  const Sequence copy = at(sequence);
  pool_.share(copy.pages);
  return add(copy);
}

REEF_INLINE void OpenSequences::close(int sequence) {
  pool_.release(at(sequence).pages);
  sequences_.erase(sequence);
}

REEF_INLINE void OpenSequences::cut(Sequence& sequence, std::int64_t positions) {
  const auto kept = static_cast<std::size_t>(pages_of(positions));
  pool_.release(std::span(sequence.pages).subspan(kept));
  sequence.pages.resize(kept);
}

REEF_INLINE void OpenSequences::truncate(int sequence, std::int64_t length) {
  Sequence& cut_off = own(sequence);
  if (length < 0 || length > cut_off.length) {
    throw OptionError("reef::nn::", owner_, ": sequence ", sequence, " of ", cut_off.length, " tokens is to keep ",
                      length, ".\n  fix: from 0 to its length.");
  }
  cut(cut_off, length);
  cut_off.length = length;
}

REEF_INLINE auto OpenSequences::shared_page_to_write(const Sequence& sequence) const -> std::optional<Page> {
  if (sequence.length % graph::page_positions == 0 || pool_.holders(sequence.pages.back()) < 2) return std::nullopt;
  return sequence.pages.back();
}

REEF_INLINE std::size_t OpenSequences::pages_to_take(std::span<const Growth> growths) const {
  std::size_t pages = 0;
  std::map<Page, std::size_t> writers;
  for (const Growth& growth : growths) {
    const Sequence& sequence = at(growth.sequence);
    pages += static_cast<std::size_t>(pages_of(sequence.length + growth.tokens)) - sequence.pages.size();
    if (const auto page = shared_page_to_write(sequence)) ++writers[*page];
  }
  // Where all holders of a page write to it, the last of them keeps it.
  for (const auto& [page, count] : writers) pages += (std::min)(count, pool_.holders(page) - 1);
  return pages;
}

REEF_INLINE auto OpenSequences::reserve(std::span<const Growth> growths) -> std::vector<PageCopy> {
  const std::size_t wanted = pages_to_take(growths);
  if (wanted > pool_.free()) {
    throw OptionError("reef::nn::", owner_, ": ", wanted, " pages of ", graph::page_positions,
                      " positions are wanted, ", pool_.free(), " of ", pool_.size(),
                      " are free.\n  fix: more ", owner_, "Options::sequences, or close() what is done.");
  }
  std::vector<PageCopy> copies;
  for (const Growth& growth : growths) {
    Sequence& sequence = own(growth.sequence);
    if (const auto shared = shared_page_to_write(sequence)) {
      copies.push_back({*shared, pool_.take(), growth.sequence});
      pool_.release({&*shared, 1});
      sequence.pages.back() = copies.back().to;
    }
    const auto pages = static_cast<std::size_t>(pages_of(sequence.length + growth.tokens));
    while (sequence.pages.size() < pages) sequence.pages.push_back(pool_.take());
  }
  return copies;
}

REEF_INLINE void OpenSequences::commit(std::span<const Growth> growths) {
  for (const Growth& growth : growths) own(growth.sequence).length += growth.tokens;
}

REEF_INLINE void OpenSequences::give_back(std::span<const Growth> growths, std::span<const PageCopy> copies) {
  for (const Growth& growth : growths) cut(own(growth.sequence), at(growth.sequence).length);
  for (const PageCopy& copy : copies) {
    pool_.share({&copy.from, 1});  // the last holder of this page has kept it
    pool_.release({&copy.to, 1});
    own(copy.sequence).pages.back() = copy.from;
  }
}

}  // namespace nn::detail
}  // namespace v0
}  // namespace reef
