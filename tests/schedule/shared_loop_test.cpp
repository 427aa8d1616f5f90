// Loops that several ranks share: their bodies may exchange messages, and all run the same number of iterations.

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include <reef/schedule/simulate.hpp>
#include <reef/schedule/skeleton_encoding.hpp>
#include <reef/schedule/transfer_order.hpp>
#include <reef/schedule/verify.hpp>

#include "programs.hpp"
#include "rendezvous_graph.hpp"

namespace reef::test {
namespace {

using schedule::Completion;
using schedule::Dependencies;
using schedule::Link;
using schedule::Repeat;
using schedule::Simulation;
using schedule::World;

std::string loop_refusal(const std::vector<Program>& programs) {
  try {
    schedule::verify(programs);
  } catch (const ScheduleError& error) {
    return error.what();
  }
  return "";
}

void expect_told(const std::string& text, const std::vector<std::string>& words) {
  for (const std::string& word : words) EXPECT_NE(text.find(word), std::string::npos) << word << " in: " << text;
}

Group all_of(int ranks) {
  Group group{"all", {}};
  for (int rank = 0; rank < ranks; ++rank) group.members.push_back(rank);
  return group;
}

/// What `ranks` ranks agree by.
Instruction agreement(int rank, int ranks, std::uint32_t channel = 1000) {
  Instruction agree;
  agree.kind = "Agree";
  agree.lane = Lane::send;
  for (int peer = 0; peer < ranks; ++peer) {
    if (peer == rank) continue;
    agree.sends.push_back({peer, 8, channel});
    agree.receives.push_back({peer, 8, channel});
  }
  return agree;
}

/// Rank r of P in a row: while the last is busy beside for so many seconds, each iteration passes 96 bytes from rank to
/// rank, and each works at it. Until, Agree, loop of (Receive), Work, (Send), Agree, Close; Use.
Program passing(int rank, int ranks, Seconds busy, Seconds work, int max = 0) {
  Writer w(rank);
  const StorageId sum = w.storage("sum", 64, Life::persistent);
  const StorageId passed = w.storage("passed");
  const StorageId beside = w.storage("beside", 64, Life::persistent);
  Instruction& until = w.program.add("Until", Lane::update);
  until.accumulates = {{beside, 0}};
  until.cost.seconds = rank == ranks - 1 ? busy : 0;
  w.program.round.push_back(agreement(rank, ranks));
  if (rank > 0) {
    Instruction& receive = w.writes("Receive", Lane::receive, passed);
    receive.receives = {{rank - 1, 96, 1}};
    receive.completion = Completion::posted;
  }
  Instruction& add = w.program.add("Work", Lane::compute);
  add.accumulates = {{sum, 0}};
  add.cost.seconds = work;
  if (rank > 0) add.reads = {{passed, 0}};
  if (rank + 1 < ranks) {
    Instruction& send = w.reads("Send", Lane::send, sum);
    send.sends = {{rank + 1, 96, 1}};
    send.completion = Completion::posted;
  }
  const auto agree = static_cast<std::uint32_t>(w.program.round.size());
  w.program.round.push_back(agreement(rank, ranks));
  w.program.round.back().reads = {{sum, 0}};
  w.program.add("Close", Lane::compute);
  w.repeat_from(2, 0, max);
  w.program.repeats[0].first_agree = 1;
  w.program.repeats[0].agree = agree;
  w.reads("Use", Lane::compute, beside);
  return std::move(w.program);
}

std::vector<Program> all_passing(int ranks, Seconds busy = 10, Seconds work = 1, int max = 0) {
  std::vector<Program> programs;
  for (int rank = 0; rank < ranks; ++rank) programs.push_back(passing(rank, ranks, busy, work, max));
  return programs;
}

Instruction& named(Program& program, const std::string& kind) {
  return *std::find_if(program.round.begin(), program.round.end(), [&](const auto& i) { return i.kind == kind; });
}

TEST(SharedLoop, may_exchange_messages) {
  for (const int ranks : {2, 3, 4}) EXPECT_EQ(loop_refusal(all_passing(ranks)), "");
}

TEST(SharedLoop, is_refused_where_ranks_would_not_come_to_one_number_of_iterations) {
  const auto refused = [](const std::function<void(std::vector<Program>&)>& change, const std::vector<std::string>& words) {
    std::vector<Program> programs = all_passing(3);
    change(programs);
    const std::string text = loop_refusal(programs);
    expect_told(text, words);
  };
  refused([](auto& all) { all[1].repeats[0].agree = all[1].repeats[0].first_agree = Repeat::alone; },
          {"rank 1", "exchanges messages in Receive", "no other rank knows", "share it"});
  refused([](auto& all) { all[1].repeats[0].first_agree = 2; }, {"agrees in 2 and", "before the body"});
  refused([](auto& all) { all[1].repeats[0].agree = 1; }, {"agrees in 1 and 1"});
  refused([](auto& all) { named(all[1], "Agree").lane = Lane::reduce; }, {"channel that another lane uses too"});
  refused(
      [](auto& all) {
        Instruction& agree = named(all[1], "Agree");
        agree.lane = Lane::reduce;
        for (auto* messages : {&agree.sends, &agree.receives}) {
          for (auto& m : *messages) m.channel = 1001;
        }
      },
      {"agrees in Agree", "both on one lane"});
  refused([](auto& all) { named(all[1], "Agree").sends.pop_back(); }, {"no exchange with all that share"});
  refused([](auto& all) { all[0].round[all[0].repeats[0].agree].receives.pop_back(); }, {"no exchange with all that share"});
  refused(
      [](auto& all) {  // in a row, as the messages of the body go: each hears its neighbours alone
        for (Program& program : all) {
          for (Instruction& i : program.round) {
            if (i.kind != "Agree") continue;
            const auto is_far = [&](const auto& m) { return std::abs(m.peer - program.rank) > 1; };
            std::erase_if(i.sends, is_far);
            std::erase_if(i.receives, is_far);
          }
        }
      },
      {"agree about a loop with different ranks", "different numbers of iterations"});
  refused(
      [](auto& all) {  // rank 2 is in no loop
        all[2].repeats.clear();
        all[2].round[2].completion = all[1].round[4].completion = Completion::held;
      },
      {"in a loop that the other does not share"});
  refused(
      [](auto& all) {  // rank 0 sends once, ahead of the loop
        Program& program = all[0];
        std::rotate(program.round.begin() + 1, program.round.begin() + 3, program.round.begin() + 4);
        program.round[1].reads = {};
        program.repeats[0].begin = 3;
        program.repeats[0].first_agree = 2;
      },
      {"rank 0: Send", "rank 1: Receive", "in a loop that the other does not share"});
  refused(
      [](auto& all) {
        for (Program& program : all) std::erase_if(named(program, "Agree").sends, [](auto& m) { return m.peer == 2; });
      },
      {"no exchange with all"});
}

TEST(SharedLoop, is_refused_where_one_rank_of_a_collective_is_in_no_loop) {
  auto all = all_passing(3);
  for (Program& program : all) {
    for (Instruction& i : program.round) {
      if (i.kind == "Agree") i.collective = std::make_shared<const schedule::Collective>(schedule::Collective{all_of(3), {}});
      if (!i.is_posted()) continue;
      i.completion = Completion::held;
      i.sends = i.receives = {};
    }
  }
  EXPECT_EQ(loop_refusal(all), "");
  all[2].repeats.clear();
  expect_told(loop_refusal(all), {"Agree", "in a loop that the other does not share"});
}

TEST(SharedLoop, is_refused_where_a_stated_group_hides_who_is_not_heard) {
  auto all = all_passing(3);
  for (Program& program : all) {
    for (Instruction& i : program.round) {
      if (i.kind != "Agree") {  // else the body's messages would show it
        if (i.is_posted()) i.completion = Completion::held;
        i.sends = i.receives = {};
        continue;
      }
      i.collective = std::make_shared<const schedule::Collective>(schedule::Collective{all_of(3), {}});
      for (auto* list : {&i.sends, &i.receives}) {  // ranks 1 and 2 hear rank 0 alone
        std::erase_if(*list, [&](const auto& message) { return program.rank != 0 && message.peer != 0; });
      }
    }
  }
  expect_told(loop_refusal(all), {"agree about a loop with different ranks"});
}

TEST(SharedLoop, is_refused_where_a_body_waits_for_what_no_body_gives) {
  auto all = all_passing(2);
  all[0].round[3].sends.clear();
  all[0].round[3].completion = Completion::held;
  expect_told(loop_refusal(all), {"rank 1: Receive", "never sends it"});
  all = all_passing(2);
  // Each waits for the other's message before it sends its own.
  Instruction& back = all[0].add("Back", Lane::receive);
  back.receives = {{1, 96, 2}};
  all[1].add("Reply", Lane::send).sends = {{0, 96, 2}};
  const auto into = [](Program& program, std::size_t place) {
    std::rotate(program.round.begin() + static_cast<std::ptrdiff_t>(place), program.round.end() - 1, program.round.end());
    ++program.repeats[0].end;
    ++program.repeats[0].agree;
  };
  const StorageId answer = all[0].add_storage("answer", 64, Place::device);
  all[0].round.back().writes = {{answer, 0}};
  into(all[0], 2);
  all[0].round[3].reads = {{answer, 0}};  // Work needs it
  into(all[1], 4);
  all[1].round[4].reads = {{0, 0}};  // and is needed for it
  expect_told(loop_refusal(all), {"deadlock", "Back", "Reply"});
}

TEST(SharedLoop, is_refused_in_one_that_adapts_to_what_waits_for_it) {
  auto all = all_passing(2);
  // Rank 1 sends what rank 0 loops until when the loop is over.
  all[0].round[0].lane = Lane::reduce;
  all[0].round[0].receives = {{1, 64, 5}};
  all[1].round.back().lane = Lane::reduce;
  all[1].round.back().accumulates = {{0, 0}};
  all[1].round.back().sends = {{0, 64, 5}};
  expect_told(loop_refusal(all), {"deadlock", "Until"});
  for (Program& program : all) program.repeats[0].max = 3;  // ends without it
  EXPECT_EQ(loop_refusal(all), "");
}

TEST(SharedLoop, runs_in_virtual_time_until_all_ranks_are_done) {
  const World world = World::uniform(3, {}, Link{0, 96});
  // An iteration takes 3 * 1 + 2 * 1 s, and each agreement 8 / 96.
  const auto iterations = [&](Seconds busy) { return static_cast<int>(std::ceil(busy / (5 + 8.0 / 96))); };
  for (const Seconds busy : {0.0, 4.0, 5.0, 10.0, 100.0}) {
    const Simulation result = simulate(all_passing(3, busy), world);
    const int k = iterations(busy);
    EXPECT_EQ(result.trip_counts, (schedule::TripCounts{{k}, {k}, {k}})) << busy << " s";
    EXPECT_GE(result.step, busy);
    EXPECT_LT(result.step, busy + 6);
    const auto bytes = static_cast<Bytes>(k);
    EXPECT_EQ(result.wire_bytes, (std::vector<Bytes>{16 + bytes * (96 + 16), 16 + bytes * (96 + 16), 16 + bytes * 16}));
  }
  EXPECT_EQ(simulate(all_passing(3, 100, 1, 5), world).trip_counts, (schedule::TripCounts{{5}, {5}, {5}}));
  EXPECT_EQ(simulate(all_passing(3), world, 2, {{7}, {7}, {7}}).trip_counts, (schedule::TripCounts{{7}, {7}, {7}}));
}

TEST(SharedLoop, has_no_order_of_production) {
  auto all = all_passing(2);
  EXPECT_THROW(schedule::order_transfers(all, World::uniform(2, {}, {})), ScheduleError);
}

/// Random programs of two or three ranks with a loop that they share: messages before it, in it and behind it, and now and
/// then one from behind it on one rank to before it on another.
class RandomShared {
public:
  explicit RandomShared(std::uint64_t seed) : seed_(seed), ranks_(2 + static_cast<int>(below(2))) {
    sections_.resize(static_cast<std::size_t>(ranks_));
    for (std::size_t section = 0; section < 3; ++section) {
      for (std::uint32_t left = below(section == 1 ? 5 : 3); left > 0; --left) add_message(section, section);
    }
    if (below(3) == 0) add_message(2, 0);
    const int max = below(2) == 0 ? 0 : 2;
    for (int rank = 0; rank < ranks_; ++rank) programs.push_back(program_of(rank, max));
  }

  std::vector<Program> programs{};

private:
  static constexpr StorageId storages = 3;

  std::uint32_t below(std::size_t n) { return random_bits({seed_, 0, 7, 0}, draw_++) % static_cast<std::uint32_t>(n); }

  void add_message(std::size_t from_section, std::size_t to_section) {
    const auto count = static_cast<std::size_t>(ranks_);
    const std::size_t a = below(count);
    const std::size_t b = (a + 1 + below(count - 1)) % count;
    const bool reduces = below(3) == 0;
    const bool posted = !reduces && below(2) == 0;
    // Of a section and completion, so that the n-th of a channel meets the n-th however they are strewn.
    const auto channel = static_cast<std::uint32_t>(((a * 4 + b) * 16 + from_section * 3 + to_section) * 4 + (reduces ? 1 : posted ? 2 : 0));
    Instruction send;
    send.kind = "Send";
    send.lane = reduces ? Lane::reduce : Lane::send;
    send.sends = {{static_cast<int>(b), 64, channel}};
    Instruction receive;
    receive.kind = "Receive";
    receive.lane = reduces ? Lane::reduce : Lane::receive;
    receive.receives = {{static_cast<int>(a), 64, channel}};
    for (Instruction* const i : {&send, &receive}) {
      if (posted) i->completion = Completion::posted;
      if (!posted && below(2) == 0) i->accumulates = {{below(storages), 0}};
    }
    for (const auto& [i, rank, section] : {std::tuple{&send, a, from_section}, std::tuple{&receive, b, to_section}}) {
      std::vector<Instruction>& into = sections_[rank][section];
      into.insert(into.begin() + below(into.size() + 1), *i);
    }
  }

  Program program_of(int rank, int max) {
    Writer w(rank);
    for (StorageId s = 0; s < storages; ++s) w.storage("s" + std::to_string(s), 64, Life::persistent);
    std::vector<Instruction>& round = w.program.round;
    const auto& [before, body, after] = sections_[static_cast<std::size_t>(rank)];
    w.program.add("Until", Lane::update).accumulates = {{below(storages), 0}};
    Repeat repeat;
    const auto agree = [&](std::uint32_t channel) {
      round.push_back(agreement(rank, ranks_, channel));
      if (collective_) round.back().collective = std::make_shared<const schedule::Collective>(schedule::Collective{all_of(ranks_), {}});
      round.back().lane = rank % 2 == 0 ? Lane::send : Lane::reduce;
      if (below(2) == 0) round.back().accumulates = {{below(storages), 0}};
      return static_cast<std::uint32_t>(round.size() - 1);
    };
    std::size_t place = below(before.size() + 1);
    for (std::size_t i = 0; i <= before.size(); ++i) {
      if (i == place) repeat.first_agree = agree(1000);
      if (i < before.size()) round.push_back(before[i]);
    }
    repeat.until = below(round.size());
    if (round[repeat.until].is_posted() || repeat.until == repeat.first_agree) repeat.until = 0;
    repeat.max = max;
    repeat.begin = static_cast<std::uint32_t>(round.size());
    place = below(body.size() + 1);
    for (std::size_t i = 0; i <= body.size(); ++i) {
      if (i == place) repeat.agree = agree(1001);
      if (i < body.size()) round.push_back(body[i]);
    }
    Instruction& close = w.program.add("Close", Lane::compute);
    close.accumulates = {{below(storages), 0}};
    close.cost.seconds = 1;
    repeat.end = static_cast<std::uint32_t>(round.size());
    round.insert(round.end(), after.begin(), after.end());
    w.program.repeats = {repeat};
    return std::move(w.program);
  }

  std::uint64_t seed_;
  std::uint64_t draw_ = 0;
  int ranks_;
  bool collective_ = below(2) == 0;  ///< that is how they agree
  std::vector<std::array<std::vector<Instruction>, 3>> sections_{};
};

/// With so many iterations, as plain instructions and who waits for whom. A gate on the compute lane comes ahead of each
/// iteration and behind the last.
std::pair<Program, Dependencies> unrolled(const Program& looped, int iterations) {
  const Repeat& repeat = looped.repeats[0];
  const Dependencies waits = schedule::derive(looped, schedule::place(looped));
  // What the last agreement waits for. Of none it would be the first, which may come ahead: then there is an iteration.
  const std::uint32_t done = repeat.max == 0 && iterations > 0 ? repeat.until : Repeat::alone;
  Program result;
  result.rank = looped.rank;
  Dependencies all;
  std::vector<std::uint32_t> now(looped.round.size());  // the last copy
  const auto add = [&](Instruction instruction, const std::set<std::uint32_t>& before) {
    auto& own = all.emplace_back();
    for (const std::uint32_t i : before) own.push_back({i, false});
    result.round.push_back(std::move(instruction));
    return static_cast<std::uint32_t>(result.round.size() - 1);
  };
  std::uint32_t gate = 0;
  const auto copy = [&](std::uint32_t i, bool last) {
    const bool in_body = repeat.begin <= i && i < repeat.end;
    std::set<std::uint32_t> before;
    if (in_body) before.insert(gate);
    for (const schedule::Dependency& wait : waits[i]) {
      if (wait.previous_round) continue;
      const bool on_body = repeat.begin <= wait.instruction && wait.instruction < repeat.end;
      if (!in_body || on_body) before.insert(on_body && !in_body ? gate : now[wait.instruction]);
    }
    for (const schedule::Precedence& order : schedule::precedences(looped, waits)) {
      if (!in_body && !order.previous_round && order.to == i && order.from + 1 == repeat.end) before.insert(gate);
    }
    if (last && done != Repeat::alone && i == repeat.agree) before.insert(now[done]);
    Instruction own = looped.round[i];
    own.reads = own.writes = own.accumulates = {};
    now[i] = add(std::move(own), before);
  };
  for (std::uint32_t i = 0; i < repeat.begin; ++i) copy(i, false);
  std::set<std::uint32_t> ahead;
  const std::function<void(std::uint32_t)> add_start = [&](std::uint32_t posted) {  // what that waits for
    for (const schedule::Dependency& wait : waits[posted]) {
      if (!wait.previous_round) ahead.insert(now[wait.instruction]);
    }
    for (std::uint32_t i = posted; i-- > 0;) {
      if (looped.round[i].lane != looped.round[posted].lane) continue;
      if (looped.round[i].is_posted()) return add_start(i);
      ahead.insert(now[i]);
      return;
    }
  };
  for (const schedule::Precedence& order : schedule::precedences(looped, waits)) {
    if (order.to != repeat.begin || order.in_iteration || order.previous_round) continue;
    if (order.at_start) {
      add_start(order.from);
    } else {
      ahead.insert(now[order.from]);
    }
  }
  for (int n = 0; n <= iterations; ++n) {
    if (n == iterations && done != Repeat::alone) ahead.insert(now[done]);
    gate = add(Instruction{.kind = "Gate", .lane = Lane::compute}, ahead);
    ahead.clear();
    for (std::uint32_t i = repeat.begin; n < iterations && i < repeat.end; ++i) {
      copy(i, n + 1 == iterations);
      ahead.insert(now[i]);
    }
  }
  for (auto i = repeat.end; i < looped.round.size(); ++i) copy(i, false);
  return {std::move(result), std::move(all)};
}

/// What the graph of all instructions says of so many iterations.
bool deadlocks(const std::vector<Program>& looped, int iterations) {
  std::vector<Program> programs;
  std::vector<Dependencies> dependencies;
  for (const Program& program : looped) {
    auto [plain, waits] = unrolled(program, iterations);
    programs.push_back(std::move(plain));
    dependencies.push_back(std::move(waits));
  }
  try {
    reference::RendezvousGraph(programs, dependencies).check();
  } catch (const ScheduleError&) {
    return true;
  }
  return false;
}

TEST(SharedLoop, is_proved_for_any_number_of_iterations_by_one) {
  int refused = 0;
  int right = 0;
  for (std::uint64_t seed = 0; seed < 3000; ++seed) {
    SCOPED_TRACE(seed);
    const std::vector<Program> programs = RandomShared(seed).programs;
    const std::string found = loop_refusal(programs);
    if (!found.empty()) expect_told(found, {"the programs deadlock"});
    EXPECT_EQ(!found.empty(), deadlocks(programs, 1)) << found;
    ++(found.empty() ? right : refused);
    if (!found.empty()) continue;
    for (const int iterations : {0, 2, 3}) {
      EXPECT_FALSE(deadlocks(programs, iterations)) << iterations << " iterations";
      World world = World::uniform(static_cast<int>(programs.size()), {}, Link{0.1, 640});
      for (std::size_t link = 0; link < world.links.size(); ++link) world.links[link].latency = 0.1 + 0.7 * static_cast<double>((seed + 5 * link) % 9);
      const schedule::TripCounts counts(programs.size(), {iterations});
      EXPECT_EQ(simulate(programs, world, 2, counts).trip_counts, counts);
    }
    if (HasFailure()) return;
  }
  std::printf("%d right, %d refused\n", right, refused);
  EXPECT_GT(right, 500);
  EXPECT_GT(refused, 500);
}

}  // namespace
}  // namespace reef::test
