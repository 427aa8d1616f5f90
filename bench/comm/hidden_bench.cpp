// How much of a 64 MiB all-reduce hides behind computing, on a link that is the bottleneck.
//
//   bench/comm/hidden.sh build/release/bench FOLDER     (root: it makes a network namespace, and removes it)
//
//     hidden = (communication alone + compute alone - together) / communication alone
//
// The compute is arithmetic in registers, as long as the communication alone takes. Its rivals: MPI's
// nonblocking all-reduce left alone, and called once a millisecond from inside the compute, which is
// what a careful user does by hand. The roof is 100 %; a blocking all-reduce is 0 %. The floor of the
// time alone is what the link takes for 2 (P - 1) / P arrays from each rank, all over one loopback.
// Moving the bytes takes processor time too, on the same cores, and that cannot hide: so the slower the
// link, the more of its time hides. A time is that of both together, the slowest rank's; compute alone is
// the mean of before and after. The ways take turns, a rival in every fourth round.

#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <reef/comm/functions.hpp>
#include <reef/comm/gather.hpp>
#include <reef/comm/mpi.hpp>

#include "support/ranks.hpp"

namespace {

using namespace reef;
using namespace reef::comm;
using reef_bench::seconds_of;

constexpr std::size_t array_bytes = std::size_t{64} << 20;

// What the program is given before Google Benchmark's arguments.
int rounds = 11;
double link_bytes_per_second = 0.5e9;

/// Arithmetic in registers, counted in steps of about a microsecond.
class Compute {
public:
  /// Finds how many steps a second has while all ranks compute: cores may share what they compute with.
  void calibrate() {
    step(200'000);
    steps_per_second_ = 200'000 / seconds_of([this] { step(200'000); });
    step(100'000);  // for those who are not there yet
  }

  /// Computes for about `seconds`; calls `between` after each `period` of it.
  template <class Between>
  void run(double seconds, double period, Between&& between) {
    const auto steps = static_cast<std::int64_t>(seconds * steps_per_second_);
    const auto piece =
        std::max<std::int64_t>(1, static_cast<std::int64_t>(period * steps_per_second_));
    for (std::int64_t done = 0; done < steps; done += piece) {
      step(std::min(piece, steps - done));
      between();
    }
  }

private:
  void step(std::int64_t count) {
    for (std::int64_t i = 0; i < count * 64; ++i) {
      for (double& value : values_) value = value * 0.999999 + 1e-6;
    }
    volatile double sink = values_[0];
    static_cast<void>(sink);
  }

  double values_[16] = {};
  double steps_per_second_ = 0;
};

/// One way to reduce: alone, and with compute of `seconds` meanwhile.
struct Way {
  std::function<void()> alone;
  std::function<void(double seconds)> together;
  std::function<void()> start;            ///< all ranks have come
  std::function<double(double)> slowest;  ///< of the ranks' seconds
};

class Bench {
public:
  void run(benchmark::State& state) {
    const double ranks = world_.size();
    const double floor = 2 * (ranks - 1) * static_cast<double>(array_bytes) / link_bytes_per_second;
    reef_bench::compare(
        state, [this] { return ours(); },
        {{"roof", [=] { return floor; }},
         {"MPI_Wait", seldom([this] { return mpi("MPI_Wait_", 1e9); })},
         {"MPI_Test", seldom([this] { return mpi("MPI_Test_", 1e-3); })}},
        {.bytes = static_cast<double>(array_bytes)}, &notes_);
    for (const char* const who : {"", "MPI_Wait_", "MPI_Test_"}) {
      const std::string name = concat(who, "hidden_");
      const auto& hidden = notes_[name + "percent"];
      if (hidden.empty()) continue;
      state.counters[name + "least"] = *std::min_element(hidden.begin(), hidden.end());
      state.counters[name + "most"] = *std::max_element(hidden.begin(), hidden.end());
    }
    state.counters["link_ms"] = floor * 1e3;
  }

private:
  /// In the first round that counts, and each fourth after it; between, what it was.
  static std::function<double()> seldom(std::function<double()> way) {
    return [way = std::move(way), calls = 0, last = 0.0]() mutable {
      if (calls++ % 4 == 1) last = way();
      return last;
    };
  }

  /// While a Progress object lives, it alone calls MPI: this serves where threads may not share it.
  double ours() {
    ProgressOptions options;
    options.transport = Transport::messages;
    Progress progress(world_, options);
    AllReduceTask<float> task("gradient", std::span(data_), progress.size());
    return measure("", {[&] { comm::run(progress, task); },
                        [&](double seconds) {
                          progress.submit(progress.queue("reduce"), task);
                          compute_.run(seconds, 1e9, [] {});
                          progress.wait(task);
                        },
                        [&] { barrier(progress, "start"); },
                        [&](double mine) {
                          const auto all = gather_numbers(progress, "slowest", mine);
                          return *std::max_element(all.begin(), all.end());
                        }});
  }

  /// With MPI_Test after each `period` of the compute.
  double mpi(const std::string& who, double period) {
    const auto reduce = [this](const std::function<void(MPI_Request&)>& meanwhile) {
      MPI_Request request = MPI_REQUEST_NULL;
      MPI_Iallreduce(MPI_IN_PLACE, data_.data(), static_cast<int>(data_.size()), MPI_FLOAT, MPI_SUM,
                     MPI_COMM_WORLD, &request);
      meanwhile(request);
      MPI_Wait(&request, MPI_STATUS_IGNORE);
    };
    return measure(who, {[&] { reduce([](MPI_Request&) {}); },
                         [&](double seconds) {
                           reduce([&](MPI_Request& request) {
                             compute_.run(seconds, period, [&] {
                               int done = 0;
                               if (period < 1) MPI_Test(&request, &done, MPI_STATUS_IGNORE);
                             });
                           });
                         },
                         [] { MPI_Barrier(MPI_COMM_WORLD); }, reef_bench::slowest});
  }

  double measure(const std::string& who, const Way& way) {
    const auto timed = [&](const std::function<void()>& work) {
      way.start();
      return way.slowest(seconds_of(work));
    };
    if (notes_[who + "alone_ms"].empty()) timed(way.alone);  // connections open once
    const double alone = timed(way.alone);
    way.start();
    compute_.calibrate();  // anew: a virtual machine's cores change their speed
    const auto compute_alone = [&] { return timed([&] { compute_.run(alone, 1e-3, [] {}); }); };
    const double before = compute_alone();
    const double together = timed([&] { way.together(alone); });
    const double compute = (before + compute_alone()) / 2;
    notes_[who + "alone_ms"].push_back(alone * 1e3);
    notes_[who + "compute_ms"].push_back(compute * 1e3);
    notes_[who + "hidden_percent"].push_back(100 * (alone + compute - together) / alone);
    return together;
  }

  Communicator world_;
  Compute compute_;
  std::vector<float> data_ = std::vector<float>(array_bytes / sizeof(float), 0.0F);
  reef_bench::Notes notes_;
};

void register_all() {
  reef_bench::add("all_reduce_beside_compute/64MiB", rounds,
                  [](benchmark::State& state) { Bench().run(state); });
}

/// [ROUNDS LINK_BYTES_PER_SECOND] [--benchmark_...]
int measure(int argc, char** argv) {
  if (argc > 2 && argv[1][0] != '-') {
    rounds = std::max(1, std::atoi(argv[1]));
    link_bytes_per_second = std::atof(argv[2]);
    argv[2] = argv[0];
    argc -= 2;
    argv += 2;
  }
  const int result =
      reef_bench::measure_on_ranks(argc, argv, register_all, {.threads = MPI_THREAD_SERIALIZED});
#if defined(MPICH_VERSION)
  // Over TCP it does not always come back from MPI_Finalize.
  MPI_Barrier(MPI_COMM_WORLD);
  usleep(200'000);
  _exit(result);
#else
  return result;
#endif
}

}  // namespace

int main(int argc, char** argv) {
  return reef_bench::ranks_main(argc, argv, "comm_hidden_bench", measure);
}
