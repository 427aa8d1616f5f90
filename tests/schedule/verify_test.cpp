#include <reef/schedule/detail/last_writers.hpp>
#include <reef/schedule/verify.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "programs.hpp"

namespace reef::test {

namespace {

/// What verify throws, or nothing.
std::string refusal(const std::vector<Program>& programs, const schedule::Limits& limits = {}) {
  try {
    schedule::verify(programs, limits);
    return {};
  } catch (const ScheduleError& error) {
    EXPECT_THAT(error.what(), testing::HasSubstr("\n  fix: "));
    return error.what();
  }
}

void expect_words(const std::string& text, const std::vector<std::string>& words) {
  if (text.empty()) {
    ADD_FAILURE() << "nothing was refused, where \"" << words.front() << "\" was expected";
    return;
  }
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

TEST(Verify, refuses_to_wait_for_what_is_not_there) {
  Writer w;
  const StorageId x = w.storage("x");
  w.program.add("Behind", Lane::load).after = {{x, 0}};
  expect_words(refusal({w.program}), {"Behind", "waits for x", "nothing has written"});
  w = Writer();
  const StorageId weights = w.storage("weights", 64, Life::persistent);
  w.writes("Update", Lane::compute, weights, 1);
  w.program.add("Behind", Lane::load).after = {{weights, 0}};
  expect_words(refusal({w.program}),
               {"Behind", "waits for weights version 0", "version 1 is there"});
  w.program.round.back().after = {{weights, 1}};
  EXPECT_EQ(refusal({w.program}), "");
  w.program.round.back().after = {{7, 0}};
  expect_words(refusal({w.program}), {"Behind", "names storage 7, which does not exist"});
}

TEST(Verify, finds_a_cycle_through_what_is_only_waited_for) {
  std::vector<Program> programs;
  for (int rank = 0; rank < 2; ++rank) {
    Writer w(rank);
    const StorageId x = w.storage("x", 64, Life::persistent);
    const StorageId y = w.storage("y");
    w.writes("Receive", Lane::receive, y).receives = {{1 - rank, 96, 0}};
    w.reads("Send", Lane::send, x).sends = {{1 - rank, 96, 0}};
    programs.push_back(std::move(w.program));
  }
  EXPECT_EQ(refusal(programs), "");
  for (Program& program : programs) program.round[1].after = {{1, 0}};
  expect_words(refusal(programs), {"deadlock", "rank 0", "rank 1"});
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

TEST(LastWriters, tell_apart_what_lies_there_now_and_not_all_that_ever_did) {
  schedule::detail::LastWriters writers;
  const Instruction first{.kind = "First"};
  const Instruction later{.kind = "Later"};
  constexpr StorageId whole = 100'000;
  writers.write({0, 64}, whole, &first);
  for (StorageId id = 0; id < 20'000; ++id) {  // as micro-batches, in the same bytes one by one
    writers.write({16, 32}, id, &later);
    EXPECT_TRUE(writers.holds({16, 32}, id));
    EXPECT_FALSE(writers.holds({16, 32}, id - 1));  // before the first: no storage
  }
  EXPECT_LE(writers.parts(), 5U);
  EXPECT_FALSE(writers.holds({0, 64}, whole));
  EXPECT_TRUE(writers.holds({32, 64}, whole));
  EXPECT_EQ(writers.last_other({0, 64}, whole), &later);
  EXPECT_EQ(writers.last_other({0, 16}, whole), nullptr);
  EXPECT_TRUE(writers.holds({20, 20}, 7));  // no bytes, which nobody overwrites
  EXPECT_EQ(writers.last_time({40, 41}), 1U);
  EXPECT_EQ(writers.last_time({0, 64}), writers.now());
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
  refused([](Program& p) { p.storages[1].parent = 1; }, "comes before the storage that");
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
  refused(
      [](Program& p) {  // a part that is written leaves nothing whole, but what was there is known
        p.round.resize(1);
        p.round[0].reads.clear();
        p.round[0].writes = {{1, 1}};
        p.round.push_back(p.round[0]);
        p.round[1].writes = {{0, 0}};
      },
      "version 0 is there already");
  refused([](Program& p) { p.round[0].lane = static_cast<Lane>(9); }, "is on no lane");
  refused([](Program& p) { p.storages[0].place = static_cast<schedule::Place>(9); }, "no place");
  refused([](Program& p) { p.storages[0].life = static_cast<Life>(9); }, "no life");
  refused([](Program& p) { p.round[0].cost.flops = std::nan(""); }, "no clock can show");
  refused([](Program& p) { p.round[0].reads[0].version = -1; }, "version -1 of x");
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

TEST(Verify, accepts_a_loop_that_adds_to_what_is_there) {
  for (const int plain : {0, 2}) {
    EXPECT_EQ(refusal({accumulating(0, plain, 1, 96), accumulating(1, plain, 1, 96)}), "");
  }
}

TEST(Verify, refuses_to_read_behind_a_loop_what_only_its_iterations_write) {
  Writer w;
  const StorageId x = w.storage("x");
  w.reads("Before", Lane::load, w.storage("w", 64, Life::persistent));
  w.writes("Work", Lane::compute, x);
  w.repeat_from(1, 0);
  w.reads("Use", Lane::compute, x);
  expect_words(refusal({w.program}), {"Use", "reads x", "may run none", "fix:"});
  w.program.round[0].writes = {{x, 0}};
  EXPECT_EQ(refusal({w.program}), "");
  w.program.round[0].writes = {{x, 1}};
  expect_words(refusal({w.program}), {"Use", "reads x", "may run none"});
}

TEST(Verify, refuses_a_body_whose_second_iteration_would_not_find_what_the_first_found) {
  Writer w;
  const StorageId x = w.storage("x");
  const StorageId part = w.program.add_part("part", x, 0, 32);
  w.writes("Before", Lane::compute, x);
  w.reads("Read", Lane::compute, x);
  w.writes("Work", Lane::compute, part);
  w.repeat_from(1, 0);
  expect_words(refusal({w.program}),
               {"Read", "second iteration", "reads x", "Work has overwritten"});
  w.program.repeats.clear();
  EXPECT_EQ(refusal({w.program}), "");
}

TEST(Verify, refuses_to_read_behind_a_loop_what_its_iterations_overwrite) {
  Writer w;
  const StorageId x = w.storage("x");
  const StorageId part = w.program.add_part("part", x, 0, 32);
  w.writes("Before", Lane::compute, x);
  w.writes("Work", Lane::compute, part);
  w.repeat_from(1, 0);
  w.reads("Use", Lane::compute, x);
  expect_words(refusal({w.program}), {"Use", "reads x", "Work has overwritten"});
}

TEST(Verify, refuses_a_loop_that_writes_versions_of_what_persists) {
  Writer w;
  const StorageId weights = w.storage("weights", 64, Life::persistent);
  w.reads("Before", Lane::load, weights);
  w.writes("Update", Lane::compute, weights, 1);
  w.repeat_from(1, 0);
  expect_words(refusal({w.program}),
               {"Update", "second iteration", "weights version 1", "already"});
}

TEST(Verify, refuses_what_is_no_loop) {
  const Program base = accumulating(0, 2, 1, 96);  // Sum, Batch, Add, Batch, Add, (Batch, Add), Use
  const auto refused = [&](auto change, const std::vector<std::string>& words) {
    Program program = base;
    change(program, program.repeats[0]);
    expect_words(refusal({program, accumulating(1, 2, 1, 96)}), words);
  };
  using schedule::Repeat;
  EXPECT_EQ(refusal({base, accumulating(1, 2, 1, 96)}), "");
  refused([](Program&, Repeat& r) { r.end = r.begin; }, {"5 to 5", "has no body", "fix:"});
  refused([](Program&, Repeat& r) { r.end = 9; }, {"has no body in a round of 8"});
  refused([](Program&, Repeat& r) { r.end = 6; }, {"ends on lane receive", "why:", "fix:"});
  refused([](Program&, Repeat& r) { r.until = 5; }, {"does not come before it", "why:", "fix:"});
  refused([](Program&, Repeat& r) { r.until = 7; }, {"does not come before it"});
  refused([](Program&, Repeat& r) { r.max = -1; }, {"at most -1 iterations"});
  refused([](Program&, Repeat& r) { r.expected = -1; }, {"expected to have -1 iterations", "fix:"});
  refused([](Program& p, Repeat&) { p.repeats.push_back({3, 5, 0, 0}); }, {"in or before another"});
  refused([](Program& p, Repeat&) { p.repeats.push_back({6, 7, 0, 0}); }, {"in or before another"});
  refused([](Program& p, Repeat&) { p.repeats.push_back({7, 8, 5, 0}); }, {"until 5", "no other"});
  refused(
      [](Program& p, Repeat& r) {
        p.round[5].sends = {{1, 96, 1}}, r.max = 1;
      },
      {"exchanges messages in Batch(micro-batch 2)", "no other rank knows"});
  refused([](Program& p, Repeat&) { p.round[5].receives = {{1, 96, 1}}; }, {"exchanges messages"});
}

TEST(Verify, refuses_a_loop_until_what_waits_for_it_over_another_rank) {
  Writer a(0);
  const StorageId answer = a.storage("answer");
  const StorageId sum = a.storage("sum", 64, Life::persistent);
  a.writes("Receive", Lane::receive, answer).receives = {{1, 96, 0}};
  a.program.add("Add", Lane::compute).accumulates = {{sum, 0}};
  a.repeat_from(1, 0);
  a.reads("Ask", Lane::send, sum).sends = {{1, 96, 1}};
  Writer b(1);
  const StorageId asked = b.storage("asked");
  b.writes("Receive", Lane::receive, asked).receives = {{0, 96, 1}};
  b.reads("Answer", Lane::send, asked).sends = {{0, 96, 0}};
  expect_words(refusal({a.program, b.program}),
               {"deadlock", "rank 0: Add on lane compute, in a loop until Receive", "rank 0: Ask",
                "rank 1: Answer", "fix:"});
  a.program.repeats[0].max = 1;  // ends without it
  EXPECT_EQ(refusal({a.program, b.program}), "");
  a.program.repeats.clear();
  EXPECT_EQ(refusal({a.program, b.program}), "");
}

TEST(Verify, counts_what_a_queue_has_behind_a_body_as_waiting_for_the_loop) {
  Writer a(0);
  const StorageId batch = a.storage("batch");
  const StorageId x = a.storage("x", 64, Life::persistent);
  a.reads("Until", Lane::reduce, x).sends = {{1, 96, 1}};
  a.writes("Batch", Lane::receive, batch);
  a.reads("Add", Lane::compute, batch);
  a.repeat_from(1, 0);
  a.writes("Behind", Lane::receive, a.storage("y")).receives = {{1, 96, 0}};
  Writer b(1);
  const StorageId z = b.storage("z", 64, Life::persistent);
  b.reads("Send", Lane::send, z).sends = {{0, 96, 0}};
  b.writes("Receive", Lane::send, b.storage("t")).receives = {{0, 96, 1}};
  expect_words(refusal({a.program, b.program}), {"deadlock", "Behind", "in a loop until Until"});
  a.program.round[1].lane = Lane::load;  // then the receive lane has nothing in the body
  EXPECT_EQ(refusal({a.program, b.program}), "");
}

}  // namespace reef::test
