#pragma once

#if defined(__linux__)
#include <sched.h>
#include <unistd.h>
#endif

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <thread>

#include <reef/core/inline.hpp>
#include <reef/core/text.hpp>
#include <reef/device/cores.hpp>

namespace reef {
inline namespace v0 {
namespace device {

REEF_INLINE CoreSet own_cores() {
  CoreSet cores;
#if defined(__linux__)
  cpu_set_t set;
  static_assert(CPU_SETSIZE == 1024);
  if (sched_getaffinity(0, sizeof set, &set) == 0) {
    for (std::size_t core = 0; core < cores.size(); ++core) cores[core] = CPU_ISSET(core, &set);
    return cores;
  }
#endif
  const std::size_t count = std::thread::hardware_concurrency();
  return cores.set() >> (cores.size() - std::clamp<std::size_t>(count, 1, cores.size()));
}

REEF_INLINE std::string binding_complaint(int threads) {
#if defined(__linux__)
  const int cores = available_cores();
  const long online = sysconf(_SC_NPROCESSORS_ONLN);
  if (threads <= cores || online <= cores) return {};
  std::string who = "this process";
  for (const char* variable : {"OMPI_COMM_WORLD_RANK", "PMI_RANK", "SLURM_PROCID"}) {
    if (const char* const rank = std::getenv(variable)) {
      who = concat("rank ", rank);
      break;
    }
  }
  return concat("reef: ", who, " is bound to ", cores, cores == 1 ? " core" : " cores", " of ",
                online, ", and ", threads,
                " threads take turns on them; fix: fewer threads, or mpiexec --bind-to none, or a "
                "wider taskset.");
#else
  static_cast<void>(threads);
  return {};
#endif
}

REEF_INLINE void warn_of_binding(int threads) {
  static std::atomic<bool> warned{false};
  const std::string complaint = binding_complaint(threads);
  if (complaint.empty() || warned.exchange(true)) return;
  std::fprintf(stderr, "%s\n", complaint.c_str());
}

}  // namespace device
}  // namespace v0
}  // namespace reef
