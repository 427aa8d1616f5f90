#include <reef/graph/hash.hpp>

#include <cstdint>
#include <set>

#include <gtest/gtest.h>

#include <reef/nn/gpt.hpp>
#include <reef/nn/host.hpp>

namespace reef::test {

namespace {

std::uint64_t hash_of(const nn::GptConfig& config) {
  return graph::hash_of(nn::gpt<device::Host, float>(config, 1).dag());
}

TEST(GraphHash, is_that_of_the_model_whatever_the_batch) {
  const nn::GptConfig base{.layers = 2, .heads = 2, .channels = 16, .vocabulary = 11, .context = 8};
  nn::GptConfig larger = base;
  larger.batch = 7;
  larger.sequence = 4;
  EXPECT_EQ(hash_of(base), hash_of(larger));

  std::set<std::uint64_t> hashes{hash_of(base)};
  const auto differs = [&](auto change) {
    nn::GptConfig config = base;
    change(config);
    return hashes.insert(hash_of(config)).second;
  };
  EXPECT_TRUE(differs([](nn::GptConfig& c) { c.heads = 4; }));  // no shape of a parameter differs
  EXPECT_TRUE(differs([](nn::GptConfig& c) { c.dropout = 0.1F; }));
  EXPECT_TRUE(differs([](nn::GptConfig& c) { c.layers = 3; }));
  EXPECT_TRUE(differs([](nn::GptConfig& c) { c.channels = 32; }));
  EXPECT_TRUE(differs([](nn::GptConfig& c) { c.bias = false; }));
}

}  // namespace

}  // namespace reef::test
