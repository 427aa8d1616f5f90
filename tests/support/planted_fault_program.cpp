// Does one thing that a sanitizer must report: planted_fault race | leak | overrun | overflow | none.

#include <atomic>
#include <cstdio>
#include <limits>
#include <memory>
#include <string_view>
#include <thread>

#include <reef/device/host.hpp>

namespace {

/// A lane and the thread that submitted to it write one number, the lane first. What says so to the
/// other is relaxed, so that nothing orders the two.
int race() {
  reef::device::Host device({.threads = 1});
  reef::device::Host::Lane lane(device, "compute");
  int number = 0;
  std::atomic<bool> written = false;
  lane.submit([&](reef::device::Host::Lane&) {
    ++number;
    written.store(true, std::memory_order_relaxed);
  });
  while (!written.load(std::memory_order_relaxed)) std::this_thread::yield();
  ++number;
  lane.synchronize();
  return number;
}

/// Lost once this function returns: not even a register holds it then.
__attribute__((noinline)) int leak() {
  auto number = std::make_unique<int>(7);
  const volatile int* const lost = number.release();
  return *lost;
}

/// The element behind a buffer that a lane writes.
int overrun() {
  reef::device::Host device({.threads = 1});
  reef::device::Host::Lane lane(device, "compute");
  const auto numbers = std::make_unique<int[]>(8);
  lane.submit([at = numbers.get()](reef::device::Host::Lane&) { at[8] = 1; });
  lane.synchronize();
  return numbers[0];
}

int overflow() {
  volatile int largest = std::numeric_limits<int>::max();
  return largest + 1;
}

}  // namespace

int main(int argc, char** argv) {
  const std::string_view fault = argc == 2 ? argv[1] : "";
  int number = 0;
  if (fault == "race") {
    number = race();
  } else if (fault == "leak") {
    number = leak();
  } else if (fault == "overrun") {
    number = overrun();
  } else if (fault == "overflow") {
    number = overflow();
  } else if (fault != "none") {
    std::fprintf(stderr, "planted_fault race | leak | overrun | overflow | none\n");
    return 2;
  }
  std::printf("came to its end with %d\n", number);
}
