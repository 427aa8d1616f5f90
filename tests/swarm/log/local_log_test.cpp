#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include <laws/decision_log.hpp>
#include <reef/swarm/log/blocking_log.hpp>
#include <reef/swarm/log/local_log.hpp>
#include <support/temporary_folder.hpp>

namespace reef::test {

struct LocalLogCase {
  swarm::DecisionLog& log() { return *local; }
  swarm::DecisionLog& other() { return *local; }
  static void pass() { std::this_thread::sleep_for(std::chrono::milliseconds(1)); }
  void close() { local.reset(); }

  TemporaryFolder folder;
  std::unique_ptr<swarm::LocalLog> local = std::make_unique<swarm::LocalLog>(folder / "log");
};

INSTANTIATE_TYPED_TEST_SUITE_P(LocalLog, DecisionLogLaws, testing::Types<LocalLogCase>);

namespace {

namespace fs = std::filesystem;

using swarm::BlockingLog;
using swarm::LocalLog;

std::string local_entry(swarm::LogIndex at) {
  return "{\"entry\":" + std::to_string(at) + ",\"text\":\"" + std::string(at * 7 % 30, 'x') + "\"}";
}

void append_locally(const fs::path& folder, swarm::LogIndex from, swarm::LogIndex to) {
  LocalLog log(folder);
  for (swarm::LogIndex at = from; at < to; ++at)
    ASSERT_EQ(BlockingLog(log).append(at, local_entry(at)).outcome, AppendOutcome::won);
}

std::string bytes_of(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

/// The error of opening a folder as a log; empty where there is none.
std::string error_of(const fs::path& folder) {
  try {
    const LocalLog log(folder);
    return "";
  } catch (const Error& error) {
    return error.what();
  }
}

TEST(LocalLog, has_what_was_won_when_it_is_opened_again) {
  const TemporaryFolder folder;
  for (swarm::LogIndex from = 0; from < 12; from += 4) append_locally(folder.path(), from, from + 4);
  LocalLog log(folder.path());
  EXPECT_EQ(log.size(), 12U);
  EXPECT_EQ(log.cut(), 0U);
  const std::vector<std::string> all = BlockingLog(log).read(0);
  ASSERT_EQ(all.size(), 12U);
  for (swarm::LogIndex at = 0; at < 12; ++at) EXPECT_EQ(all[at], local_entry(at));
  EXPECT_EQ(BlockingLog(log).append(11, local_entry(11)).outcome, AppendOutcome::won);
  EXPECT_EQ(BlockingLog(log).append(11, "{}").outcome, AppendOutcome::lost);
}

TEST(LocalLog, is_of_one_process_at_a_time) {
  const TemporaryFolder folder;
  const LocalLog log(folder.path());
  EXPECT_NE(error_of(folder.path()).find("another job writes to"), std::string::npos) << error_of(folder.path());
}

TEST(LocalLog, drops_what_nobody_needs_and_keeps_the_indices_of_the_rest) {
  const TemporaryFolder folder;
  append_locally(folder.path(), 0, 12);
  const fs::path file = folder / "decisions.log";
  const std::size_t before = bytes_of(file).size();
  {
    LocalLog log(folder.path());
    WatchedEntries early;
    const swarm::LogWatch watch = log.watch(11, early.found());
    for (const swarm::LogIndex at : {5, 3, 99}) log.drop(at);
    const swarm::LogPage page = BlockingLog(log).page(0);
    EXPECT_EQ(page.from, 5U);
    ASSERT_EQ(page.entries.size(), 7U);
    EXPECT_LT(bytes_of(file).size(), before);
    EXPECT_EQ(log.size(), 12U);
    EXPECT_EQ(BlockingLog(log).page(7).entries.front(), local_entry(7));
    EXPECT_EQ(BlockingLog(log).append(5, local_entry(5)).outcome, AppendOutcome::won);
    EXPECT_EQ(BlockingLog(log).append(6, "{}").other, local_entry(6));
    const swarm::Appended gone = BlockingLog(log).append(3, local_entry(3));
    EXPECT_EQ(gone.outcome, AppendOutcome::unknown);
    EXPECT_NE(gone.why.find("entry 3 was dropped"), std::string::npos) << gone.why;
    WatchedEntries seen;
    const swarm::LogWatch all = log.watch(0, seen.found());
    EXPECT_EQ(BlockingLog(log).append(12, local_entry(12)).outcome, AppendOutcome::won);
    for (int i = 0; i < 2; ++i) static_cast<void>(BlockingLog(log).page(0));  // watches are given theirs before
    ASSERT_EQ(seen.seen().size(), 8U);
    EXPECT_EQ(seen.seen().front().first, 5U);
    EXPECT_EQ(seen.seen().back().first, 12U);
    EXPECT_EQ(early.seen().back().first, 12U);
  }
  append_locally(folder.path(), 13, 14);
  const std::string whole = bytes_of(file);
  {
    LocalLog log(folder.path());
    EXPECT_EQ(log.size(), 14U);
    const std::vector<std::string> all = BlockingLog(log).read(0);
    ASSERT_EQ(all.size(), 9U);
    for (swarm::LogIndex at = 5; at < 14; ++at) EXPECT_EQ(all[at - 5], local_entry(at));
  }
  constexpr std::size_t mark = 8;
  write_file(file, whole.substr(0, whole.size() - mark - 1));
  EXPECT_EQ(LocalLog(folder.path()).size(), 13U) << "a write that was cut off";
  constexpr std::size_t head = 24;
  for (std::size_t at = 0; at < head; ++at) {
    std::string bytes = whole;
    bytes[at] = static_cast<char>(bytes[at] ^ 1);
    write_file(file, bytes);
    EXPECT_NE(error_of(folder.path()).find("is no decision log"), std::string::npos) << at;
  }
}

TEST(LocalLog, cuts_off_a_write_that_was_cut_off) {
  const TemporaryFolder folder;
  const fs::path made = folder / "made";
  append_locally(made, 0, 3);
  const std::size_t before = bytes_of(made / "decisions.log").size();
  append_locally(made, 3, 4);
  const std::string whole = bytes_of(made / "decisions.log");
  constexpr std::size_t mark = 8;
  const fs::path torn = folder / "torn";
  for (std::size_t end = before; end < whole.size(); ++end) {
    const bool zeros = end % 2 == 0;  // a power cut leaves a file of full length, too
    fs::create_directories(torn);
    std::string bytes = whole.substr(0, end);
    // A mark is written when its record is durable: what lacks some of its record has no mark.
    bytes.resize(zeros ? whole.size() : end, '\0');
    write_file(torn / "decisions.log", bytes);
    const bool durable = end >= whole.size() - mark;
    {
      LocalLog log(torn);
      ASSERT_EQ(log.size(), durable ? 4U : 3U) << end << zeros;
      ASSERT_EQ(log.cut() == 0, durable || bytes.size() == before) << end << zeros;
      const swarm::LogIndex next = log.size();
      ASSERT_EQ(BlockingLog(log).append(next, local_entry(next)).outcome, AppendOutcome::won);
    }
    LocalLog again(torn);
    ASSERT_EQ(again.cut(), 0U);
    ASSERT_EQ(BlockingLog(again).read(0).back(), local_entry(again.size() - 1));
  }
}

TEST(LocalLog, refuses_damage_of_what_was_won_by_the_name_of_the_entry) {
  const TemporaryFolder folder;
  const fs::path made = folder / "made";
  append_locally(made, 0, 4);
  const std::string whole = bytes_of(made / "decisions.log");
  const fs::path damaged = folder / "damaged";
  fs::create_directories(damaged);
  // A mark alone says nothing that its record does not.
  std::vector<bool> is_mark(whole.size(), false);
  std::size_t offset = 16;
  for (swarm::LogIndex i = 0; i < 4; ++i) {
    offset += 8 + local_entry(i).size();
    for (std::size_t k = 0; k < 8; ++k) is_mark[offset++] = true;
  }
  ASSERT_EQ(offset, whole.size());
  for (std::size_t at = 0; at < whole.size(); at += at < 24 ? 1 : 2) {
    const char flip = "\x01\x80\xFF"[at % 3];
    std::string bytes = whole;
    bytes[at] = static_cast<char>(bytes[at] ^ flip);
    write_file(damaged / "decisions.log", bytes);
    const std::string error = error_of(damaged);
    ASSERT_EQ(error.empty(), static_cast<bool>(is_mark[at])) << "byte " << at << ": " << error;
    if (error.empty()) {
      LocalLog log(damaged);
      std::vector<std::string> all = BlockingLog(log).read(0);
      ASSERT_EQ(all.size(), 4U) << "byte " << at;
      for (swarm::LogIndex i = 0; i < 4; ++i) ASSERT_EQ(all[i], local_entry(i)) << "byte " << at;
    } else {
      ASSERT_NE(error.find("decisions.log"), std::string::npos) << error;
      ASSERT_NE(error.find("fix: "), std::string::npos) << error;
      ASSERT_EQ(bytes_of(damaged / "decisions.log"), bytes) << "a refused log is left alone";
      ASSERT_TRUE(at < 16 || error.find("entry ") != std::string::npos) << error;
    }
  }
}

TEST(LocalLog, opens_or_refuses_any_bytes) {
  const TemporaryFolder folder;
  const fs::path made = folder / "made";
  append_locally(made, 0, 6);
  const std::string whole = bytes_of(made / "decisions.log");
  std::mt19937 random(7);  // NOLINT: the same bytes in each run
  const auto below = [&](std::size_t n) { return static_cast<std::size_t>(random() % n); };
  const fs::path damaged = folder / "damaged";
  fs::create_directories(damaged);
  for (int round = 0; round < 100; ++round) {
    std::string bytes = whole;
    switch (below(4)) {
      case 0: bytes.erase(below(bytes.size()), 1 + below(60)); break;
      case 1: bytes.insert(below(bytes.size()), std::string(1 + below(60), static_cast<char>(below(256)))); break;
      case 2: std::generate(bytes.begin() + 16, bytes.end(), [&] { return static_cast<char>(below(256)); }); break;
      default: bytes += bytes.substr(below(bytes.size()), 1 + below(100));
    }
    write_file(damaged / "decisions.log", bytes);
    try {
      LocalLog log(damaged);
      const std::vector<std::string> all = BlockingLog(log).read(0);
      ASSERT_LE(all.size(), 6U);
      for (swarm::LogIndex i = 0; i < all.size(); ++i) ASSERT_EQ(all[i], local_entry(i));
    } catch (const Error& error) {
      ASSERT_NE(std::string(error.what()).find("fix: "), std::string::npos) << error.what();
    }
  }
  for (const std::string& foreign : {std::string(), std::string("x"), std::string(100, 'x'), std::string(16, '\0')}) {
    write_file(damaged / "decisions.log", foreign);
    EXPECT_NE(error_of(damaged).find("is no decision log"), std::string::npos) << foreign.size();
  }
}

TEST(LocalLog, says_unknown_where_the_disk_is_full_and_goes_on_when_there_is_room) {
  const TemporaryFolder folder;
  const ::pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    ::signal(SIGXFSZ, SIG_IGN);
    int wrong = 0;
    LocalLog log(folder / "log");
    BlockingLog blocking(log);
    wrong += blocking.append(0, local_entry(0)).outcome == AppendOutcome::won ? 0 : 1;
    const ::rlimit small{200, RLIM_INFINITY};
    ::setrlimit(RLIMIT_FSIZE, &small);
    const swarm::Appended full = blocking.append(1, std::string(1000, 'x'));
    wrong += full.outcome == AppendOutcome::unknown && full.why.find("fix: ") != std::string::npos ? 0 : 2;
    wrong += blocking.read(0).size() == 1 ? 0 : 4;
    const ::rlimit none{RLIM_INFINITY, RLIM_INFINITY};
    ::setrlimit(RLIMIT_FSIZE, &none);
    wrong += blocking.append(1, local_entry(1)).outcome == AppendOutcome::won ? 0 : 8;
    ::_exit(wrong);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 0);
  LocalLog log(folder / "log", 5);
  EXPECT_EQ(BlockingLog(log).read(0), (std::vector<std::string>{local_entry(0), local_entry(1)}));
}

TEST(LocalLog, keeps_all_that_was_won_by_a_process_that_is_killed) {
  const TemporaryFolder folder;
  std::mt19937 random(11);  // NOLINT: the same moments in each run
  swarm::LogIndex stood = 0;
  for (int round = 0; round < 12; ++round) {
    int ends[2];
    ASSERT_EQ(::pipe(ends), 0);
    const ::pid_t child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      LocalLog log(folder / "log", 20);
      for (swarm::LogIndex at = log.size();; ++at) {
        if (BlockingLog(log).append(at, local_entry(at)).outcome != AppendOutcome::won) ::_exit(1);
        if (::write(ends[1], &at, sizeof(at)) != sizeof(at)) ::_exit(2);
      }
    }
    ::close(ends[1]);
    swarm::LogIndex won = 0;
    const int many = 1 + static_cast<int>(random() % 40);
    for (int i = 0; i < many; ++i) ASSERT_EQ(::read(ends[0], &won, sizeof(won)), static_cast<::ssize_t>(sizeof(won)));
    std::this_thread::sleep_for(std::chrono::microseconds(random() % 2000));
    ASSERT_EQ(::kill(child, SIGKILL), 0);
    ASSERT_EQ(::waitpid(child, nullptr, 0), child);
    while (::read(ends[0], &won, sizeof(won)) == static_cast<::ssize_t>(sizeof(won))) {
    }
    ::close(ends[0]);
    LocalLog log(folder / "log", 20);
    const std::vector<std::string> all = BlockingLog(log).read(0);
    ASSERT_GE(all.size(), won + 1) << "an entry that was won is lost";
    ASSERT_LE(all.size(), won + 2) << "an entry that nobody appended stands";
    ASSERT_GT(all.size(), stood);
    stood = all.size();
    for (swarm::LogIndex at = 0; at < all.size(); ++at) ASSERT_EQ(all[at], local_entry(at));
  }
}

}  // namespace
}  // namespace reef::test
