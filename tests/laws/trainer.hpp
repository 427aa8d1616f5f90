#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <filesystem>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>

#include <reef/comm/mpi.hpp>
#include <reef/optim/acco.hpp>
#include <reef/optim/acco_wp.hpp>
#include <reef/optim/dpu.hpp>
#include <reef/optim/dpu_predicted.hpp>
#include <reef/optim/zero1.hpp>
#include <reef/schedule/recording.hpp>
#include <reef/trainer/checkpoint.hpp>
#include <reef/trainer/trainer.hpp>

#include "../support/instruction_set.hpp"
#include "../support/small_gpt.hpp"

/// The laws of a Trainer, written once. A case names the composition, and the one, if there is one, whose
/// bits it must give because it differs in sharding alone:
///
///     using Cases = testing::Types<TrainerCase<Trainer<MyOptim<Rule>>, Trainer<optim::Ddp<Rule>>>>;
///     INSTANTIATE_TYPED_TEST_SUITE_P(MyOptim, TrainerLaws, Cases);
///
/// A composition whose device may be missing has `static std::string unavailable()` in its case, the
/// reason to skip or nothing. It runs on any number of ranks: the model has dropout, the gradients
/// are clipped, and every rank has its own number of micro-batches.
namespace reef::test {

template <class Tested_, class Unsharded_ = void>
struct TrainerCase {
  using Tested = Tested_;
  using Unsharded = Unsharded_;
};

/// Ddp and Zero1 over a rule; `Others` are further policies, a precision for one.
template <class Rule, class... Others>
using SynchronousCases = testing::Types<
    TrainerCase<Trainer<optim::Ddp<Rule>, Others...>, Trainer<optim::Ddp<Rule>, Others...>>,
    TrainerCase<Trainer<optim::Zero1<Rule>, Others...>, Trainer<optim::Ddp<Rule>, Others...>>>;

/// Policies whose rounds overlap, over a rule. A warm-up of one step leaves three that overlap.
template <class Rule, class... Others>
using OverlappingCases = testing::Types<TrainerCase<Trainer<optim::Dpu<Rule, 1>, Others...>>,
                                        TrainerCase<Trainer<optim::DpuPredicted<Rule>, Others...>>,
                                        TrainerCase<Trainer<optim::AccoWp<Rule>, Others...>>,
                                        TrainerCase<Trainer<optim::Acco<Rule>, Others...>>>;

/// How often a Trainer runs each of its programs in its first steps, and to gather its committed
/// weights.
template <class TrainerType>
std::map<run::Purpose, int> runs_of(int steps) {
  using Optim = typename TrainerType::Optim;
  if constexpr (optim::overlapping_policy<Optim>) {
    const int warm = std::min(steps, static_cast<int>(Optim::warm_up));
    std::map<run::Purpose, int> runs{{run::Purpose::training, steps - warm}};
    if (warm > 0) runs[run::Purpose::warm_up] = warm;
    if (steps > warm) runs[run::Purpose::prologue] = 1;
    if (steps > warm && !Optim::weights_are_committed) runs[run::Purpose::gather_committed] = 1;
    return runs;
  } else {
    return {{run::Purpose::training, steps}};
  }
}

/// What is recorded on each track of a lane: "compute: Forward(0, micro-batch 0)", and how often. What
/// runs in a queue is recorded under its own name, so there the number alone counts.
using Tracks = std::map<std::string, std::multiset<std::string>>;

inline std::string recorded_as(schedule::Lane lane, trace::Activity activity,
                               std::string_view name) {
  if (schedule::communicates(lane)) return "in the queue";
  return std::string(trace::name_of(activity)).append(": ").append(name);
}

inline std::string track_of(schedule::Lane lane) {
  return (schedule::communicates(lane) ? "comm." : "") + std::string(schedule::name_of(lane));
}

/// Adds what a program says about `rounds` of it.
inline void add_tracks(Tracks& tracks, const schedule::Program& program, int rounds) {
  for (std::size_t i = 0; i < schedule::lane_count; ++i)
    tracks[track_of(static_cast<schedule::Lane>(i))];
  for (const schedule::Instruction& instruction : program.round) {
    const trace::Activity activity = schedule::activity_of(instruction.lane);
    for (int round = 0; round < rounds; ++round) {
      tracks[track_of(instruction.lane)].insert(
          recorded_as(instruction.lane, activity, instruction.text()));
    }
  }
}

/// What was recorded, on tracks that lanes have.
inline Tracks tracks_of(const trace::Recording& recording) {
  Tracks tracks;
  for (std::size_t i = 0; i < schedule::lane_count; ++i) {
    const auto lane = static_cast<schedule::Lane>(i);
    const auto track = std::find(recording.tracks.begin(), recording.tracks.end(), track_of(lane));
    if (track == recording.tracks.end()) continue;
    auto& recorded = tracks[*track];
    for (const trace::Span& span : recording.spans) {
      if (span.track != track - recording.tracks.begin()) continue;
      recorded.insert(recorded_as(lane, span.activity, recording.name_of(span)));
    }
  }
  return tracks;
}

/// Messages travel in the queues, and not all that waits there does: how many spans say that they did.
inline std::ptrdiff_t communications_in(const trace::Recording& recording) {
  return std::count_if(recording.spans.begin(), recording.spans.end(), [](const auto& span) {
    return span.activity == trace::Activity::communication;
  });
}

/// How many instructions state messages.
inline std::ptrdiff_t communications_in(const schedule::Program& program) {
  return std::count_if(program.round.begin(), program.round.end(), [](const auto& instruction) {
    return !instruction.sends.empty() || !instruction.receives.empty();
  });
}

template <class Case>
class TrainerLaws : public testing::Test {
protected:
  using Tested = typename Case::Tested;
  using Options = typename Tested::Options;
  using Result = Outcome<typename Tested::T>;

  static constexpr int steps = 4;

  void SetUp() override {
    if (const std::string why = missing_instruction_set(); !why.empty()) GTEST_SKIP() << why;
    if constexpr (requires { Case::unavailable(); }) {
      if (const std::string why = Case::unavailable(); !why.empty()) GTEST_SKIP() << why;
    }
  }

  static Options options() { return uneven_options<Tested>(); }
  static Options alone(const std::vector<int>& counts) { return alone_options<Tested>(counts); }

  /// Puts the host's device behind a link, its memory poisoned; false for a device that is no host.
  static bool make_discrete(Options& options) {
    if constexpr (requires { options.device.link_bytes_per_second; }) {
      options.device.memory_bytes = Bytes{64} << 20;
      options.device.link_bytes_per_second = 4e9;
      options.device.poison_freed = true;
      return true;
    }
    return false;
  }

  static Result trained(const Options& options, MPI_Comm ranks = MPI_COMM_WORLD,
                        const nn::GptConfig& config = small_config()) {
    return train<Tested>(options, steps, ranks, config);
  }

  /// What all are compared with: the first run with options(), kept for the other tests.
  static const Result& undisturbed() {
    static const Result result = trained(options());
    return result;
  }

  /// Trains half of the steps, saves, and goes on: what the other half leaves behind.
  static Result saved(const std::filesystem::path& folder, const Options& options,
                      MPI_Comm ranks = MPI_COMM_WORLD) {
    const comm::Communicator communicator(ranks);
    Tested trainer = small_trainer<Tested>(options, communicator);
    outcome_of(trainer, steps / 2);
    checkpoint::save(trainer, folder);
    return outcome_of(trainer, steps / 2);
  }

  /// The other half of the steps, from what was saved after so many micro-batches of all ranks.
  static Result resumed(const std::filesystem::path& folder, const Options& options,
                        std::uint64_t micro_batches, MPI_Comm ranks = MPI_COMM_WORLD) {
    const comm::Communicator communicator(ranks);
    Tested trainer = small_trainer<Tested>(options, communicator);
    EXPECT_TRUE(checkpoint::resume(trainer, folder).has_value());
    EXPECT_EQ(trainer.progress_state().committed, steps / 2);
    EXPECT_EQ(trainer.progress_state().micro_batch, micro_batches);
    return outcome_of(trainer, steps / 2);
  }

  /// The micro-batches that those ranks read in half of the steps.
  static std::uint64_t half(const std::vector<int>& counts) {
    std::uint64_t sum = 0;
    for (const int count : counts) sum += static_cast<std::uint64_t>(count);
    return sum * (steps / 2) * phases();
  }
  static std::uint64_t phases() {
    if constexpr (optim::overlapping_policy<typename Tested::Optim>)
      return Tested::Optim::phases_per_step;
    return 1;
  }
};

TYPED_TEST_SUITE_P(TrainerLaws);

TYPED_TEST_P(TrainerLaws, repeats_itself_bit_for_bit) {
  const auto& first = this->undisturbed();
  EXPECT_EQ(first, this->trained(this->options()));
  // What the other laws rest on: weights move, gradients are clipped, masks are drawn.
  EXPECT_NE(first.losses.front(), first.losses.back());
  EXPECT_GT(*std::max_element(first.norms.begin(), first.norms.end()), this->options().clip_norm);
  auto unclipped = this->options();
  unclipped.clip_norm = 0;
  EXPECT_NE(first.weights, this->trained(unclipped).weights);
  nn::GptConfig unmasked = small_config();
  unmasked.dropout = 0;
  EXPECT_NE(first.losses, this->trained(this->options(), MPI_COMM_WORLD, unmasked).losses);
}

TYPED_TEST_P(TrainerLaws, p_ranks_give_the_bits_of_one_process_that_stands_for_p) {
  EXPECT_EQ(this->undisturbed(),
            this->trained(this->alone(uneven_counts(world_size())), MPI_COMM_SELF));
  // And with equal counts, nothing clipped, and no dropout.
  nn::GptConfig plain = small_config();
  plain.dropout = 0;
  auto together = this->options();
  auto alone = this->alone(std::vector<int>(static_cast<std::size_t>(world_size()), 2));
  together.micro_batches = {2};
  together.clip_norm = alone.clip_norm = 0;
  EXPECT_EQ(this->trained(together, MPI_COMM_WORLD, plain),
            this->trained(alone, MPI_COMM_SELF, plain));
}

TYPED_TEST_P(TrainerLaws, sharding_changes_no_bit) {
  using Unsharded = typename TypeParam::Unsharded;
  if constexpr (std::is_void_v<Unsharded>) {
    GTEST_SKIP() << "this policy is always sharded";
  } else {
    EXPECT_EQ(this->undisturbed(), train<Unsharded>(uneven_options<Unsharded>(), this->steps));
  }
}

TYPED_TEST_P(TrainerLaws, concurrent_lanes_give_the_bits_of_one_instruction_at_a_time) {
  auto serial = this->options();
  serial.serial = true;
  EXPECT_EQ(this->undisturbed(), this->trained(serial));
}

TYPED_TEST_P(TrainerLaws, threads_change_no_bit) {
  auto more = this->options();
  if constexpr (requires { more.device.threads; }) {
    more.device.threads = 3;
    EXPECT_EQ(this->undisturbed(), this->trained(more));
  } else {
    GTEST_SKIP() << "this device has no threads to choose";
  }
}

TYPED_TEST_P(TrainerLaws, the_transport_changes_no_bit) {
  for (const comm::Transport transport : {comm::Transport::window, comm::Transport::messages}) {
    auto chosen = this->options();
    chosen.communication.transport = transport;
    EXPECT_EQ(this->undisturbed(), this->trained(chosen));
  }
}

TYPED_TEST_P(TrainerLaws, cuts_and_buckets_change_no_bit) {
  if (!TypeParam::Tested::Compress::lossless) GTEST_SKIP() << "what a codec loses depends on what it is given at once";
  auto small = this->options();
  auto large = this->options();
  small.bucket_bytes = 1;
  large.bucket_bytes = Bytes{1} << 30;
  EXPECT_EQ(this->trained(small), this->trained(large));
}

TYPED_TEST_P(TrainerLaws, an_emulated_device_behind_a_link_gives_the_bits_of_the_host) {
  auto discrete = this->options();
  if (!this->make_discrete(discrete))
    GTEST_SKIP() << "this device has a memory and link of its own";
  const comm::Communicator world;
  auto trainer = small_trainer<typename TypeParam::Tested>(discrete, world);
  EXPECT_TRUE(trainer.plan().discrete);
  EXPECT_EQ(this->undisturbed(), outcome_of(trainer, this->steps));
}

TYPED_TEST_P(TrainerLaws, tracing_changes_no_bit_and_records_every_instruction_on_its_track) {
  for (const bool discrete : {false, true}) {
    auto traced = this->options();
    if (discrete && !this->make_discrete(traced)) continue;
    trace::Sink sink(world_rank());
    traced.trace = &sink;
    Tracks expected;
    std::ptrdiff_t communications = 0;
    {
      const comm::Communicator world;
      auto trainer = small_trainer<typename TypeParam::Tested>(traced, world);
      trace::Recording of_setting_up;
      sink.collect(of_setting_up);
      EXPECT_EQ(this->undisturbed(), outcome_of(trainer, this->steps));
      for (const auto& [purpose, rounds] : runs_of<typename TypeParam::Tested>(this->steps)) {
        add_tracks(expected, trainer.program(purpose), rounds);
        communications += rounds * communications_in(trainer.program(purpose));
      }
      EXPECT_FALSE(expected["compute"].empty());
      EXPECT_FALSE(expected["comm.reduce"].empty());
      const bool copies = trainer.plan().discrete || TypeParam::Tested::Swap::offloads_to_host;
      EXPECT_EQ(expected["load"].empty(), !copies);
      const auto& wire = trainer.plan().wire;
      const bool encodes = world_size() > 1 && std::any_of(wire.begin(), wire.end(), [](const run::WireForm& form) {
                             return form.encodes();
                           });
      EXPECT_EQ(expected["evict"].empty(), !copies && !encodes);
    }
    trace::Recording recording;
    sink.collect(recording);
    EXPECT_EQ(tracks_of(recording), expected);
    EXPECT_GE(communications_in(recording), communications);
    EXPECT_EQ(communications > 0, world_size() > 1);
  }
}

TYPED_TEST_P(TrainerLaws, the_wire_carries_what_the_program_says) {
  auto options = this->options();
  options.communication.transport = comm::Transport::messages;
  const comm::Communicator world;
  auto trainer = small_trainer<typename TypeParam::Tested>(options, world);
  trainer.step();
  const comm::Cost before = trainer.progress().meter().operations();
  trainer.step();
  trainer.step();
  const comm::Cost sent = trainer.progress().meter().operations() - before;
  comm::Cost said;
  for (const schedule::Instruction& instruction : trainer.program().round) {
    for (const schedule::Message& message : instruction.sends) {
      said.messages += 2 * message.pieces;
      said.bytes += 2 * message.bytes;
    }
  }
  EXPECT_EQ(sent.messages, said.messages);
  const auto& wire = trainer.plan().wire;
  if (std::all_of(wire.begin(), wire.end(), [](const run::WireForm& form) { return form.exact; })) {
    EXPECT_EQ(sent.bytes, said.bytes);
  } else {
    EXPECT_LE(sent.bytes, said.bytes);
    EXPECT_GE(2 * sent.bytes, said.bytes) << "what is said is a bound";
  }
  EXPECT_EQ(sent.messages > 0, world_size() > 1);
}

TYPED_TEST_P(TrainerLaws, evaluation_changes_nothing) {
  const comm::Communicator world;
  auto trainer = small_trainer<typename TypeParam::Tested>(this->options(), world);
  auto outcome = outcome_of(trainer, this->steps / 2);
  const double loss = trainer.evaluate(3);
  EXPECT_TRUE(std::isfinite(loss));
  EXPECT_EQ(loss, trainer.evaluate(3));
  EXPECT_EQ(trainer.evaluate(3, [](int done) { return done < 1; }), trainer.evaluate(1));
  const auto rest = outcome_of(trainer, this->steps / 2);
  outcome.losses.insert(outcome.losses.end(), rest.losses.begin(), rest.losses.end());
  EXPECT_EQ(outcome.losses, this->undisturbed().losses);
  EXPECT_EQ(rest.weights, this->undisturbed().weights);
}

TYPED_TEST_P(TrainerLaws, a_resumed_run_goes_on_with_the_bits_of_the_undisturbed_one) {
  const SharedFolder folder("resume");
  const auto all = uneven_counts(world_size());
  const auto rest = this->saved(folder.path(), this->options());
  EXPECT_EQ(rest.weights, this->undisturbed().weights) << "saving changes nothing";
  EXPECT_EQ(this->resumed(folder.path(), this->options(), this->half(all)), rest);
}

TYPED_TEST_P(TrainerLaws, one_process_resumes_what_p_ranks_saved_and_they_what_it_saved) {
  const SharedFolder of_many("many");
  const SharedFolder of_one("one");
  const auto all = uneven_counts(world_size());
  const auto rest = this->saved(of_many.path(), this->options());
  EXPECT_EQ(this->resumed(of_many.path(), this->alone(all), this->half(all), MPI_COMM_SELF), rest);
  if (world_rank() == 0) {
    EXPECT_EQ(this->saved(of_one.path(), this->alone(all), MPI_COMM_SELF), rest);
  }
  MPI_Barrier(MPI_COMM_WORLD);
  EXPECT_EQ(this->resumed(of_one.path(), this->options(), this->half(all)), rest);
}

TYPED_TEST_P(TrainerLaws, another_number_of_ranks_takes_over_the_whole_state) {
  if (world_size() == 1) GTEST_SKIP() << "needs two ranks";
  // P ranks give way to Q, and Q to P. Their bits are those of one process that takes over the same
  // state in their place, all of it in one piece.
  const FirstRanks few(world_size() - 1);
  const SharedFolder of_all("all");
  const SharedFolder of_few("few");
  const auto p = uneven_counts(world_size());
  const auto q = uneven_counts(world_size() - 1);
  auto each = this->options();
  auto alone_p = this->alone(p);
  auto alone_q = this->alone(q);
  // One bucket of many blocks: shards of P ranks end inside those of Q.
  each.bucket_bytes = alone_p.bucket_bytes = alone_q.bucket_bytes = Bytes{1} << 30;
  this->saved(of_all.path(), each);
  if (few.here()) {
    const auto expected = this->resumed(of_all.path(), alone_q, this->half(p), MPI_COMM_SELF);
    EXPECT_EQ(this->resumed(of_all.path(), each, this->half(p), few.handle()), expected);
    this->saved(of_few.path(), each, few.handle());
  }
  MPI_Barrier(MPI_COMM_WORLD);
  const auto expected = this->resumed(of_few.path(), alone_p, this->half(q), MPI_COMM_SELF);
  EXPECT_EQ(this->resumed(of_few.path(), each, this->half(q)), expected);
}

REGISTER_TYPED_TEST_SUITE_P(TrainerLaws, repeats_itself_bit_for_bit,
                            p_ranks_give_the_bits_of_one_process_that_stands_for_p,
                            sharding_changes_no_bit,
                            concurrent_lanes_give_the_bits_of_one_instruction_at_a_time,
                            threads_change_no_bit, the_transport_changes_no_bit,
                            cuts_and_buckets_change_no_bit,
                            an_emulated_device_behind_a_link_gives_the_bits_of_the_host,
                            tracing_changes_no_bit_and_records_every_instruction_on_its_track,
                            the_wire_carries_what_the_program_says, evaluation_changes_nothing,
                            a_resumed_run_goes_on_with_the_bits_of_the_undisturbed_one,
                            one_process_resumes_what_p_ranks_saved_and_they_what_it_saved,
                            another_number_of_ranks_takes_over_the_whole_state);

}  // namespace reef::test
