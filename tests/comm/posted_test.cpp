// Transfers that leave their queue when they have started: those of one rank to the others, in orders
// in which held ones would wait for each other.

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <iterator>
#include <map>
#include <span>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <comm/posted.hpp>
#include <reef/comm/call_task.hpp>
#include <reef/comm/collectives.hpp>
#include <reef/comm/functions.hpp>
#include <reef/comm/point_to_point.hpp>
#include <reef/trace/sink.hpp>

namespace {

using namespace reef;
using namespace reef::comm;
using reef::test::contents;
using reef::test::Memory;
using reef::test::Receive;
using reef::test::Send;
using testing::HasSubstr;

constexpr std::size_t sizes[] = {0, 1, 999, 1000, 1001, 54'321, 200'000, 7};

struct Posted : reef::test::PostedTransfers {
  /// For those who all wait for what never comes: whoever is the first to give up tells the others.
  static ProgressOptions impatient() {
    ProgressOptions all = options();
    all.operation_deadline = 0.4;
    all.abort_on_deadline = false;
    return all;
  }
  [[nodiscard]] int me() const { return world.rank(); }
  [[nodiscard]] int next() const { return (me() + 1) % world.size(); }
  [[nodiscard]] int previous() const { return (me() + world.size() - 1) % world.size(); }

  /// What waiting for everything says when it fails; "" if it does not.
  static std::string failure_of(Progress& progress, const std::function<void()>& part) {
    try {
      part();
      progress.wait_all();
    } catch (const std::exception& error) {
      return error.what();
    }
    return "";
  }
};

TEST_F(Posted, receives_meet_sends_that_come_in_another_order_behind_them) {
  Progress progress(world, options());
  Queue& queue = progress.queue("one");
  std::deque<Receive> receives;
  std::deque<Send> sends;
  // Each rank's sends are behind all its receives, and their orders are opposite.
  for (int round = 0; round < 3; ++round) {
    for (std::size_t i = std::size(sizes); i-- > 0;) {
      for (int peer = 0; peer < world.size(); ++peer) {
        if (peer == me()) continue;
        receives.emplace_back("m" + std::to_string(i), peer, me(), i, sizes[i]);
        progress.submit(queue, receives.back().task);
      }
    }
    for (std::size_t i = 0; i < std::size(sizes); ++i) {
      for (int peer = 0; peer < world.size(); ++peer) {
        if (peer == me()) continue;
        sends.emplace_back("m" + std::to_string(i), me(), peer, i, sizes[i]);
        progress.submit(queue, sends.back().task);
      }
    }
  }
  progress.wait_all();
  for (const Receive& one : receives) {
    EXPECT_TRUE(one.task.complete());
    EXPECT_EQ(one.memory, one.wanted) << one.task.name() << ", " << one.wanted.size() << " bytes";
  }
}

TEST_F(Posted, ones_move_where_held_ones_wait_until_the_deadline) {
  for (const Completion completion : {Completion::posted, Completion::held}) {
    const bool moves = completion == Completion::posted;
    Progress progress(world, moves ? options() : impatient());
    Receive receive("ring", previous(), me(), 0, 2500);
    Send send("ring", me(), next(), 0, 2500);
    receive.task.set_completion(completion);
    const std::string text = failure_of(progress, [&] {
      progress.submit(progress.queue("one"), receive.task);
      progress.submit(progress.queue("one"), send.task);
    });
    if (moves) {
      EXPECT_EQ(text, "");
      EXPECT_EQ(receive.memory, receive.wanted);
    } else {
      EXPECT_THAT(text, HasSubstr("receive 'ring' number 0 in queue 'one'"));
    }
  }
}

TEST_F(Posted, ones_of_one_name_meet_in_the_order_in_which_they_were_posted) {
  for (const bool receives_first : {true, false}) {
    Progress progress(world, options());
    std::deque<Receive> receives;
    std::deque<Send> sends;
    const auto submit_receives = [&] {
      for (std::size_t i = 0; i < 16; ++i) {
        receives.emplace_back("same", previous(), me(), i, sizes[i % std::size(sizes)]);
        progress.submit(progress.queue("receives"), receives.back().task);
      }
    };
    const auto submit_sends = [&] {
      for (std::size_t i = 0; i < 16; ++i) {
        sends.emplace_back("same", me(), next(), i, sizes[i % std::size(sizes)]);
        // Every other one is held: how one end leaves its queue is not the other's concern.
        if (i % 2 == 1) sends.back().task.set_completion(Completion::held);
        progress.submit(progress.queue("sends"), sends.back().task);
      }
    };
    receives_first ? submit_receives() : submit_sends();
    barrier(progress, "all of one end are under way");
    receives_first ? submit_sends() : submit_receives();
    progress.wait_all();
    for (const Receive& one : receives) EXPECT_EQ(one.memory, one.wanted);
  }
}

TEST_F(Posted, ones_let_held_tasks_and_collectives_go_on_behind_them) {
  Progress progress(world, options());
  Queue& queue = progress.queue("one");
  const float ranks = static_cast<float>(world.size());
  for (const std::size_t bytes : sizes) {
    if (bytes == 0) continue;  // nothing to wait for
    Receive early("early", previous(), me(), 1, bytes);
    std::vector<float> sums(300, 1);
    AllReduceTask<float> sum("sum", std::span(sums), world.size());
    std::vector<std::string> order;
    CallTask call("call", [&] { order.emplace_back("call"); });
    Receive held("held", previous(), me(), 2, bytes);
    held.task.set_completion(Completion::held);
    Send other("held", me(), next(), 2, bytes);
    Send late("early", me(), next(), 1, bytes);
    const auto note = [&](const char* what) {
      return [&order, what] { order.emplace_back(what); };
    };
    progress.submit(queue, early.task, {}, note("early"));
    progress.submit(queue, sum, {}, note("sum"));
    progress.submit(queue, call);
    progress.submit(queue, other.task);
    progress.submit(queue, held.task, {}, note("held"));
    progress.wait(held.task);
    EXPECT_EQ(sums, std::vector<float>(300, ranks));
    EXPECT_EQ(held.memory, held.wanted);
    EXPECT_TRUE(early.task.in_flight()) << "its other end is not submitted, on no rank";
    barrier(progress, "all have seen that");
    progress.submit(queue, late.task);
    progress.wait(early.task);
    progress.wait(late.task);
    EXPECT_EQ(early.memory, early.wanted);
    EXPECT_EQ(order, (std::vector<std::string>{"sum", "call", "held", "early"}));
  }
}

TEST_F(Posted, one_that_is_not_ready_holds_up_what_is_behind_it) {
  Progress progress(world, options());
  for (const Readiness readiness : {Readiness::polled, Readiness::told}) {
    std::atomic<bool> open{false};
    Receive receive("gated", previous(), me(), 3, 5000);
    Send send("gated", me(), next(), 3, 5000);
    CallTask behind("behind", [] {});
    progress.submit(progress.queue("receives"), receive.task);
    progress.submit(
        progress.queue("sends"), send.task, [&] { return open.load(); }, {}, readiness);
    progress.submit(progress.queue("sends"), behind);
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    EXPECT_TRUE(behind.in_flight());
    EXPECT_TRUE(send.task.in_flight());
    open = true;
    progress.wake();
    progress.wait(behind);
    progress.wait(receive.task);
    progress.wait(send.task);
    EXPECT_EQ(receive.memory, receive.wanted);
  }
}

TEST_F(Posted, ones_may_submit_the_next_when_they_are_complete) {
  Progress progress(world, options());
  constexpr std::uint64_t rounds = 40;
  Memory sent = contents(me(), next(), 0, 2100);
  Memory received(2100);
  std::uint64_t sends = 0;
  std::uint64_t right = 0;
  std::deque<SendTask> more;
  std::deque<ReceiveTask> gets;
  // A task is in flight until its completion has returned: two of each take turns.
  for (int i = 0; i < 2; ++i) {
    more.emplace_back("again", next(), std::span(sent)).set_completion(Completion::posted);
    gets.emplace_back("again", previous(), std::span(received)).set_completion(Completion::posted);
  }
  std::function<void()> sent_one = [&] {
    if (++sends < rounds) progress.submit(progress.queue("s"), more[sends % 2], {}, sent_one);
  };
  std::function<void()> got_one = [&] {
    right += received == contents(previous(), me(), 0, received.size()) ? 1 : 0;
    std::fill(received.begin(), received.end(), std::uint8_t{0});
    if (right < rounds) progress.submit(progress.queue("r"), gets[right % 2], {}, got_one);
  };
  progress.submit(progress.queue("s"), more[0], {}, sent_one);
  progress.submit(progress.queue("r"), gets[0], {}, got_one);
  progress.wait_all();
  EXPECT_EQ(sends, rounds);
  EXPECT_EQ(right, rounds);
}

TEST_F(Posted, ones_cost_and_are_traced_as_held_ones) {
  trace::Sink sink(me());
  ProgressOptions traced = options();
  traced.trace = &sink;
  Progress progress(world, traced);
  Cost cost;
  std::deque<Receive> receives;
  std::deque<Send> sends;
  for (const std::size_t bytes : sizes) {
    receives.emplace_back("t" + std::to_string(bytes), previous(), me(), 4, bytes);
    progress.submit(progress.queue("one"), receives.back().task);
  }
  for (const std::size_t bytes : sizes) {
    sends.emplace_back("t" + std::to_string(bytes), me(), next(), 4, bytes);
    progress.submit(progress.queue("one"), sends.back().task);
    cost = cost + SendTask::cost(bytes, piece);
  }
  progress.wait_all();
  EXPECT_EQ(progress.meter().of(Kind::send), cost);
  EXPECT_EQ(progress.meter().of(Kind::receive), Cost{});
  trace::Recording recording;
  std::map<std::string, std::size_t> ends;  // name and role -> bytes
  for (const trace::Span& span : sink.collect(recording)) {
    EXPECT_EQ(recording.tracks[span.track], "comm.one");
    EXPECT_EQ(span.activity, trace::Activity::communication);
    EXPECT_NE(span.message, 0U);
    EXPECT_LE(span.begin, span.end);
    ends[std::string(recording.name_of(span)) +
         (span.role == trace::Role::sends ? " sent" : " received")] = span.bytes;
  }
  EXPECT_EQ(ends.size(), 2 * std::size(sizes));
  for (const std::size_t bytes : sizes) {
    EXPECT_EQ(ends["t" + std::to_string(bytes) + " sent"], bytes);
    EXPECT_EQ(ends["t" + std::to_string(bytes) + " received"], bytes);
  }
}

TEST_F(Posted, ones_are_complete_when_progress_is_destroyed) {
  Receive receive("last", previous(), me(), 5, 54'321);
  Send send("last", me(), next(), 5, 54'321);
  {
    Progress progress(world, options());
    progress.submit(progress.queue("one"), receive.task);
    progress.submit(progress.queue("one"), send.task);
  }
  EXPECT_TRUE(receive.task.complete());
  EXPECT_TRUE(send.task.complete());
  EXPECT_EQ(receive.memory, receive.wanted);
}

// -- how they fail -----------------------------------------------------------------------------

TEST_F(Posted, a_receive_of_another_size_is_refused_while_others_are_under_way) {
  Progress progress(world, options());
  Memory memory(20'000, 0xee);
  Receive never("never", previous(), me(), 0, 10);
  ReceiveTask receive("activation", 0, std::span(memory).first(500));
  receive.set_completion(Completion::posted);
  Send send("activation", 0, 1, 0, 20'000);
  const std::string text = failure_of(progress, [&] {
    progress.submit(progress.queue("one"), never.task);
    if (me() == 0) progress.submit(progress.queue("one"), send.task);
    if (me() == 1) progress.submit(progress.queue("one"), receive);
  });
  EXPECT_THAT(text, HasSubstr("transfer 'activation' number 0"));
  EXPECT_FALSE(never.task.in_flight());
  EXPECT_FALSE(never.task.complete());
  EXPECT_THROW(progress.wait(never.task), MpiError);
  for (std::size_t i = 500; i < memory.size(); ++i) ASSERT_EQ(memory[i], 0xee);
}

TEST_F(Posted, a_deadline_names_the_one_that_nobody_answers_and_not_what_went_on_behind_it) {
  ProgressOptions patient = impatient();
  patient.operation_deadline = 3;  // in which all get as far as to what never comes
  Progress progress(world, patient);
  Receive never("never", 0, me(), 0, 3000);
  std::vector<float> sums(10, 1);
  const std::string text = failure_of(progress, [&] {
    if (me() != 0) progress.submit(progress.queue("one"), never.task);
    all_reduce(progress, "sum", std::span(sums));
    AllReduceTask<float> behind("behind", std::span(sums), world.size());
    progress.run(progress.queue("one"), behind);
    // So many that it is long no more among the last.
    for (int i = 0; i < 40; ++i) {
      CallTask call("call", [] {});
      progress.run(progress.queue("one"), call);
    }
    if (me() == 0) {  // it hears of it where it waits
      Receive other("other", 1, 0, 0, 3000);
      progress.run(progress.queue("two"), other.task);
    }
  });
  // Ranks give up at the same time, and the first is heard by the others.
  EXPECT_THAT(text, testing::AnyOf(HasSubstr("receive 'never' number 0 in queue 'one'"),
                                   HasSubstr("receive 'other' number 0 in queue 'two'")));
  EXPECT_THAT(text, HasSubstr("is alive"));
  EXPECT_THAT(text, HasSubstr("receive 'never' number 0 in queue 'one', 2.93 KiB: in flight for"));
  EXPECT_THAT(text, HasSubstr("call 'call' number 39 in queue 'one'"));
  EXPECT_EQ(sums[0], static_cast<float>(world.size() * world.size()));
}

TEST_F(Posted, what_a_completion_throws_comes_out_of_wait_and_fails_the_others) {
  Progress progress(world, options());
  Receive never("never", previous(), me(), 0, 10);
  Receive receive("thrown", previous(), me(), 0, 10);
  Send send("thrown", me(), next(), 0, 10);
  const std::string text = failure_of(progress, [&] {
    progress.submit(progress.queue("one"), never.task);
    progress.submit(progress.queue("one"), receive.task, {},
                    [] { throw std::domain_error("no such number"); });
    progress.submit(progress.queue("one"), send.task);
  });
  EXPECT_THAT(text, HasSubstr("no such number"));
  EXPECT_FALSE(never.task.in_flight());
  EXPECT_FALSE(receive.task.complete());
}

TEST_F(Posted, one_that_dies_under_way_ends_the_progress_object_not_the_memory) {
  Progress progress(world, options());
  try {
    Receive dying("dying", previous(), me(), 0, 3000);
    progress.submit(progress.queue("one"), dying.task);
    CallTask behind("behind", [] {});
    progress.run(progress.queue("one"), behind);  // it has left its queue
  } catch (const MpiError&) {
    // Another rank's task died first, and this one was told.
  }
  CallTask next("next", [] {});
  EXPECT_THROW(progress.submit(progress.queue("one"), next), MpiError);
}

TEST_F(Posted, ones_fail_when_a_rank_gives_up) {
  Progress progress(world, options());
  Receive never("never", previous(), me(), 0, 3000);
  const std::string text = failure_of(progress, [&] {
    progress.submit(progress.queue("one"), never.task);
    barrier(progress, "they are under way");
    if (me() == 0) {
      progress.give_up(std::make_exception_ptr(std::runtime_error("the lane broke")));
    }
  });
  EXPECT_THAT(text, HasSubstr("the lane broke"));
  EXPECT_FALSE(never.task.in_flight());
}

}  // namespace
