#pragma once

#include <mpi.h>

#include <atomic>
#include <climits>
#include <cstdint>
#include <cstdio>
#include <new>
#include <ostream>
#include <string>
#include <vector>

#include <benchmark/benchmark.h>

#include "support/compare.hpp"
#include "support/ranks_main.hpp"

/// Benchmarks of several ranks, which mpiexec starts: all run the same rounds together, rank 0 reports.
///
/// They are made of `add` and `compare` as all others: their iterations are fixed, and the seconds of a
/// contender are the slowest rank's, so that no rank decides anything alone.
namespace reef_bench {

inline int rank() {
  int result = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &result);
  return result;
}

/// The largest of the ranks' numbers, on all of them. All ranks call it.
inline double slowest(double mine) {
  double result = 0;
  MPI_Allreduce(&mine, &result, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
  return result;
}

/// Seconds of the slowest rank for `work`, which all begin together.
template <class F>
double slowest_seconds_of(F&& work) {
  MPI_Barrier(MPI_COMM_WORLD);
  return slowest(seconds_of(work));
}

/// A number in memory that all ranks share, on one node: the roof of what hands over between processes.
/// Collective, its end too.
class SharedNumber {
public:
  SharedNumber() {
    void* base = nullptr;
    MPI_Win_allocate_shared(rank() == 0 ? sizeof(Number) : 0, 1, MPI_INFO_NULL, MPI_COMM_WORLD,
                            static_cast<void*>(&base), &window_);
    MPI_Aint bytes = 0;
    int unit = 0;
    MPI_Win_shared_query(window_, 0, &bytes, &unit, static_cast<void*>(&base));
    number_ = static_cast<Number*>(base);
    if (rank() == 0) number_ = ::new (base) Number(0);
    MPI_Barrier(MPI_COMM_WORLD);
  }
  SharedNumber(const SharedNumber&) = delete;
  SharedNumber& operator=(const SharedNumber&) = delete;
  ~SharedNumber() { MPI_Win_free(&window_); }

  std::uint64_t next() { return number_->fetch_add(1); }

  /// Adds one, and spins until there are so many.
  void arrive(std::uint64_t until) {
    number_->fetch_add(1);
    while (number_->load(std::memory_order_acquire) < until) {
    }
  }

private:
  using Number = std::atomic<std::uint64_t>;
  static_assert(Number::is_always_lock_free);

  MPI_Win window_ = MPI_WIN_NULL;
  Number* number_ = nullptr;
};

/// Of the ranks that report nothing.
class Silence : public benchmark::BenchmarkReporter {
public:
  Silence() {
    SetOutputStream(&nowhere_);
    SetErrorStream(&nowhere_);
  }
  bool ReportContext(const Context&) override { return true; }
  void ReportRuns(const std::vector<Run>&) override {}

private:
  std::ostream nowhere_{nullptr};
};

/// What a program asks of the ranks that it runs on.
struct RanksNeeded {
  int least = 2;
  int most = INT_MAX;
  int threads =
      MPI_THREAD_MULTIPLE;  ///< where main calls MPI beside a Progress object, or there are two
};

/// Runs the benchmarks, while MPI runs. All ranks take the same arguments; rank 0 alone prints, and
/// writes what --benchmark_out names. The result is an exit status, the same on all.
inline int measure_on_ranks(int argc, char** argv, void (*register_all)(),
                            const RanksNeeded& needed = {}) {
  int ranks = 0;
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  if (ranks < needed.least || ranks > needed.most) {
    if (rank() == 0) {
      std::fprintf(stderr, "%s: %d ranks are not what it measures.\n  fix: mpiexec -n %d\n",
                   argv[0], ranks, needed.least);
    }
    return 2;
  }
  int threads = MPI_THREAD_SINGLE;
  MPI_Query_thread(&threads);
  if (threads < needed.threads) {
    if (rank() == 0) {
      std::fprintf(
          stderr,
          "%s: this MPI grants thread level %d, but several threads of it call MPI at once, "
          "which takes level %d.\n  fix: an MPI that grants MPI_THREAD_MULTIPLE\n",
          argv[0], threads, needed.threads);
    }
    return 2;
  }
  std::vector<std::string> words(argv, argv + argc);
  // What a rank would do by chance or by its own clock, all must do alike.
  words.emplace_back("--benchmark_enable_random_interleaving=false");
  words.emplace_back("--benchmark_min_warmup_time=0");
  if (rank() != 0) words.emplace_back("--benchmark_out=");
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  benchmark::AddCustomContext("ranks", std::to_string(ranks));
  Silence silence;
  return run(static_cast<int>(words.size()), arguments.data(), register_all,
             rank() == 0 ? nullptr : &silence);
}

/// The main of a program that does this and no more.
inline int run_on_ranks(int argc, char** argv, void (*register_all)(),
                        const RanksNeeded& needed = {}) {
  return ranks_main(argc, argv, argv[0], [&](int count, char** words) {
    return measure_on_ranks(count, words, register_all, needed);
  });
}

}  // namespace reef_bench
