// What waiting costs, and how near an emulated link comes to its model.
//
//   mpiexec -n 2 build/release/bench/comm_waiting_bench [--benchmark_filter=link]
//
// asleep/..., their time: the processor time of rank 1, all its threads, for a second in which it waits for
// what rank 0 or another thread does at its end. The bound is 20 ms. The roof is a sleep; the rivals are
// MPI's own blocking calls and the loop that a careful user writes around MPI_Test.
//
// link/...: transfers over one emulated link, the slowest rank's time. The roof is the model, latency + bytes
// / bandwidth, and of_roof is 0.97 at least. The rival: one thread that waits for another, which sleeps for
// that time, its last 50 us awake.

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <functional>
#include <semaphore>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <reef/comm/functions.hpp>
#include <reef/comm/mpi.hpp>
#include <reef/device/host.hpp>

#include "support/ranks.hpp"

namespace {

using namespace reef;
using namespace reef::comm;
using reef_bench::Contender;

constexpr int waiter = 1;
constexpr int rounds = 3;
constexpr Seconds wait_s = 1;

void sleep_for(Seconds seconds) {
  std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
}

bool waits_here() { return reef_bench::rank() == waiter; }
bool acts_here() { return reef_bench::rank() == 0; }

/// On rank 0, a second later: true.
bool late() {
  if (acts_here()) sleep_for(wait_s);
  return acts_here();
}

/// Processor seconds a second of the rank that waits.
double burnt(const std::function<void()>& wait) {
  MPI_Barrier(MPI_COMM_WORLD);
  const double begin = reef_bench::now();
  const double busy = reef_bench::processor_seconds();
  wait();
  const double worked = reef_bench::processor_seconds() - busy;
  const double share = worked / (reef_bench::now() - begin);
  return reef_bench::slowest(waits_here() ? share : 0);
}

// -- the rivals --------------------------------------------------------------------------------

void receive_by_mpi() {
  float number = 0;
  if (late()) MPI_Send(&number, 1, MPI_FLOAT, waiter, 0, MPI_COMM_WORLD);
  if (waits_here()) MPI_Recv(&number, 1, MPI_FLOAT, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

void test_and_sleep() {
  float number = 0;
  if (late()) MPI_Send(&number, 1, MPI_FLOAT, waiter, 0, MPI_COMM_WORLD);
  if (!waits_here()) return;
  MPI_Request request = MPI_REQUEST_NULL;
  MPI_Irecv(&number, 1, MPI_FLOAT, 0, 0, MPI_COMM_WORLD, &request);
  for (int done = 0; done == 0;) {
    sleep_for(1e-3);
    MPI_Test(&request, &done, MPI_STATUS_IGNORE);
  }
}

void barrier_by_mpi() {
  static_cast<void>(late());
  MPI_Barrier(MPI_COMM_WORLD);
}

const std::vector<Contender> of_message{
    {"MPI_Recv", [] { return burnt(receive_by_mpi); }},
    {"MPI_Test_and_sleep", [] { return burnt(test_and_sleep); }}};
const std::vector<Contender> of_barrier{{"MPI_Barrier", [] { return burnt(barrier_by_mpi); }}};

// -- ours --------------------------------------------------------------------------------------

void idle(Progress& /*progress*/) { sleep_for(wait_s); }

void transfer(Progress& progress, bool comes_late) {
  float number = 0;
  if (acts_here()) {
    if (comes_late) sleep_for(wait_s);
    send(progress, "message", waiter, std::span(&number, 1));
  }
  if (waits_here()) receive(progress, "message", 0, std::span(&number, 1));
}

/// As the executor does: a lane waits for an event that the progress thread completes.
void transfer_on_lane(Progress& progress) {
  float number = 0;
  if (late()) send(progress, "message", waiter, std::span(&number, 1));
  if (!waits_here()) return;
  device::Host host({.threads = 1});
  device::Host::Lane lane(host, "compute");
  device::Host::Event there(host);
  ReceiveTask task("message", 0, std::span(&number, 1));
  progress.submit(progress.queue("lane"), task, {}, [&] { there.signal(); });
  lane.submit([&](device::Host::Lane& l) { l.wait(there, 1); });
  lane.synchronize();
  progress.wait(task);
}

void wait_for_all(Progress& progress) {
  static_cast<void>(late());
  barrier(progress, "all");
}

double thread_for_lane() {
  device::Host host;
  device::Host::Lane lane(host, "first");
  return burnt([&] {
    lane.submit([](device::Host::Lane&) { sleep_for(wait_s); });
    lane.synchronize();
  });
}

double lanes_for_event() {
  device::Host host;
  device::Host::Lane first(host, "first");
  device::Host::Lane second(host, "second");
  device::Host::Event event(host);
  return burnt([&] {
    for (auto* const lane : {&first, &second}) {
      lane->submit([&event](device::Host::Lane& l) { l.wait(event, 1); });
    }
    sleep_for(wait_s);
    event.signal();
    first.synchronize();
    second.synchronize();
  });
}

ProgressOptions with(Transport transport, bool reads = true) {
  ProgressOptions options;
  options.transport = transport;
  options.read_peers = reads;
  return options;
}

ProgressOptions shaped(Seconds latency, double bandwidth) {
  ProgressOptions options;
  options.network = profile::Network::uniform(2, latency, bandwidth);
  return options;
}

double asleep() {
  return burnt([] { sleep_for(wait_s); });
}

void add_wait(const std::string& name, const std::function<double()>& ours) {
  reef_bench::add("asleep/" + name, rounds, [=](benchmark::State& state) {
    reef_bench::compare(state, ours, {{"roof", asleep}}, {});
  });
}

/// The same with a Progress object, which the roof and the rivals go without.
void add_wait(const std::string& name, const ProgressOptions& options,
              const std::function<void(Progress&)>& wait, std::vector<Contender> contenders = {}) {
  contenders.push_back({"roof", asleep});
  reef_bench::add("asleep/" + name, rounds, [=](benchmark::State& state) {
    const Communicator world;
    reef_bench::compare(state,
                        [&] {
                          Progress progress(world, options);
                          if (options.transport == Transport::window && options.read_peers &&
                              !progress.reads_peers()) {
                            state.SetLabel("refused by the system: slots");
                          }
                          return burnt([&] { wait(progress); });
                        },
                        contenders, {});
  });
}

/// Seconds until another thread has told this one that the time is over.
double seconds_of_hand_over(Seconds model) {
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

void link(benchmark::State& state, Seconds latency, double bandwidth, Bytes bytes) {
  const Communicator world;
  Progress progress(world, shaped(latency, bandwidth));
  std::vector<char> data(bytes, 'x');
  const double model = latency + static_cast<double>(SendTask::cost(bytes).bytes) / bandwidth;
  const auto ours = [&] {
    return reef_bench::slowest_seconds_of([&] {
      if (acts_here()) send(progress, "shaped", waiter, std::span(data));
      if (waits_here()) receive(progress, "shaped", 0, std::span(data));
    });
  };
  const auto rival = [&] {
    return reef_bench::slowest(waits_here() ? seconds_of_hand_over(model) : 0);
  };
  reef_bench::compare(state, ours, {{"roof", [=] { return model; }}, {"hand_over", rival}},
                      {.bytes = static_cast<double>(bytes)});
  state.counters["model_ms"] = model * 1e3;
}

void register_all() {
  add_wait("thread_for_lane", thread_for_lane);
  add_wait("two_lanes_for_event", lanes_for_event);
  const ProgressOptions messages = with(Transport::messages);
  add_wait("idle", messages, idle);
  const auto message = [](Progress& progress) { transfer(progress, true); };
  add_wait("message", messages, message, of_message);
  add_wait("message_on_lane", messages, transfer_on_lane, of_message);
  add_wait("all_reduce/messages", messages, wait_for_all, of_barrier);
  add_wait("all_reduce/read", with(Transport::window), wait_for_all, of_barrier);
  add_wait("all_reduce/slots", with(Transport::window, false), wait_for_all, of_barrier);
  const auto on_link = [](Progress& progress) { transfer(progress, false); };
  add_wait("message_on_link_of_1s", shaped(wait_s, 1e9), on_link, of_message);

  for (const auto& [latency_ms, megabytes] : {std::pair{5, 250}, {1, 1000}}) {
    for (const int kib : {4, 64, 1 << 10, 16 << 10}) {
      const Seconds latency = latency_ms * 1e-3;
      const double bandwidth = megabytes * 1e6;
      const Bytes bytes = static_cast<Bytes>(kib) << 10;
      reef_bench::add(concat("link/", latency_ms, "ms_", megabytes, "MBps/", kib, "KiB"),
                      5 * rounds,
                      [=](benchmark::State& state) { link(state, latency, bandwidth, bytes); });
    }
  }
}

}  // namespace

int main(int argc, char** argv) {
  return reef_bench::run_on_ranks(argc, argv, register_all, {.most = 2});
}
