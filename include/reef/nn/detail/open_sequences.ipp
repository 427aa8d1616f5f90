#pragma once

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
    throw OptionError("reef::nn::Session: sequence ", sequence, " is not open.\n  fix: a number that open() gave.");
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
    throw OptionError("reef::nn::Session: sequence ", sequence, " of ", cut_off.length, " tokens is to keep ", length,
                      ".\n  fix: from 0 to its length.");
  }
  cut(cut_off, length);
  cut_off.length = length;
}

REEF_INLINE bool OpenSequences::writes_to_shared(const Sequence& sequence) const {
  return sequence.length % graph::page_positions != 0 && pool_.is_shared(sequence.pages.back());
}

REEF_INLINE auto OpenSequences::reserve(std::span<const Growth> growths) -> std::vector<PageCopy> {
  std::size_t wanted = 0;
  for (const Growth& growth : growths) {
    const Sequence& sequence = at(growth.sequence);
    wanted += static_cast<std::size_t>(pages_of(sequence.length + growth.tokens)) - sequence.pages.size();
    if (writes_to_shared(sequence)) ++wanted;
  }
  if (wanted > pool_.free()) {
    throw OptionError("reef::nn::Session: ", wanted, " pages of ", graph::page_positions, " positions are wanted, ",
                      pool_.free(), " of ", pool_.size(),
                      " are free.\n  fix: more SessionOptions::sequences, or close() what is done.");
  }
  std::vector<PageCopy> copies;
  for (const Growth& growth : growths) {
    Sequence& sequence = own(growth.sequence);
    if (writes_to_shared(sequence)) {
      const Page page = pool_.take();
      copies.push_back({sequence.pages.back(), page});
      pool_.release({&sequence.pages.back(), 1});
      sequence.pages.back() = page;
    }
    const auto pages = static_cast<std::size_t>(pages_of(sequence.length + growth.tokens));
    while (sequence.pages.size() < pages) sequence.pages.push_back(pool_.take());
  }
  return copies;
}

REEF_INLINE void OpenSequences::commit(std::span<const Growth> growths) {
  for (const Growth& growth : growths) own(growth.sequence).length += growth.tokens;
}

REEF_INLINE void OpenSequences::give_back(std::span<const Growth> growths) {
  for (const Growth& growth : growths) cut(own(growth.sequence), at(growth.sequence).length);
}

}  // namespace nn::detail
}  // namespace v0
}  // namespace reef
