#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <reef/comm/communicator.hpp>
#include <reef/nn/generator.hpp>
#include <reef/nn/gpt.hpp>
#include <reef/optim/adamw.hpp>
#include <reef/optim/ddp.hpp>
#include <reef/optim/nesterov.hpp>
#include <reef/trainer/trainer.hpp>

// Compiled and linked with -ffast-math, as a user's program may be: what is not finite is noticed there too.

namespace reef::test {

namespace {

using testing::HasSubstr;
using Tested = Trainer<optim::Ddp<optim::AdamW>>;

float nan() { return std::bit_cast<float>(0x7FC00000U); }
double infinite() { return std::bit_cast<double>(std::uint64_t{0x7FF0000000000000U}); }

Tested::Options options() {
  Tested::Options result;
  result.device.threads = 1;
  result.learning_rate.peak = 1e-2;
  return result;
}

Tested trainer(Tested::Options chosen = options(), double weight = 1) {
  const nn::GptConfig config{
      .layers = 1, .heads = 2, .channels = 16, .vocabulary = 11, .context = 8, .batch = 2};
  const run::Source source = [weight](std::uint64_t first, std::span<const AnyView> inputs) {
    auto next = static_cast<std::int32_t>(first % 1000);
    for (const AnyView& input : inputs) {
      for (std::int32_t& token : input.as<std::int32_t>().span()) token = next++ % 11;
    }
    return weight;
  };
  return {nn::gpt<device::Host, float>(config, 1), source, std::move(chosen)};
}

/// What an action throws.
template <class Error, class Action>
std::string thrown_by(const Action& action) {
  try {
    action();
  } catch (const Error& error) {
    return error.what();
  }
  return "nothing";
}

TEST(FastMath, a_weight_that_is_not_finite_is_noticed_whichever_it_is) {
#if !defined(__FAST_MATH__)
  ADD_FAILURE() << "compiled without -ffast-math";
#endif
  Tested tested = trainer();
  tested.step();
  for (const graph::Parameter& parameter : tested.model().dag().parameters) {
    const std::vector<float> whole = tested.parameter(parameter.name);
    std::vector<float> broken = whole;
    broken[1] = nan();
    tested.set_parameter(parameter.name, broken);
    EXPECT_THAT(thrown_by<NonFiniteError>([&] { tested.step(); }),
                HasSubstr("element 1 of '" + parameter.name + "' is nan"));
    tested.set_parameter(parameter.name, whole);
  }
  EXPECT_TRUE(tested.step().committed);
}

TEST(FastMath, a_gradient_that_is_not_finite_commits_nothing) {
  // The weight of a micro-batch is huge, so that gradients overflow while the loss does not.
  Tested tested = trainer(options(), 3e38);
  const std::vector<float> large(16, 1e3F);
  tested.set_parameter("transformer.ln_f.weight", large);
  const std::vector<float> before = tested.parameter("transformer.wte.weight");
  EXPECT_THAT(thrown_by<NonFiniteError>([&] { tested.step(); }), HasSubstr("the gradient of "));
  EXPECT_EQ(tested.parameter("transformer.wte.weight"), before);
}

TEST(FastMath, a_learning_rate_that_is_no_number_is_refused_before_the_step) {
  for (const double rate : {infinite(), static_cast<double>(nan()), 1e39, -1.0}) {
    Tested::Options chosen = options();
    chosen.learning_rate.schedule = [rate](std::int64_t t) { return t == 1 ? rate : 1e-2; };
    Tested tested = trainer(chosen);
    tested.step();
    const std::vector<float> before = tested.parameter("transformer.wte.weight");
    EXPECT_THAT(thrown_by<OptionError>([&] { tested.step(); }),
                HasSubstr("the learning rate of the step after 1 committed ones is "));
    EXPECT_EQ(tested.parameter("transformer.wte.weight"), before);
    EXPECT_EQ(tested.progress_state().committed, 1);
  }
}

TEST(FastMath, options_that_are_no_numbers_are_refused_by_name) {
  const auto refused = [](std::string_view name, auto change) {
    for (const double bad : {infinite(), static_cast<double>(nan())}) {
      Tested::Options chosen = options();
      change(chosen, bad);
      EXPECT_THAT(thrown_by<OptionError>([&] { chosen.validate(); }), HasSubstr(name));
    }
  };
  refused("peak is", [](auto& o, double x) { o.learning_rate.peak = x; });
  refused("floor is", [](auto& o, double x) { o.learning_rate.floor = x; });
  refused("clip_norm is", [](auto& o, double x) { o.clip_norm = x; });
  refused("beta1 is", [](auto& o, double x) { o.rule.options.beta1 = x; });
  refused("beta2 is", [](auto& o, double x) { o.rule.options.beta2 = x; });
  refused("epsilon is", [](auto& o, double x) { o.rule.options.epsilon = x; });
  refused("weight_decay is", [](auto& o, double x) { o.rule.options.weight_decay = x; });
  refused("slowdown is", [](auto& o, double x) { o.device.slowdown = x; });
  refused("heartbeat", [](auto& o, double x) { o.communication.heartbeat = x; });
  refused("deadline", [](auto& o, double x) { o.communication.deadline = x; });
  EXPECT_THROW(optim::Nesterov({.momentum = nan()}).validate(), OptionError);
  EXPECT_THROW(nn::check_dropout_rate(nan()), OptionError);
  EXPECT_THROW((void)nn::draw_token(std::vector<float>{0, nan(), 1}, {}, 0.5), NonFiniteError);
}

}  // namespace

}  // namespace reef::test
