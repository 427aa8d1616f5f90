// What waiting costs, and how near an emulated link comes to its model.
//
//   mpiexec -n 2 build/release/bench/comm_waiting_bench [ROUNDS]
//
// First table: processor time of rank 1, all its threads, for a second in which it waits for what rank 0
// or another thread does at its end. The bound is 20 ms. The roof is a sleep; the rivals are MPI's own
// blocking calls and the loop that a careful user writes around MPI_Test.
//
// Second table: transfers over one emulated link beside latency + bytes / bandwidth, the slowest rank's
// time. The bound is 3 %. The roof: one thread that waits for another, which sleeps for that time, its last
// 50 us awake. Medians over rounds.

#include <mpi.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <semaphore>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include <reef/comm/functions.hpp>
#include <reef/device/host.hpp>

#include "support/measure.hpp"

namespace {

using namespace reef;
using namespace reef::comm;

constexpr int waiter = 1;
constexpr Seconds wait_s = 1;

void sleep_for(Seconds seconds) {
  std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
}

class Bench {
public:
  explicit Bench(int rounds) : rounds_(rounds) {}

  void waits() {
    say("\n| rank 1 waits | processor ms per s |\n|---|--:|\n");
    row("roof: asleep", [] { sleep_for(wait_s); });
    row("rival: MPI_Recv", [this] {
      if (late()) MPI_Send(&number_, 1, MPI_FLOAT, waiter, 0, MPI_COMM_WORLD);
      if (waits_here()) MPI_Recv(&number_, 1, MPI_FLOAT, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    });
    row("rival: MPI_Irecv, MPI_Test and a sleep of 1 ms", [this] {
      if (late()) MPI_Send(&number_, 1, MPI_FLOAT, waiter, 0, MPI_COMM_WORLD);
      if (!waits_here()) return;
      MPI_Request request = MPI_REQUEST_NULL;
      MPI_Irecv(&number_, 1, MPI_FLOAT, 0, 0, MPI_COMM_WORLD, &request);
      for (int done = 0; done == 0;) {
        sleep_for(1e-3);
        MPI_Test(&request, &done, MPI_STATUS_IGNORE);
      }
    });
    lanes();
    {
      Progress progress(world_, with(Transport::messages));
      row("Progress: nothing to do", [] { sleep_for(wait_s); });
      row("Progress: a message that does not come", [&] { transfer(progress, true); });
      row("Progress: a lane, for a message that does not come",
          [&] { transfer_on_lane(progress); });
      row("Progress: the others of an all-reduce, by messages", [&] {
        static_cast<void>(late());
        barrier(progress, "all");
      });
    }
    for (const bool reads : {true, false}) {
      ProgressOptions options = with(Transport::window);
      options.read_peers = reads;
      Progress progress(world_, options);
      if (reads && !progress.reads_peers()) continue;  // refused by the system
      row(reads ? "Progress: the others of an all-reduce, read" : "Progress: the same, by slots",
          [&] {
            static_cast<void>(late());
            barrier(progress, "all");
          });
    }
    Progress progress(world_, shaped(wait_s, 1e9));
    row("Progress: a message on a link of 1 s", [&] { transfer(progress, false); });
  }

  void links() {
    say("\n| emulated link | model ms | ms | of model | roof |\n|---|--:|--:|--:|--:|\n");
    for (const auto& [latency, bandwidth] : {std::pair{5e-3, 0.25e9}, {1e-3, 1e9}}) {
      Progress progress(world_, shaped(latency, bandwidth));
      for (const Bytes bytes : {Bytes{4} << 10, Bytes{64} << 10, Bytes{1} << 20, Bytes{16} << 20}) {
        link(progress, bytes, latency, bandwidth);
      }
    }
  }

  [[nodiscard]] const Communicator& world() const { return world_; }

private:
  static ProgressOptions with(Transport transport) {
    ProgressOptions options;
    options.transport = transport;
    return options;
  }
  [[nodiscard]] ProgressOptions shaped(Seconds latency, double bandwidth) const {
    ProgressOptions options;
    options.network = NetworkShape::uniform(world_.size(), latency, bandwidth);
    return options;
  }

  [[nodiscard]] bool waits_here() const { return world_.rank() == waiter; }
  [[nodiscard]] bool acts_here() const { return world_.rank() == 0; }
  /// On rank 0, a second later: true.
  [[nodiscard]] bool late() const {
    if (acts_here()) sleep_for(wait_s);
    return acts_here();
  }

  void transfer(Progress& progress, bool comes_late) {
    if (acts_here()) {
      if (comes_late) sleep_for(wait_s);
      send(progress, "message", waiter, std::span(&number_, 1));
    }
    if (waits_here()) receive(progress, "message", 0, std::span(&number_, 1));
  }

  /// As the executor does: a lane waits for an event that the progress thread completes.
  void transfer_on_lane(Progress& progress) {
    if (late()) send(progress, "message", waiter, std::span(&number_, 1));
    if (!waits_here()) return;
    device::Host host({.threads = 1});
    device::Host::Lane lane(host, "compute");
    device::Host::Event there(host);
    ReceiveTask task("message", 0, std::span(&number_, 1));
    progress.submit(progress.queue("lane"), task, {}, [&] { there.signal(); });
    lane.submit([&](device::Host::Lane& l) { l.wait(there, 1); });
    lane.synchronize();
    progress.wait(task);
  }

  void lanes() {
    device::Host host;
    device::Host::Lane first(host, "first");
    device::Host::Lane second(host, "second");
    device::Host::Event event(host);
    std::uint64_t epoch = 0;
    row("device: a thread, for a lane that takes long", [&] {
      first.submit([](device::Host::Lane&) { sleep_for(wait_s); });
      first.synchronize();
    });
    row("device: two lanes, for an event", [&] {
      ++epoch;
      for (auto* const lane : {&first, &second}) {
        lane->submit([&event, epoch](device::Host::Lane& l) { l.wait(event, epoch); });
      }
      sleep_for(wait_s);
      event.signal();
      first.synchronize();
      second.synchronize();
    });
  }

  /// The rank that waits tells rank 0, after the last round, what it took.
  void row(const char* what, const std::function<void()>& wait) {
    std::vector<double> burnt;
    for (int round = 0; round < rounds_; ++round) {
      MPI_Barrier(MPI_COMM_WORLD);
      const double begin = reef_bench::now();
      const double busy = reef_bench::processor_seconds();
      wait();
      const double worked = reef_bench::processor_seconds() - busy;
      const double share = worked / (reef_bench::now() - begin);
      burnt.push_back(slowest(waits_here() ? share : 0));
    }
    say("| %s | %.2f |\n", what, reef_bench::median(burnt) * 1e3);
  }

  void link(Progress& progress, Bytes bytes, Seconds latency, double bandwidth) {
    std::vector<char> data(bytes, 'x');
    const double model = latency + static_cast<double>(SendTask::cost(bytes).bytes) / bandwidth;
    std::vector<double> seconds;
    std::vector<double> roof;
    for (int round = -1; round < 5 * rounds_; ++round) {
      roof.push_back(slowest(waits_here() ? seconds_of_sleep(model) : 0));
      MPI_Barrier(MPI_COMM_WORLD);
      const double took = slowest(reef_bench::seconds_of([&] {
        if (acts_here()) send(progress, "shaped", waiter, std::span(data));
        if (waits_here()) receive(progress, "shaped", 0, std::span(data));
      }));
      if (round >= 0) seconds.push_back(took);  // the first one opens connections
    }
    const double typical = reef_bench::median(seconds);
    say("| %s, %.0f ms + %.3g GB/s | %.2f | %.2f | %.3f | %.3f |\n", format_bytes(bytes).c_str(),
        latency * 1e3, bandwidth * 1e-9, model * 1e3, typical * 1e3, typical / model,
        reef_bench::median(roof) / model);
  }

  /// Until another thread has told this one that the time is over.
  static double seconds_of_sleep(Seconds model) {
    std::binary_semaphore over(0);
    std::binary_semaphore begun(0);
    double begin = 0;
    std::thread other([&] {
      begun.acquire();
      sleep_for(std::max(0.0, begin + model - 50e-6 - reef_bench::now()));
      while (reef_bench::now() < begin + model) std::this_thread::yield();
      over.release();
    });
    sleep_for(1e-3);  // both are there
    begin = reef_bench::now();
    begun.release();
    over.acquire();
    const double end = reef_bench::now();
    other.join();
    return end - begin;
  }

  double slowest(double mine) const {
    double result = 0;
    MPI_Allreduce(&mine, &result, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    return result;
  }

  template <class... Args>
  void say(const char* format, Args... args) const {
    if (world_.rank() != 0) return;
    std::printf(format, args...);
    std::fflush(stdout);
  }

  Communicator world_;
  int rounds_;
  float number_ = 0;
};

}  // namespace

int main(int argc, char** argv) {
  const Environment environment(argc, argv);
  Bench bench(argc > 1 ? std::max(1, std::atoi(argv[1])) : 3);
  if (bench.world().size() != 2) {
    std::fprintf(stderr, "waiting_bench: one rank waits for another; start 2.\n");
    return 2;
  }
  bench.waits();
  bench.links();
  return 0;
}
