// What the next number of a counter costs that ranks share, beside MPI's own way.
//
//   mpiexec -n 2 build/release/bench/comm_counter_bench [NUMBERS]
//
// Every rank takes numbers in turns with computing (a busy loop of that length): as with micro-batches.
// "wait" is the time in the call that takes a number, of the ranks but 0, whose numbers come from another
// process; "per number" is the whole turn's over its computing, which is also where a progress thread
// takes its share of the cores. Rivals: MPI_Fetch_and_op and MPI_Win_flush on a window of rank 0, memory
// that MPI allocates (shared, if it can) or that the program does; a message that asks and one that
// answers when the number is needed, over the link that the last rows emulate, is the model.

#include <mpi.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <vector>

#include <reef/comm/functions.hpp>
#include <reef/comm/shared_counter.hpp>

#include "support/measure.hpp"

namespace {

using namespace reef;
using namespace reef::comm;

/// The rival: a number in a window of rank 0.
class Window {
public:
  Window(const Communicator& world, bool mpi_allocates) : memory_(1, 0) {
    const MPI_Aint bytes = world.rank() == 0 ? sizeof(std::uint64_t) : 0;
    int code = MPI_SUCCESS;
    if (mpi_allocates) {
      void* base = nullptr;
      code = MPI_Win_allocate(bytes, sizeof(std::uint64_t), MPI_INFO_NULL, world.handle(),
                              static_cast<void*>(&base), &window_);
      if (code == MPI_SUCCESS && bytes > 0) *static_cast<std::uint64_t*>(base) = 0;
    } else {
      code = MPI_Win_create(memory_.data(), bytes, sizeof(std::uint64_t), MPI_INFO_NULL,
                            world.handle(), &window_);
    }
    // Open MPI 4.1 refuses where threads may call it and no network card does the work.
    usable = code == MPI_SUCCESS;
    MPI_Barrier(world.handle());
    if (usable) MPI_Win_lock_all(0, window_);
  }
  Window(const Window&) = delete;
  Window& operator=(const Window&) = delete;
  ~Window() {
    if (!usable) return;
    MPI_Win_unlock_all(window_);
    MPI_Win_free(&window_);
  }

  std::uint64_t next() {
    const std::uint64_t one = 1;
    std::uint64_t number = 0;
    MPI_Fetch_and_op(&one, &number, MPI_UINT64_T, 0, 0, MPI_SUM, window_);
    MPI_Win_flush(0, window_);
    return number;
  }

  bool usable = false;

private:
  std::vector<std::uint64_t> memory_;
  MPI_Win window_ = MPI_WIN_NULL;
};

void compute(Seconds seconds) {
  const double end = reef_bench::now() + seconds;
  while (reef_bench::now() < end) {
  }
}

class Bench {
public:
  explicit Bench(int numbers) : numbers_(numbers) {}

  void run() {
    say("| | computing ms | wait us, median | 95 %% | us per number over computing |\n"
        "|---|--:|--:|--:|--:|\n");
    for (const Seconds turn : {0.0, 1e-3, 10e-3, 50e-3}) {
      for (const bool allocates : {true, false}) {
        Window window(world_, allocates);
        const char* const what = allocates ? "rival: MPI_Fetch_and_op, MPI_Win_allocate"
                                           : "rival: MPI_Fetch_and_op, MPI_Win_create";
        if (window.usable) {
          row(what, turn, [&] { return window.next(); });
        } else {
          say("| %s | %.0f | refused by this MPI | | |\n", what, turn * 1e3);
        }
      }
      Progress progress(world_, {});
      SharedCounter counter(progress, "numbers");
      row("SharedCounter", turn, [&] { return counter.next(); });
    }
    const Seconds latency = 20e-3;
    for (const Seconds turn : {10e-3, 50e-3}) {
      ProgressOptions options;
      options.network = NetworkShape::uniform(world_.size(), latency, 1e9);
      Progress progress(world_, options);
      SharedCounter counter(progress, "numbers");
      row("SharedCounter over a link of 20 ms", turn, [&] { return counter.next(); });
      say("| model: asking when it is needed, 2 latencies | %.0f | %.0f | | |\n", turn * 1e3,
          2 * latency * 1e6);
    }
  }

private:
  void row(const char* what, Seconds turn, const std::function<std::uint64_t()>& next) {
    const int count = turn == 0 ? 100 * numbers_ : numbers_;
    std::vector<double> waits;
    std::uint64_t last = 0;
    MPI_Barrier(MPI_COMM_WORLD);
    const double begin = reef_bench::now();
    for (int i = 0; i < count; ++i) {
      compute(turn);
      waits.push_back(reef_bench::seconds_of([&] { last = std::max(last, next()); }));
    }
    const double took = (reef_bench::now() - begin) / count - turn;
    const bool other = world_.rank() != 0;
    const double typical = slowest(other ? reef_bench::median(waits) : 0);
    const double most = slowest(other ? reef_bench::quantile(waits, 0.95) : 0);
    say("| %s | %.0f | %.1f | %.1f | %.1f |\n", what, turn * 1e3, typical * 1e6, most * 1e6,
        slowest(took) * 1e6);
  }

  double slowest(double mine) const {
    double result = 0;
    MPI_Allreduce(&mine, &result, 1, MPI_DOUBLE, MPI_MAX, world_.handle());
    return result;
  }

  template <class... Args>
  void say(const char* format, Args... args) const {
    if (world_.rank() != 0) return;
    std::printf(format, args...);
    std::fflush(stdout);
  }

  Communicator world_;
  int numbers_;
};

}  // namespace

int main(int argc, char** argv) {
  const Environment environment(argc, argv);
  Bench(argc > 1 ? std::max(1, std::atoi(argv[1])) : 100).run();
  return 0;
}
