#include <reef/comm/functions.hpp>

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <set>
#include <span>
#include <sstream>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include <comm/reference.hpp>
#include <reef/comm/mpi.hpp>
#include <reef/comm/shared_counter.hpp>

#include "../support/job.hpp"

// What the library says it sent against what MPI was asked to send: this program defines itself those
// of MPI's functions that send and that it uses, counts, and passes on to their PMPI twins. That it
// uses no other is read from its table of symbols.

namespace reef::test {

namespace {

struct Count {
  std::atomic<std::uint64_t> messages{0};
  std::atomic<std::uint64_t> bytes{0};
};
Count sent_data;
Count sent_control;
std::atomic<int> collectives{0};  // MPI's own, whose traffic nobody can meter

void count_message(int count, MPI_Datatype type, MPI_Comm comm) {
  std::array<char, MPI_MAX_OBJECT_NAME> text{};
  int length = 0;
  PMPI_Comm_get_name(comm, text.data(), &length);
  const std::string_view name(text.data(), static_cast<std::size_t>(length));
  int size = 0;
  PMPI_Type_size(type, &size);
  Count& to = name.find(".control") != std::string_view::npos ? sent_control : sent_data;
  to.messages += 1;
  to.bytes += static_cast<std::uint64_t>(count) * static_cast<std::uint64_t>(size);
}

/// What of MPI may be used uncounted, since no payload goes through it.
const std::set<std::string> silent{
    "MPI_Abort", "MPI_Cancel", "MPI_Comm_dup", "MPI_Comm_free", "MPI_Comm_get_attr",
    "MPI_Comm_get_errhandler", "MPI_Comm_rank", "MPI_Comm_set_errhandler", "MPI_Comm_set_name",
    "MPI_Comm_size", "MPI_Comm_split", "MPI_Comm_split_type", "MPI_Errhandler_free",
    "MPI_Error_class", "MPI_Error_string", "MPI_Finalize", "MPI_Finalized", "MPI_Get_address",
    "MPI_Get_count", "MPI_Get_elements", "MPI_Init_thread", "MPI_Initialized", "MPI_Irecv",
    "MPI_Query_thread", "MPI_Request_free", "MPI_Test", "MPI_Testall", "MPI_Testsome",
    "MPI_Type_commit", "MPI_Type_create_hindexed", "MPI_Type_free",
    // No payload either: ranks meet.
    "MPI_Barrier", "MPI_Ibarrier", "MPI_Comm_get_parent", "MPI_Comm_group", "MPI_Group_free",
    "MPI_Group_translate_ranks", "MPI_Get_library_version"};

/// The functions of MPI that this program takes from a library, PMPI ones aside.
std::set<std::string> used_of_mpi() {
  const std::string program = std::filesystem::read_symlink("/proc/self/exe").string();
  const Ending ending =
      run_command("nm --dynamic --undefined-only --format=posix '" + program + "'");
  EXPECT_EQ(ending.status, 0) << ending;
  std::set<std::string> names;
  std::istringstream lines(ending.output);
  for (std::string line; std::getline(lines, line);) {
    const std::string name = line.substr(0, line.find_first_of(" @"));
    if (name.starts_with("MPI_")) names.insert(name);
  }
  return names;
}

}  // namespace

}  // namespace reef::test

using reef::test::collectives;
using reef::test::count_message;

extern "C" {

int MPI_Isend(const void* data, int count, MPI_Datatype type, int to, int tag, MPI_Comm comm,
              MPI_Request* request) {
  count_message(count, type, comm);
  return PMPI_Isend(data, count, type, to, tag, comm, request);
}
int MPI_Send(const void* data, int count, MPI_Datatype type, int to, int tag, MPI_Comm comm) {
  count_message(count, type, comm);
  return PMPI_Send(data, count, type, to, tag, comm);
}
int MPI_Allreduce(const void* from, void* to, int count, MPI_Datatype type, MPI_Op op,
                  MPI_Comm comm) {
  ++collectives;
  return PMPI_Allreduce(from, to, count, type, op, comm);
}
int MPI_Bcast(void* data, int count, MPI_Datatype type, int root, MPI_Comm comm) {
  ++collectives;
  return PMPI_Bcast(data, count, type, root, comm);
}

}  // extern "C"

namespace reef::test {

namespace {

using namespace reef::comm;

/// Runs one of each collective and returns what cost says of them.
template <class T>
Cost use_all(Progress& progress, std::int64_t n, const std::vector<std::int64_t>& offsets) {
  const auto rank = static_cast<std::size_t>(progress.rank());
  const int ranks = progress.size();
  const auto begin = static_cast<std::size_t>(offsets[rank]);
  const auto length = static_cast<std::size_t>(offsets[rank + 1]) - begin;
  std::vector<T> data = inputs_of<T>(progress.rank(), n);
  reduce_scatter(progress, "all", std::span<const T>(data), std::span(data).subspan(begin, length),
                 offsets);
  all_gather(progress, "all", std::span<const T>(data).subspan(begin, length), std::span(data),
             offsets);
  AllReduceTask<T> both("all", std::span(data), offsets);
  run(progress, both);
  const Transport way = progress.transport();
  const Bytes piece = progress.piece_bytes();
  return ReduceScatterTask<T>::cost(ranks, progress.rank(), offsets, sizeof(T), way, piece) +
         AllGatherTask<T>::cost(ranks, progress.rank(), offsets, sizeof(T), way, piece) +
         AllReduceTask<T>::cost(ranks, progress.rank(), offsets, sizeof(T), way, piece);
}

class Metering : public testing::TestWithParam<Transport> {};

TEST_P(Metering, mpi_is_asked_to_send_what_cost_and_meter_say) {
  const Communicator world;
  ProgressOptions options;
  options.transport = GetParam();
  options.piece_bytes = 1000;
  Progress progress(world, options);
  const std::uint64_t messages = sent_data.messages;
  const std::uint64_t bytes = sent_data.bytes;
  const int collectives_of_setting_up = collectives;
  Cost expected;
  for (const std::int64_t n : {0, 1, 3, 500, 20'011}) {
    const auto even = even_offsets(n, world.size());
    std::vector<std::int64_t> first(static_cast<std::size_t>(world.size()) + 1, n);
    first.front() = 0;
    expected = expected + use_all<float>(progress, n, even) + use_all<double>(progress, n, first);
  }
  const int next = (world.rank() + 1) % world.size();
  const int previous = (world.rank() + world.size() - 1) % world.size();
  if (world.size() > 1) {
    std::vector<char> out(4321, 'o');
    std::vector<char> in(4321);
    SendTask send("ring", next, std::span(out));
    ReceiveTask receive("ring", previous, std::span(in));
    progress.submit(progress.queue("send"), send);
    progress.submit(progress.queue("receive"), receive);
    progress.wait_all();
    expected = expected + SendTask::cost(4321, 1000);
  }
  EXPECT_EQ(progress.meter().operations(), expected);
  EXPECT_EQ(sent_data.messages - messages, expected.messages);
  EXPECT_EQ(sent_data.bytes - bytes, expected.bytes);
  EXPECT_EQ(collectives, collectives_of_setting_up);
  if (GetParam() == Transport::window && world.size() > 1) {
    EXPECT_EQ(expected.messages, SendTask::cost(4321, 1000).messages);
    EXPECT_GT(expected.window_bytes, 0U);
  }
}

TEST_P(Metering, mpi_is_asked_to_send_the_claims_and_answers_that_the_meter_says) {
  const Communicator world;
  ProgressOptions options;
  options.transport = GetParam();
  Progress progress(world, options);
  const std::uint64_t messages = sent_data.messages;
  const std::uint64_t bytes = sent_data.bytes;
  SharedCounter counter(progress, "numbers");
  for (int i = 0; i < 10; ++i) counter.next();
  static_cast<void>(counter.state());  // none is in flight any more
  const Cost metered = progress.meter().operations();
  EXPECT_EQ(sent_data.messages - messages, metered.messages);
  EXPECT_EQ(sent_data.bytes - bytes, metered.bytes);
  EXPECT_GE(metered.messages, world.size() == 1 ? 0U : 11U);
}

TEST(MeteringItself, counts_every_function_of_mpi_that_could_carry_payload) {
  const std::set<std::string> used = used_of_mpi();
  // Its receiving is there: the symbols are those of a program that communicates.
  EXPECT_EQ(used.count("MPI_Irecv"), 1U) << "is MPI linked statically?";
  for (const std::string& name : used) {
    EXPECT_EQ(silent.count(name), 1U) << name << " is used and not counted";
  }
}

TEST_P(Metering, signs_of_life_are_counted_too) {
  const Communicator world;
  const std::uint64_t messages = sent_control.messages;
  const std::uint64_t bytes = sent_control.bytes;
  ProgressOptions options;
  options.transport = GetParam();
  options.heartbeat = 0.01;
  Progress progress(world, options);
  // They go on while we look: the two agree at some moment, or they never do.
  bool agreed = false;
  Cost control;
  for (int i = 0; i < 5000 && !agreed; ++i) {
    control = progress.meter().of(Kind::control);
    agreed = (control.messages > 0 || world.size() == 1) &&
             sent_control.messages - messages == control.messages &&
             sent_control.bytes - bytes == control.bytes;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  EXPECT_TRUE(agreed);
}

INSTANTIATE_TEST_SUITE_P(Transports, Metering,
                         testing::Values(Transport::messages, Transport::window),
                         [](const auto& tested) {
                           return tested.param == Transport::messages ? "messages" : "window";
                         });

}  // namespace

}  // namespace reef::test
