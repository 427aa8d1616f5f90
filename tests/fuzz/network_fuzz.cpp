// A case file of a network, read for 1, 2, 3 and 64 ranks.

#include <cstdint>

#include <reef/comm/network_file.hpp>

#include "target.hpp"

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static reef::fuzz::MemoryFile memory;
  memory.set(reef::fuzz::text_of(data, size));
  for (const int ranks : {1, 2, 3, 64}) {
    reef::fuzz::reads([&] {
      const reef::profile::Network shape = reef::comm::read_network(memory.path(), ranks);
      reef::fuzz::demand(shape.devices == ranks, "the network is for all ranks");
      for (int from = 0; from < ranks; ++from) {
        for (int to = 0; to < ranks; ++to) {
          if (from == to) continue;
          reef::fuzz::demand(shape.latency(from, to) >= 0 && shape.latency(from, to) <= 1e6 &&
                                 shape.rate(from, to) >= 1,
                             "every link can be waited for");
        }
      }
    });
  }
  return 0;
}
