#include <reef/schedule/skeleton.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <reef/schedule/detail/exchanges.hpp>
#include <reef/schedule/skeleton_encoding.hpp>
#include <reef/schedule/skeleton_of.hpp>
#include <reef/schedule/verify.hpp>

#include "../support/pipeline_programs.hpp"
#include "../support/random_pipeline.hpp"
#include "programs.hpp"
#include "random_exchanges.hpp"
#include "rendezvous_graph.hpp"

namespace reef::test {
namespace {

using schedule::Skeleton;
using testing::HasSubstr;

Skeleton skeleton_of(const Program& program) {
  return schedule::skeleton_of(program, schedule::derive(program, schedule::place(program)));
}

std::string refusal_by(const std::function<void()>& proof) {
  try {
    proof();
  } catch (const ScheduleError& error) {
    return error.what();
  }
  return "";
}

constexpr const char* deadlock = "reef::schedule::verify: the programs deadlock:";

/// Each on its own rank, what a Trainer does: the refusal of skeletons that came as bytes.
std::string refusal_of_skeletons(const std::vector<Program>& programs) {
  std::vector<Skeleton> skeletons;
  for (const Program& program : programs) {
    const std::string bytes = schedule::encode(skeleton_of(program));
    skeletons.push_back(schedule::decode_skeleton(bytes, static_cast<int>(programs.size())));
    EXPECT_EQ(schedule::encode(skeletons.back()), bytes);
  }
  return refusal_by([&] { schedule::verify_together(skeletons); });
}

/// The same verdict as the graph of all instructions; and but for the way round a circle the same words.
std::string expect_the_verdict_of_the_whole_graph(const std::vector<Program>& programs) {
  const std::string expected = refusal_by([&] { reference::verify_together(programs); });
  const std::string found = refusal_of_skeletons(programs);
  EXPECT_EQ(found, refusal_by([&] { schedule::verify(programs); }));
  if (expected.rfind(deadlock, 0) == 0) {
    EXPECT_EQ(found.rfind(deadlock, 0), 0U) << found << "\nbut\n" << expected;
    EXPECT_THAT(found, HasSubstr(" waits for the "));
  } else {
    EXPECT_EQ(found, expected);
  }
  return found;
}

}  // namespace

TEST(Skeleton, shows_what_the_graph_of_all_instructions_shows) {
  int deadlocks = 0;
  int mismatches = 0;
  int right = 0;
  std::size_t meetings = 0;
  std::size_t apart = 0;
  for (std::uint64_t seed = 0; seed < 1500; ++seed) {
    SCOPED_TRACE(seed);
    const RandomExchanges random(seed, {.strewn = seed % 3 > 0, .wrong = seed % 5 == 0});
    const std::string found = expect_the_verdict_of_the_whole_graph(random.programs);
    ++(found.empty() ? right : found.rfind(deadlock, 0) == 0 ? deadlocks : mismatches);
    if (HasFailure()) return;
    std::vector<Skeleton> skeletons;
    for (const Program& program : random.programs) skeletons.push_back(skeleton_of(program));
    const schedule::detail::Exchanges exchanges(skeletons);
    meetings += exchanges.meetings();
    for (std::size_t r = 0; r < skeletons.size(); ++r) {
      for (std::size_t n = 0; n < skeletons[r].nodes.size(); ++n)
        apart += exchanges.is_apart(r, n) ? 1 : 0;
    }
  }
  EXPECT_GT(deadlocks, 200);
  EXPECT_GT(mismatches, 100);
  EXPECT_GT(right, 400);
  EXPECT_GT(meetings, 500U) << "collectives are looked at as a whole";
  EXPECT_GT(apart, 500U) << "or message by message, where they have to be";
}

TEST(Skeleton, shows_of_pipelines_what_the_graph_of_all_instructions_shows) {
  int deadlocks = 0;
  for (std::uint64_t seed = 0; seed < 150; ++seed) {
    SCOPED_TRACE(seed);
    const RandomPipeline random(seed);
    for (const auto completion : {schedule::Completion::held, schedule::Completion::posted}) {
      const PipelinePrograms pipeline(random.pipeline, completion);
      deadlocks += expect_the_verdict_of_the_whole_graph(pipeline.programs).empty() ? 0 : 1;
    }
  }
  EXPECT_GT(deadlocks, 10);
}

TEST(Skeleton, is_no_larger_than_the_program_and_empty_where_nobody_communicates) {
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    const RandomExchanges random(seed, {});
    for (const Program& program : random.programs) {
      const auto waits = schedule::derive(program, schedule::place(program));
      const Skeleton skeleton = schedule::skeleton_of(program, waits);
      EXPECT_LE(skeleton.nodes.size(), program.round.size());
      EXPECT_LE(skeleton.waits.size(),
                schedule::precedences(program, waits).size() + 4 * program.repeats.size());
    }
    EXPECT_TRUE(skeleton_of(random_program(seed)).nodes.empty());
    EXPECT_TRUE(skeleton_of(random_loops(seed)).nodes.empty());
  }
}

TEST(Skeleton, has_a_message_to_each_other_member_as_one_record) {
  constexpr int ranks = 100;
  std::vector<Program> programs;
  for (int rank = 0; rank < ranks; ++rank) {
    Writer w(rank);
    const StorageId x = w.storage("x", 64, Life::persistent);
    for (int bucket = 0; bucket < 3; ++bucket) {
      Instruction& reduce = w.program.add("ReduceScatter", Lane::reduce, bucket);
      reduce.accumulates = {{x, 0}};
      const auto owned = [&](int owner) { return Bytes{1000} + (owner < 7 ? 8U : 0U); };
      for (int peer = 0; peer < ranks; ++peer) {
        if (peer == rank) continue;
        reduce.sends.push_back({peer, owned(peer), 5});
        reduce.receives.push_back({peer, owned(rank), 5});
      }
    }
    programs.push_back(std::move(w.program));
  }
  const Skeleton skeleton = skeleton_of(programs[50]);
  EXPECT_TRUE(skeleton.sends.empty());
  EXPECT_EQ(skeleton.exchanges.size(), 3U);
  EXPECT_LT(schedule::encode(skeleton).size(), 120U);
  EXPECT_EQ(refusal_of_skeletons(programs), "");

  std::swap(programs[3].round[0], programs[3].round[1]);  // the same to the others
  EXPECT_EQ(refusal_of_skeletons(programs), "");
  for (auto* messages : {&programs[3].round[0].sends, &programs[3].round[0].receives}) {
    for (schedule::Message& message : *messages) message.bytes -= 1;
  }
  EXPECT_THAT(refusal_of_skeletons(programs),
              testing::AllOf(HasSubstr("rank 0: ReduceScatter(0) on lane reduce sends 1008 bytes"),
                             HasSubstr("rank 3: ReduceScatter(1)"), HasSubstr("expects 1007")));
  programs[3].round.erase(programs[3].round.begin(), programs[3].round.end() - 1);
  EXPECT_THAT(refusal_of_skeletons(programs),
              HasSubstr("rank 0: ReduceScatter(1) on lane reduce sends to rank 3, which never"));
}

TEST(Skeleton, names_collectives_that_ranks_issue_in_another_order) {
  std::vector<Program> programs;
  for (int rank = 0; rank < 4; ++rank) {
    Writer w(rank);
    const StorageId x = w.storage("x", 64, Life::persistent);
    for (int i = 0; i < 2; ++i) {
      const int bucket = rank == 2 ? 1 - i : i;
      Instruction& reduce = w.program.add("ReduceScatter", Lane::reduce, bucket);
      reduce.accumulates = {{x, 0}};
      for (int peer = 0; peer < 4; ++peer) {
        if (peer == rank) continue;
        reduce.sends.push_back({peer, 64, static_cast<std::uint32_t>(bucket)});
        reduce.receives.push_back({peer, 64, static_cast<std::uint32_t>(bucket)});
      }
    }
    programs.push_back(std::move(w.program));
  }
  EXPECT_THAT(expect_the_verdict_of_the_whole_graph(programs),
              testing::AllOf(HasSubstr(deadlock), HasSubstr("ReduceScatter(0)"),
                             HasSubstr("ReduceScatter(1)"), HasSubstr("rank 2: ")));
}

TEST(Skeleton, of_a_collective_lets_members_without_a_share_wait_only_for_those_with_one) {
  std::vector<Program> programs;
  for (int rank = 0; rank < 4; ++rank) {
    Writer w(rank);
    const StorageId x = w.storage("x", 64, Life::persistent);
    const StorageId y = w.storage("y");
    if (rank == 3) w.writes("Receive", Lane::reduce, y).receives = {{2, 96, 1}};
    Instruction& reduce = w.program.add("ReduceScatter", Lane::reduce);
    reduce.accumulates = {{x, 0}};
    reduce.collective = std::make_shared<const schedule::Collective>(
        schedule::Collective{{"all", {0, 1, 2, 3}}, {0, 1, 2, 2, 2}});
    for (int peer = 0; peer < 4; ++peer) {
      if (peer == rank) continue;
      if (peer < 2) reduce.sends.push_back({peer, 64, 0});
      if (rank < 2) reduce.receives.push_back({peer, 64, 0});
    }
    if (rank == 2) w.reads("Send", Lane::reduce, x).sends = {{3, 96, 1}};
    programs.push_back(std::move(w.program));
  }
  EXPECT_EQ(skeleton_of(programs[2]).exchanges.size(), 1U);
  EXPECT_EQ(expect_the_verdict_of_the_whole_graph(programs), "");
  std::swap(programs[1].round, programs[3].round);  // now one with a share comes late
  for (Program& program : programs) {
    for (Instruction& i : program.round) {
      const auto swapped = [](int r) { return r == 1 ? 3 : r == 3 ? 1 : r; };
      for (auto* messages : {&i.sends, &i.receives}) {
        for (schedule::Message& message : *messages) message.peer = swapped(message.peer);
        std::sort(messages->begin(), messages->end(),
                  [](const auto& a, const auto& b) { return a.peer < b.peer; });
      }
    }
  }
  EXPECT_EQ(expect_the_verdict_of_the_whole_graph(programs), "");
}

TEST(Skeleton, of_ranks_out_of_order_is_refused) {
  EXPECT_THAT(refusal_by([] { schedule::verify_together(std::vector<Skeleton>(2)); }),
              testing::AllOf(HasSubstr("skeleton 1 is one of rank 0"), HasSubstr("\n  fix: ")));
}

TEST(Skeleton, of_any_other_bytes_is_refused_or_one_that_can_be_looked_at) {
  const RandomExchanges random(12, {});
  const auto ranks = static_cast<int>(random.programs.size());
  std::vector<Skeleton> skeletons;
  for (const Program& program : random.programs) skeletons.push_back(skeleton_of(program));
  int decoded = 0;
  const auto try_to_decode = [&](const std::string& bytes, std::size_t rank) {
    try {
      std::vector<Skeleton> all = skeletons;
      all[rank] = schedule::decode_skeleton(bytes, ranks);
      ++decoded;
      schedule::verify_together(all);
    } catch (const DecodeError& error) {
      EXPECT_THAT(error.what(), HasSubstr("\n  fix: "));
    } catch (const ScheduleError& error) {
      EXPECT_THAT(error.what(), HasSubstr("\n  fix: "));
    }
  };
  std::uint64_t draw = 0;
  const auto below = [&](std::size_t n) {
    return random_bits({7, 0, 5, 0}, draw++) % static_cast<std::uint32_t>(n);
  };
  for (std::size_t rank = 0; rank < skeletons.size(); ++rank) {
    const std::string whole = schedule::encode(skeletons[rank]);
    for (std::size_t size = 0; size < whole.size(); ++size) {
      EXPECT_THROW(schedule::decode_skeleton(whole.substr(0, size), ranks), DecodeError) << size;
    }
    EXPECT_THROW(schedule::decode_skeleton(whole + '\0', ranks), DecodeError);
    for (int mutation = 0; mutation < 3000; ++mutation) {
      std::string other = whole;
      for (std::uint32_t changes = 1 + below(3); changes > 0; --changes) {
        other[below(other.size())] = static_cast<char>(below(256));
      }
      if (below(4) == 0)
        other.insert(below(other.size()), 1 + below(3), static_cast<char>(below(256)));
      try_to_decode(other, rank);
    }
  }
  EXPECT_GT(decoded, 100);
}

}  // namespace reef::test
