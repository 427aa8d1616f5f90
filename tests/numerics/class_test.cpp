#include <reef/nn/host/numerics.hpp>

#include <cstdint>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <reef/core/product.hpp>
#include <reef/device/instruction_set.hpp>

namespace reef::test {
namespace {

using device::InstructionSet;
using testing::Each;

/// Sets the instruction set back.
class NumericsClass : public testing::Test {
protected:
  ~NumericsClass() override { device::use_instruction_set(was_); }

private:
  InstructionSet was_ = device::instruction_set();
};

TEST_F(NumericsClass, is_one_for_each_instruction_set_and_the_same_each_time) {
  std::set<std::uint64_t> classes;
  int sets = 0;
  for (const InstructionSet set : {InstructionSet::baseline, InstructionSet::avx2, InstructionSet::avx512}) {
    if (set > device::best_instruction_set()) break;
    device::use_instruction_set(set);
    const std::uint64_t found = nn::host::numerics_class();
    EXPECT_EQ(nn::host::numerics_class(), found) << "under " << device::name_of(set);
    classes.insert(found);
    ++sets;
  }
  EXPECT_EQ(static_cast<int>(classes.size()), sets) << "two instruction sets answer alike";
}

TEST_F(NumericsClass, is_the_same_on_all_threads_that_ask_first) {
  std::vector<std::uint64_t> found(4);
  {
    std::vector<std::jthread> threads;
    for (std::uint64_t& mine : found) threads.emplace_back([&mine] { mine = nn::host::numerics_class(); });
  }
  EXPECT_THAT(found, Each(nn::host::numerics_class()));
}

TEST_F(NumericsClass, has_a_text_of_sixteen_digits) {
  EXPECT_EQ(nn::host::text_of_numerics_class(0x0123456789abcdefU), "0123456789abcdef");
  EXPECT_EQ(nn::host::text_of_numerics_class(0xfU), "000000000000000f");
}

#if defined(__x86_64__)
#define REEF_TEST_FUSES __attribute__((target("fma"), noinline))
#else
#define REEF_TEST_FUSES __attribute__((noinline))
#endif

/// Where the target has a fused multiply-add, g++ would use it for a plain product.
template <class T>
REEF_TEST_FUSES T square_less(T a, T b) {
  return product(a, a) - b;
}

TEST(Product, is_rounded_before_something_is_added_to_it) {
  if (device::best_instruction_set() == InstructionSet::baseline) GTEST_SKIP() << "this machine fuses nothing";
  // (1 + 2^-12)^2 is 1 + 2^-11 + 2^-24, of which a float keeps 1 + 2^-11: a fused difference would be 2^-24.
  const volatile float a = 1.0F + 0x1p-12F;  // unknown to the compiler
  EXPECT_EQ(square_less<float>(a, 1.0F + 0x1p-11F), 0.0F);
  const volatile double b = 1.0 + 0x1p-27;
  EXPECT_EQ(square_less<double>(b, 1.0 + 0x1p-26), 0.0);
}

}  // namespace
}  // namespace reef::test
