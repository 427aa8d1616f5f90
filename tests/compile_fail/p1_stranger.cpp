// expect: reef P1: one of the template arguments is not a policy.

#include <reef/core/policy.hpp>

struct Neutral {};
struct Swap {
  using policy_tag = reef::SwapTag;
};
struct Stranger {};

#ifdef FIXED
using Pack = reef::PolicyPack<Swap>;
#else
using Pack = reef::PolicyPack<Swap, Stranger>;
#endif

using Chosen = Pack::get<reef::SwapTag, Neutral>;
static_assert(sizeof(Chosen) == 1);
