#pragma once

#include <algorithm>
#include <atomic>
#include <bitset>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>

#if defined(__linux__)
#include <sched.h>
#include <unistd.h>
#endif

#include <reef/core/text.hpp>

namespace reef::inline v0::device {

/// Cores of one machine, by the numbers that its operating system gives them.
using CoreSet = std::bitset<1024>;

/// The cores that this process may use: those of its affinity mask, all where there is none.
inline CoreSet own_cores() {
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

/// How many cores this process may use: those of its affinity mask.
inline int available_cores() { return static_cast<int>(own_cores().count()); }

/// What is wrong when `threads` threads are asked of a process that was bound to fewer cores, in one
/// line; "" when nothing is, or when the machine itself has no more cores.
inline std::string binding_complaint(int threads) {
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

/// Prints binding_complaint(threads) on standard error, the first time that a process has one.
inline void warn_of_binding(int threads) {
  static std::atomic<bool> warned{false};
  const std::string complaint = binding_complaint(threads);
  if (complaint.empty() || warned.exchange(true)) return;
  std::fprintf(stderr, "%s\n", complaint.c_str());
}

}  // namespace reef::inline v0::device
