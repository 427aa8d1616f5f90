#pragma once

#include <vector>

#include <reef/comm/progress.hpp>
#include <reef/core/units.hpp>
#include <reef/trainer/detail/policies.hpp>
#include <reef/trainer/settings.hpp>

/// \file
/// What ranks tell each other before each plans the same.

namespace reef {
inline namespace v0 {
namespace detail {

/// The counts of micro-batches of all replicas, or virtual ranks. All ranks. Throws OptionError where ranks of a
/// replica differ.
std::vector<int> counts_of_all(const Policies& policies, comm::Progress& progress, const TrainerSettings& settings);

/// What plans ask of a device, of all ranks' devices the least or the most.
struct AgreedDevice {
  Bytes memory_bytes = 0;            ///< the least; 0: no rank has a bound
  double link_bytes_per_second = 0;  ///< the least
  Seconds link_latency = 0;          ///< the most, as of the next
  double slowdown = 1;
  int threads = 0;
  bool checks_memory = false;  ///< of some rank
};

/// All ranks, with what each has; where `threads` is 0, the threads are not compared.
AgreedDevice agreed_device(comm::Progress& progress, const AgreedDevice& own);

}  // namespace detail
}  // namespace v0
}  // namespace reef

#ifndef REEF_COMPILED
#include <reef/trainer/detail/plan_of_all.ipp>
#endif
