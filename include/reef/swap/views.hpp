#pragma once

#include <cstddef>

#include <reef/run/operands.hpp>
#include <reef/schedule/program.hpp>
#include <reef/swap/kinds.hpp>

namespace reef {
inline namespace v0 {
namespace swap {

/// The operands of the instruction `Evict(segment)`, which copies a segment's summed gradients from a slot, device
/// memory that segments take in turn, to host memory. Instruction::mode says if the sums began there; it is set before
/// this view is made.
///
///     reads                 the parts of the slot, in the order of gradients_of(segment)
///     writes, accumulates   gradients_of(segment): of sums that began in the slot; that continued those of the host
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
