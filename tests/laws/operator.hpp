#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <reef/nn/add.hpp>

#include "graph_runner.hpp"
#include "../support/instruction_set.hpp"

/// The laws of `graph::operator_for`, written once. A case is a struct:
///
///     struct LinearCase {
///       static std::vector<reef::test::InputCase> inputs() { return {{"in", {3, 5}}}; }
///       static auto op() { return nn::Linear{7}; }
///       static constexpr std::int32_t classes = 1;      // integer inputs lie in [0, classes)
///       static constexpr double tolerance = 64;         // fp32 against fp64, in units of 2^-24
///       static constexpr bool stochastic = false;       // training differs from inference
///     };
///
/// and `INSTANTIATE_TYPED_TEST_SUITE_P(Host, OperatorLaws, Types<Subject<device::Host, LinearCase>>)`
/// proves it. A subject whose device may be missing has `static std::string unavailable()`, the reason
/// to skip or nothing. Every run is in a GraphRunner: uninitialised or undeclared memory is NaN, and guarded.
namespace reef::test {

struct InputCase {
  std::string name;
  Shape shape;
  bool integers = false;
};

template <class Device_, class Case_>
struct Subject {
  using Device = Device_;
  using Case = Case_;
};

template <class S>
class OperatorLaws : public ::testing::Test {
protected:
  using Device = typename S::Device;
  using Case = typename S::Case;
  static constexpr DrawKey key{11, 5, 0, 0};

  void SetUp() override {
    if (const std::string why = missing_instruction_set(); !why.empty()) GTEST_SKIP() << why;
    if constexpr (requires { S::unavailable(); }) {
      if (const std::string why = S::unavailable(); !why.empty()) GTEST_SKIP() << why;
    }
  }

  /// The operator alone: its inputs and outputs are the graph's.
  template <real T>
  static graph::Graph<Device, T> alone(int threads) {
    graph::Graph<Device, T> g(threads);
    std::vector<int> refs;
    for (const InputCase& input : Case::inputs()) {
      refs.push_back(g.input(input.name,
                             {input.shape, input.integers ? Element::int32 : element_of<T>},
                             !input.integers));
    }
    g.add("op", Case::op(), refs);
    return g;
  }

  /// The operator between additions, so that its inputs and outputs are inner tensors. Each input is
  /// read before it too; and after it too if `others_after`, so that it adds to its gradient.
  static graph::Graph<Device, double> between_others(bool others_after) {
    graph::Graph<Device, double> g(2);
    std::vector<int> refs;
    std::vector<int> beside;
    for (const InputCase& input : Case::inputs()) {
      const graph::TensorSpec spec{input.shape, input.integers ? Element::int32 : Element::float64};
      const int ref = g.input(input.name, spec, !input.integers);
      if (input.integers) {
        refs.push_back(ref);
        beside.push_back(-1);
        continue;
      }
      const int other = g.input(input.name + " too", spec, true);
      refs.push_back(g.add(input.name + " in", nn::Add{}, {ref, other})[0]);
      beside.push_back(g.add(input.name + " beside", nn::Add{}, {refs.back(), other})[0]);
    }
    const std::vector<int> outputs = g.add("op", Case::op(), refs);
    for (std::size_t i = 0; i < refs.size() && others_after; ++i) {
      if (beside[i] < 0) continue;
      g.add(Case::inputs()[i].name + " after", nn::Add{}, {refs[i], beside[i]});
    }
    for (const int output : outputs) {
      const graph::Tensor tensor = g.dag().tensor_at(output);
      if (!tensor.differentiable) continue;
      const int other = g.input(tensor.name + " too", tensor.spec, true);
      g.add(tensor.name + " out", nn::Add{}, {output, other});
    }
    return g;
  }

  template <real T>
  static Outcome<T> outcome(Device& device, const std::vector<int>& cuts = {}) {
    const auto g = alone<T>(device.threads());
    GraphRunner<Device, T> runner(device, g, cuts);
    return run_once(runner, Point<T>::make(g.dag(), Case::classes), key);
  }

  static Device make_device(int threads) {
    typename Device::Options options;
    if constexpr (requires { options.threads; }) options.threads = threads;
    return Device(options);
  }
};

TYPED_TEST_SUITE_P(OperatorLaws);

// Differences take thousands of forwards. One thread gives the bits of two, without a wait in each.
TYPED_TEST_P(OperatorLaws, gradients_equal_finite_differences_in_fp64) {
  typename TestFixture::Device device = TestFixture::make_device(1);
  const auto g = TestFixture::template alone<double>(1);
  const auto [error, whose] = gradient_error(device, g, TypeParam::Case::classes, TestFixture::key);
  EXPECT_LT(error, 1e-7) << "the gradient of " << whose;
  EXPECT_NE(whose, "none") << "finite differences of something that has no derivative";
}

TYPED_TEST_P(OperatorLaws, gradients_are_added_where_others_add_too) {
  typename TestFixture::Device device = TestFixture::make_device(1);
  for (const bool others_after : {false, true}) {
    const auto g = TestFixture::between_others(others_after);
    const auto [error, whose] =
        gradient_error(device, g, TypeParam::Case::classes, TestFixture::key);
    EXPECT_LT(error, 1e-7) << "the gradient of " << whose;
  }
}

TYPED_TEST_P(OperatorLaws, fp32_agrees_with_fp64_within_the_stated_tolerance) {
  typename TestFixture::Device device = TestFixture::make_device(2);
  const auto narrow = TestFixture::template outcome<float>(device);
  const auto wide = TestFixture::template outcome<double>(device);
  const double tolerance = TypeParam::Case::tolerance * 0x1p-24;
  for (const auto& [name, values] : narrow) {
    EXPECT_LE(relative_error(values, wide.at(name)), tolerance) << name;
  }
}

/// All sums are of fp32, so an error is that of a few roundings, each of 2^-8, on the way.
TYPED_TEST_P(OperatorLaws, bf16_agrees_with_fp64_within_a_few_roundings) {
  typename TestFixture::Device device = TestFixture::make_device(2);
  const auto narrow = TestFixture::template outcome<Bfloat16>(device);
  const auto wide = TestFixture::template outcome<double>(device);
  for (const auto& [name, values] : narrow) {
    EXPECT_LE(relative_error(values, wide.at(name)), 4 * 0x1p-8) << name;
  }
}

TYPED_TEST_P(OperatorLaws, equal_calls_give_equal_bits_whatever_the_threads) {
  const auto same = []<class T>(T) {
    std::vector<Outcome<T>> outcomes;
    for (const int threads : {1, 1, 2, 3}) {
      typename TestFixture::Device device = TestFixture::make_device(threads);
      outcomes.push_back(TestFixture::template outcome<T>(device));
    }
    for (const Outcome<T>& outcome : outcomes) EXPECT_EQ(outcome, outcomes[0]);
  };
  same(float{});
  same(Bfloat16{});
}

TYPED_TEST_P(OperatorLaws, parameter_gradients_accumulate_over_micro_batches) {
  typename TestFixture::Device device = TestFixture::make_device(2);
  const auto g = TestFixture::template alone<double>(2);
  GraphRunner<typename TestFixture::Device, double> runner(device, g);
  const Point<double> point = Point<double>::make(g.dag(), TypeParam::Case::classes);
  const auto once = run_once(runner, point, TestFixture::key, false);
  const auto twice = run_once(runner, point, TestFixture::key, true);
  const auto again = run_once(runner, point, TestFixture::key, false);
  EXPECT_EQ(once, again) << "overwriting does not forget what stood there";
  for (const auto& [name, values] : once) {
    if (name.find("gradient of use") == std::string::npos) continue;
    std::vector<double> doubled = values;
    for (double& value : doubled) value *= 2;
    EXPECT_LT(relative_error(twice.at(name), doubled), 1e-13) << name;
  }
}

TYPED_TEST_P(OperatorLaws, places_in_memory_and_cuts_change_no_bit) {
  typename TestFixture::Device device = TestFixture::make_device(2);
  for (const bool others_after : {false, true}) {
    const auto g = TestFixture::between_others(others_after);
    const Point<double> point = Point<double>::make(g.dag(), TypeParam::Case::classes);
    GraphRunner<typename TestFixture::Device, double> whole(device, g);
    const auto wanted = run_once(whole, point, TestFixture::key);
    std::vector<int> everywhere;
    for (int cut = 1; cut < g.dag().node_count(); ++cut) everywhere.push_back(cut);
    GraphRunner<typename TestFixture::Device, double> apart(device, g, everywhere);
    EXPECT_EQ(run_once(apart, point, TestFixture::key), wanted);
  }
}

TYPED_TEST_P(OperatorLaws, halves_of_a_backward_give_the_bits_of_one) {
  typename TestFixture::Device device = TestFixture::make_device(2);
  for (const bool others_after : {false, true}) {
    const auto g = TestFixture::between_others(others_after);
    const Point<double> point = Point<double>::make(g.dag(), TypeParam::Case::classes);
    GraphRunner<typename TestFixture::Device, double> whole(device, g);
    std::vector<int> everywhere;
    for (int cut = 1; cut < g.dag().node_count(); ++cut) everywhere.push_back(cut);
    for (const auto& cuts : {std::vector<int>{}, everywhere}) {
      GraphRunner<typename TestFixture::Device, double> halves(device, g, cuts, -1,
                                                               graph::Halves::yes);
      for (const bool accumulate : {false, true}) {
        const auto wanted = run_once(whole, point, TestFixture::key, accumulate);
        EXPECT_EQ(run_once(halves, point, TestFixture::key, accumulate), wanted);
      }
    }
  }
}

TYPED_TEST_P(OperatorLaws, inference_keeps_nothing_and_gives_the_bits_of_training) {
  typename TestFixture::Device device = TestFixture::make_device(2);
  const auto g = TestFixture::between_others(true);
  const Point<double> point = Point<double>::make(g.dag(), TypeParam::Case::classes);
  GraphRunner<typename TestFixture::Device, double> runner(device, g);
  const auto trained = run_once(runner, point, TestFixture::key);
  runner.forward(TestFixture::key, false);
  bool differs = false;
  for (const auto& [id, seed] : point.seeds) {
    const auto& wanted = trained.at("value of " + g.dag().tensor_at(id).name);
    differs = differs || runner.value(id) != wanted;
  }
  EXPECT_EQ(differs, TypeParam::Case::stochastic);
}

REGISTER_TYPED_TEST_SUITE_P(OperatorLaws, gradients_equal_finite_differences_in_fp64,
                            gradients_are_added_where_others_add_too,
                            fp32_agrees_with_fp64_within_the_stated_tolerance,
                            bf16_agrees_with_fp64_within_a_few_roundings,
                            equal_calls_give_equal_bits_whatever_the_threads,
                            parameter_gradients_accumulate_over_micro_batches,
                            places_in_memory_and_cuts_change_no_bit,
                            halves_of_a_backward_give_the_bits_of_one,
                            inference_keeps_nothing_and_gives_the_bits_of_training);

}  // namespace reef::test
