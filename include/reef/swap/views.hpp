#pragma once

#include <cstddef>

#include <reef/run/operands.hpp>
#include <reef/schedule/program.hpp>
#include <reef/swap/kinds.hpp>

namespace reef {
inline namespace v0 {
namespace swap {

/// `Evict(segment)`: gradients that were summed in a slot leave.
///
///     reads         the parts of the slot, as gradients_of(segment)
///     writes        gradients_of(segment)
///     accumulates   these instead, where the sums went on from what was there
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
      : EvictView(evict, evict.writes.empty() ? evict.accumulates.size() : evict.writes.size(),
                  evict.writes.empty(), run::Lists::found) {}
  EvictView(Instr& evict, std::size_t count, bool goes_on, run::Lists lists) {
    run::Layout layout(evict, lists);
    from = layout.reads(count);
    to = goes_on ? layout.accumulates(count) : layout.writes(count);
  }
};

}  // namespace swap
}  // namespace v0
}  // namespace reef
