// Sessions that move to quicker servers, in virtual time: what a text takes with moves and without.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include <gtest/gtest.h>

#include <reef/swarm/core/chain_watch.hpp>
#include <reef/swarm/core/detail/draws.hpp>
#include <reef/swarm/core/detail/event_queue.hpp>
#include <reef/swarm/core/session_client.hpp>
#include <reef/swarm/core/session_router.hpp>
#include <reef/swarm/core/session_server.hpp>

namespace reef::swarm::core {
namespace {

constexpr std::int64_t timed_blocks = 4;
constexpr Seconds one_way = 0.005;

/// A server that comes at `from`, and computes `rate` rows a second through a block, many as one after the other.
struct TimedServer {
  std::string name{};
  BlockRange blocks{0, timed_blocks};
  double rate = 100;
  Seconds from = 0;
};

/// A text of some steps of one row behind a prompt, over servers that have latencies and speeds; rows are not changed
/// but by 1 each at each block.
class TimedText {
public:
  TimedText(std::vector<TimedServer> servers, std::int64_t prompt, std::int64_t steps, bool moves)
      : servers_(std::move(servers)), prompt_(prompt), steps_(steps), moves_(moves), client_(options()) {
    for (const TimedServer& server : servers_) {
      cores_.emplace(server.name,
                     SessionServer({.model = "m", .blocks = server.blocks, .row = 8, .positions = 1 << 20}));
    }
  }

  /// Returns the seconds of the whole text.
  Seconds run() {
    next_step();
    while (left_ > 0 && !queue_.empty() && queue_.now() < 1e6) queue_.next()();
    return queue_.now();
  }
  [[nodiscard]] std::int64_t moves() const { return client_.moves(); }
  [[nodiscard]] std::int64_t repairs() const { return client_.repairs(); }
  [[nodiscard]] bool is_right() const { return left_ == 0 && right_; }

private:
  [[nodiscard]] SessionClientOptions options() const {
    return {.session = "s", .model = "m", .blocks = timed_blocks, .max_length = prompt_ + steps_, .row = 8,
            .answer = 1e5, .step = 1e6};
  }

  static Bulk rows_of(std::int64_t count, std::uint64_t value) {
    const std::vector<std::uint64_t> values(static_cast<std::size_t>(count), value);
    std::vector<std::byte> bytes(values.size() * sizeof(std::uint64_t));
    std::memcpy(bytes.data(), values.data(), bytes.size());
    return std::make_shared<const std::vector<std::byte>>(std::move(bytes));
  }

  /// Tells the router of the servers that are there.
  void look() {
    std::vector<KnownServer> known;
    for (const TimedServer& server : servers_) {
      if (server.from > queue_.now()) continue;
      KnownServer one;
      one.name = server.name;
      one.blocks = server.blocks;
      one.load.rate = server.rate;
      known.push_back(one);
      router_.measured(server.name, 2 * one_way, queue_.now());
    }
    router_.set(std::move(known));
  }

  [[nodiscard]] RouteWish wish(const BlockRange& blocks) const {
    return {blocks, prompt_ + steps_, client_.chain()};
  }

  void next_step() {
    const std::int64_t rows = client_.length() == 0 ? prompt_ : 1;
    act(client_.begin(client_.length(), {}, rows, rows_of(rows, 7), queue_.now()));
  }

  void act(const SessionClient::Actions& actions) {
    for (const ask::Action& action : actions) {
      if (const auto* const send = std::get_if<ask::Send>(&action)) {
        queue_.after(one_way, [this, send = *send] {
          serve(send.to, cores_.at(send.to).receive("client", send.message, queue_.now()));
        });
      } else if (const auto* const route = std::get_if<ask::Route>(&action)) {
        queue_.after(0, [this, blocks = route->blocks] {
          look();
          act(client_.routed(blocks, router_.route(wish(blocks), queue_.now()).hops, queue_.now()));
        });
      } else if (const auto* const accepted = std::get_if<ask::Accepted>(&action)) {
        const std::int64_t rows = static_cast<std::int64_t>(accepted->rows->size() / sizeof(std::uint64_t));
        right_ = right_ && *accepted->rows == *rows_of(rows, 7 + timed_blocks);
        if (--left_ > 0) go_on();
      } else {
        right_ = false;
      }
    }
  }

  void go_on() {
    look();
    const SessionAge age{client_.length(), client_.steps(), left_};
    if (moves_) {
      const FoundRoute found = watch_.look(router_, wish({0, timed_blocks}), age, queue_.now());
      if (!found.hops.empty()) act(client_.move(found.hops, queue_.now()));
    }
    next_step();
  }

  void serve(const std::string& name, const std::vector<serve::Action>& actions) {
    for (const serve::Action& action : actions) {
      if (const auto* const send = std::get_if<serve::Send>(&action)) {
        queue_.after(one_way, [this, name, send = *send] {
          if (send.to == "client") return act(client_.receive(name, send.message, queue_.now()));
          serve(send.to, cores_.at(send.to).receive(name, send.message, queue_.now()));
        });
      } else if (const auto* const open = std::get_if<serve::OpenCache>(&action)) {
        opened_[open->session] = open->blocks.count();
      } else if (const auto* const run = std::get_if<serve::Run>(&action)) {
        const auto server =
            std::find_if(servers_.begin(), servers_.end(), [&](const TimedServer& one) { return one.name == name; });
        std::vector<std::uint64_t> values(run->bytes->size() / sizeof(std::uint64_t));
        std::memcpy(values.data(), run->bytes->data(), run->bytes->size());
        const std::int64_t blocks = opened_.at(run->session);
        const Seconds takes = static_cast<double>(blocks) * static_cast<double>(values.size()) / server->rate;
        for (std::uint64_t& value : values) value += static_cast<std::uint64_t>(blocks);
        std::vector<std::byte> bytes(run->bytes->size());
        std::memcpy(bytes.data(), values.data(), bytes.size());
        queue_.after(takes, [this, name, session = run->session,
                             rows = std::make_shared<const std::vector<std::byte>>(std::move(bytes))] {
          serve(name, cores_.at(name).computed(session, rows, queue_.now()));
        });
      }
    }
  }

  std::vector<TimedServer> servers_;
  std::int64_t prompt_;
  std::int64_t steps_;
  bool moves_;
  SessionClient client_;
  SessionRouter router_{{.blocks = timed_blocks}};
  ChainWatch watch_{};
  std::map<std::string, SessionServer> cores_{};
  std::map<std::string, std::int64_t> opened_{};  // blocks of sessions
  detail::EventQueue queue_{};
  std::int64_t left_ = steps_;
  bool right_ = true;
};

struct Taken {
  Seconds seconds = 0;
  std::int64_t moves = 0;
};

Taken taken_by(const std::vector<TimedServer>& servers, std::int64_t prompt, std::int64_t steps, bool moves) {
  TimedText text(servers, prompt, steps, moves);
  const Seconds seconds = text.run();
  EXPECT_TRUE(text.is_right());
  EXPECT_EQ(text.repairs(), 0);
  return {seconds, text.moves()};
}

TEST(SessionMoves, make_a_text_quicker_where_a_quicker_server_comes) {
  const std::vector<TimedServer> servers{{.name = "a"}, {.name = "b", .rate = 400, .from = 4}};
  const Taken with = taken_by(servers, 20, 1000, true);
  const Taken without = taken_by(servers, 20, 1000, false);
  EXPECT_EQ(with.moves, 1);
  EXPECT_LT(with.seconds, 0.6 * without.seconds);
}

TEST(SessionMoves, of_a_part_of_the_blocks_leave_the_others_where_they_are) {
  const std::vector<TimedServer> servers{
      {.name = "a", .blocks = {0, 2}},
      {.name = "b", .blocks = {2, 4}},
      {.name = "c", .blocks = {2, 4}, .rate = 1000, .from = 4}};
  const Taken with = taken_by(servers, 20, 1000, true);
  EXPECT_EQ(with.moves, 1);
  EXPECT_LT(with.seconds, 0.9 * taken_by(servers, 20, 1000, false).seconds);
}

TEST(SessionMoves, are_not_made_for_little_nor_at_the_end_nor_for_a_long_replay) {
  EXPECT_EQ(taken_by({{.name = "a"}, {.name = "b", .rate = 115, .from = 4}}, 20, 1000, true).moves, 0);
  EXPECT_EQ(taken_by({{.name = "a"}, {.name = "b", .rate = 400, .from = 11}}, 20, 250, true).moves, 0);
  EXPECT_EQ(taken_by({{.name = "a"}, {.name = "b", .rate = 150, .from = 4}}, 9000, 1000, true).moves, 0);
}

TEST(SessionMoves, of_drawn_servers_never_cost_more_than_they_save) {
  std::int64_t moves = 0;
  for (std::uint64_t seed = 1; seed <= 60; ++seed) {
    detail::Draws draws(seed);
    std::vector<TimedServer> servers{{.name = "a", .rate = draws.between(50, 300)}};
    for (const std::string name : {"b", "c", "d", "e"}) {
      const auto first = static_cast<std::int64_t>(draws.below(timed_blocks));
      const auto count = 1 + static_cast<std::int64_t>(draws.below(static_cast<std::uint64_t>(timed_blocks - first)));
      servers.push_back({name, {first, first + count}, draws.between(50, 3000), draws.between(0, 40)});
    }
    const auto prompt = static_cast<std::int64_t>(1 + draws.below(400));
    const auto steps = static_cast<std::int64_t>(10 + draws.below(1500));
    const Taken with = taken_by(servers, prompt, steps, true);
    EXPECT_LE(with.seconds, 1.0001 * taken_by(servers, prompt, steps, false).seconds) << "seed " << seed;
    moves += with.moves;
  }
  EXPECT_GT(moves, 8);
}

}  // namespace
}  // namespace reef::swarm::core
