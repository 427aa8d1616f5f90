#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

#include <reef/comm/detail/start.hpp>
#include <reef/comm/error.hpp>
#include <reef/comm/mpi.hpp>
#include <reef/comm/node_cores.hpp>
#include <reef/core/inline.hpp>

namespace reef {
inline namespace v0 {
namespace comm {

REEF_INLINE int share_of_cores(const Communicator& ranks, const device::CoreSet& cores) {
  const Communicator node = ranks.shared_node();
  const detail::Watch watch("MPI_Allgather");
  std::vector<device::CoreSet> all(static_cast<std::size_t>(node.size()));
  detail::check_mpi(MPI_Allgather(&cores, sizeof cores, MPI_BYTE, all.data(), sizeof cores,
                                  MPI_BYTE, node.handle()),
                    "MPI_Allgather");
  const auto sharing = std::count_if(
      all.begin(), all.end(), [&](const device::CoreSet& other) { return (other & cores).any(); });
  const auto count = static_cast<std::ptrdiff_t>(cores.count());
  return static_cast<int>(
      std::max<std::ptrdiff_t>(1, count / std::max<std::ptrdiff_t>(1, sharing)));
}

}  // namespace comm
}  // namespace v0
}  // namespace reef
