#pragma once

#include <mpi.h>

#include <algorithm>
#include <cstddef>
#include <vector>

#include <reef/comm/communicator.hpp>
#include <reef/comm/detail/start.hpp>
#include <reef/comm/error.hpp>
#include <reef/device/cores.hpp>

namespace reef::inline v0::comm {

/// How many threads this rank should use, so that no two ranks of its node take turns on a core.
///
///     max(1, floor(cores / ranks of the node whose cores meet these, itself among them))
///
/// | bound apart | each rank uses all cores of its own (mpiexec --bind-to core, --map-by ...:PE=n) |
/// | not bound   | the ranks of the node share its cores evenly                                   |
/// | who         | all ranks of the communicator: collective, blocks                              |
inline int share_of_cores(const Communicator& ranks,
                          const device::CoreSet& cores = device::own_cores()) {
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

}  // namespace reef::inline v0::comm
