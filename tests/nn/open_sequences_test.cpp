// Pages of open sequences, beside a store in which each sequence has a text of its own.

#include <reef/nn/detail/open_sequences.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <random>
#include <set>
#include <span>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <reef/core/error.hpp>
#include <reef/graph/rows.hpp>

namespace {

using namespace reef;
using nn::detail::OpenSequences;
using Growths = std::vector<OpenSequences::Growth>;

/// Sequences whose pages have numbers, which are written and copied as a session's keys and values are.
class Texts {
public:
  explicit Texts(std::int64_t pages)
      : sequences_(pages), memory_(static_cast<std::size_t>(pages), std::vector<int>(graph::page_positions, -1)) {}

  int open() { return texts_.emplace(sequences_.open(), std::vector<int>()).first->first; }
  void fork(int sequence) { texts_[sequences_.fork(sequence)] = texts_.at(sequence); }
  void close(int sequence) {
    sequences_.close(sequence);
    texts_.erase(sequence);
  }
  void truncate(int sequence, std::size_t length) {
    sequences_.truncate(sequence, static_cast<std::int64_t>(length));
    texts_.at(sequence).resize(length);
  }

  /// Where an append ends: all is computed, or its lane fails as it copies pages, or behind half of the new tokens.
  enum class End { computed, fails_in_copies, fails_in_tokens };

  /// Appends drawn numbers. Returns whether there was room.
  bool append(const Growths& growths, End end, std::mt19937& random) {
    const bool fits = pages_after(growths) <= static_cast<std::int64_t>(memory_.size());
    std::vector<OpenSequences::PageCopy> copies;
    try {
      copies = sequences_.reserve(growths);
      EXPECT_TRUE(fits);
    } catch (const OptionError&) {
      EXPECT_FALSE(fits);
      return false;
    }
    for (const auto& copy : copies) {
      if (end == End::fails_in_copies && &copy == &copies.back()) break;
      memory_[at(copy.to)] = memory_[at(copy.from)];
    }
    if (end == End::fails_in_copies) {
      sequences_.give_back(growths, copies);
      return true;
    }
    for (const auto& growth : growths) {
      const auto& sequence = sequences_.at(growth.sequence);
      for (std::int64_t i = 0; i < growth.tokens; ++i) {
        if (end == End::fails_in_tokens && i > growth.tokens / 2) break;
        const std::int64_t position = sequence.length + i;
        const int number = static_cast<int>(random() % 1000);
        memory_[at(sequence.pages.at(at(position / graph::page_positions)))][at(position % graph::page_positions)] = number;
        if (end == End::computed) texts_.at(growth.sequence).push_back(number);
      }
    }
    if (end == End::fails_in_tokens) {
      sequences_.give_back(growths, {});
    } else {
      sequences_.commit(growths);
    }
    return true;
  }

  /// Each sequence has its text, and each page is either free or somebody's.
  void check() const {
    std::set<OpenSequences::Page> held;
    for (const auto& [number, text] : texts_) {
      const auto& sequence = sequences_.at(number);
      ASSERT_EQ(sequence.length, std::ssize(text));
      ASSERT_EQ(std::ssize(sequence.pages), OpenSequences::pages_of(sequence.length));
      for (std::size_t i = 0; i < text.size(); ++i) {
        ASSERT_EQ(memory_[at(sequence.pages[i / graph::page_positions])][i % graph::page_positions], text[i]);
      }
      held.insert(sequence.pages.begin(), sequence.pages.end());
    }
    EXPECT_EQ(held.size() + sequences_.free_pages(), memory_.size());
  }

  [[nodiscard]] const std::map<int, std::vector<int>>& all() const { return texts_; }
  [[nodiscard]] std::size_t free_pages() const { return sequences_.free_pages(); }

private:
  template <class Number>
  static std::size_t at(Number number) {
    return static_cast<std::size_t>(number);
  }

  /// The pages that are not free behind an append: of each that is held, one for all who do not write to it, and one
  /// for each who does.
  [[nodiscard]] std::int64_t pages_after(const Growths& growths) const {
    std::map<int, std::int64_t> tokens;
    for (const auto& growth : growths) tokens[growth.sequence] = growth.tokens;
    std::set<OpenSequences::Page> kept;
    std::int64_t written = 0;
    for (const auto& [number, text] : texts_) {
      const auto& sequence = sequences_.at(number);
      const auto grown = tokens.find(number);
      std::span<const OpenSequences::Page> pages = sequence.pages;
      if (grown != tokens.end()) {
        pages = pages.first(at(sequence.length / graph::page_positions));
        written += OpenSequences::pages_of(sequence.length + grown->second) - std::ssize(pages);
      }
      kept.insert(pages.begin(), pages.end());
    }
    return std::ssize(kept) + written;
  }

  OpenSequences sequences_;
  std::vector<std::vector<int>> memory_;
  std::map<int, std::vector<int>> texts_;
};

TEST(OpenSequences, have_their_texts_whatever_is_forked_truncated_closed_and_fails_in_few_pages) {
  int refused = 0, failed = 0;
  for (unsigned seed = 0; seed < 40; ++seed) {
    std::mt19937 random(seed);
    Texts texts(3 + static_cast<std::int64_t>(seed % 7));
    for (int step = 0; step < 300; ++step) {
      std::vector<int> open;
      for (const auto& [number, text] : texts.all()) open.push_back(number);
      const auto one = [&] { return open[random() % open.size()]; };
      switch (open.empty() ? 0 : random() % 8) {
        case 0:
          if (open.size() < 9) texts.open();
          break;
        case 1:
          if (open.size() < 9) texts.fork(one());
          break;
        case 2: texts.close(one()); break;
        case 3: {
          const int sequence = one();
          texts.truncate(sequence, random() % (texts.all().at(sequence).size() + 1));
          break;
        }
        default: {
          std::shuffle(open.begin(), open.end(), random);
          open.resize(1 + random() % open.size());
          Growths growths;
          for (const int sequence : open) growths.push_back({sequence, 1 + static_cast<std::int64_t>(random() % 70)});
          const unsigned drawn = random() % 8;
          const auto end = drawn < 2 ? static_cast<Texts::End>(1 + drawn) : Texts::End::computed;
          const bool fitted = texts.append(growths, end, random);
          refused += fitted ? 0 : 1;
          failed += fitted && end != Texts::End::computed ? 1 : 0;
        }
      }
      texts.check();
      if (HasFatalFailure() || HasNonfatalFailure()) FAIL() << "seed " << seed << ", step " << step;
    }
  }
  EXPECT_GT(refused, 100);
  EXPECT_GT(failed, 100);
}

TEST(OpenSequences, that_share_a_page_and_all_write_to_it_take_one_page_less_than_they_are) {
  std::mt19937 random(1);
  Texts texts(4);
  const int first = texts.open();
  ASSERT_TRUE(texts.append({{first, 10}}, Texts::End::computed, random));
  for (int i = 0; i < 3; ++i) texts.fork(first);
  Growths growths;
  for (const auto& [number, text] : texts.all()) growths.push_back({number, 1});
  EXPECT_TRUE(texts.append(growths, Texts::End::computed, random));
  texts.check();
  EXPECT_EQ(texts.free_pages(), 0U);
}

TEST(OpenSequences, share_pages_again_that_were_to_be_copied_where_an_append_fails) {
  std::mt19937 random(2);
  Texts texts(4);
  const int first = texts.open();
  ASSERT_TRUE(texts.append({{first, 70}}, Texts::End::computed, random));
  texts.fork(first);
  ASSERT_EQ(texts.free_pages(), 2U);
  EXPECT_TRUE(texts.append({{first, 5}}, Texts::End::fails_in_copies, random));
  EXPECT_EQ(texts.free_pages(), 2U);
  texts.check();
}

}  // namespace
