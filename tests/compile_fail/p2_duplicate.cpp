// expect: reef P2: two of the policies fill the same axis.

#include <reef/core/policy.hpp>

struct Neutral {};
struct First {
  using policy_tag = reef::OptimTag;
};
struct Second {
  using policy_tag = reef::OptimTag;
};

#ifdef FIXED
using Pack = reef::PolicyPack<First>;
#else
using Pack = reef::PolicyPack<First, Second>;
#endif

using Chosen = Pack::get<reef::OptimTag, Neutral>;
static_assert(sizeof(Chosen) == 1);
