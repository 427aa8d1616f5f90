// A job in which rank 1 does not do what it should: failure_test starts it and looks at its end.
//
//   failure_program MODE messages|window|slots
//
// Every rank adds up four numbers, named sum0 to sum3, in the queue "reduce". Before sum2, rank 1
//   stop    stops itself (SIGSTOP)
//   kill    is killed (SIGKILL)
//   skip    leaves sum2 out and does nothing for a minute, alive
//   next    leaves sum2 out and goes on with sum3
//   leave   ends as if all were done
//   throw   ends with an exception
//   late    is later than the deadline, alive
// and with
//   pause   all ranks are stopped for longer than the deadline while they wait for rank 1, which goes
//           on after the others
//   die     the last rank is killed in the middle of a reduce-scatter to rank 0, which folds slowly
//   posted  rank 1 is stopped while the others have posted receives of what it was to send
//   claim   rank 0 is killed while the others ask it for the numbers of a counter

#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <span>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <unistd.h>

#include <reef/comm/call_task.hpp>
#include <reef/comm/functions.hpp>
#include <reef/comm/shared_counter.hpp>

namespace {

using namespace reef::comm;

void misbehave(const std::string& mode) {
  if (mode == "stop") std::raise(SIGSTOP);
  if (mode == "kill") {
    std::fputs("rank 1 is killed\n", stderr);
    std::raise(SIGKILL);
  }
  if (mode == "skip") std::this_thread::sleep_for(std::chrono::seconds(60));
  if (mode == "late") std::this_thread::sleep_for(std::chrono::seconds(6));
  if (mode == "throw") throw std::runtime_error("rank 1 has had enough");
}

/// Stops this process; a shell lets it go on.
void pause_for(const char* seconds) {
  const std::string command =
      std::string("(sleep ") + seconds + "; kill -CONT " + std::to_string(getpid()) + ") &";
  if (std::system(command.c_str()) != 0) throw std::runtime_error("no shell");
  std::raise(SIGSTOP);
}

/// The last rank owns nothing: it has read all that it will ever read long before it dies.
int die(Progress& progress) {
  constexpr std::int64_t n = 8 << 20;
  const bool owner = progress.rank() == 0;
  const std::vector<float> input(n, 1.0F);
  std::vector<float> output(owner ? n : 0);
  std::vector<std::int64_t> offsets(static_cast<std::size_t>(progress.size()) + 1, n);
  offsets[0] = 0;
  ReduceScatterTask<float> task("sum", std::span(input), std::span(output), offsets);
  task.on_folded([](std::int64_t, std::int64_t) {  // of 32, which take longer than the deadline
    std::this_thread::sleep_for(std::chrono::milliseconds(300));
  });
  barrier(progress, "start");
  progress.submit(progress.queue("reduce"), task);
  if (progress.rank() == progress.size() - 1) {
    std::this_thread::sleep_for(std::chrono::milliseconds(400));
    std::raise(SIGKILL);
  }
  progress.wait(task);
  if (owner) std::printf("all sums are there\n");
  return 0;
}

/// What is behind a posted receive is done long before it is.
int posted(Progress& progress) {
  std::vector<float> data(3000);
  barrier(progress, "start");
  if (progress.rank() == 1) std::raise(SIGSTOP);
  ReceiveTask early("early", 1, std::span(data).first(1000));
  ReceiveTask late("late", 1, std::span(data).last(1000));
  CallTask behind("behind", [] {});
  for (ReceiveTask* const task : {&early, &late}) {
    task->set_completion(Completion::posted);
    progress.submit(progress.queue("pipe"), *task);
  }
  progress.run(progress.queue("pipe"), behind);
  std::fputs("what is behind them is done\n", stderr);
  progress.wait_all();
  if (progress.rank() == 0) std::printf("all sums are there\n");
  return 0;
}

int claim(Progress& progress) {
  SharedCounter counter(progress, "numbers");
  if (progress.rank() == 0) {
    std::this_thread::sleep_for(std::chrono::milliseconds(400));
    std::raise(SIGKILL);
  }
  while (true) counter.next();
}

int work(const std::string& mode, ProgressOptions options) {
  const Environment environment;
  const Communicator world;
  options.deadline = 4;  // which nobody misses who is neither stopped nor dead
  options.operation_deadline = mode == "skip" ? 4 : 60;
  Progress progress(world, options);
  if (mode == "die") return die(progress);
  if (mode == "posted") return posted(progress);
  if (mode == "claim") return claim(progress);
  std::vector<double> data(40, world.rank());
  for (int i = 0; i < 4; ++i) {
    AllReduceTask<double> task("sum" + std::to_string(i), std::span(data), world.size());
    if (i == 2 && world.rank() == 1) {
      misbehave(mode);
      if (mode == "next") continue;
      if (mode == "leave") return 0;
    }
    const bool pause = i == 2 && mode == "pause";
    if (pause && world.rank() == 1) pause_for("6.4");
    progress.submit(progress.queue("reduce"), task);
    if (pause && world.rank() != 1) pause_for("6");
    progress.wait(task);
  }
  if (world.rank() == 0) std::printf("all sums are there\n");
  return 0;
}

}  // namespace

int main(int, char** argv) {
  ProgressOptions options;
  options.transport =
      std::strcmp(argv[2], "messages") == 0 ? Transport::messages : Transport::window;
  options.read_peers = std::strcmp(argv[2], "slots") != 0;
  try {
    return work(argv[1], options);
  } catch (const std::exception& error) {
    return report_failure("failure-program", error);
  }
}
