// Trainers whose messages are encoded: the laws of every Trainer, and what the wire carries.

#include <reef/compress/channels.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <reef/codec/blockwise8.hpp>
#include <reef/codec/chosen.hpp>
#include <reef/codec/chunk_top_k.hpp>
#include <reef/codec/dct.hpp>
#include <reef/codec/delta.hpp>
#include <reef/codec/dense.hpp>
#include <reef/codec/error_feedback.hpp>
#include <reef/codec/top_k.hpp>
#include <reef/comm/mpi.hpp>
#include <reef/compress/everywhere.hpp>
#include <reef/core/hash.hpp>
#include <reef/optim/acco.hpp>
#include <reef/optim/adamw.hpp>
#include <reef/optim/ddp.hpp>
#include <reef/optim/zero1.hpp>
#include <reef/pipeline/one_f_one_b.hpp>

#include "../laws/trainer.hpp"
#include "../support/same_bits.hpp"

namespace reef::test {
namespace {

using codec::Blockwise8;
using codec::Ef21;
using codec::ErrorFeedback;

/// Every fourth number, so that clipping has something to clip.
struct Quarter : codec::TopK {
  Quarter() : TopK{4} {}
};

using Selected = compress::Channels<compress::Gradient<ErrorFeedback<Quarter>>>;
using Estimated = compress::Channels<compress::Gradient<Ef21<Blockwise8>>, compress::Parameter<Blockwise8>>;

using EncodedCases = testing::Types<TrainerCase<Trainer<Selected, optim::Ddp<optim::AdamW>>>,
                                    TrainerCase<Trainer<Estimated, optim::Zero1<optim::AdamW>>>,
                                    TrainerCase<Trainer<Selected, optim::Acco<optim::AdamW>>>>;
INSTANTIATE_TYPED_TEST_SUITE_P(Encoded, TrainerLaws, EncodedCases);

using OnEdges = compress::Channels<compress::Activation<Quarter>, compress::ActivationGradient<ErrorFeedback<Quarter>>>;
template <class... Compress>
using Staged = Trainer<pipeline::OneFOneB<>, optim::Zero1<optim::AdamW>, Compress...>;

template <class TrainerType>
typename TrainerType::Options staged_options() {
  auto options = small_options<TrainerType>();
  options.topology = run::Topology(1, world_size());
  options.micro_batches = {4};
  return options;
}

/// Dropout is drawn by sample and operator, so nothing but the codec is different from stage to stage.
TEST(EncodedEdges, repeat_themselves_by_any_transport_and_behind_a_link) {
  if (world_size() == 1) GTEST_SKIP() << "one stage has no edges";
  using Tested = Staged<OnEdges>;
  const auto options = staged_options<Tested>();
  const auto first = train<Tested>(options);
  EXPECT_TRUE(same_bits(train<Tested>(options), first));
  EXPECT_NE(first.losses, train<Staged<>>(staged_options<Staged<>>()).losses) << "something is lost";
  auto discrete = options;
  discrete.device.memory_bytes = Bytes{64} << 20;
  discrete.device.link_bytes_per_second = 4e9;
  discrete.device.poison_freed = true;
  EXPECT_TRUE(same_bits(train<Tested>(discrete), first)) << "behind a link";
  auto shorter = options;
  shorter.communication.piece_bytes = 512;
  EXPECT_TRUE(same_bits(train<Tested>(shorter), first)) << "messages of several pieces";
}

TEST(EncodedEdges, an_evaluation_and_a_resume_leave_what_codecs_remember) {
  if (world_size() == 1) GTEST_SKIP() << "one stage has no edges";
  using Tested = Staged<OnEdges>;
  const comm::Communicator world;
  const SharedFolder folder("edges");
  const auto undisturbed = train<Tested>(staged_options<Tested>(), 6);
  auto trainer = small_trainer<Tested>(staged_options<Tested>(), world);
  for (int step = 0; step < 3; ++step) trainer.step();
  const double loss = trainer.evaluate(2);
  EXPECT_EQ(loss, trainer.evaluate(2));
  checkpoint::save(trainer, folder.path());
  auto resumed = small_trainer<Tested>(staged_options<Tested>(), world);
  checkpoint::resume(resumed, folder.path());
  const auto rest = outcome_of(trainer, 3);
  EXPECT_TRUE(same_bits(rest.losses,
                        std::vector(undisturbed.losses.begin() + 3, undisturbed.losses.end())));
  EXPECT_TRUE(same_bits(rest.weights, undisturbed.weights));
  EXPECT_TRUE(same_bits(outcome_of(resumed, 3), rest));
}

/// The bytes of tensors between stages, as the program bounds them and as they were.
TEST(EncodedEdges, take_at_most_what_the_program_says_and_far_less_than_as_they_are) {
  if (world_size() == 1) GTEST_SKIP() << "one stage has no edges";
  using Tested = Staged<OnEdges>;
  const comm::Communicator world;
  auto trainer = small_trainer<Tested>(staged_options<Tested>(), world);
  trainer.step();
  const comm::Cost before = trainer.progress().meter().of(comm::Kind::send);
  trainer.step();
  const comm::Cost sent = trainer.progress().meter().of(comm::Kind::send) - before;
  Bytes said = 0, least = 0, edges = 0, plain = 0;
  std::uint64_t messages = 0;
  for (const schedule::Instruction& i : trainer.program().round) {
    if (i.collective || i.sends.empty()) continue;
    said += i.sends.front().bytes;
    messages += i.sends.front().pieces;
    if (!trainer.plan().wire_of(i.traffic).encodes()) {  // ties are sent as they are
      least += i.sends.front().bytes;
      continue;
    }
    edges += i.sends.front().bytes;
    const auto& edge = trainer.plan().remote_edges[static_cast<std::size_t>(i.index)];
    const graph::TensorSpec& spec = trainer.plan().dag->tensor_at(edge.tensor).spec;
    plain += spec.bytes();
    // The values of a fourth, whatever their indices take.
    least += comm::header_bytes + codec::message_head_bytes +
             4 * static_cast<Bytes>((spec.shape.size() + 3) / 4);
  }
  EXPECT_EQ(sent.messages, messages);
  EXPECT_LE(sent.bytes, said);
  EXPECT_GT(sent.bytes, least);
  EXPECT_LT(2 * edges, plain);
}

using Changes = compress::Channels<compress::Activation<codec::Delta<Quarter>>, compress::ActivationGradient<codec::Delta<Blockwise8>>>;
constexpr int epoch = 3;  // steps

/// Of samples that come again after an epoch: on 4 ranks of two replicas. In a step that is spoilt they have a weight that no
/// fp32 has.
template <class TrainerType>
TrainerType repeating_trainer(const comm::Communicator& world, double learning_rate, int micro_batches = 4, int spoilt = -1) {
  auto options = small_options<TrainerType>();
  const int replicas = world.size() == 4 ? 2 : 1;
  options.topology = run::Topology(replicas, world.size() / replicas);
  options.micro_batches = {micro_batches};
  options.learning_rate = {.peak = learning_rate};
  options.non_finite = optim::NonFinite::skip;
  if constexpr (requires { options.compress.activation.period; }) {
    options.compress.activation.period = options.compress.activation_gradient.period = epoch;
  }
  nn::GptConfig config = small_config();
  config.dropout = 0;
  const auto each = static_cast<std::uint64_t>(replicas * micro_batches * config.batch);
  const run::Source source = [small = small_source(), each, spoilt](std::uint64_t first, std::span<const AnyView> inputs) {
    const double weight = small(first % (epoch * each), inputs);
    return spoilt >= 0 && first / each == static_cast<std::uint64_t>(spoilt) ? 1e300 : weight;
  };
  return {nn::gpt<device::Host, float>(config, 1), source, options, small_source(), world};
}

/// What the codecs of this rank remember, by name and place.
template <class TrainerType>
std::map<std::pair<std::string, std::int64_t>, std::vector<float>> memories(TrainerType& trainer) {
  std::map<std::pair<std::string, std::int64_t>, std::vector<float>> all;
  for (const auto& range : trainer.state_ranges()) {
    if (range.memory) all[{range.name, range.begin}] = trainer.state(range);
  }
  return all;
}

TEST(EncodedChanges, of_samples_that_do_not_change_are_nothing) {
  if (world_size() == 1) GTEST_SKIP() << "one stage has no edges";
  const comm::Communicator world;
  auto plain = repeating_trainer<Staged<>>(world, 0);
  auto tested = repeating_trainer<Staged<Changes>>(world, 0);
  Bytes as_they_are = 0;
  for (int step = 0; step < 2 * epoch; ++step) {
    const Bytes before = tested.progress().meter().of(comm::Kind::send).bytes;
    EXPECT_EQ(tested.step().loss, plain.step().loss) << step;
    const Bytes sent = tested.progress().meter().of(comm::Kind::send).bytes - before;
    if (step == 1) as_they_are = sent;  // in the first step ranks also compare their programs
    if (step >= epoch) {
      EXPECT_LT(3 * sent, 2 * as_they_are) << step;
    } else if (step > 0) {
      EXPECT_EQ(sent, as_they_are) << step;
    }
    EXPECT_EQ(tested.evaluate(2), plain.evaluate(2)) << "other samples, as they are";
  }
}

TEST(EncodedChanges, of_samples_that_change_lose_something_and_both_ends_remember_the_same) {
  if (world_size() == 1) GTEST_SKIP() << "one stage has no edges";
  const comm::Communicator world;
  auto plain = repeating_trainer<Staged<>>(world, 0.01);
  auto tested = repeating_trainer<Staged<Changes>>(world, 0.01);
  EXPECT_TRUE(same_bits(outcome_of(tested, epoch), outcome_of(plain, epoch)))
      << "of the first epoch nothing is lost";
  EXPECT_FALSE(outcome_of(tested, epoch) == outcome_of(plain, epoch));
  // Of each edge one end is in stage s, the other in the next: sums of what the bits are, by end.
  std::map<std::string, std::uint64_t> of_ends;
  for (const auto& [place, numbers] : memories(tested)) {
    std::uint64_t& end = of_ends[place.first.find(".sent") != std::string::npos ? "sent" : "received"];
    Hash hash;
    hash.add(place.second);
    for (const float number : numbers) hash.add(double{number});
    const bool gradient = place.first.find("gradient") != std::string::npos;
    end += hash.value() * (gradient ? 3 : 1);
    EXPECT_FALSE(std::all_of(numbers.begin(), numbers.end(), [](float number) { return number == 0; }));
  }
  std::uint64_t ends[]{of_ends["sent"], of_ends["received"]};
  MPI_Allreduce(MPI_IN_PLACE, ends, 2, MPI_UINT64_T, MPI_SUM, MPI_COMM_WORLD);
  EXPECT_NE(ends[0], 0U);
  EXPECT_EQ(ends[0], ends[1]);
}

TEST(EncodedChanges, are_measured_beside_evaluations_that_remember_nothing) {
  if (world_size() == 1) GTEST_SKIP() << "one stage has no edges";
  using Tested = Staged<Changes>;
  const comm::Communicator world;
  auto options = staged_options<Tested>();
  options.compress.watch.measures_error = true;
  auto trainer = small_trainer<Tested>(options, world);
  for (int step = 0; step < 2; ++step) trainer.step();
  EXPECT_TRUE(std::isfinite(trainer.evaluate(2)));
}

TEST(EncodedChanges, are_the_same_behind_a_resume_and_begin_anew_with_other_counts) {
  if (world_size() == 1) GTEST_SKIP() << "one stage has no edges";
  const comm::Communicator world;
  const SharedFolder folder("changes");
  auto trainer = repeating_trainer<Staged<Changes>>(world, 0.01);
  outcome_of(trainer, epoch + 1);
  checkpoint::save(trainer, folder.path());
  const auto kept = memories(trainer);
  const auto rest = outcome_of(trainer, epoch);
  auto resumed = repeating_trainer<Staged<Changes>>(world, 0.01);
  checkpoint::resume(resumed, folder.path());
  EXPECT_TRUE(same_bits(memories(resumed), kept));
  EXPECT_TRUE(same_bits(outcome_of(resumed, epoch), rest));
  auto other = repeating_trainer<Staged<Changes>>(world, 0.01, 2);
  const auto nothing = memories(other);
  checkpoint::resume(other, folder.path());
  EXPECT_TRUE(same_bits(memories(other), nothing));
}

TEST(EncodedChanges, of_a_step_that_is_skipped_are_not_remembered) {
  if (world_size() == 1) GTEST_SKIP() << "one stage has no edges";
  const comm::Communicator world;
  auto trainer = repeating_trainer<Staged<Changes>>(world, 0.01, 4, 1);
  for (int step = 0; step < epoch; ++step) EXPECT_EQ(trainer.step().not_finite.empty(), step != 1) << step;
  // How many of this rank's memories have what was sent in a step.
  const auto that_have = [&](std::size_t step) {
    std::size_t count = 0;
    for (const auto& [place, numbers] : memories(trainer)) {
      const std::size_t one = numbers.size() / epoch;
      count += numbers[(step + 1) * one - 1] == 1 ? 1 : 0;
    }
    return count;
  };
  const std::size_t all = memories(trainer).size();
  EXPECT_GT(all, 0U);
  EXPECT_EQ(that_have(0), all);
  EXPECT_EQ(that_have(1), 0U) << "step 1 was skipped";
  EXPECT_EQ(that_have(2), all);
  for (int step = 0; step < epoch; ++step)
    EXPECT_EQ(trainer.step().not_finite, "") << "step " << epoch + step;
  EXPECT_EQ(that_have(1), all) << "an epoch later";
}

TEST(EncodedChanges, are_of_tensors_between_stages_alone) {
  using Wrong = Staged<compress::Channels<compress::Gradient<codec::Delta<Quarter>>>>;
  const auto model = nn::gpt<device::Host, float>(small_config(), 1);
  EXPECT_THROW(Wrong::planned(model, small_options<Wrong>(), world_size()), OptionError);
}

using AnyCodec = compress::Channels<compress::Activation<codec::Chosen>, compress::ActivationGradient<codec::Chosen>,
                                    compress::Gradient<codec::Chosen>, compress::Parameter<codec::Chosen>>;
using ReplicatedStages = Staged<AnyCodec>;

/// As many stages as divide the ranks, at most 2.
ReplicatedStages::Options chosen_options(const std::string& codec, const std::string& of_parameters = "none") {
  auto options = small_options<ReplicatedStages>();
  const int stages = world_size() % 2 == 0 ? 2 : 1;
  options.topology = run::Topology(world_size() / stages, stages);
  options.micro_batches = {3};
  const codec::Chosen chosen = codec::Chosen::of(codec);
  options.compress.activation = options.compress.activation_gradient = chosen;
  options.compress.gradient = chosen;
  options.compress.parameter = codec::Chosen::of(of_parameters);
  return options;
}

TEST(Channels, that_lose_nothing_change_no_bit_of_replicas_of_stages) {
  const auto plain = train<ReplicatedStages>(chosen_options("none"));
  EXPECT_TRUE(same_bits(train<ReplicatedStages>(chosen_options("dense", "dense")), plain));
  EXPECT_EQ(train<ReplicatedStages>(chosen_options("blockwise8", "blockwise8")) == plain, world_size() == 1);
}

/// Weights go as they are where the codec leaves some out.
TEST(Everywhere, is_each_channel_that_there_is_and_that_a_codec_may_carry) {
  using Tested = Staged<compress::Everywhere<codec::Chosen>>;
  for (const auto& [codec, of_parameters] : {std::pair{"blockwise8", "blockwise8"}, {"ef+top-k:4", "none"}}) {
    const auto of_each = chosen_options(codec, of_parameters);
    auto options = small_options<Tested>();
    options.topology = of_each.topology;
    options.micro_batches = of_each.micro_batches;
    options.compress = codec::Chosen::of(codec);
    EXPECT_TRUE(same_bits(train<Tested>(options), train<ReplicatedStages>(of_each))) << codec;
  }
}

/// A weight that is not sent would be 0.
TEST(Channels, refuse_codecs_of_weights_that_leave_some_out_or_remember) {
  const auto model = nn::gpt<device::Host, float>(small_config(), 1);
  for (const char* const codec : {"top-k:2", "random-k:2", "random-k:1.003", "ef+blockwise8", "ef21+blockwise8"}) {
    EXPECT_THROW(ReplicatedStages::planned(model, chosen_options("none", codec), world_size()), OptionError) << codec;
  }
}

/// What EF21 estimates is no residual.
TEST(Channels, forget_what_another_codec_remembered) {
  const comm::Communicator world;
  const SharedFolder folder("other-codec");
  {
    auto trainer = small_trainer<ReplicatedStages>(chosen_options("ef21+top-k:2"), world);
    for (int step = 0; step < 2; ++step) trainer.step();
    checkpoint::save(trainer, folder.path());
  }
  auto trainer = small_trainer<ReplicatedStages>(chosen_options("ef+top-k:2"), world);
  checkpoint::resume(trainer, folder.path());
  int memories = 0;
  for (const auto& range : trainer.state_ranges()) {
    if (!range.memory) continue;
    ++memories;
    std::vector<float> numbers(static_cast<std::size_t>(range.elements), 1.0F);
    const auto bytes = trainer.state_bytes(range, 0, std::as_writable_bytes(std::span(numbers)));
    EXPECT_TRUE(std::all_of(bytes.begin(), bytes.end(), [](std::byte byte) { return byte == std::byte{0}; })) << range.name;
  }
  EXPECT_EQ(memories > 0, world_size() > 1);
}

/// What was left out of an element's gradient is that element's, in whatever bucket it is.
TEST(Channels, remember_what_is_of_elements_however_a_model_is_cut) {
  const comm::Communicator world;
  const SharedFolder folder("other-buckets");
  const auto by_element = [](ReplicatedStages& trainer) {
    std::map<std::string, std::map<std::int64_t, float>> all;
    for (const auto& range : trainer.state_ranges()) {
      if (!range.memory) continue;
      const std::vector<float> numbers = trainer.state(range);
      for (std::size_t i = 0; i < numbers.size(); ++i) all[range.name][range.begin + static_cast<std::int64_t>(i)] = numbers[i];
    }
    return all;
  };
  auto options = chosen_options("none");
  options.compress.gradient = codec::Chosen::of("ef+top-k:4");
  auto trainer = small_trainer<ReplicatedStages>(options, world);
  for (int step = 0; step < 2; ++step) trainer.step();
  checkpoint::save(trainer, folder.path());
  options.bucket_bytes = 20'000;
  auto other = small_trainer<ReplicatedStages>(options, world);
  checkpoint::resume(other, folder.path());
  const auto before = by_element(trainer);
  auto behind = by_element(other);
  ASSERT_EQ(before.size(), behind.size());
  EXPECT_EQ(before.empty(), trainer.plan().topology.replicas == 1);
  EXPECT_NE(trainer.plan().buckets.size(), other.plan().buckets.size());
  for (const auto& [name, elements] : before) {
    if (name.find("shared") != std::string::npos) continue;  // an owner's, of whom there are others
    EXPECT_TRUE(std::any_of(elements.begin(), elements.end(), [](const auto& element) { return element.second != 0; })) << name;
    for (const auto& [element, number] : elements) EXPECT_EQ(behind[name][element], number) << name << ", " << element;
  }
  EXPECT_TRUE(std::isfinite(other.step().loss));
}

TEST(Channels, draw_other_numbers_in_each_step_and_the_same_on_all_ranks) {
  const auto first = train<ReplicatedStages>(chosen_options("ef+random-k:3+bf16"));
  EXPECT_TRUE(same_bits(train<ReplicatedStages>(chosen_options("ef+random-k:3+bf16")), first));
}

TEST(Channels, leave_what_is_chosen_as_it_is) {
  auto options = chosen_options("top-k:2");
  std::vector<std::string> names;
  options.compress.choose = [&](const compress::CodedMessages& messages) -> std::optional<double> {
    for (const std::string_view name : messages.names) names.emplace_back(name);
    return 1;
  };
  EXPECT_TRUE(
      same_bits(train<ReplicatedStages>(options), train<ReplicatedStages>(chosen_options("none"))));
  EXPECT_FALSE(names.empty());
  const auto model = nn::gpt<device::Host, float>(small_config(), 1);
  options.compress.choose = [](const compress::CodedMessages&) { return 0.5; };
  EXPECT_THROW(ReplicatedStages::planned(model, options, world_size()), OptionError);
  options = chosen_options("blockwise8");
  options.compress.choose = [](const compress::CodedMessages&) { return 3; };
  EXPECT_THROW(ReplicatedStages::planned(model, options, world_size()), OptionError);
}

/// Sends every other number as it is: a mask that both ends know.
struct Evens {
  static constexpr std::string_view name = "evens";
  static constexpr bool exact = true, lossless = false, linear = true;
  codec::Dense of_those{};

  [[nodiscard]] std::int64_t kept(std::int64_t n) const { return (n + 1) / 2; }
  [[nodiscard]] Bytes encoded_bytes(std::int64_t n) const { return of_those.encoded_bytes(kept(n)); }
  Bytes encode(std::span<const float> values, std::span<std::byte> message) const {
    std::vector<float> evens;
    for (std::size_t i = 0; i < values.size(); i += 2) evens.push_back(values[i]);
    return of_those.encode(evens, message);
  }
  void decode(std::span<const std::byte> message, std::span<float> values) const {
    std::vector<float> evens((values.size() + 1) / 2);
    of_those.decode(message, evens);
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = i % 2 == 0 ? evens[i / 2] : 0.0F;
  }
};

ReplicatedStages::Options masked_options(codec::Chosen forward, codec::Chosen back, bool one_mask) {
  auto options = staged_options<ReplicatedStages>();
  options.compress.activation = std::move(forward);
  options.compress.activation_gradient = std::move(back);
  options.compress.one_mask = one_mask;
  return options;
}

TEST(OneMask, is_what_the_same_mask_of_its_own_is) {
  const codec::Chosen evens(Evens{});
  const codec::Chosen dense(codec::Dense{});
  const auto own = train<ReplicatedStages>(masked_options(evens, evens, false));
  EXPECT_TRUE(same_bits(train<ReplicatedStages>(masked_options(evens, dense, true)), own));
  EXPECT_EQ(train<ReplicatedStages>(masked_options(evens, dense, false)) == own, world_size() == 1);
  const auto all = train<ReplicatedStages>(masked_options(dense, dense, false));
  EXPECT_TRUE(same_bits(
      train<ReplicatedStages>(masked_options(codec::Chosen::of("top-k:1"), dense, true)), all));
}

TEST(OneMask, repeats_itself_by_any_transport_and_behind_a_link) {
  auto options = masked_options(codec::Chosen::of("top-k:4+blockwise8"), codec::Chosen::of("blockwise8"), true);
  const auto first = train<ReplicatedStages>(options);
  options.communication.piece_bytes = 512;
  options.device.memory_bytes = Bytes{64} << 20;
  options.device.link_bytes_per_second = 4e9;
  options.device.poison_freed = true;
  EXPECT_TRUE(same_bits(train<ReplicatedStages>(options), first));
}

/// No index goes back: of a quarter of the numbers a quarter of the bytes, and the head.
TEST(OneMask, sends_values_alone_back_and_has_masks_for_what_is_between_the_ways) {
  if (world_size() == 1) GTEST_SKIP() << "one stage has no edges";
  const comm::Communicator world;
  auto options = masked_options(codec::Chosen::of("top-k:4"), codec::Chosen(codec::Dense{}), true);
  options.micro_batches = {8};
  auto trainer = small_trainer<ReplicatedStages>(options, world);
  static_cast<void>(trainer.step());
  std::set<schedule::StorageId> masks;
  int gradients = 0;
  for (const schedule::Instruction& i : trainer.program().round) {
    if (compress::coding_of(i).masks && i.kind == compress::kinds::encode) {
      masks.insert(compress::EncodeView(i).mask.front().storage);
    }
    if (i.traffic != schedule::Traffic::activation_gradient || i.sends.empty()) continue;
    ++gradients;
    const auto& edge = trainer.plan().remote_edges[static_cast<std::size_t>(i.index)];
    const std::int64_t n = trainer.plan().dag->tensor_at(edge.tensor).spec.shape.size();
    EXPECT_EQ(trainer.plan().wire_of(i.traffic).bytes(i.index, n),
              codec::message_head_bytes + static_cast<Bytes>((n + 3) / 4) * sizeof(float));
  }
  const auto edges_on = [&](int stage) {
    std::size_t count = 0;
    for (const graph::RemoteEdge& edge : trainer.plan().remote_edges) {
      count += !edge.gradient && trainer.plan().stage_of_segment[static_cast<std::size_t>(edge.from)] == stage ? 1U : 0U;
    }
    return count;
  };
  // 1F1B has as many micro-batches under way as there are stages from here on.
  EXPECT_EQ(masks.size(),
            edges_on(world.rank()) * static_cast<std::size_t>(world.size() - world.rank()));
  EXPECT_EQ(gradients > 0, world.rank() > 0);
}

/// From 0 to 1 and from 0 to 2, each with a mask of its own; back from 2 by 1 to 0, and another tensor from 0 to 1 and back.
TEST(OneMask, is_of_tensors_that_go_to_one_other_stage) {
  run::StepPlan plan;
  plan.stage_of_segment = {0, 1, 2};
  plan.remote_edges = {{5, 0, 1, false}, {5, 0, 2, false}, {7, 0, 1, false}, {5, 2, 1, true}, {5, 1, 0, true}, {7, 1, 0, true}};
  EXPECT_EQ(compress::detail::edges_forward_of(plan), (std::vector<int>{-1, -1, -1, -1, -1, 2}));
}

TEST(OneMask, is_nothing_of_one_stage) {
  const comm::Communicator world;
  const SharedFolder folder("one-mask");
  auto options = masked_options(codec::Chosen::of("top-k:4"), codec::Chosen::of("dense"), true);
  options.topology = run::Topology(world.size(), 1);
  auto trainer = small_trainer<ReplicatedStages>(options, world);
  static_cast<void>(trainer.step());
  EXPECT_NO_THROW(checkpoint::save(trainer, folder.path()));
}

TEST(OneMask, is_refused_where_a_codec_remembers_or_selects_on_the_way_back) {
  const auto model = nn::gpt<device::Host, float>(small_config(), 1);
  const auto planned = [&](const codec::Chosen& forward) {
    return ReplicatedStages::planned(model, masked_options(forward, codec::Chosen::of("dense"), true), world_size());
  };
  EXPECT_NO_THROW(static_cast<void>(planned(codec::Chosen::of("ef+top-k:4+nf4"))));
  EXPECT_THROW(static_cast<void>(planned(codec::Chosen::of("nf4"))), OptionError) << "rounds to 0 what it sends";
  EXPECT_THROW(static_cast<void>(planned(codec::Chosen(codec::Dct<codec::ChunkTopK>{}))), OptionError)
      << "decodes to all numbers";
  EXPECT_THROW(static_cast<void>(planned(codec::Chosen())), OptionError) << "as they are";
  for (const auto& [forward, back] : {std::pair{"top-k:4", "ef+blockwise8"}, {"ef21+blockwise8", "dense"}, {"top-k:4", "top-k:4"}}) {
    EXPECT_THROW(ReplicatedStages::planned(
                     model, masked_options(codec::Chosen::of(forward), codec::Chosen::of(back), true), world_size()),
                 OptionError)
        << forward << ", " << back;
  }
}

TEST(RatioRamp, grows_fourfold_at_a_time_to_the_ratio) {
  const compress::RatioRamp ramp{.steps = 8, .from = 1};
  std::vector<double> ratios;
  for (std::int64_t step = 0; step < 9; ++step) ratios.push_back(ramp.ratio(step, 100));
  EXPECT_EQ(ratios, (std::vector<double>{1, 1, 4, 4, 16, 16, 64, 64, 100}));
  EXPECT_EQ(ramp.ratio(0, 1), 1);
  EXPECT_EQ((compress::RatioRamp{}.ratio(0, 100)), 100);
  EXPECT_THROW((compress::RatioRamp{.steps = 3, .from = 0.5}.validate()), OptionError);
}

TEST(RatioRamp, begins_with_all_and_ends_with_the_ratio) {
  auto options = chosen_options("ef+top-k:8");
  const auto plain = train<ReplicatedStages>(chosen_options("none"));
  const auto steady = train<ReplicatedStages>(options);
  options.compress.ramp.steps = 1 << 20;
  EXPECT_TRUE(same_bits(train<ReplicatedStages>(options), plain)) << "all is sent at first";
  options.compress.ramp.steps = 2;
  const auto ramped = train<ReplicatedStages>(options);
  EXPECT_TRUE(same_bits(train<ReplicatedStages>(options), ramped));
  EXPECT_EQ(ramped == plain, world_size() == 1);
  const auto shorter_than_indices = chosen_options("ef+top-k:100+sign");
  auto growing = shorter_than_indices;
  growing.compress.ramp.steps = 4;
  EXPECT_TRUE(same_bits(train<ReplicatedStages>(growing, 6), train<ReplicatedStages>(growing, 6)))
      << "room for each message";
  EXPECT_EQ(ramped == steady, world_size() == 1);
}

/// What is evaluated behind a ramp goes by the ratios that there are then.
TEST(RatioRamp, is_over_for_evaluations_too) {
  if (world_size() == 1) GTEST_SKIP() << "one stage has no edges";
  const comm::Communicator world;
  const auto loss = [&](std::int64_t ramp) {
    auto options = masked_options(codec::Chosen::of("top-k:8"), codec::Chosen::of("dense"), true);
    options.compress.ramp.steps = ramp;
    options.learning_rate = {.peak = 0, .warmup = 0, .steps = 10};
    options.rule.options.weight_decay = 0;
    auto trainer = small_trainer<ReplicatedStages>(options, world);
    for (int step = 0; step < 2; ++step) trainer.step();
    return trainer.evaluate(2);
  };
  EXPECT_EQ(loss(2), loss(0));
  EXPECT_NE(loss(1000), loss(0));
}

}  // namespace
}  // namespace reef::test
