// What the next number of a counter costs that ranks share, beside MPI's own way.
//
//   mpiexec -n 2 build/release/bench/comm_counter_bench
//
// Every rank takes numbers in turns with computing (a busy loop of that length): as with micro-batches.
// A time is a rank's median wait in the call that takes a number: the largest of the ranks but 0, whose
// numbers come from another process. Beside it, of each way, the largest too: "95_us", which 95 % of the
// waits stay below; "turn_us", of all ranks, what a whole turn takes over its computing, which is also
// where a progress thread takes its share of the cores.
// Rivals: MPI_Fetch_and_op and MPI_Win_flush on a window of rank 0, memory that MPI allocates (shared, if
// it can) or that the program does. "asking": a message that asks and one that answers when the number is
// needed, over the link that is emulated. The roof: an atomic in shared memory; over a link, what of
// asking does not hide behind a turn's computing.

#include <algorithm>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include <reef/comm/functions.hpp>
#include <reef/comm/mpi.hpp>
#include <reef/comm/shared_counter.hpp>

#include "support/ranks.hpp"

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
    // Open MPI 4.1 refuses where threads may call it and no network card does the work. What one rank was
    // refused all leave out: they must call alike.
    const int mine = code == MPI_SUCCESS ? 1 : 0;
    int all = 0;
    MPI_Allreduce(&mine, &all, 1, MPI_INT, MPI_MIN, world.handle());
    usable = all == 1;
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

/// The largest of the median waits for a number of the ranks but 0.
double wait_for(const std::function<std::uint64_t()>& next, Seconds turn, const std::string& who,
                reef_bench::Notes& notes) {
  const int numbers = turn == 0 ? 10'000 : 40;
  std::vector<double> waits;
  std::uint64_t last = 0;
  MPI_Barrier(MPI_COMM_WORLD);
  const double begin = reef_bench::now();
  for (int i = 0; i < numbers; ++i) {
    compute(turn);
    waits.push_back(reef_bench::seconds_of([&] { last = std::max(last, next()); }));
  }
  const double over = (reef_bench::now() - begin) / numbers - turn;
  const bool other = reef_bench::rank() != 0;
  const auto note = [&](const char* what, double seconds) {
    notes[who + what].push_back(reef_bench::slowest(seconds) * 1e6);
  };
  note("95_us", other ? reef_bench::quantile(waits, 0.95) : 0);
  note("turn_us", over);
  return reef_bench::slowest(other ? reef_bench::median(waits) : 0);
}

void bench(benchmark::State& state, Seconds turn, Seconds latency) {
  const Communicator world;
  ProgressOptions options;
  if (latency > 0) options.network = profile::Network::uniform(world.size(), latency, 1e9);
  reef_bench::Notes notes;
  reef_bench::SharedNumber number;
  std::vector<reef_bench::Contender> contenders{
      {"roof", [&] {
         const double shared = wait_for([&] { return number.next(); }, turn, "roof_", notes);
         return std::max(shared, 2 * latency - turn);
       }}};
  if (latency > 0) contenders.push_back({"asking", [&] { return 2 * latency; }});
  std::string refused;
  for (const bool allocates : {true, false}) {
    if (latency > 0) continue;  // windows know no emulated links
    const std::string name = allocates ? "MPI_Win_allocate" : "MPI_Win_create";
    if (!Window(world, allocates).usable) {
      refused += (refused.empty() ? "refused by this MPI: " : ", ") + name;
      continue;
    }
    contenders.push_back({name, [&, allocates, name] {
                            Window window(world, allocates);
                            return wait_for([&] { return window.next(); }, turn, name + "_", notes);
                          }});
  }
  state.SetLabel(refused);
  reef_bench::compare(
      state,
      [&] {
        Progress progress(world, options);
        SharedCounter counter(progress, "numbers");
        return wait_for([&] { return counter.next(); }, turn, "", notes);
      },
      contenders, {}, &notes);
}

void register_all() {
  const auto add = [](const std::string& name, Seconds turn, Seconds latency) {
    reef_bench::add(
        name, 5, [=](benchmark::State& state) { bench(state, turn, latency); },
        benchmark::kMicrosecond);
  };
  for (const int turn : {0, 1, 10, 50}) add(concat("next/computing_ms:", turn), turn * 1e-3, 0);
  for (const int turn : {10, 50}) {
    add(concat("next_over_20ms/computing_ms:", turn), turn * 1e-3, 20e-3);
  }
}

}  // namespace

int main(int argc, char** argv) { return reef_bench::run_on_ranks(argc, argv, register_all); }
