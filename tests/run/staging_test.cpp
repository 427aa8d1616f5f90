#include <reef/run/staging.hpp>

#include <gtest/gtest.h>

#include <cstddef>
#include <string>
#include <vector>

#include <reef/device/host.hpp>
#include <reef/run/memory.hpp>
#include <reef/schedule/verify.hpp>

#include "../schedule/programs.hpp"

namespace reef::test {

namespace {

std::vector<std::string> kinds(const Program& program) {
  std::vector<std::string> result;
  for (const Instruction& instruction : program.round) result.push_back(instruction.kind);
  return result;
}

using Kinds = std::vector<std::string>;

/// What verify says of a program, or nothing.
std::string refusal(const Program& program) {
  try {
    schedule::verify(std::vector{program});
    return {};
  } catch (const ScheduleError& error) {
    return error.what();
  }
}

}  // namespace

TEST(Memory, a_copy_goes_the_way_that_the_places_of_both_ends_say) {
  Writer w;
  const StorageId here = w.program.add_storage("here", 64, Place::host);
  const StorageId too = w.program.add_storage("here too", 64, Place::host);
  const StorageId there = w.program.add_storage("there", 64, Place::device);
  const StorageId part = w.program.add_part("a part", there, 16, 32);
  for (const StorageId id : {here, too, there}) w.writes("Make", Lane::compute, id);
  device::Host host({.memory_bytes = 1 << 16, .threads = 1});
  const schedule::Placement placement = schedule::place(w.program);
  const auto* const placed = &placement;
  const run::Arenas arenas(host, {&placed, 1});
  const run::Memory memory(w.program, placement, arenas);
  const auto direction = [&](StorageId to, StorageId from) {
    return memory.copy({to}, {from}, 32).direction;
  };
  EXPECT_EQ(direction(here, too), device::Copy::on_host);
  EXPECT_EQ(direction(here, part), device::Copy::to_host);
  EXPECT_EQ(direction(part, here), device::Copy::to_device);
  EXPECT_EQ(direction(there, part), device::Copy::on_device);
  const run::StorageCopy copy = memory.copy({there, 8}, {here, 4}, 16);
  EXPECT_EQ(copy.to, memory.at<std::byte>(there) + 8);
  EXPECT_EQ(copy.from, memory.at<std::byte>(here) + 4);
}

TEST(Staging, a_send_is_made_of_host_memory_and_a_receive_comes_back) {
  Writer w;
  const StorageId x = w.storage("x");
  const StorageId y = w.storage("y");
  w.writes("Make", Lane::compute, x);
  w.reads("Send", Lane::send, x);
  w.writes("Receive", Lane::receive, y);
  w.reads("Use", Lane::compute, y);
  const Program staged = run::stage_transfers(w.program);
  EXPECT_EQ(kinds(staged), (Kinds{"Make", "Download", "Send", "Receive", "Upload", "Use"}));
  EXPECT_EQ(staged.round[1].lane, Lane::evict);
  EXPECT_EQ(staged.round[4].lane, Lane::load);
  for (const std::size_t i : {2U, 3U}) {
    for (const auto* values : {&staged.round[i].reads, &staged.round[i].writes}) {
      for (const schedule::Value value : *values) {
        EXPECT_EQ(staged.storages[value.storage].place, Place::host);
      }
    }
  }
  EXPECT_NO_THROW(schedule::verify(std::vector{staged}));
}

TEST(Staging, fetches_a_value_once_until_the_device_writes_it_again) {
  Writer w;
  const StorageId x = w.storage("x");
  w.writes("Make", Lane::compute, x);
  w.reads("Send", Lane::send, x);
  w.reads("Send", Lane::send, x);
  w.writes("Make", Lane::compute, x);
  w.reads("Send", Lane::send, x);
  EXPECT_EQ(kinds(run::stage_transfers(w.program)),
            (Kinds{"Make", "Download", "Send", "Send", "Make", "Download", "Send"}));
}

TEST(Staging, what_is_only_waited_for_is_not_fetched) {
  Writer w;
  const StorageId x = w.storage("x");
  const StorageId y = w.storage("y");
  w.writes("Make", Lane::compute, y);
  w.writes("Make", Lane::compute, x);
  w.reads("Send", Lane::send, y).after = {{x, 0}};
  const Program staged = run::stage_transfers(w.program);
  EXPECT_EQ(kinds(staged), (Kinds{"Make", "Make", "Download", "Send"}));
  EXPECT_EQ(staged.round[3].after, (std::vector{schedule::Value{x, 0}}));
  EXPECT_NO_THROW(schedule::verify(std::vector{staged}));
}

TEST(Staging, who_communicates_waits_for_the_copy_in_host_memory_and_who_does_not_for_the_devices) {
  Writer w;
  const StorageId x = w.storage("x");
  const StorageId y = w.storage("y");
  w.writes("Make", Lane::compute, y);
  w.writes("Reduce", Lane::reduce, x);
  w.reads("Send", Lane::send, y).after = {{x, 0}};
  w.program.add("Other", Lane::compute);
  w.program.add("Behind", Lane::compute).after = {{x, 0}};
  const Program staged = run::stage_transfers(w.program);
  EXPECT_EQ(kinds(staged),
            (Kinds{"Make", "Reduce", "Upload", "Download", "Send", "Other", "Behind"}));
  EXPECT_EQ(staged.round[4].after, staged.round[1].writes);
  EXPECT_EQ(staged.round[6].after, staged.round[2].writes);
  EXPECT_NO_THROW(schedule::verify(std::vector{staged}));
}

TEST(Staging, a_part_has_a_part_of_its_wholes_copy) {
  Writer w;
  const StorageId whole = w.storage("whole", 256);
  const StorageId part = w.program.add_part("part", whole, 64, 64);
  w.writes("Make", Lane::compute, whole);
  w.moves("ReduceScatter", Lane::reduce, whole, part);
  w.moves("AllGather", Lane::reduce, part, whole);
  w.reads("Use", Lane::compute, whole);
  const Program staged = run::stage_transfers(w.program);
  EXPECT_EQ(kinds(staged),
            (Kinds{"Make", "Download", "ReduceScatter", "Upload", "AllGather", "Upload", "Use"}));
  const Instruction& scatter = staged.round[2];
  const auto [region, offset] = staged.region_of(scatter.writes[0].storage);
  EXPECT_EQ(region, scatter.reads[0].storage);
  EXPECT_EQ(offset, 64U);
  EXPECT_NO_THROW(schedule::verify(std::vector{staged}));
}

TEST(Staging, a_sum_into_a_whole_makes_the_copies_of_its_parts_stale) {
  Writer w;
  const StorageId whole = w.storage("whole", 256);
  const StorageId part = w.program.add_part("part", whole, 64, 64);
  w.writes("Make", Lane::compute, part);
  w.reads("Send", Lane::send, part);
  w.program.add("Sum", Lane::reduce).accumulates = {{whole, 0}};
  w.reads("Send", Lane::send, part);
  w.reads("Send", Lane::send, whole);
  EXPECT_EQ(
      kinds(run::stage_transfers(w.program)),
      (Kinds{"Make", "Download", "Send", "Download", "Sum", "Upload", "Download", "Send", "Send"}));
}

TEST(Staging, leaves_alone_what_is_in_host_memory_already) {
  Writer w;
  const StorageId host = w.program.add_storage("scalars", 64, Place::host);
  w.writes("Gather", Lane::reduce, host);
  w.reads("Decide", Lane::reduce, host);
  EXPECT_EQ(kinds(run::stage_transfers(w.program)), (Kinds{"Gather", "Decide"}));
}

TEST(Staging, a_body_takes_in_what_becomes_of_its_instructions) {
  Writer w;
  const StorageId x = w.storage("x", 64, Life::reserved);
  const StorageId batch = w.storage("batch");
  w.writes("Make", Lane::compute, x);
  w.program.add("Sum", Lane::reduce).accumulates = {{x, 0}};
  w.writes("Batch", Lane::receive, batch);
  w.reads("Work", Lane::compute, batch);
  w.repeat_from(2, 1);
  w.reads("Use", Lane::compute, x);
  const Program staged = run::stage_transfers(w.program);
  EXPECT_EQ(kinds(staged),
            (Kinds{"Make", "Download", "Sum", "Batch", "Upload", "Work", "Upload", "Use"}));
  ASSERT_EQ(staged.repeats.size(), 1U);
  EXPECT_EQ(staged.repeats[0].begin, 3U);
  EXPECT_EQ(staged.repeats[0].end, 6U);
  EXPECT_EQ(staged.repeats[0].until, 2U);
  EXPECT_EQ(refusal(staged), "");
}

TEST(Staging, what_is_reduced_holds_up_no_micro_batch) {
  Writer w;
  const StorageId gradient = w.storage("gradient");
  const StorageId weights = w.storage("weights", 64, Life::reserved);
  const StorageId batch = w.storage("batch");
  w.writes("Make", Lane::compute, gradient);
  w.program.add("Sum", Lane::reduce).accumulates = {{gradient, 0}};
  w.moves("Update", Lane::update, gradient, weights);
  w.program.add("Gather", Lane::reduce).accumulates = {{weights, 0}};
  w.writes("Batch", Lane::receive, batch);
  w.reads("Use", Lane::compute, batch);
  w.reads("Install", Lane::compute, weights);
  const Program staged = run::stage_transfers(w.program);
  EXPECT_EQ(kinds(staged), (Kinds{"Make", "Download", "Sum", "Upload", "Update", "Download",
                                  "Gather", "Batch", "Upload", "Use", "Upload", "Install"}));
  EXPECT_EQ(staged.round[3].lane, Lane::update);
  EXPECT_EQ(staged.round[8].lane, Lane::load);
  EXPECT_EQ(staged.round[10].lane, Lane::load);
  EXPECT_EQ(refusal(staged), "");
}

TEST(Staging, an_empty_shard_is_there_before_it_is_read) {
  Writer w;
  const StorageId whole = w.storage("whole", 256);
  const StorageId shard = w.program.add_part("shard", whole, 64, 0);
  w.writes("Make", Lane::compute, whole);
  w.moves("ReduceScatter", Lane::reduce, whole, shard);
  w.reads("Norms", Lane::update, shard);
  w.writes("Make", Lane::compute, whole);
  const Program staged = run::stage_transfers(w.program);
  EXPECT_EQ(kinds(staged), (Kinds{"Make", "Download", "ReduceScatter", "Upload", "Norms", "Make"}));
  EXPECT_EQ(refusal(staged), "");
}

TEST(Staging, a_body_fetches_in_each_iteration_and_the_outside_whether_or_not_there_was_one) {
  Writer w;
  const StorageId x = w.storage("x", 64, Life::persistent);
  w.reads("Send", Lane::send, x);
  w.reads("Report", Lane::reduce, x);
  w.program.add("Work", Lane::compute).accumulates = {{x, 0}};
  w.repeat_from(1, 0, 3);
  w.reads("Send", Lane::send, x);
  const Program staged = run::stage_transfers(w.program);
  EXPECT_EQ(kinds(staged),
            (Kinds{"Download", "Send", "Download", "Report", "Work", "Download", "Send"}));
  EXPECT_EQ(staged.repeats[0].begin, 2U);
  EXPECT_EQ(staged.repeats[0].end, 5U);
  EXPECT_EQ(staged.repeats[0].until, 1U);
  EXPECT_EQ(staged.repeats[0].max, 3);
  EXPECT_EQ(refusal(staged), "");
}

}  // namespace reef::test
