#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include <reef/comm/task.hpp>

namespace reef::inline v0::comm {

/// Calls a function on the progress thread, in its queue's order: what must happen between two
/// messages, on host memory.
///
/// | wire     | nothing                                                                    |
/// | complete | when the function has returned                                             |
/// | cost     | everything else waits for it, so it is short and never blocks              |
/// | errors   | what it throws makes the Progress object unusable                          |
class CallTask final : public Task {
public:
  CallTask(std::string name, std::function<void()> call)
      : Task(Kind::call, std::move(name)), call_(std::move(call)) {}
  ~CallTask() override { retire(); }

private:
  void start(const detail::Station& /*station*/) override { call_(); }
  bool advance() override { return false; }
  [[nodiscard]] bool done() const override { return true; }
  void missing(std::vector<int>& ranks) const override { ranks.clear(); }
  [[nodiscard]] Bytes payload() const override { return 0; }

  std::function<void()> call_;
};

}  // namespace reef::inline v0::comm
