#include <reef/torch/module.hpp>

#include <gtest/gtest.h>

#include <reef/device/host.hpp>
#include <reef/nn/host.hpp>

#include "../laws/operator.hpp"

namespace reef::test {
namespace {

struct LinearModule {
  static std::vector<InputCase> inputs() { return {{"in", {3, 2, 5}}}; }
  static auto op() {
    ::torch::manual_seed(1);
    return torch::Module(::torch::nn::Linear(5, 7));
  }
  static constexpr std::int32_t classes = 1;
  static constexpr double tolerance = 16;
  static constexpr bool stochastic = false;
};

template <class... Cases>
using OnHost = ::testing::Types<Subject<device::Host, Cases>...>;

INSTANTIATE_TYPED_TEST_SUITE_P(Torch, OperatorLaws, OnHost<LinearModule>);

}  // namespace
}  // namespace reef::test
