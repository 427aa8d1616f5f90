#include <reef/comm/detail/room.hpp>

#include <unistd.h>

#include <map>
#include <optional>
#include <string>
#include <utility>

#include <reef/comm/detail/launch.hpp>
#include <reef/core/text.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "../support/job.hpp"

// How jobs start: under which launcher, in how much shared memory, with whom.

namespace reef::test {

namespace {

using testing::HasSubstr;
using testing::Not;

// -- launchers ---------------------------------------------------------------------------------

using Variables = std::map<std::string, std::string>;

std::optional<std::string> strayed(const Variables& variables, const char* own_size) {
  const auto find = [&](const char* name) -> const char* {
    const auto found = variables.find(name);
    return found == variables.end() ? nullptr : found->second.c_str();
  };
  return comm::detail::strayed(find, own_size, "Some MPI 1.0");
}
std::optional<std::string> strayed_of_open_mpi(const Variables& variables) {
  return strayed(variables, "OMPI_COMM_WORLD_SIZE");
}
std::optional<std::string> strayed_of_mpich(const Variables& variables) {
  return strayed(variables, "PMI_SIZE");
}

const Variables hydra{{"PMI_RANK", "1"}, {"PMI_SIZE", "4"}, {"MPI_LOCALNRANKS", "4"}};
const Variables open_mpi{{"OMPI_COMM_WORLD_RANK", "1"}, {"OMPI_COMM_WORLD_SIZE", "4"}};
const Variables step{{"SLURM_NTASKS", "8"}, {"SLURM_PROCID", "3"}, {"SLURM_STEP_NUM_TASKS", "8"}};

Variables operator+(Variables a, const Variables& b) {
  for (const auto& [name, value] : b) a[name] = value;
  return a;
}

TEST(Launch, ranks_of_another_launcher_are_refused_and_both_are_named) {
  const auto why = strayed_of_open_mpi(hydra);
  ASSERT_TRUE(why);
  EXPECT_THAT(*why, HasSubstr("the mpiexec of MPICH or a relative of it (Hydra) started 4"));
  EXPECT_THAT(*why, HasSubstr("linked with Some MPI 1.0"));
  EXPECT_THAT(*why, HasSubstr("REEF_SINGLE_RANK=1"));
  const auto other = strayed_of_mpich(open_mpi);
  ASSERT_TRUE(other);
  EXPECT_THAT(*other, HasSubstr("the mpiexec of Open MPI started 4 (OMPI_COMM_WORLD_SIZE=4)"));
}

TEST(Launch, ranks_of_another_version_of_the_own_launcher_are_refused) {
  EXPECT_THAT(strayed_of_open_mpi(open_mpi).value_or(""), HasSubstr("of another version"));
  EXPECT_THAT(strayed_of_mpich(hydra).value_or(""), HasSubstr("of another version"));
}

TEST(Launch, tasks_of_slurm_that_do_not_hear_of_each_other_are_refused) {
  for (const auto& why : {strayed_of_open_mpi(step), strayed_of_mpich(step)}) {
    ASSERT_TRUE(why);
    EXPECT_THAT(*why, HasSubstr("Slurm's srun started 8"));
    EXPECT_THAT(*why, HasSubstr("--mpi=pmix"));
  }
  EXPECT_THAT(strayed_of_open_mpi({{"PMI_SIZE", "2"}}).value_or(""),
              HasSubstr("a launcher that speaks PMI started 2"));
  EXPECT_THAT(strayed_of_open_mpi({{"TORCHELASTIC_RUN_ID", "x"}, {"WORLD_SIZE", "2"}}).value_or(""),
              HasSubstr("torchrun started 2"));
}

TEST(Launch, a_program_that_no_launcher_started_is_one_rank_by_right) {
  EXPECT_FALSE(strayed_of_open_mpi({}));
  EXPECT_FALSE(strayed_of_mpich({}));
  // A batch script's own process, and a shell in an allocation.
  const Variables script{{"SLURM_NTASKS", "8"}, {"SLURM_PROCID", "0"}, {"SLURM_JOB_ID", "7"}};
  EXPECT_FALSE(strayed_of_open_mpi(script));
  EXPECT_FALSE(strayed_of_open_mpi(script + Variables{{"SLURM_STEP_NUM_TASKS", "1"}}));
  EXPECT_FALSE(strayed_of_open_mpi({{"WORLD_SIZE", "8"}}));
}

TEST(Launch, one_rank_of_the_own_launcher_is_right_wherever_that_was_started) {
  const Variables one{{"OMPI_COMM_WORLD_SIZE", "1"}};
  EXPECT_FALSE(strayed_of_open_mpi(one));
  EXPECT_FALSE(strayed_of_open_mpi(one + step));
  EXPECT_FALSE(strayed_of_open_mpi(one + hydra));
  EXPECT_FALSE(strayed_of_mpich(open_mpi + Variables{{"PMI_SIZE", "1"}, {"MPI_LOCALNRANKS", "1"}}));
}

TEST(Launch, what_is_meant_to_be_one_rank_may_say_so) {
  const Variables meant{{"REEF_SINGLE_RANK", "1"}};
  EXPECT_FALSE(strayed_of_open_mpi(hydra + meant));
  EXPECT_FALSE(strayed_of_mpich(open_mpi + meant));
  EXPECT_TRUE(strayed_of_open_mpi(hydra + Variables{{"REEF_SINGLE_RANK", "0"}}));
  for (const char* other : {"foo", "", "11"}) {
    const auto why = strayed_of_open_mpi({{"REEF_SINGLE_RANK", other}});
    ASSERT_TRUE(why) << other;
    EXPECT_THAT(*why, HasSubstr("REEF_SINGLE_RANK is '" + std::string(other) + "'.\n  fix: 0 or 1"));
  }
}

TEST(Launch, a_variable_that_is_no_number_of_ranks_says_nothing) {
  for (const char* const value : {"", "x", "-3", "0", "4 ", "99999999999"}) {
    EXPECT_FALSE(strayed_of_mpich({{"OMPI_COMM_WORLD_SIZE", value}})) << value;
  }
}

// -- room --------------------------------------------------------------------------------------

/// What leave_room sets of the variables of a rank, and what it says.
struct Room {
  Variables set;
  std::string said;
};
Room leave_room(std::optional<Bytes> room, const Variables& variables) {
  Room left;
  const auto find = [&](const char* name) -> const char* {
    const auto found = variables.find(name);
    return found == variables.end() ? nullptr : found->second.c_str();
  };
  left.said = comm::detail::leave_room(
      room, find, [&](const char* name, const char* value) { left.set[name] = value; });
  return left;
}
Variables ranks_here(const char* ranks, const char* rank) {
  return {{comm::detail::local_ranks_variable, ranks}, {comm::detail::local_rank_variable, rank}};
}

TEST(Room, that_is_too_small_is_left_in_each_way_that_mpi_may_heed_and_one_rank_says_so) {
  constexpr Bytes mib = Bytes{1} << 20;
  const Room first = leave_room(16 * mib, ranks_here("8", "0"));
  const Room other = leave_room(16 * mib, ranks_here("8", "3"));
  EXPECT_EQ(first.set.size(), comm::detail::ways_without.size());
  EXPECT_EQ(first.set.at("UCX_TLS"), "^posix");
  EXPECT_EQ(other.set, first.set);
  for (const auto& [name, value] : first.set) {
    EXPECT_THAT(first.said, HasSubstr(concat(name, "=", value)));
  }
  EXPECT_THAT(first.said, HasSubstr("for 8 ranks"));
  EXPECT_EQ(other.said, "");
}

TEST(Room, that_is_enough_or_none_is_left_alone) {
  constexpr Bytes mib = Bytes{1} << 20;
  for (const Room& room :
       {leave_room(64 * mib, ranks_here("8", "0")), leave_room({}, ranks_here("8", "0")),
        leave_room(0, ranks_here("1", "0")), leave_room(0, {})}) {
    EXPECT_TRUE(room.set.empty());
    EXPECT_EQ(room.said, "");
  }
}

TEST(Room, a_way_that_the_user_has_chosen_is_kept) {
  Variables chosen = ranks_here("8", "0");
  chosen["UCX_TLS"] = "tcp,self";
  const Room one = leave_room(0, chosen);
  EXPECT_EQ(one.set.count("UCX_TLS"), 0U);
  EXPECT_EQ(one.set.size(), comm::detail::ways_without.size() - 1);
  EXPECT_THAT(one.said, Not(HasSubstr("UCX_TLS")));
  for (const auto& way : comm::detail::ways_without) chosen[way.variable] = "x";
  EXPECT_EQ(leave_room(0, chosen).said, "");
}

#if defined(REEF_START_PROGRAM)

const std::string program = REEF_START_PROGRAM;
const std::string launcher = REEF_TEST_MPIEXEC;

#if defined(REEF_START_PROGRAM_MPICH)
const std::string program_of_mpich = REEF_START_PROGRAM_MPICH;
const std::string launcher_of_mpich = REEF_TEST_MPIEXEC_MPICH;

void expect_refused(const std::string& starter, const std::string& job,
                    const std::string& launcher_name) {
  const Ending ending = run_ranks(starter, 2, job);
  EXPECT_NE(ending.status, 0) << ending;
  EXPECT_THAT(ending.errors, HasSubstr("this process is alone, rank 0 of 1, but"));
  EXPECT_THAT(ending.errors, HasSubstr(launcher_name + " started 2"));
  EXPECT_THAT(ending.output, Not(HasSubstr("rank 0 of 1\n")));
}

TEST(LaunchedJob, a_program_under_the_launcher_of_another_mpi_is_refused) {
  expect_refused(launcher_of_mpich, program + " alone", "(Hydra)");
  expect_refused(launcher, program_of_mpich + " alone", "the mpiexec of Open MPI");
}

TEST(LaunchedJob, under_its_own_launcher_each_is_one_of_its_ranks) {
  for (const auto& [with, started] :
       {std::pair{launcher, program}, std::pair{launcher_of_mpich, program_of_mpich}}) {
    const Ending ending = run_ranks(with, 2, started + " alone");
    EXPECT_EQ(ending.status, 0) << ending;
    EXPECT_THAT(ending.output, HasSubstr("rank 1 of 2"));
  }
}

TEST(LaunchedJob, may_be_one_rank_under_another_launcher_where_it_says_so) {
  const Ending ending = run_ranks("env REEF_SINGLE_RANK=1 " + launcher_of_mpich, 2, program + " alone");
  EXPECT_EQ(ending.status, 0) << ending;
  EXPECT_THAT(ending.output, HasSubstr("rank 0 of 1"));
}
#endif

TEST(LaunchedJob, without_a_launcher_it_is_one_rank) {
  const Ending ending = run_command(program + " alone");
  EXPECT_EQ(ending.status, 0) << ending;
  EXPECT_THAT(ending.output, HasSubstr("rank 0 of 1"));
}

// -- ranks that do not come --------------------------------------------------------------------

void expect_named(const std::string& mode, const std::string& where) {
  const Ending ending = run_ranks(launcher, 3, program + " " + mode);
  EXPECT_NE(ending.status, 0);
  EXPECT_THAT(ending.errors, HasSubstr(where)) << mode;
  EXPECT_THAT(ending.errors, HasSubstr("rank 1 did not arrive")) << mode;
}

TEST(Start, a_rank_that_does_not_come_ends_it_by_the_deadline_and_is_named) {
  expect_named("absent", "waits at the communicator 'world' since 5 s");
  expect_named("stop", "waits at the communicator 'world' since 5 s");
  expect_named("split", "waits at the communicator 'part' since 5 s");
}

TEST(Start, a_rank_that_never_starts_mpi_ends_it_by_the_deadline) {
  const Ending ending = run_ranks(launcher, 3, program + " init");
  EXPECT_NE(ending.status, 0);
  EXPECT_THAT(ending.errors, HasSubstr("MPI_Init_thread has not come back for 2 s"));
}

// -- shared memory -----------------------------------------------------------------------------

/// The command in a /dev/shm of its own.
std::string in_shared_memory_of(const std::string& size, const std::string& command) {
  return "unshare -m sh -c 'mount -t tmpfs -o size=" + size +
         " tmpfs /dev/shm && exec \"$@\"' sh " + command;
}

bool may_mount() {
  return run_command("unshare -m sh -c 'mount -t tmpfs -o size=1m tmpfs /dev/shm'").status == 0;
}

class SmallSharedMemory : public testing::TestWithParam<const char*> {};

TEST_P(SmallSharedMemory, eight_ranks_start_and_sum) {
  if (!may_mount()) GTEST_SKIP() << "no right to mount a /dev/shm of one's own";
  for (const char* const transport : {"any", "messages", "slots"}) {
    const bool small = std::string(GetParam()) != "64m";
    if (small && transport == std::string("slots")) continue;  // like any, but slower
    const Ending ending =
        run_ranks(in_shared_memory_of(GetParam(), launcher), 8, program + " sum " + transport);
    EXPECT_EQ(ending.status, 0) << transport << '\n' << ending;
    EXPECT_THAT(ending.output, HasSubstr("all sums are there")) << transport;
  }
}

INSTANTIATE_TEST_SUITE_P(Sizes, SmallSharedMemory, testing::Values("64m", "16m", "4m"),
                         [](const auto& size) { return std::string(size.param); });

TEST(SharedMemoryOfAJob, that_is_too_small_for_mpi_is_said_once) {
  if (!may_mount()) GTEST_SKIP() << "no right to mount a /dev/shm of one's own";
  const std::string said = "to carry messages between ranks of this machine without /dev/shm";
  const auto tellers = [&](const char* size) {
    const Ending ending = run_ranks(in_shared_memory_of(size, launcher), 8, program + " sum any");
    EXPECT_EQ(ending.status, 0) << ending;
    std::size_t count = 0;
    for (const std::string& errors : ending.errors_of) {
      for (std::size_t at = 0; (at = errors.find(said, at)) != std::string::npos; ++at) ++count;
    }
    return count;
  };
  EXPECT_EQ(tellers("16m"), 1U);
  EXPECT_EQ(tellers("64m"), 0U);
}

#if defined(REEF_START_PROGRAM_MPICH)
TEST(SharedMemoryOfAJob, may_be_too_small_for_mpich) {
  if (!may_mount()) GTEST_SKIP() << "no right to mount a /dev/shm of one's own";
  const Ending ending =
      run_ranks(in_shared_memory_of("4m", launcher_of_mpich), 4, program_of_mpich + " sum any");
  EXPECT_EQ(ending.status, 0) << ending;
  EXPECT_THAT(ending.output, HasSubstr("all sums are there"));
}
#endif

#endif

}  // namespace

}  // namespace reef::test
