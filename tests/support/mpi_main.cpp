// The main of tests that run on several ranks.
//
// Rank 0 prints as GoogleTest does; the other ranks print their failures only, each line with the
// rank before it. After every test the ranks compare: a test that failed on one rank fails on all,
// so that the exit status does not depend on whose it is, and the others say which ranks those are and
// what the first of them has to say.
//
// MPI is initialised with MPI_THREAD_MULTIPLE, or with the level that REEF_TEST_THREAD_LEVEL names
// (single, funneled, serialized, multiple).

#include <array>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>
#include <mpi.h>

#include "only.hpp"

namespace {

int rank_in_world() {
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  return rank;
}

/// Prints the failures of one rank, with the rank's number.
class FailurePrinter : public testing::EmptyTestEventListener {
  // The name is kept here: OnTestPartResult is called under the lock that asking for it takes.
  void OnTestStart(const testing::TestInfo& info) override {
    name_ = std::string(info.test_suite_name()) + "." + info.name();
  }

  void OnTestPartResult(const testing::TestPartResult& result) override {
    if (!result.failed()) return;
    std::fprintf(stderr, "[rank %d] %s\n[rank %d] %s:%d: %s\n", rank_in_world(), name_.c_str(),
                 rank_in_world(), result.file_name() != nullptr ? result.file_name() : "?",
                 result.line_number(), result.message());
  }

  std::string name_;
};

/// Makes a test that failed on one rank fail on all. Who is there first naps: there are more ranks than
/// cores, and those that are not there yet need them.
class Agreement : public testing::EmptyTestEventListener {
  void OnTestEnd(const testing::TestInfo& info) override {
    int failed = info.result()->Failed() ? 1 : 0;
    int any = 0;
    // By their second names: a test may count what the library calls by the first.
    MPI_Request request = MPI_REQUEST_NULL;
    PMPI_Iallreduce(&failed, &any, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD, &request);
    int done = 0;
    for (int naps = 0;; ++naps) {
      PMPI_Test(&request, &done, MPI_STATUS_IGNORE);
      if (done != 0) break;
      std::this_thread::sleep_for(std::chrono::microseconds(naps < 20 ? 50 : 1000));
    }
    if (any == 0) return;
    const std::string others = failures_of_others(info);
    if (failed == 0) ADD_FAILURE() << "this test failed on another rank: " << others;
  }

  /// All ranks call it. "rank 1 and rank 2. Rank 1: x_test.cpp:7: ...", the first failure of the first of them.
  static std::string failures_of_others(const testing::TestInfo& info) {
    constexpr std::size_t room = 1000;
    std::array<char, room> mine{};
    for (int i = 0; i < info.result()->total_part_count() && mine[0] == 0; ++i) {
      const testing::TestPartResult& part = info.result()->GetTestPartResult(i);
      if (!part.failed()) continue;
      std::snprintf(mine.data(), room, "%s:%d: %s",
                    part.file_name() != nullptr ? part.file_name() : "?", part.line_number(),
                    part.message());
    }
    int ranks = 1;
    PMPI_Comm_size(MPI_COMM_WORLD, &ranks);
    std::vector<char> all(room * static_cast<std::size_t>(ranks));
    PMPI_Allgather(mine.data(), static_cast<int>(room), MPI_CHAR, all.data(),
                   static_cast<int>(room), MPI_CHAR, MPI_COMM_WORLD);
    std::string names;
    std::string first;
    for (int rank = 0; rank < ranks; ++rank) {
      const std::string text(&all[room * static_cast<std::size_t>(rank)]);
      if (text.empty()) continue;
      if (first.empty()) first = ". Rank " + std::to_string(rank) + ": " + text;
      names += (names.empty() ? "rank " : ", rank ") + std::to_string(rank);
    }
    return names + first;
  }
};

int wanted_thread_level() {
  const char* value = std::getenv("REEF_TEST_THREAD_LEVEL");
  const std::string name = value != nullptr ? value : "multiple";
  if (name == "single") return MPI_THREAD_SINGLE;
  if (name == "funneled") return MPI_THREAD_FUNNELED;
  if (name == "serialized") return MPI_THREAD_SERIALIZED;
  return MPI_THREAD_MULTIPLE;
}

}  // namespace

int main(int argc, char** argv) {
  // A rank that died must not take its neighbours with it through a broken socket.
  std::signal(SIGPIPE, SIG_IGN);
  int provided = 0;
  MPI_Init_thread(&argc, &argv, wanted_thread_level(), &provided);
  testing::InitGoogleTest(&argc, argv);

  auto& listeners = testing::UnitTest::GetInstance()->listeners();
  if (rank_in_world() != 0) {
    delete listeners.Release(listeners.default_result_printer());
    listeners.Append(new FailurePrinter);
    // One file, of rank 0: the ranks would overwrite each other's.
    delete listeners.Release(listeners.default_xml_generator());
  }
  listeners.Append(new Agreement);

  const int status = reef::test::keep_one_source(argc, argv) ? RUN_ALL_TESTS() : 1;
  MPI_Finalize();
  return status;
}
