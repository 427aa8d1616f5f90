// A program whose objects do not live as long as they should: lifetime_test starts it.
//
//   lifetime_program MODE
//
//   communicator, progress   one without an Environment
//   split                    a part of a communicator, when the Environment has ended
//   after                    a Progress object, when the Environment has ended
//   first                    the Environment ends before a Progress object, which is still used
//   static                   the same, and the Progress object ends after main
//   counter, task            what belongs to a Progress object ends after it
//   again                    a second Environment, while a Progress object of the first lives

#include <cstdio>
#include <exception>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <reef/comm/call_task.hpp>
#include <reef/comm/functions.hpp>
#include <reef/comm/shared_counter.hpp>

namespace {

using namespace reef::comm;

std::unique_ptr<Progress> lives_on;  // NOLINT(cppcoreguidelines-avoid-non-const-global-variables)

void sum(Progress& progress) {
  float one = 1;
  all_reduce(progress, "sum", std::span(&one, 1));
  if (progress.rank() == 0) std::printf("the sum is %g\n", one);
  std::fflush(stdout);
}

void run(const std::string& mode) {
  if (mode == "communicator") const Communicator world;
  if (mode == "progress") const Progress progress{ProgressOptions{}};
  std::optional<Environment> environment(std::in_place);
  if (mode == "split" || mode == "after") {
    const Communicator world;
    environment.reset();
    if (mode == "split") const Communicator part = world.split(0, 0, "part");
    const Progress progress(world);
  }
  auto progress = std::make_unique<Progress>(ProgressOptions{});
  if (mode == "counter" || mode == "task") {
    std::vector<float> data(10, 1);
    const AllReduceTask<float> reduces("task", std::span(data), progress->size());
    const CallTask calls("call", [] {});
    std::optional<SharedCounter> counter(std::in_place, *progress, "numbers");
    counter->next();
    sum(*progress);
    progress.reset();
    counter.reset();
  } else {
    sum(*progress);
    environment.reset();
    if (mode == "again") environment.emplace();
    sum(*progress);
    if (mode == "static") lives_on = std::move(progress);
    progress.reset();
  }
  environment.reset();
  std::puts("at the end of main");
}

}  // namespace

int main(int, char** argv) {
  try {
    run(argv[1]);
    return 0;
  } catch (const std::exception& error) {
    return report_failure("lifetime-program", error);
  }
}
