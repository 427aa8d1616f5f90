// expect: Reef needs exceptions, since its errors are thrown. fix: compile without -fno-exceptions
// broken by: -fno-exceptions
#include <reef/core/policy.hpp>

int main() { static_assert(reef::policy_axis<reef::OptimTag>); }
