// How much of a 64 MiB all-reduce hides behind computing, on a link that is the bottleneck.
//
//   bench/comm/hidden.sh build/release/bench     (root: it makes a network namespace, and removes it)
//
//     hidden = (communication alone + compute alone - together) / communication alone
//
// The compute is arithmetic in registers, as long as the communication alone takes. Its rivals: MPI's
// nonblocking all-reduce left alone, and called once a millisecond from inside the compute, which is
// what a careful user does by hand. The roof is 100 %; a blocking all-reduce is 0 %. The floor of the
// time alone is what the link takes for 2 (P - 1) / P arrays from each rank, all over one loopback.
// Moving the bytes takes processor time too, on the same cores, and that cannot hide: so the slower the
// link, the more of its time hides. Medians over rounds in which the ways take turns, a rival in every
// fourth; times are the slowest rank's; compute alone is the mean of before and after.

#include <mpi.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include <reef/comm/functions.hpp>
#include <reef/comm/gather.hpp>

#include "support/measure.hpp"

namespace {

using namespace reef;
using namespace reef::comm;
using reef_bench::median;
using reef_bench::seconds_of;

constexpr std::size_t array_bytes = std::size_t{64} << 20;

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
  std::string name;
  std::function<void()> alone;
  std::function<void(double seconds)> together;
  std::vector<double> alone_s{}, compute_s{}, together_s{}, hidden{};
};

class Bench {
public:
  int main(int rounds, double link_bytes_per_second) {
    Way ours{"reef::comm::AllReduceTask", {}, {}};
    std::vector<Way> rivals(2);
    rivals[0].name = "rival: MPI_Iallreduce, compute, MPI_Wait";
    rivals[1].name = "rival: MPI_Iallreduce, MPI_Test every 1 ms";
    for (std::size_t i = 0; i < rivals.size(); ++i) {
      const double period = i == 0 ? 1e9 : 1e-3;
      rivals[i].alone = [this] { reduce_by_mpi([](MPI_Request&) {}); };
      rivals[i].together = [this, period](double seconds) {
        reduce_by_mpi([&](MPI_Request& request) {
          compute_.run(seconds, period, [&] {
            int done = 0;
            if (period < 1) MPI_Test(&request, &done, MPI_STATUS_IGNORE);
          });
        });
      };
    }
    for (int round = 0; round < rounds; ++round) {
      {
        ProgressOptions options;
        options.transport = Transport::messages;
        Progress progress(world_, options);
        AllReduceTask<float> task("gradient", std::span(data_), progress.size());
        ours.alone = [&] { comm::run(progress, task); };
        ours.together = [&](double seconds) {
          progress.submit(progress.queue("reduce"), task);
          compute_.run(seconds, 1e9, [] {});
          progress.wait(task);
        };
        measure(
            ours, [&] { barrier(progress, "start"); },
            [&](double mine) {
              const auto all = gather_numbers(progress, "slowest", mine);
              return *std::max_element(all.begin(), all.end());
            });
      }
      for (Way& rival : rivals) {
        if (round % 4 != 0) continue;
        measure(
            rival, [] { MPI_Barrier(MPI_COMM_WORLD); },
            [](double mine) {
              double slowest = 0;
              MPI_Allreduce(&mine, &slowest, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
              return slowest;
            });
      }
    }
    if (world_.rank() != 0) return 0;
    const double ranks = world_.size();
    const double floor = 2 * (ranks - 1) * static_cast<double>(array_bytes) / link_bytes_per_second;
    std::printf(
        "| %.0f ranks, median of %d (rivals: of %zu) | alone ms | compute ms | together ms | hidden %% (least .. "
        "most) |\n",
        ranks, rounds, rivals[0].hidden.size());
    std::printf("|---|---|---|---|---|\n");
    print(ours);
    for (const Way& rival : rivals) print(rival);
    std::printf("| roof: the link alone, all of it hidden | %.0f | | | 100 |\n", floor * 1e3);
    return 0;
  }

private:
  template <class Meanwhile>
  void reduce_by_mpi(Meanwhile&& meanwhile) {
    MPI_Request request = MPI_REQUEST_NULL;
    MPI_Iallreduce(MPI_IN_PLACE, data_.data(), static_cast<int>(data_.size()), MPI_FLOAT, MPI_SUM,
                   MPI_COMM_WORLD, &request);
    meanwhile(request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
  }

  template <class Start, class Slowest>
  void measure(Way& way, Start&& start, Slowest&& slowest) {
    const auto timed = [&](const std::function<void()>& work) {
      start();
      return slowest(seconds_of(work));
    };
    if (way.alone_s.empty()) timed(way.alone);  // buffers grow and connections open once
    const double alone = timed(way.alone);
    start();
    compute_.calibrate();  // anew: a virtual machine's cores change their speed
    const auto compute_alone = [&] {
      return timed([&] { compute_.run(alone, 1e-3, [] {}); });
    };
    const double before = compute_alone();
    const double together = timed([&] { way.together(alone); });
    const double compute = (before + compute_alone()) / 2;
    way.alone_s.push_back(alone);
    way.compute_s.push_back(compute);
    way.together_s.push_back(together);
    way.hidden.push_back(100 * (alone + compute - together) / alone);
  }

  static void print(const Way& way) {
    const auto [least, most] = std::minmax_element(way.hidden.begin(), way.hidden.end());
    std::printf("| %s | %.0f | %.0f | %.0f | %.1f (%.1f .. %.1f) |\n", way.name.c_str(),
                median(way.alone_s) * 1e3, median(way.compute_s) * 1e3,
                median(way.together_s) * 1e3, median(way.hidden), *least, *most);
  }

  Communicator world_;
  Compute compute_;
  std::vector<float> data_ = std::vector<float>(array_bytes / sizeof(float), 0.0F);
};

}  // namespace

/// hidden_bench ROUNDS LINK_BYTES_PER_SECOND
int main(int argc, char** argv) {
  const Environment environment(argc, argv);
  const int rounds = argc > 1 ? std::max(1, std::atoi(argv[1])) : 11;
  const double link = argc > 2 ? std::atof(argv[2]) : 0.5e9;
  const int result = Bench().main(rounds, link);
  std::fflush(stdout);
#if defined(MPICH_VERSION)
  // Over TCP it does not always come back from MPI_Finalize.
  MPI_Barrier(MPI_COMM_WORLD);
  usleep(200'000);
  _exit(result);
#else
  return result;
#endif
}
