#include <cstdint>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <reef/nn/cuda.cuh>
#include <reef/nn/gpt.hpp>

#include "../laws/operator.hpp"
#include "../support/gpt_config.hpp"
#include "operator_cases.hpp"

namespace reef::test {

using device::Cuda;

template <class Case>
struct OnCuda : Subject<Cuda, Case> {
  static std::string unavailable() {
    std::string why;
    return device::cuda_available(&why) ? std::string() : why;
  }
};

using CudaSubjects =
    ::testing::Types<OnCuda<LinearCase>, OnCuda<TransposedLinearCase>, OnCuda<LayerNormCase>,
                     OnCuda<AttentionCase>, OnCuda<AttentionWithDropoutCase>, OnCuda<GeluCase>,
                     OnCuda<AddCase>, OnCuda<DropoutCase>, OnCuda<EmbeddingCase>,
                     OnCuda<CrossEntropyCase>>;

INSTANTIATE_TYPED_TEST_SUITE_P(Cuda, OperatorLaws, CudaSubjects);

namespace {

class CudaGpt : public ::testing::Test {
protected:
  void SetUp() override {
    if (const std::string why = OnCuda<AddCase>::unavailable(); !why.empty()) GTEST_SKIP() << why;
  }

  /// Several tiles of everything, and none of them full.
  static nn::GptConfig odd() {
    nn::GptConfig config = tiny_config();
    config.context = 75;
    config.sequence = 70;
    config.channels = 66;
    config.heads = 3;
    config.vocabulary = 131;
    config.dropout = 0.1F;
    return config;
  }
};

TEST_F(CudaGpt, its_gradients_equal_finite_differences) {
  Cuda device;
  for (const float dropout : {0.0F, 0.25F}) {
    nn::GptConfig config = tiny_config();
    config.dropout = dropout;
    const auto g = nn::gpt<Cuda, double>(config);
    const auto [error, whose] = gradient_error(device, g, 7, {21, 4, 0, 0});
    EXPECT_LT(error, 1e-7) << "the gradient of " << whose << " with dropout " << dropout;
    EXPECT_NE(whose, "none");
  }
}

TEST_F(CudaGpt, in_fp32_it_agrees_with_fp64) {
  Cuda device;
  const auto narrow = nn::gpt<Cuda, float>(odd());
  const auto wide = nn::gpt<Cuda, double>(odd());
  GraphRunner<Cuda, float> runner(device, narrow);
  GraphRunner<Cuda, double> reference(device, wide);
  const DrawKey key{8, 3, 0, 0};
  const auto outcome = run_once(runner, Point<float>::make(narrow.dag(), 131), key);
  const auto wanted = run_once(reference, Point<double>::make(wide.dag(), 131), key);
  for (const auto& [name, values] : outcome) {
    EXPECT_LT(relative_error(values, wanted.at(name)), 4096 * 0x1p-24) << name;
  }
}

TEST_F(CudaGpt, cuts_and_runs_change_no_bit) {
  Cuda device;
  const auto g = nn::gpt<Cuda, float>(odd());
  const Point<float> point = Point<float>::make(g.dag(), 131);
  const DrawKey key{5, 12, 0, 0};
  GraphRunner<Cuda, float> whole(device, g);
  const auto wanted = run_once(whole, point, key);
  EXPECT_EQ(run_once(whole, point, key), wanted);
  std::vector<int> everywhere;
  for (int cut = 1; cut < g.dag().node_count(); ++cut) everywhere.push_back(cut);
  GraphRunner<Cuda, float> apart(device, g, everywhere);
  EXPECT_EQ(run_once(apart, point, key), wanted);
}

}  // namespace
}  // namespace reef::test
