#pragma once

#include <cstddef>

#include <reef/run/operands.hpp>
#include <reef/schedule/program.hpp>
#include <reef/swap/kinds.hpp>

namespace reef {
inline namespace v0 {
namespace swap {

/// The operands of `Evict(segment)`, which copies gradients that were summed in a slot to host memory. Its mode must
/// be set before: whether the sums began in the slot, or continued earlier ones.
///
///     reads                 the parts of the slot, in the order of gradients_of(segment)
///     writes, accumulates   gradients_of(segment), as the mode says
///
/// \code
/// // given: schedule::Program& program, run::StorageId elsewhere
/// for (schedule::Instruction& i : program.round) {
///   if (i.kind == swap::kinds::evict) swap::EvictView(i).from.front() = {elsewhere, 0};
/// }
/// \endcode
template <class Instr>
struct EvictView {
  run::PartOf<Instr> from, to;

  explicit EvictView(Instr& evict)
      : EvictView(evict, run::begins_sum(evict) ? evict.writes.size() : evict.accumulates.size(),
                  run::Lists::found) {}
  EvictView(Instr& evict, std::size_t count, run::Lists lists) {
    run::Layout layout(evict, lists);
    from = layout.reads(count);
    to = layout.sums(count);
  }
};

}  // namespace swap
}  // namespace v0
}  // namespace reef
