// The main of tests that need no ranks.

#include <gtest/gtest.h>

#include "only.hpp"

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  return reef::test::keep_one_source(argc, argv) ? RUN_ALL_TESTS() : 1;
}
