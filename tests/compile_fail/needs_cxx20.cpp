// expect: Reef needs C++20. fix: compile with -std=c++20
// broken by: -std=c++17
#include <reef/core/version.hpp>

int main() { static_assert(reef::version[0] != 0); }
