// NVTX needs no GPU: it hands its calls to whatever library NVTX_INJECTION64_PATH names, here
// nvtx_observer.cpp.

#include <dlfcn.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include <reef/comm/mpi.hpp>
#include <reef/comm/progress.hpp>
#include <reef/device/host.hpp>
#include <reef/run/executor.hpp>

#include "../schedule/programs.hpp"

#if !defined(REEF_HAS_NVTX)
#error "a build with reef::cuda has NVTX"
#endif

namespace reef::test {

namespace {

using device::Host;

/// What the observer has seen, a line each.
std::string observed() {
  const char* const path = std::getenv("NVTX_INJECTION64_PATH");
  if (path == nullptr) return "NVTX_INJECTION64_PATH is not set";
  void* const library = dlopen(path, RTLD_NOW | RTLD_NOLOAD);
  if (library == nullptr) return "NVTX did not load the observer";
  const auto read = reinterpret_cast<const char* (*)()>(dlsym(library, "reef_observed"));
  const std::string text = read == nullptr ? "no reef_observed" : read();
  dlclose(library);
  return text;
}

TEST(Nvtx, every_instruction_is_a_range_of_its_name_around_its_code) {
  Writer w;
  const StorageId x = w.storage("x");
  w.writes("Make", Lane::compute, x);
  w.reads("Copy", Lane::load, x);
  const comm::Communicator self{MPI_COMM_SELF};
  Host host(Host::Options{.threads = 1});
  comm::Progress progress(self, {});
  run::Lanes lanes(host, progress, nullptr);
  run::Handlers<Host> handlers;
  std::string within;
  for (const char* kind : {"Make", "Copy"}) {
    handlers.on_lane(kind, [&](const Instruction&) -> run::Handlers<Host>::Code {
      return [&](Host::Lane&) { within = observed(); };
    });
  }
  run::Executor executor(progress, lanes, w.program,
                         schedule::derive(w.program, schedule::place(w.program)), handlers.table());
  executor.run();
  // Copy waits for Make, whose range ends before it says that it is complete.
  EXPECT_NE(within.find("push Make\n"), std::string::npos) << within;
  EXPECT_NE(within.find("push Copy\n"), std::string::npos) << within;
  EXPECT_EQ(within.find("pop Copy\n"), std::string::npos) << within;
  EXPECT_EQ(observed(), "push Make\npop Make\npush Copy\npop Copy\n");
}

TEST(Nvtx, a_range_ends_where_an_exception_leaves_it) {
  const std::string before = observed();
  const trace::NvtxName outer("outer");
  const trace::NvtxName inner("inner, of a name that is longer than any that a profiler shows");
  try {
    const trace::NvtxRange range(outer);
    const trace::NvtxRange nested(inner);
    throw 1;
  } catch (int) {
  }
  EXPECT_EQ(observed().substr(before.size()),
            "push outer\npush inner, of a name that is longer than any that a profiler shows\n"
            "pop inner, of a name that is longer than any that a profiler shows\npop outer\n");
}

}  // namespace

}  // namespace reef::test
