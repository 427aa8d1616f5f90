#pragma once

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <functional>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include <reef/swarm/log/decision_log.hpp>

/// The laws of swarm::decision_log, for a log that answers all that it is asked. A case makes an empty log, with two
/// clients that may be the same object, and lets time go by:
///
///     struct MyCase {
///       swarm::DecisionLog& log();
///       swarm::DecisionLog& other();
///       void pass();    // a little time
///       void close();   // ends the clients
///       static std::string missing();   // why the log cannot be had here, or nothing; may be left out
///     };
///     INSTANTIATE_TYPED_TEST_SUITE_P(MyLog, DecisionLogLaws, testing::Types<MyCase>);
namespace reef::test {

using swarm::AppendOutcome;

/// What a watch has called its function with, in order.
class WatchedEntries {
public:
  swarm::EntryFound found() {
    return [this](swarm::LogIndex at, std::string_view entry) {
      const std::lock_guard lock(mutex_);
      seen_.emplace_back(at, entry);
    };
  }
  [[nodiscard]] std::vector<std::pair<swarm::LogIndex, std::string>> seen() const {
    const std::lock_guard lock(mutex_);
    return seen_;
  }

private:
  mutable std::mutex mutex_;
  std::vector<std::pair<swarm::LogIndex, std::string>> seen_;
};

/// Calls of a decision log that wait for their answer, while the case lets time go by.
template <class Case>
class SettledLog {
public:
  explicit SettledLog(Case& one) : case_(one) {}

  void until(const std::function<bool()>& so) {
    const auto begin = std::chrono::steady_clock::now();
    while (!so()) {
      case_.pass();
      if (std::chrono::steady_clock::now() - begin > std::chrono::seconds(60)) {
        FAIL() << "not so after 60 s";
      }
    }
  }
  swarm::Appended append(swarm::DecisionLog& log, swarm::LogIndex at, std::string entry) {
    return answer<swarm::Appended>([&](auto done) { log.append(at, std::move(entry), std::move(done)); });
  }
  swarm::LogPage page(swarm::DecisionLog& log, swarm::LogIndex from) {
    return answer<swarm::LogPage>([&](auto done) { log.read(from, std::move(done)); });
  }
  std::vector<std::string> read(swarm::DecisionLog& log, swarm::LogIndex from) {
    std::vector<std::string> all;
    for (;;) {
      const swarm::LogPage next = page(log, from + all.size());
      EXPECT_TRUE(next.answered) << next.why;
      EXPECT_EQ(next.from, from + all.size());
      if (next.entries.empty()) return all;
      all.insert(all.end(), next.entries.begin(), next.entries.end());
    }
  }

private:
  // Shared with the callback, which may come after a failure has ended the test.
  template <class Answer, class Call>
  Answer answer(const Call& call) {
    struct Given {
      std::mutex mutex;
      bool there = false;
      Answer answer;
    };
    const auto given = std::make_shared<Given>();
    call([given](Answer one) {
      const std::lock_guard lock(given->mutex);
      EXPECT_FALSE(given->there) << "answered twice";
      given->there = true;
      given->answer = std::move(one);
    });
    until([&] {
      const std::lock_guard lock(given->mutex);
      return given->there;
    });
    const std::lock_guard lock(given->mutex);
    return given->answer;
  }

  Case& case_;
};

template <class Case>
class DecisionLogLaws : public testing::Test {
protected:
  void SetUp() override {
    if constexpr (requires { Case::missing(); }) {
      if (const std::string why = Case::missing(); !why.empty()) GTEST_SKIP() << why;
    }
  }

  swarm::Appended append(swarm::LogIndex at, const std::string& entry) {
    return settled.append(one.log(), at, entry);
  }
  void append_all(swarm::LogIndex from, swarm::LogIndex to) {
    for (swarm::LogIndex at = from; at < to; ++at)
      ASSERT_EQ(append(at, entry_of(at)).outcome, AppendOutcome::won) << at;
  }
  /// The bytes of the longest entry that the log takes: those of all logs, unless the case says Case::most_bytes.
  static constexpr Bytes most_bytes = [] {
    if constexpr (requires { Case::most_bytes; }) return Case::most_bytes;
    return swarm::max_entry_bytes;
  }();
  static std::string entry_of(swarm::LogIndex at) { return "{\"entry\":" + std::to_string(at) + "}"; }

  Case one;
  SettledLog<Case> settled{one};
};

TYPED_TEST_SUITE_P(DecisionLogLaws);

TYPED_TEST_P(DecisionLogLaws, the_first_at_an_index_wins_and_the_second_hears_who_did) {
  EXPECT_EQ(this->append(0, "\"a\"").outcome, AppendOutcome::won);
  const swarm::Appended second = this->settled.append(this->one.other(), 0, "\"b\"");
  EXPECT_EQ(second.outcome, AppendOutcome::lost);
  EXPECT_EQ(second.other, "\"a\"");
  EXPECT_EQ(this->settled.append(this->one.other(), 0, "\"a\"").outcome, AppendOutcome::won) << "what stands was won";
  EXPECT_EQ(this->settled.read(this->one.other(), 0), std::vector<std::string>{"\"a\""});
}

TYPED_TEST_P(DecisionLogLaws, an_entry_needs_one_before) {
  EXPECT_EQ(this->append(1, "\"b\"").outcome, AppendOutcome::early);
  EXPECT_EQ(this->append(0, "\"a\"").outcome, AppendOutcome::won);
  const swarm::Appended far = this->append(2, "\"c\"");
  EXPECT_EQ(far.outcome, AppendOutcome::early);
  EXPECT_NE(far.why, "");
  EXPECT_EQ(this->settled.read(this->one.log(), 0), std::vector<std::string>{"\"a\""});
  EXPECT_EQ(this->append(1, "\"d\"").outcome, AppendOutcome::won);
}

TYPED_TEST_P(DecisionLogLaws, a_read_gives_all_from_its_index_on) {
  EXPECT_TRUE(this->settled.read(this->one.log(), 0).empty());
  EXPECT_TRUE(this->settled.read(this->one.log(), 7).empty());
  this->append_all(0, 5);
  for (swarm::LogIndex from = 0; from < 7; ++from) {
    std::vector<std::string> wanted;
    for (swarm::LogIndex at = from; at < 5; ++at) wanted.push_back(this->entry_of(at));
    EXPECT_EQ(this->settled.read(this->one.other(), from), wanted) << from;
  }
  EXPECT_TRUE(this->settled.read(this->one.log(), ~swarm::LogIndex{0} >> 1).empty());
}

TYPED_TEST_P(DecisionLogLaws, of_many_that_append_at_one_index_one_wins) {
  constexpr int rivals = 12;
  for (swarm::LogIndex at = 0; at < 6; ++at) {
    std::mutex mutex;
    std::vector<std::pair<int, swarm::Appended>> answers;
    for (int i = 0; i < rivals; ++i) {
      swarm::DecisionLog& log = i % 2 == 0 ? this->one.log() : this->one.other();
      log.append(at, this->entry_of(100 * at + static_cast<swarm::LogIndex>(i)), [&, i](swarm::Appended answer) {
        const std::lock_guard lock(mutex);
        answers.emplace_back(i, std::move(answer));
      });
    }
    this->settled.until([&] {
      const std::lock_guard lock(mutex);
      return answers.size() == rivals;
    });
    const std::vector<std::string> all = this->settled.read(this->one.log(), at);
    ASSERT_EQ(all.size(), 1U);
    int winners = 0;
    for (const auto& [i, answer] : answers) {
      const bool stands = this->entry_of(100 * at + static_cast<swarm::LogIndex>(i)) == all.front();
      winners += answer.outcome == AppendOutcome::won ? 1 : 0;
      EXPECT_EQ(answer.outcome, stands ? AppendOutcome::won : AppendOutcome::lost) << i << ": " << answer.why;
      EXPECT_EQ(answer.other, stands ? "" : all.front());
    }
    EXPECT_EQ(winners, 1);
  }
}

TYPED_TEST_P(DecisionLogLaws, a_watch_sees_each_entry_once_in_order) {
  WatchedEntries from_0;
  WatchedEntries from_2;
  WatchedEntries from_8;
  this->append_all(0, 4);
  const swarm::LogWatch all = this->one.other().watch(0, from_0.found());
  const swarm::LogWatch some = this->one.log().watch(2, from_2.found());
  const swarm::LogWatch later = this->one.log().watch(8, from_8.found());
  this->append_all(4, 10);
  this->settled.until([&] {
    return from_0.seen().size() >= 10 && from_2.seen().size() >= 8 && from_8.seen().size() >= 2;
  });
  const auto expect = [&](const WatchedEntries& watched, swarm::LogIndex at) {
    for (const auto& [seen, entry] : watched.seen()) {
      EXPECT_EQ(seen, at);
      EXPECT_EQ(entry, this->entry_of(at++));
    }
    EXPECT_EQ(at, 10U);
  };
  expect(from_0, 0);
  expect(from_2, 2);
  expect(from_8, 8);
}

TYPED_TEST_P(DecisionLogLaws, a_watch_that_has_ended_calls_no_more) {
  std::atomic<int> calls = 0;
  std::atomic<int> calls_of_one = 0;
  swarm::LogWatch ended = this->one.log().watch(0, [&](swarm::LogIndex, std::string_view) { ++calls; });
  swarm::LogWatch self;
  std::mutex mutex;  // of `self`
  {
    const std::lock_guard lock(mutex);
    self = this->one.log().watch(0, [&](swarm::LogIndex, std::string_view) {
      ++calls_of_one;
      const std::lock_guard inner(mutex);
      self.stop();
    });
  }
  this->append_all(0, 1);
  this->settled.until([&] { return calls == 1 && calls_of_one == 1; });
  ended.stop();
  WatchedEntries last;
  const swarm::LogWatch watch = this->one.log().watch(0, last.found());
  this->append_all(1, 4);
  this->settled.until([&] { return last.seen().size() == 4; });
  EXPECT_EQ(calls, 1);
  EXPECT_EQ(calls_of_one, 1);
}

TYPED_TEST_P(DecisionLogLaws, any_text_comes_back_as_it_was) {
  std::vector<std::string> entries{
      "x", std::string("\0\x01\x1f\x7f\"\\/\b\n\r\t", 11), "\xC3\xA9\xE2\x82\xAC\xF0\x9F\x90\x9F",
      std::string(this->most_bytes, 'y'), std::string(this->most_bytes, '\x02'), "{\"a\":\"%20&=+#\"}"};
  for (std::size_t at = 0; at < entries.size(); ++at)
    ASSERT_EQ(this->append(at, entries[at]).outcome, AppendOutcome::won) << at;
  EXPECT_EQ(this->settled.read(this->one.other(), 0), entries);
  EXPECT_EQ(this->append(4, "z").other, entries[4]);
}

TYPED_TEST_P(DecisionLogLaws, what_is_no_entry_is_refused_and_changes_nothing) {
  const auto never = [](const swarm::Appended&) { ADD_FAILURE() << "called for an append that threw"; };
  for (const std::string& entry : {std::string(), std::string(this->most_bytes + 1, 'x'), std::string("a\xFF"),
                                   std::string("\xC0\x80"), std::string("\xED\xA0\x80")}) {
    EXPECT_THROW(this->one.log().append(0, entry, never), OptionError);
  }
  EXPECT_TRUE(this->settled.read(this->one.log(), 0).empty());
}

TYPED_TEST_P(DecisionLogLaws, long_logs_are_read_page_by_page) {
  std::vector<std::string> entries;
  for (std::size_t at = 0; at < 11; ++at) {
    entries.emplace_back(this->most_bytes - 3 * at, static_cast<char>('a' + at));
    ASSERT_EQ(this->append(at, entries[at]).outcome, AppendOutcome::won);
  }
  const swarm::LogPage first = this->settled.page(this->one.log(), 1);
  Bytes bytes = 0;
  for (const std::string& entry : first.entries) bytes += entry.size();
  EXPECT_LE(bytes, swarm::log_page_bytes + swarm::max_entry_bytes);
  EXPECT_GE(first.entries.size(), 1U);
  EXPECT_EQ(this->settled.read(this->one.log(), 0), entries);
  WatchedEntries watched;
  const swarm::LogWatch watch = this->one.other().watch(3, watched.found());
  this->settled.until([&] { return watched.seen().size() == 8; });
  EXPECT_EQ(watched.seen().back().second, entries.back());
}

TYPED_TEST_P(DecisionLogLaws, a_callback_may_call_again_and_none_comes_within_its_call) {
  std::atomic<std::thread::id> inside{};
  std::atomic<int> chained = 0;
  std::function<void(swarm::LogIndex)> next = [&](swarm::LogIndex at) {
    if (at == 20) return;
    inside = std::this_thread::get_id();
    this->one.log().append(at, this->entry_of(at), [&, at](const swarm::Appended& answer) {
      EXPECT_NE(inside.load(), std::this_thread::get_id()) << "called within append";
      EXPECT_EQ(answer.outcome, AppendOutcome::won);
      next(at + 1);
      ++chained;
    });
    inside = std::thread::id{};
  };
  next(0);
  this->settled.until([&] { return chained == 20; });
  EXPECT_EQ(this->settled.read(this->one.log(), 0).size(), 20U);
}

TYPED_TEST_P(DecisionLogLaws, the_end_of_a_log_answers_what_is_open) {
  std::atomic<int> answers = 0;
  WatchedEntries watched;
  swarm::LogWatch watch = this->one.log().watch(0, watched.found());
  for (swarm::LogIndex at = 0; at < 20; ++at) {
    this->one.log().append(at, this->entry_of(at), [&](const swarm::Appended&) { ++answers; });
    this->one.log().read(at, [&](const swarm::LogPage&) { ++answers; });
  }
  this->one.close();
  EXPECT_EQ(answers, 40);
  watch.stop();  // outlives the log
}

REGISTER_TYPED_TEST_SUITE_P(DecisionLogLaws, the_first_at_an_index_wins_and_the_second_hears_who_did,
                            an_entry_needs_one_before, a_read_gives_all_from_its_index_on,
                            of_many_that_append_at_one_index_one_wins, a_watch_sees_each_entry_once_in_order,
                            a_watch_that_has_ended_calls_no_more, any_text_comes_back_as_it_was,
                            what_is_no_entry_is_refused_and_changes_nothing, long_logs_are_read_page_by_page,
                            a_callback_may_call_again_and_none_comes_within_its_call,
                            the_end_of_a_log_answers_what_is_open);

}  // namespace reef::test
