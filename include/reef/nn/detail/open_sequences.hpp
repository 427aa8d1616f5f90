#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <vector>

#include <reef/nn/detail/page_pool.hpp>

namespace reef {
inline namespace v0 {
namespace nn::detail {

/// The sequences of a session by their numbers: the length of each, and the pages that hold its positions.
class OpenSequences {
public:
  using Page = PagePool::Page;

  struct Sequence {
    std::vector<Page> pages;
    std::int64_t length = 0;
  };

  /// A sequence and the number of tokens that are put behind it.
  struct Growth {
    int sequence = 0;
    std::int64_t tokens = 0;
  };

  /// A shared page that a sequence will write to, and the page of its own that it is to be copied into.
  struct PageCopy {
    Page from;
    Page to;
    int sequence = 0;
  };

  /// `owner`: the name of the class in nn, for errors, whose options are `owner`Options.
  explicit OpenSequences(std::int64_t pages, const char* owner = "Session") : owner_(owner), pool_(pages) {}

  int open() { return add({}); }
  int fork(int sequence);
  void close(int sequence);

  /// Takes back all positions from `length` on. Throws OptionError for more than the sequence has.
  void truncate(int sequence, std::int64_t length);

  /// Returns a sequence. Throws OptionError where it is not open.
  [[nodiscard]] const Sequence& at(int sequence) const&;
  const Sequence& at(int sequence) const&& = delete;

  [[nodiscard]] std::size_t pages() const { return pool_.size(); }
  [[nodiscard]] std::size_t free_pages() const { return pool_.free(); }

  /// Gives each sequence the pages of its new tokens, and a page of its own in place of a last page that it shares and
  /// will write to; returns which pages to copy. The last holder of a page keeps that page. Throws OptionError, and
  /// changes nothing, where too few pages are free.
  std::vector<PageCopy> reserve(std::span<const Growth> growths);

  /// Counts the new tokens, which are computed.
  void commit(std::span<const Growth> growths);

  /// Frees the pages of new tokens, which were not computed, and shares the pages of `copies` again: those that
  /// reserve() returned if nobody has written to a page yet, else none.
  void give_back(std::span<const Growth> growths, std::span<const PageCopy> copies);

  /// Returns the number of pages that hold so many positions.
  static std::int64_t pages_of(std::int64_t positions);

private:
  [[nodiscard]] Sequence& own(int sequence) { return const_cast<Sequence&>(at(sequence)); }
  int add(Sequence sequence);
  /// Returns the last page of a sequence if new tokens are written to that page, and others hold it too.
  [[nodiscard]] std::optional<Page> shared_page_to_write(const Sequence& sequence) const;
  /// Returns the number of pages that reserve() takes.
  [[nodiscard]] std::size_t pages_to_take(std::span<const Growth> growths) const;
  /// Frees the pages behind so many positions.
  void cut(Sequence& sequence, std::int64_t positions);

  const char* owner_;
  PagePool pool_;
  std::map<int, Sequence> sequences_;
  int next_ = 0;
};

}  // namespace nn::detail
}  // namespace v0
}  // namespace reef

#ifndef REEF_COMPILED
#include <reef/nn/detail/open_sequences.ipp>
#endif
