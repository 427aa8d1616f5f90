#pragma once

#include <array>
#include <optional>
#include <string>
#include <string_view>

#include <reef/comm/mpi.hpp>
#include <reef/core/numbers.hpp>
#include <reef/core/text.hpp>

namespace reef {
inline namespace v0 {
namespace comm::detail {

/// What a launcher tells the processes that it starts.
struct Launcher {
  const char* name;
  const char* marker;  ///< variable that it alone sets
  const char* size;    ///< variable with the number of ranks that it started
  const char* fix;     ///< how it starts ranks of this program's MPI, if it can
};

/// The inner before the outer: a job's own launcher is started by the batch system's, whose variables
/// its ranks inherit.
///
/// Of Slurm's, only those of a step count: a batch script has SLURM_NTASKS, and is one process.
inline constexpr std::array<Launcher, 6> launchers{{
    {"the mpiexec of Open MPI", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_SIZE", nullptr},
    {"the mpiexec of MPICH or a relative of it (Hydra)", "MPI_LOCALNRANKS", "PMI_SIZE", nullptr},
    {"the mpirun of MVAPICH", "MV2_COMM_WORLD_SIZE", "MV2_COMM_WORLD_SIZE", nullptr},
    {"Slurm's srun", "SLURM_STEP_NUM_TASKS", "SLURM_STEP_NUM_TASKS",
     "srun --mpi=pmix or --mpi=pmi2, whichever this MPI was built with (srun --mpi=list)"},
    {"a launcher that speaks PMI", "PMI_SIZE", "PMI_SIZE", nullptr},
    {"torchrun", "TORCHELASTIC_RUN_ID", "WORLD_SIZE", nullptr},
}};

/// The variable in which the launcher of the MPI that this is compiled with says how many ranks it
/// started.
#if defined(OPEN_MPI)
inline constexpr const char* own_size_variable = "OMPI_COMM_WORLD_SIZE";
#else
inline constexpr const char* own_size_variable = "PMI_SIZE";
#endif

/// The variable's value as a number of ranks; 0 where it is none.
template <class Variables>
int ranks_in(const Variables& variables, const char* name) {
  const char* const value = variables(name);
  if (value == nullptr) return 0;
  const std::optional<int> ranks = parse_number<int>(value);
  return ranks && *ranks > 0 ? *ranks : 0;
}

/// Why a process that is alone in its MPI_COMM_WORLD should not be: a launcher started it with others.
/// Nothing where it is alone by right. `variables(name)` is a variable of the environment, or null;
/// `library` names the MPI.
///
/// | by right | the launcher of its own MPI started one rank, whoever started that; no launcher did; |
/// |          | REEF_SINGLE_RANK=1, for a program of one rank that a rank starts                     |
/// | refused  | a REEF_SINGLE_RANK other than 0 or 1                                                 |
template <class Variables>
std::optional<std::string> strayed(const Variables& variables, const char* own_size,
                                   std::string_view library) {
  const char* const meant = variables("REEF_SINGLE_RANK");
  if (meant != nullptr && std::string_view(meant) == "1") return {};
  if (meant != nullptr && std::string_view(meant) != "0") {
    return concat("reef::comm: REEF_SINGLE_RANK is '", meant, "'.\n  fix: 0 or 1, or leave it out.");
  }
  if (ranks_in(variables, own_size) == 1) return {};
  for (const Launcher& launcher : launchers) {
    if (variables(launcher.marker) == nullptr) continue;
    const int ranks = ranks_in(variables, launcher.size);
    if (ranks < 2) continue;
    const bool own = std::string_view(launcher.size) == own_size;
    return concat(
        "reef::comm: this process is alone, rank 0 of 1, but ", launcher.name, " started ", ranks,
        " (", launcher.size, "=", ranks, ").\n  why: the program is linked with ", library,
        own ? ", and this launcher is of another version or installation"
            : ", which does not hear of ranks that another launcher starts",
        ": each would do the whole job by itself.\n  fix: ",
        launcher.fix != nullptr ? concat(launcher.fix, ", or ") : std::string(),
        "the mpiexec that came with ", library,
        " (Debian has mpiexec.openmpi and mpiexec.mpich), or a build with the MPI of this "
        "launcher; for a program that is meant to be one rank here, REEF_SINGLE_RANK=1.");
  }
  return {};
}

/// "Open MPI v4.1.4": the library that is loaded, whatever was compiled with.
std::string library_name();

/// Throws MpiError where this process should be one of several ranks and is alone. After MPI_Init.
void check_launch();

}  // namespace comm::detail
}  // namespace v0
}  // namespace reef

#ifndef REEF_COMPILED
#include <reef/comm/detail/launch.ipp>
#endif
