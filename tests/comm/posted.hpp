#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <reef/comm/communicator.hpp>
#include <reef/comm/message.hpp>
#include <reef/comm/options.hpp>
#include <reef/comm/point_to_point.hpp>

// Posted transfers of which both ends know what they carry.

namespace reef::test {

using Memory = std::vector<std::uint8_t>;

/// What transfer `number` from one rank to another carries.
inline Memory contents(int from, int to, std::uint64_t number, std::size_t bytes) {
  Memory memory(bytes);
  for (std::size_t i = 0; i < bytes; ++i) {
    memory[i] =
        static_cast<std::uint8_t>(comm::detail::mix(i / 8 + number * 1'000'003 +
                                                    static_cast<std::uint64_t>(from * 64 + to)) >>
                                  (i % 8 * 8));
  }
  return memory;
}

/// A transfer's task with its memory, and what the memory must hold once a receive is complete.
struct Send {
  Send(const std::string& name, int from, int to, std::uint64_t number, std::size_t bytes)
      : memory(contents(from, to, number, bytes)), task(name, to, std::span(memory)) {
    task.set_completion(comm::Completion::posted);
  }
  Memory memory;
  comm::SendTask task;
};
struct Receive {
  Receive(const std::string& name, int from, int to, std::uint64_t number, std::size_t bytes)
      : wanted(contents(from, to, number, bytes)),
        memory(bytes, 0xee),
        task(name, from, std::span(memory)) {
    task.set_completion(comm::Completion::posted);
  }
  Memory wanted;
  Memory memory;
  comm::ReceiveTask task;
};

struct PostedTransfers : testing::Test {
  static constexpr Bytes piece = 1000;

  static comm::ProgressOptions options() {
    comm::ProgressOptions options;
    options.deadline = 40;
    options.heartbeat = 0.05;
    options.piece_bytes = piece;
    return options;
  }

  comm::Communicator world;
};

}  // namespace reef::test
