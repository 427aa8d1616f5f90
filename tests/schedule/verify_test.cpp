#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include <reef/schedule/verify.hpp>

#include "programs.hpp"

namespace reef::test {

namespace {

/// What verify throws, or nothing.
std::string refusal(const std::vector<Program>& programs, const schedule::Limits& limits = {}) {
  try {
    schedule::verify(programs, limits);
    return {};
  } catch (const ScheduleError& error) {
    return error.what();
  }
}

void expect_words(const std::string& text, const std::vector<std::string>& words) {
  for (const std::string& word : words) {
    EXPECT_NE(text.find(word), std::string::npos) << "no \"" << word << "\" in: " << text;
  }
}

/// Each of two ranks sends to and receives from the other; the second may have the order reversed.
std::vector<Program> exchange(Lane send_lane, Lane receive_lane, bool reversed) {
  std::vector<Program> programs;
  for (int rank = 0; rank < 2; ++rank) {
    Writer w(rank);
    const StorageId mine = w.storage("mine");
    const StorageId theirs = w.storage("theirs");
    w.writes("Make", Lane::compute, mine);
    const auto send = [&] { w.reads("Send", send_lane, mine).sends = {{1 - rank, 96, 7}}; };
    const auto receive = [&] {
      w.writes("Receive", receive_lane, theirs).receives = {{1 - rank, 96, 7}};
    };
    if (rank == 1 && reversed) {
      receive();
      send();
    } else {
      send();
      receive();
    }
    programs.push_back(std::move(w.program));
  }
  return programs;
}

}  // namespace

TEST(Verify, accepts_an_exchange_on_two_lanes_in_any_order) {
  EXPECT_EQ(refusal(exchange(Lane::send, Lane::receive, false)), "");
  EXPECT_EQ(refusal(exchange(Lane::send, Lane::receive, true)), "");
}

TEST(Verify, refuses_two_ranks_that_both_send_first_on_one_lane_and_prints_the_cycle) {
  const std::string text = refusal(exchange(Lane::send, Lane::send, false));
  expect_words(text, {"deadlock", "rank 0: Send", "rank 1: Send", "rank 0: Receive",
                      "rank 1: Receive", "waits for", "fix:"});
}

TEST(Verify, accepts_one_lane_when_one_rank_receives_first) {
  EXPECT_EQ(refusal(exchange(Lane::send, Lane::send, true)), "");
}

TEST(Verify, refuses_collectives_that_two_ranks_issue_in_another_order) {
  std::vector<Program> programs;
  for (int rank = 0; rank < 2; ++rank) {
    Writer w(rank);
    const StorageId x = w.storage("x", 64, Life::persistent);
    for (int i = 0; i < 2; ++i) {
      const auto channel = static_cast<std::uint32_t>(rank == 0 ? i : 1 - i);
      Instruction& reduce = w.program.add("ReduceScatter", Lane::reduce, static_cast<int>(channel));
      reduce.accumulates = {{x, 0}};
      reduce.sends = {{1 - rank, 96, channel}};
      reduce.receives = {{1 - rank, 96, channel}};
    }
    programs.push_back(std::move(w.program));
  }
  expect_words(refusal(programs), {"deadlock", "ReduceScatter(0)", "ReduceScatter(1)"});
}

TEST(Verify, finds_a_cycle_through_three_ranks) {
  std::vector<Program> programs;
  for (int rank = 0; rank < 3; ++rank) {
    Writer w(rank);
    const StorageId x = w.storage("x", 64, Life::persistent);
    const StorageId y = w.storage("y");
    w.reads("Send", Lane::send, x).sends = {{(rank + 1) % 3, 96, 0}};
    w.writes("Receive", Lane::send, y).receives = {{(rank + 2) % 3, 96, 0}};
    programs.push_back(std::move(w.program));
  }
  expect_words(refusal(programs), {"deadlock", "rank 0", "rank 1", "rank 2"});
}

TEST(Verify, refuses_a_message_without_its_other_end_or_of_another_size) {
  std::vector<Program> programs = exchange(Lane::send, Lane::receive, false);
  programs[1].round.pop_back();
  expect_words(refusal(programs), {"rank 0: Send", "rank 1", "never receives"});
  programs = exchange(Lane::send, Lane::receive, false);
  programs[0].round[1].sends.clear();
  expect_words(refusal(programs), {"rank 1: Receive", "rank 0", "never sends"});
  programs = exchange(Lane::send, Lane::receive, false);
  programs[0].round[1].sends[0].bytes = 95;
  expect_words(refusal(programs), {"sends 95 bytes", "expects 96"});
  programs = exchange(Lane::send, Lane::receive, false);
  programs[0].round[1].sends[0].pieces = 2;
  expect_words(refusal(programs), {"sends 2 pieces", "expects 1"});
}

TEST(Verify, refuses_to_read_what_nothing_has_written) {
  Writer w;
  w.reads("Forward", Lane::compute, w.storage("x"));
  expect_words(refusal({w.program}), {"Forward", "reads x", "nothing has written"});
}

TEST(Verify, refuses_a_version_that_is_not_there) {
  Writer w;
  const StorageId weights = w.storage("weights", 64, Life::persistent);
  w.writes("Update", Lane::compute, weights, 1);
  w.reads("Forward", Lane::compute, weights, 0);
  expect_words(refusal({w.program}), {"Forward", "weights version 0", "version 1 is there"});
}

TEST(Verify, refuses_a_value_whose_bytes_a_part_has_overwritten) {
  Writer w;
  const StorageId gradient = w.storage("gradient");
  const StorageId shard = w.program.add_part("shard", gradient, 0, 32);
  w.writes("Backward", Lane::compute, gradient);
  w.moves("ReduceScatter", Lane::reduce, gradient, shard);
  w.reads("Update", Lane::compute, gradient);
  expect_words(refusal({w.program}), {"Update", "gradient", "ReduceScatter has overwritten"});
}

TEST(Verify, refuses_a_round_that_ends_with_only_a_part_of_what_persists) {
  Writer w;
  const StorageId weights = w.storage("weights", 64, Life::persistent);
  const StorageId shard = w.program.add_part("shard", weights, 0, 32);
  w.writes("Update", Lane::compute, shard, 1);
  expect_words(refusal({w.program}), {"weights", "persists", "Update", "only a part"});
}

TEST(Verify, refuses_what_is_no_program) {
  const auto base = [] {
    Writer w;
    const StorageId x = w.storage("x", 64, Life::persistent);
    w.program.add_part("part", x, 0, 32);
    w.reads("A", Lane::send, x);
    return w.program;
  };
  const auto refused = [&](auto change, const std::string& word) {
    Program program = base();
    change(program);
    expect_words(refusal({program}), {word});
  };
  EXPECT_EQ(refusal({base()}), "");
  refused([](Program& p) { p.round[0].reads[0].storage = 77; }, "names storage 77");
  refused([](Program& p) { p.storages[1].parent = 1; }, "must come after");
  refused([](Program& p) { p.storages[1].offset = 60; }, "does not lie inside x");
  refused([](Program& p) { p.storages[0].bytes = ~Bytes{0}; }, "larger than any memory");
  refused([](Program& p) { p.rank = 1; }, "each once");
  refused([](Program& p) { p.round[0].sends = {{0, 96, 0}}; }, "is no other of 1 ranks");
  refused([](Program& p) { p.round[0].sends = {{3, 96, 0}}; }, "is no other of 1 ranks");
  refused(
      [](Program& p) {
        p.round[0].lane = Lane::compute, p.round[0].sends = {{0, 96, 0}};
      },
      "its lane carries none");
  refused([](Program& p) { p.round[0].writes = {{0, 0}}; }, "version 0 is there already");
  refused([](Program& p) { p.round[0].lane = static_cast<Lane>(9); }, "is on no lane");
  refused([](Program& p) { p.storages[0].place = static_cast<schedule::Place>(9); }, "no place");
  refused([](Program& p) { p.storages[0].life = static_cast<Life>(9); }, "no life");
  refused([](Program& p) { p.round[0].cost.flops = std::nan(""); }, "no clock can show");
  refused([](Program& p) { p.round[0].reads[0].version = -1; }, "a version below 0 of x");
  refused([](Program& p) { p.round[0].writes = {{0, 1}, {0, 2}}; }, "changes a storage twice");
}

TEST(Verify, refuses_a_channel_that_two_lanes_use) {
  std::vector<Program> programs = exchange(Lane::send, Lane::receive, false);
  programs[0].round.push_back(programs[0].round[1]);
  programs[0].round.back().lane = Lane::reduce;
  expect_words(refusal(programs), {"uses a channel that another lane uses too"});
}

TEST(Verify, refuses_a_host_memory_that_is_too_small) {
  Writer w;
  const StorageId host = w.program.add_storage("staging", 4096, Place::host);
  w.writes("A", Lane::receive, host);
  EXPECT_EQ(refusal({w.program}, {0, 4096}), "");
  expect_words(refusal({w.program}, {0, 4095}), {"host memory", "staging"});
}

TEST(Verify, refuses_a_program_that_exceeds_the_memory_and_names_the_largest_storage) {
  Writer w;
  w.writes("A", Lane::compute, w.storage("small", 64));
  w.writes("B", Lane::compute, w.storage("large", 1 << 20));
  EXPECT_EQ(refusal({w.program}, {1 << 20, 0}), "");
  expect_words(refusal({w.program}, {1 << 19, 0}), {"1.00 MiB", "512.00 KiB", "large"});
}

}  // namespace reef::test
