#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include <reef/core/random.hpp>
#include <reef/device/host.hpp>
#include <reef/device/transform.hpp>
#include <reef/optim/concept.hpp>
#include <reef/optim/detail/rule_kernel.hpp>

/// The laws of optim::update_rule, on vectors of the host and on single elements. A case names an
/// element type, a rule whose options all differ from what does nothing, and the rule's formula once
/// more, from its source and not from the rule: one element, in fp64, with its own memory.
///
///     struct MyCase {
///       using Element = float;
///       static MyRule rule();
///       struct Reference {   // the new weight after step t, counted from 1
///         double operator()(double w, double g, int t, double lr, bool decays);
///       };
///     };
///     INSTANTIATE_TYPED_TEST_SUITE_P(MyRule, UpdateRuleLaws, testing::Types<MyCase>);
namespace reef::test {

template <class Case>
class UpdateRuleLaws : public testing::Test {
protected:
  using Rule = decltype(Case::rule());
  using T = typename Case::Element;
  using Kernel = optim::detail::RuleKernel<Rule, T>;

  /// Weights and state after `steps` steps on drawn gradients, applied in pieces of `piece` elements.
  struct Trial {
    std::vector<T> weights;
    std::vector<std::vector<T>> states;
    friend bool operator==(const Trial&, const Trial&) = default;
  };

  static std::vector<T> drawn(std::size_t n, std::uint64_t seed) {
    std::vector<T> values(n);
    for (std::size_t i = 0; i < n; ++i) values[i] = static_cast<T>(normal({seed, 0, 0, 0}, i));
    return values;
  }

  template <class Apply>
  static Trial run(std::size_t n, int steps, bool decays, double lr, const Apply& apply) {
    Trial trial{drawn(n, 1), {}};
    for (int k = 0; k < Rule::states; ++k) trial.states.emplace_back(n, T(0));
    for (int t = 1; t <= steps; ++t) {
      const std::vector<T> gradient = drawn(n, 100 + static_cast<std::uint64_t>(t));
      Kernel kernel;
      kernel.weight = trial.weights.data();
      kernel.g = gradient.data();
      for (std::size_t k = 0; k < trial.states.size(); ++k)
        kernel.state[k] = trial.states[k].data();
      kernel.scale = static_cast<T>(0.5);
      kernel.c = Case::rule().template coefficients<T>(t, lr, decays);
      apply(kernel);
    }
    return trial;
  }

  /// By vectors, in pieces that begin anywhere.
  static Trial by_vectors(std::size_t n, int steps, bool decays, double lr, std::size_t piece,
                          int threads) {
    device::Host host({.threads = threads});
    device::Host::Lane lane(host, "test");
    return run(n, steps, decays, lr, [&](const Kernel& kernel) {
      for (std::size_t begin = 0; begin < n; begin += piece) {
        Kernel part = kernel;
        part.weight += begin;
        part.g += begin;
        for (std::size_t k = 0; k < static_cast<std::size_t>(Rule::states); ++k)
          part.state[k] += begin;
        const auto count = static_cast<std::int64_t>(std::min(piece, n - begin));
        lane.submit(
            [=](device::Host::Lane& self) { device::transform_vectors<T>(self, count, part); });
        lane.synchronize();
      }
    });
  }

  /// The weights by the case's own formula, one element after the other.
  static std::vector<double> reference(std::size_t n, int steps, bool decays, double lr) {
    std::vector<double> weights;
    for (const T w : drawn(n, 1)) weights.push_back(static_cast<double>(w));
    std::vector<typename Case::Reference> formulas(n);
    for (int t = 1; t <= steps; ++t) {
      const std::vector<T> gradient = drawn(n, 100 + static_cast<std::uint64_t>(t));
      for (std::size_t i = 0; i < n; ++i) {
        weights[i] = formulas[i](weights[i], 0.5 * static_cast<double>(gradient[i]), t, lr, decays);
      }
    }
    return weights;
  }
};

TYPED_TEST_SUITE_P(UpdateRuleLaws);

TYPED_TEST_P(UpdateRuleLaws, a_cut_into_pieces_and_threads_changes_no_bit) {
  for (const std::size_t n : {1U, 15U, 16U, 17U, 1000U}) {
    const auto whole = this->by_vectors(n, 3, true, 0.1, n, 1);
    EXPECT_EQ(whole, this->by_vectors(n, 3, true, 0.1, 7, 1)) << n;
    EXPECT_EQ(whole, this->by_vectors(n, 3, true, 0.1, n, 3)) << n;
  }
}

TYPED_TEST_P(UpdateRuleLaws, follows_the_formula_of_its_source) {
  // Each step rounds a handful of times, relative to weights and updates of order one.
  const double tolerance =
      64 * static_cast<double>(std::numeric_limits<typename TypeParam::Element>::epsilon());
  for (const bool decays : {false, true}) {
    const auto tested = this->by_vectors(333, 5, decays, 0.05, 333, 1);
    const auto expected = this->reference(333, 5, decays, 0.05);
    for (std::size_t i = 0; i < expected.size(); ++i) {
      EXPECT_NEAR(static_cast<double>(tested.weights[i]), expected[i],
                  tolerance * (1 + std::abs(expected[i])));
    }
  }
}

TYPED_TEST_P(UpdateRuleLaws, a_learning_rate_of_zero_moves_no_weight) {
  const auto still = this->by_vectors(100, 4, true, 0.0, 100, 1);
  EXPECT_EQ(still.weights, this->drawn(100, 1));
}

TYPED_TEST_P(UpdateRuleLaws, weights_that_decay_end_closer_to_zero_where_the_rule_decays) {
  const auto rule = TypeParam::rule();
  constexpr auto count = static_cast<std::size_t>(rule.states) + 1;
  ASSERT_GT(rule.options.weight_decay, 0);
  double free = 10;
  double decayed = 10;
  double states[2][count] = {};
  for (int t = 1; t <= 3; ++t) {
    rule.update(free, states[0], 0.0, rule.template coefficients<double>(t, 0.1, false));
    rule.update(decayed, states[1], 0.0, rule.template coefficients<double>(t, 0.1, true));
  }
  EXPECT_EQ(free, 10);
  EXPECT_LT(decayed, 10);
}

REGISTER_TYPED_TEST_SUITE_P(UpdateRuleLaws, a_cut_into_pieces_and_threads_changes_no_bit,
                            follows_the_formula_of_its_source,
                            a_learning_rate_of_zero_moves_no_weight,
                            weights_that_decay_end_closer_to_zero_where_the_rule_decays);

}  // namespace reef::test
