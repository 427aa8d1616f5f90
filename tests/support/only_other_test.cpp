#include <gtest/gtest.h>

// The other source of the program of only_test.cpp, with a suite that both have.

namespace {

class OnlyNumbers : public testing::TestWithParam<int> {};
TEST_P(OnlyNumbers, are_three) { EXPECT_LT(GetParam(), 3); }
INSTANTIATE_TEST_SUITE_P(Small, OnlyNumbers, testing::Values(0, 1, 2));

template <class T>
class OnlyTypes : public testing::Test {};
using Types = testing::Types<int, char>;
TYPED_TEST_SUITE(OnlyTypes, Types);
TYPED_TEST(OnlyTypes, are_two) {}

TEST(Only, takes_tests_for_each_value_and_each_type) {
  EXPECT_EQ(testing::UnitTest::GetInstance()->test_to_run_count(), 3 + 2 + 1);
}

}  // namespace
