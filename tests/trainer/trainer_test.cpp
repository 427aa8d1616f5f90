#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include <reef/comm/mpi.hpp>
#include <reef/core/text.hpp>
#include <reef/optim/adamw.hpp>
#include <reef/optim/zero1.hpp>
#include <reef/profile/network.hpp>
#include <reef/trainer/detail/agreement.hpp>

#include "../laws/trainer.hpp"

namespace reef::test {

INSTANTIATE_TYPED_TEST_SUITE_P(AdamW, TrainerLaws, SynchronousCases<optim::AdamW>);

// What the laws do not say.

namespace {

using Zero1Trainer = Trainer<optim::Zero1<optim::AdamW>>;
using Options = Zero1Trainer::Options;

}  // namespace

TEST(Trainer, learns) {
  Options options = small_options<Zero1Trainer>();
  options.learning_rate = {.peak = 0.01};
  const auto outcome = train<Zero1Trainer>(options, 30);
  EXPECT_NEAR(outcome.losses.front(), std::log(37.0), 0.3);
  EXPECT_GT(std::abs(outcome.losses.front() - std::log(37.0)), 1e-4) << "that of logits that are all alike";
  EXPECT_LT(outcome.losses.back(), outcome.losses.front() - 0.8);
}

TEST(Trainer, weights_that_differ_from_sample_to_sample_give_the_same_bits_on_p_ranks) {
  const run::Source plain = small_source();
  const run::Source source = [&](std::uint64_t first, std::span<const AnyView> inputs) {
    plain(first, inputs);
    return static_cast<double>(1 + first / 2 % 5);
  };
  const auto run = [&](const Options& options, MPI_Comm ranks) {
    const comm::Communicator communicator(ranks);
    Zero1Trainer trainer(nn::gpt<device::Host, float>(small_config(), 1), source, options, {},
                         communicator);
    return outcome_of(trainer, 3);
  };
  EXPECT_EQ(run(uneven_options<Zero1Trainer>(), MPI_COMM_WORLD),
            run(alone_options<Zero1Trainer>(uneven_counts(world_size())), MPI_COMM_SELF));
}

TEST(Trainer, clips_the_mean_gradient_to_the_norm_that_was_asked_for) {
  const comm::Communicator world;
  // AdamW's first step does not depend on the gradient's length, its first moment does.
  Options options = small_options<Zero1Trainer>();
  options.clip_norm = 0.125;
  options.rule.options.beta1 = 0;
  Zero1Trainer trainer = small_trainer<Zero1Trainer>(options, world);
  EXPECT_GT(trainer.step().gradient_norm, 0.125);
  std::vector<double> squares{0};
  for (const auto& range : trainer.state_ranges()) {
    if (range.name != "state.0") continue;
    for (const float m : trainer.state(range))
      squares[0] += static_cast<double>(m) * static_cast<double>(m);
  }
  comm::all_reduce<double>(trainer.progress(), "squares", squares);
  EXPECT_NEAR(std::sqrt(squares[0]), 0.125, 1e-5);
}

TEST(Trainer, dropout_draws_another_mask_for_every_sample) {
  const comm::Communicator world;
  // The same text in every step, and weights that never move: only the masks differ.
  const run::Source source = [plain = small_source()](std::uint64_t,
                                                      std::span<const AnyView> inputs) {
    return plain(0, inputs);
  };
  Options options = small_options<Zero1Trainer>();
  options.learning_rate = {.peak = 0};
  Zero1Trainer trainer(nn::gpt<device::Host, float>(small_config(), 1), source, options, {}, world);
  const double first = trainer.step().loss;
  EXPECT_NE(first, trainer.step().loss);
}

TEST(Trainer, evaluates_the_mean_by_weight) {
  const comm::Communicator world;
  const run::Source plain = small_source();
  // Every even micro-batch counts three times, every odd one not at all.
  const run::Source uneven = [&](std::uint64_t first, std::span<const AnyView> inputs) {
    plain(first, inputs);
    return first / 2 % 2 == 0 ? 3.0 : 0.0;
  };
  const run::Source even = [&](std::uint64_t first, std::span<const AnyView> inputs) {
    return plain(first * 2, inputs);
  };
  const auto evaluate = [&](const run::Source& held_out, int count) {
    Options options = small_options<Zero1Trainer>();
    options.micro_batches = {count};
    Zero1Trainer trainer(nn::gpt<device::Host, float>(small_config(), 1), plain, options, held_out,
                         world);
    return trainer.evaluate(2);
  };
  EXPECT_NEAR(evaluate(uneven, 2), evaluate(even, 1), 1e-6);
}

TEST(Trainer, refuses_a_negative_weight_and_a_step_without_any) {
  const run::Source plain = small_source();
  const auto failure = [&](double weight) {
    const run::Source source = [&, weight](std::uint64_t first, std::span<const AnyView> inputs) {
      plain(first, inputs);
      return weight;
    };
    const comm::Communicator self(MPI_COMM_SELF);
    try {
      Zero1Trainer trainer(nn::gpt<device::Host, float>(small_config(), 1), source,
                           small_options<Zero1Trainer>(), {}, self);
      trainer.step();
    } catch (const std::exception& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  EXPECT_NE(failure(-1).find("the weight -1"), std::string::npos);
  EXPECT_NE(failure(0).find("no micro-batch of any rank has a weight"), std::string::npos);
}

TEST(Trainer, refuses_ranks_with_different_options) {
  if (world_size() == 1) GTEST_SKIP() << "needs two ranks";
  const auto refused = [&](auto change) {
    Options options = small_options<Zero1Trainer>();
    if (world_rank() == 1) change(options);
    try {
      train<Zero1Trainer>(options, 1);
      ADD_FAILURE() << "no OptionError";
    } catch (const OptionError& error) {
      EXPECT_NE(std::string(error.what()).find("rank 1 and rank 0 differ"), std::string::npos);
    }
  };
  refused([](Options& o) { o.seed += 1; });
  refused([](Options& o) { o.learning_rate.peak *= 2; });
  refused([](Options& o) { o.clip_norm = 0; });
  refused([](Options& o) { o.rule.options.weight_decay = 0.5; });
  refused([](Options& o) { o.non_finite = optim::NonFinite::skip; });
}

TEST(Trainer, names_what_ranks_differ_in_with_both_values_and_their_ranks) {
  if (world_size() == 1) GTEST_SKIP() << "needs two ranks";
  const int last = world_size() - 1;
  const auto refused = [&](auto change, const std::string& name, const std::string& usual,
                           const std::string& other) {
    Options options = small_options<Zero1Trainer>();
    options.alike = {{"data", "checksum 5"}};
    if (world_rank() == last) change(options);
    try {
      train<Zero1Trainer>(options, 1);
      ADD_FAILURE() << "no OptionError: " << name;
    } catch (const OptionError& error) {
      const std::string text = error.what();
      for (const std::string& part :
           {"rank " + std::to_string(last) + " and rank 0 differ in their " + name + ": " + usual,
            other + " on rank " + std::to_string(last)}) {
        EXPECT_NE(text.find(part), std::string::npos) << part << "\n" << text;
      }
    }
  };
  refused([](Options& o) { o.seed += 1; }, "seed", "11 on rank", "12");
  refused([](Options& o) { o.learning_rate.peak = 0.25; }, "learning_rate.peak", "0.01 on", "0.25");
  refused([](Options& o) { o.learning_rate.steps = 7; }, "learning_rate.steps", "20 on rank", "7");
  refused([](Options& o) { o.clip_norm = 0; }, "clip_norm", "0.5 on rank", "0");
  refused([](Options& o) { o.rule.options.beta1 = 0.5; }, "rule", "adamw with beta1 0.9,", "0.1");
  refused([](Options& o) { o.non_finite = optim::NonFinite::skip; }, "non_finite", "stop", "skip");
  refused([](Options& o) { o.alike[0].value = "checksum 6"; }, "data", "checksum 5", "checksum 6");
  refused([](Options& o) { o.alike = {}; }, "data", "checksum 5 on rank", "nothing");
  refused([](Options& o) { o.communication.deadline = 20; }, "communication.deadline", "30 s",
          "20 s");
  refused([](Options& o) { o.bucket_bytes = 1; }, "plan of a step", "hash ", "1");
  refused([](Options& o) { o.cuts = {1}; }, "plan of a step", "hash ", "1");
  const auto links = profile::Network::uniform(world_size(), 0, 1e9);
  refused([&](Options& o) { o.network = links; }, "plan of a step", "hash ", concat("hash ", detail::hash_of(links)));
  const std::vector<double> rates(static_cast<std::size_t>(world_size()), 1e6);
  EXPECT_NE(detail::hash_of(links), detail::hash_of(links.with_uplinks(rates, rates)));
}

TEST(Trainer, says_before_the_first_step_which_weights_the_ranks_do_not_have_alike) {
  if (world_size() == 1) GTEST_SKIP() << "needs two ranks";
  const comm::Communicator world;
  Zero1Trainer trainer = small_trainer<Zero1Trainer>(small_options<Zero1Trainer>(), world);
  const std::string name = "transformer.h.1.mlp.c_proj.bias";
  const std::vector<float> whole = trainer.parameter(name);
  std::vector<float> other = whole;
  other[3] = std::nextafter(other[3], 1.0F);
  if (world_rank() == 1) trainer.set_parameter(name, other);
  for (int tries = 0; tries < 2; ++tries) {
    try {
      trainer.step();
      ADD_FAILURE() << "no OptionError";
    } catch (const OptionError& error) {
      EXPECT_NE(std::string(error.what())
                    .find("rank 1 and rank 0 differ in their weights of '" + name + "': checksum "),
                std::string::npos)
          << error.what();
    }
  }
  EXPECT_EQ(trainer.progress_state().committed, 0);
  if (world_rank() == 1) trainer.set_parameter(name, whole);
  Zero1Trainer fresh = small_trainer<Zero1Trainer>(small_options<Zero1Trainer>(), world);
  EXPECT_EQ(outcome_of(trainer, 2), outcome_of(fresh, 2));
}

TEST(Trainer, weights_of_micro_batches_that_are_all_the_same_change_no_bit) {
  const run::Source plain = small_source();
  const comm::Communicator world;
  const auto run = [&](double weight) {
    const run::Source source = [&, weight](std::uint64_t first, std::span<const AnyView> inputs) {
      plain(first, inputs);
      return weight;
    };
    Zero1Trainer trainer(nn::gpt<device::Host, float>(small_config(), 1), source,
                         uneven_options<Zero1Trainer>(), {}, world);
    return outcome_of(trainer, 3);
  };
  EXPECT_EQ(run(1), run(64));  // a power of two: every product and quotient is exact
}

TEST(Trainer, a_micro_batch_of_weight_zero_is_as_if_it_were_not_there) {
  const run::Source plain = small_source();
  const comm::Communicator world;
  // Every rank has two micro-batches, of which the second counts for nothing.
  const auto losses = [&](int count) {
    const run::Source source = [&, count](std::uint64_t first, std::span<const AnyView> inputs) {
      const std::uint64_t m = first / 2;
      const std::uint64_t wanted = count == 2 ? m / 2 : m;
      plain(wanted * 2, inputs);
      return count == 2 && m % 2 == 1 ? 0.0 : 1.0;
    };
    nn::GptConfig config = small_config();
    config.dropout = 0;  // drawn by the sample's number, which differs here
    Options options = small_options<Zero1Trainer>();
    options.micro_batches = {count};
    Zero1Trainer trainer(nn::gpt<device::Host, float>(config, 1), source, options, {}, world);
    return outcome_of(trainer, 3);
  };
  EXPECT_EQ(losses(1), losses(2));
}

TEST(Trainer, stops_at_a_loss_that_is_not_finite_and_keeps_the_weights) {
  const comm::Communicator world;
  Options options = uneven_options<Zero1Trainer>();
  Zero1Trainer trainer = small_trainer<Zero1Trainer>(options, world);
  trainer.step();
  const std::string broken = "transformer.h.1.mlp.c_proj.bias";
  std::vector<float> values = trainer.parameter(broken);
  values[3] = std::numeric_limits<float>::quiet_NaN();
  trainer.set_parameter(broken, values);
  const auto before = trainer.parameter("transformer.wte.weight");
  try {
    trainer.step();
    ADD_FAILURE() << "no NonFiniteError";
  } catch (const NonFiniteError& error) {
    const std::string text = error.what();
    EXPECT_NE(text.find("the loss on rank 0"), std::string::npos) << text;
    EXPECT_NE(text.find("after 1 committed"), std::string::npos) << text;
    EXPECT_NE(text.find("not finite: element 3 of '" + broken + "' is nan"), std::string::npos)
        << text;
    EXPECT_EQ(text.find("those of the last committed step"), std::string::npos) << text;
  }
  EXPECT_EQ(trainer.parameter("transformer.wte.weight"), before);
  EXPECT_EQ(trainer.progress_state().committed, 1);
}

TEST(Trainer, refuses_a_learning_rate_that_is_no_number_before_anything_of_the_step_has_run) {
  const comm::Communicator world;
  const double infinite = std::numeric_limits<double>::infinity();
  for (const double rate : {std::nan(""), infinite, -infinite, -1e-3, 1e39}) {
    double given = 1e-3;
    Options options = uneven_options<Zero1Trainer>();
    options.learning_rate.schedule = [&given](std::int64_t /*committed*/) { return given; };
    Zero1Trainer trainer = small_trainer<Zero1Trainer>(options, world);
    trainer.step();
    const auto before = trainer.parameter("transformer.wte.weight");
    const std::uint64_t used = trainer.progress_state().micro_batch;
    given = rate;
    try {
      trainer.step();
      ADD_FAILURE() << "no OptionError for " << rate;
    } catch (const OptionError& error) {
      const std::string text = error.what();
      EXPECT_NE(text.find(concat("after 1 committed ones is ", rate)), std::string::npos) << text;
    }
    EXPECT_EQ(trainer.parameter("transformer.wte.weight"), before);
    EXPECT_EQ(trainer.progress_state().micro_batch, used);
    given = 1e-3;  // the ranks go on
    EXPECT_EQ(trainer.step().step, 2);
  }
}

TEST(Trainer, names_the_rank_and_the_tensor_whose_gradient_is_not_finite) {
  // The last rank's weight is huge, so that its gradients overflow while its loss does not.
  const int culprit = world_size() - 1;
  const run::Source plain = small_source();
  const run::Source source = [&](std::uint64_t first, std::span<const AnyView> inputs) {
    plain(first, inputs);
    return world_rank() == culprit ? 3e38 : 1.0;
  };
  Options options = small_options<Zero1Trainer>();
  options.micro_batches = {4};
  const comm::Communicator world;
  Zero1Trainer trainer(nn::gpt<device::Host, float>(small_config(), 1), source, options, {}, world);
  for (const char* name : {"transformer.h.0.ln_1.weight", "transformer.h.0.attn.c_attn.weight"}) {
    std::vector<float> values = trainer.parameter(name);
    for (float& value : values) value *= 3000;
    trainer.set_parameter(name, values);
  }
  try {
    trainer.step();
    ADD_FAILURE() << "no NonFiniteError";
  } catch (const NonFiniteError& error) {
    const std::string text = error.what();
    EXPECT_NE(text.find("the gradient of transformer."), std::string::npos) << text;
    EXPECT_NE(text.find("on rank " + std::to_string(culprit)), std::string::npos) << text;
    EXPECT_NE(text.find("those of the last committed step, and finite"), std::string::npos) << text;
  }
}

TEST(Trainer, skips_a_step_that_is_not_finite_and_goes_on) {
  Options options = small_options<Zero1Trainer>();
  options.non_finite = optim::NonFinite::skip;
  const comm::Communicator world;
  Zero1Trainer trainer = small_trainer<Zero1Trainer>(options, world);
  EXPECT_TRUE(trainer.step().committed);
  const std::string name = "transformer.h.1.mlp.c_proj.bias";
  const std::vector<float> whole = trainer.parameter(name);
  std::vector<float> broken = whole;
  broken[3] = std::numeric_limits<float>::quiet_NaN();
  trainer.set_parameter(name, broken);
  const auto before = trainer.parameter("transformer.wte.weight");
  EXPECT_FALSE(trainer.step().committed);
  EXPECT_EQ(trainer.parameter("transformer.wte.weight"), before);
  trainer.set_parameter(name, whole);
  const StepResult third = trainer.step();
  EXPECT_TRUE(third.committed);
  EXPECT_EQ(third.step, 2);
  EXPECT_NE(trainer.parameter("transformer.wte.weight"), before);
}

TEST(Trainer, gives_and_takes_no_bytes_beyond_a_parameter_or_a_range_of_its_state) {
  const comm::Communicator world;
  const Bytes most = std::numeric_limits<Bytes>::max();
  for (const Bytes memory : {Bytes{0}, Bytes{1} << 30}) {  // the host's own, and another's
    Options options = small_options<Zero1Trainer>();
    options.device.memory_bytes = memory;
    Zero1Trainer trainer = small_trainer<Zero1Trainer>(options, world);
    const auto expect_bounds = [most](Bytes all, const auto& use) {
      const Bytes some = std::min<Bytes>(all, 4);  // a rank may have none
      for (const auto& [offset, bytes] :
           {std::pair<Bytes, Bytes>{0, all}, {all, 0}, {all - some, some}})
        EXPECT_NO_THROW(use(offset, bytes)) << bytes << " after " << offset << " of " << all;
      for (const auto& [offset, bytes] : {std::pair<Bytes, Bytes>{0, all + 1},
                                          {all, 1},
                                          {all + 1, 0},
                                          {all - some, some + 1},
                                          {most, 1},
                                          {most - 3, 4}})
        EXPECT_THROW(use(offset, bytes), ShapeError)
            << bytes << " after " << offset << " of " << all;
    };
    const std::string bias = "transformer.h.1.mlp.c_proj.bias";
    const std::vector<float> values = trainer.parameter(bias);
    std::vector<std::byte> room;
    expect_bounds(values.size() * sizeof(float), [&](Bytes offset, Bytes bytes) {
      room.resize(static_cast<std::size_t>(bytes));
      EXPECT_EQ(trainer.parameter_bytes(bias, offset, room).size(), bytes);
    });
    ASSERT_FALSE(trainer.state_ranges().empty());
    for (const auto& range : trainer.state_ranges()) {
      expect_bounds(range.bytes(), [&](Bytes offset, Bytes bytes) {
        room.resize(static_cast<std::size_t>(bytes));
        EXPECT_EQ(trainer.state_bytes(range, offset, room).size(), bytes);
      });
      expect_bounds(range.bytes(), [&](Bytes offset, Bytes bytes) {
        room.assign(static_cast<std::size_t>(bytes), std::byte{0});
        trainer.set_state(range, offset, room);
      });
    }
    EXPECT_EQ(trainer.parameter(bias), values);
  }
}

TEST(Trainer, gives_state_of_another_type_as_bytes_alone) {
  const comm::Communicator world;
  Zero1Trainer trainer = small_trainer<Zero1Trainer>(small_options<Zero1Trainer>(), world);
  auto range = trainer.state_ranges().at(0);
  EXPECT_EQ(trainer.state(range).size(), static_cast<std::size_t>(range.elements));
  range.element = Element::bfloat16;
  try {
    static_cast<void>(trainer.state(range));
    ADD_FAILURE() << "no OptionError";
  } catch (const OptionError& error) {
    const std::string text = error.what();
    EXPECT_NE(text.find("'" + range.name + "' is of type bf16"), std::string::npos) << text;
    EXPECT_NE(text.find("fix: state_bytes"), std::string::npos) << text;
  }
}

TEST(Trainer, refuses_ranks_with_different_plans) {
  if (world_size() == 1) GTEST_SKIP() << "needs two ranks";
  Options options = small_options<Zero1Trainer>();
  options.bucket_bytes = world_rank() == 1 ? 1 : Bytes{1} << 30;
  try {
    train<Zero1Trainer>(options);
    ADD_FAILURE() << "no OptionError";
  } catch (const OptionError& error) {
    EXPECT_NE(std::string(error.what()).find("rank 1 and rank 0 differ"), std::string::npos);
  }
}

TEST(Trainer, trains_a_model_that_is_made_for_fewer_threads_than_its_device_has) {
  // A launcher that binds ranks leaves them fewer cores, and more where they are more ranks.
  Options options = small_options<Zero1Trainer>();
  const auto expected = train<Zero1Trainer>(options, 2);
  options.device.threads = 3;
  Zero1Trainer trainer(nn::gpt<device::Host, float>(small_config(), 1), small_source(), options, small_source());
  EXPECT_EQ(trainer.model().threads(), 3);
  EXPECT_EQ(outcome_of(trainer, 2), expected);
}

TEST(Trainer, names_the_option_that_cannot_be) {
  const auto refused = [](auto change, const char* word) {
    Options options = small_options<Zero1Trainer>();
    change(options);
    try {
      options.validate();
      ADD_FAILURE() << word;
    } catch (const OptionError& error) {
      EXPECT_NE(std::string(error.what()).find(word), std::string::npos) << error.what();
    }
  };
  refused([](Options& o) { o.micro_batches = {}; }, "micro_batches");
  refused([](Options& o) { o.micro_batches = {0}; }, "micro_batches");
  refused([](Options& o) { o.virtual_ranks = 0; }, "virtual_ranks");
  refused([](Options& o) { o.device.threads = -5; }, "threads is -5");
  refused([](Options& o) { o.communication.piece_bytes = 0; }, "piece_bytes");
  refused([](Options& o) { o.communication.heartbeat = 0; }, "heartbeat");
  refused(
      [](Options& o) {
        o.micro_batches = {1, 2};
        o.virtual_ranks = 3;
      },
      "micro_batches");
  refused([](Options& o) { o.clip_norm = -1; }, "clip_norm");
  refused([](Options& o) { o.learning_rate.peak = std::nan(""); }, "peak");
}

}  // namespace reef::test
