// Texts of a model whose blocks servers compute have the bits of an nn::Session, whichever servers come and go.

#include <reef/swarm/client/session.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <future>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <reef/core/random.hpp>
#include <reef/core/text.hpp>
#include <reef/device/host.hpp>
#include <reef/nn/beam_search.hpp>
#include <reef/nn/generate.hpp>
#include <reef/nn/host.hpp>
#include <reef/nn/speculate.hpp>
#include <reef/swarm/log/log_server.hpp>
#include <reef/swarm/log/remote_log.hpp>
#include <reef/swarm/serve/block_server.hpp>
#include <reef/swarm/serve/model_blocks.hpp>
#include <reef/swarm/serve/served_span.hpp>
#include <support/small_language_models.hpp>
#include <support/temporary_folder.hpp>

namespace reef::swarm {
namespace {

using device::Host;
using testing::HasSubstr;
using ServedGraph = graph::Graph<Host, float>;
using ServedTokens = std::vector<std::int32_t>;

constexpr test::SmallLanguageModel served{.layers = 4, .context = 300};

/// Returns whether it has become so, in a hundred seconds at most.
template <class F>
bool served_becomes_true(const F& so) {
  for (int tries = 0; tries < 5000; ++tries) {
    if (so()) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  return false;
}

/// Blocks that take 20 ms longer for each pass.
class SlowBlocks final : public SessionBlocks {
public:
  explicit SlowBlocks(std::unique_ptr<SessionBlocks> blocks) : blocks_(std::move(blocks)) {}

  void open(const core::serve::OpenCache& session) override { blocks_->open(session); }
  void cut(const std::string& session, std::int64_t length) override { blocks_->cut(session, length); }
  void close(const std::string& session) override { blocks_->close(session); }
  std::vector<Bulk> run(std::span<const core::serve::Run> steps) override {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    return blocks_->run(steps);
  }

private:
  std::unique_ptr<SessionBlocks> blocks_;
};

enum class ServedSpeed { quick, slow };

const std::vector<ServedTokens>& served_prompts() {
  static const std::vector<ServedTokens> prompts{{5, 17, 30, 2}, {1}, ServedTokens(70, 9)};
  return prompts;
}

/// A store, and servers of a model's blocks in this process.
class ServedModelCase {
public:
  explicit ServedModelCase(const ServedGraph& graph) : graph_(graph) {}

  void start(const std::string& name, BlockRange blocks, std::int64_t positions = 1024,
             const std::string& numerics = "n", ServedSpeed speed = ServedSpeed::quick) {
    auto own = std::make_unique<ModelBlocks<Host, float>>(
        host_, graph_, ModelBlocksOptions{.blocks = blocks, .positions = positions, .longest = 256, .rows = 16});
    test::set_drawn_weights(*own, graph_.dag());
    BlockServerOptions options;
    options.net = network(name);
    options.net.listen = "127.0.0.1:0";
    options.model = "m";
    options.blocks = blocks;
    options.row = own->row();
    options.numerics = numerics;
    options.positions = positions;
    options.longest = 256;
    std::unique_ptr<SessionBlocks> blocks_of_model = std::move(own);
    if (speed == ServedSpeed::slow) blocks_of_model = std::make_unique<SlowBlocks>(std::move(blocks_of_model));
    servers_[name] = std::make_unique<BlockServer>(options, std::move(blocks_of_model), store_);
    EXPECT_TRUE(served_becomes_true([&] { return servers_[name]->announced(); }));
  }
  void stop(const std::string& name) { servers_.erase(name); }
  /// Stops the server by which a client's first session has a block: which one that is, measured times decide.
  void stop_server_of(const RowSessions& sessions, std::int64_t block) {
    for (const core::RouteHop& hop : sessions.chain(1)) {
      if (hop.blocks.first <= block && block < hop.blocks.last) return stop(hop.server.substr(0, hop.server.find('/')));
    }
    ADD_FAILURE() << "the first session has no block " << block;
  }
  void drain(const std::string& name) { servers_.at(name)->drain(); }
  [[nodiscard]] const BlockServer& server(const std::string& name) const { return *servers_.at(name); }

  [[nodiscard]] RowSessionsOptions client(const std::string& name) const {
    const nn::BlockCuts cuts = nn::block_cuts(graph_.dag());
    RowSessionsOptions options;
    options.net = network(name);
    options.model = "m";
    options.numerics = "n";
    options.blocks = cuts.count();
    options.row = static_cast<Bytes>(graph_.dag().tensor_at(cuts.tensors[0]).spec.shape.last()) * sizeof(float);
    options.max_length = 200;
    options.step = 100;
    return options;
  }

  /// Continues prompts over the servers; `on_token` is called with the number of tokens so far.
  std::vector<nn::Continuation> generate(RowSessions& sessions, const std::vector<ServedTokens>& prompts,
                                         const nn::GenerateOptions& options,
                                         const std::function<void(std::size_t)>& on_token = {}) {
    Session<Host, float> session(host_, graph_, {.positions = 200, .rows = 16}, sessions);
    test::set_drawn_weights(session, graph_.dag());
    std::size_t count = 0;
    return nn::generate(session, std::span<const ServedTokens>(prompts), options, [&](std::size_t, std::int32_t) {
      if (on_token) on_token(++count);
      return true;
    });
  }
  /// Continues the prompts with a draft that proposes `token` of a text and a place in it; `on_token` is called behind
  /// each token.
  nn::Speculation speculate(RowSessions& sessions,
                            const std::function<std::int32_t(std::size_t, std::size_t)>& token,
                            const nn::SpeculateOptions& how, const nn::GenerateOptions& options,
                            const std::function<void()>& on_token) {
    struct Told {
      const std::function<std::int32_t(std::size_t, std::size_t)>& token;
      std::vector<ServedTokens> propose(std::span<const nn::DraftRequest> requests, const nn::GenerateOptions&) {
        std::vector<ServedTokens> proposals(requests.size());
        for (std::size_t k = 0; k < requests.size(); ++k) {
          for (std::int64_t i = 0; i < requests[k].most; ++i)
            proposals[k].push_back(token(requests[k].text, requests[k].tokens.size() + static_cast<std::size_t>(i)));
        }
        return proposals;
      }
    } draft{token};
    Session<Host, float> session(host_, graph_, {.positions = 200, .rows = 16}, sessions);
    test::set_drawn_weights(session, graph_.dag());
    return nn::speculate(session, draft, std::span<const ServedTokens>(served_prompts()), how, options,
                         [&](std::size_t, std::int32_t) {
                           on_token();
                           return true;
                         });
  }
  /// Continues prompts on this machine alone.
  std::vector<nn::Continuation> reference(const std::vector<ServedTokens>& prompts,
                                          const nn::GenerateOptions& options) {
    nn::Session<Host, float> session(host_, graph_,
                                     {.positions = 200, .sequences = static_cast<std::int64_t>(prompts.size())});
    test::set_drawn_weights(session, graph_.dag());
    return nn::generate(session, std::span<const ServedTokens>(prompts), options);
  }

  [[nodiscard]] Presence& store() { return store_; }

private:
  static EndpointOptions network(const std::string& name) {
    EndpointOptions net;
    net.job = "served";
    net.name = name;
    net.plain_loopback = true;
    return net;
  }

  ServedGraph graph_;
  test::TemporaryFolder folder_;
  LogServer log_{{.folder = folder_ / "log"}};
  RemoteLog store_{log_.url()};
  Host host_{{.threads = 2}};
  std::map<std::string, std::unique_ptr<BlockServer>> servers_{};
};

void expect_equal(const std::vector<nn::Continuation>& a, const std::vector<nn::Continuation>& b) {
  ASSERT_EQ(a.size(), b.size());
  for (std::size_t i = 0; i < a.size(); ++i) {
    EXPECT_EQ(a[i].tokens, b[i].tokens) << "text " << i;
    EXPECT_EQ(a[i].log_probabilities, b[i].log_probabilities) << "text " << i;
  }
}

TEST(ServedSession, has_the_bits_of_one_machine_for_each_family) {
  for (const ServedGraph& graph : {served.gpt(), served.llama(), served.bloom(), served.neox()}) {
    ServedModelCase model(graph);
    model.start("a", {0, 2});
    model.start("b", {2, 4});
    RowSessions sessions(model.client("client"), model.store());
    const nn::GenerateOptions options{.tokens = 20, .temperature = 0.9, .seed = 3};
    expect_equal(model.generate(sessions, served_prompts(), options), model.reference(served_prompts(), options));
    EXPECT_EQ(sessions.repairs(), 0);
  }
}

TEST(ServedSession, has_the_same_bits_where_servers_end_in_the_middle) {
  ServedModelCase model(served.llama());
  model.start("a", {0, 2});
  model.start("b", {2, 4});
  model.start("c", {0, 1});
  model.start("d", {1, 3});
  model.start("e", {3, 4});
  RowSessionsOptions client = model.client("client");
  client.answer = 1000;  // longer than a step may take: what is lost is known by connections, and all else arrives
  RowSessions sessions(client, model.store());
  const nn::GenerateOptions options{.tokens = 40, .temperature = 0.9, .seed = 4};
  const auto found = model.generate(sessions, served_prompts(), options, [&](std::size_t count) {
    if (count == 20) model.stop_server_of(sessions, 3);
    if (count == 50) model.stop_server_of(sessions, 0);
    if (count == 70) model.start("f", {0, 4});
    if (count == 90) model.stop_server_of(sessions, 2);
  });
  expect_equal(found, model.reference(served_prompts(), options));
  EXPECT_GE(sessions.repairs(), 3);
}

TEST(ServedSession, moves_from_a_server_that_drains_without_a_repair_to_the_same_bits) {
  ServedModelCase model(served.llama());
  model.start("a", {0, 2});
  model.start("b", {2, 4});
  RowSessions sessions(model.client("client"), model.store());
  const nn::GenerateOptions options{.tokens = 40, .temperature = 0.9, .seed = 4};
  const auto found = model.generate(sessions, served_prompts(), options, [&](std::size_t count) {
    if (count == 20) {
      model.start("c", {1, 4});
      model.drain("b");
      EXPECT_TRUE(served_becomes_true([&] { return model.server("b").drained(); }));
      model.stop("b");
    }
    if (count == 60) {  // nobody else has block 0: the sessions stay
      model.drain("a");
    }
  });
  expect_equal(found, model.reference(served_prompts(), options));
  EXPECT_EQ(sessions.repairs(), 0);
  EXPECT_GE(sessions.moves(), 3);  // of each text one
}

TEST(ServedSession, moves_to_a_quicker_server_that_comes_and_begins_there_if_it_is_there) {
  ServedModelCase model(served.gpt());
  model.start("a", {0, 4}, 1024, "n", ServedSpeed::slow);
  const std::vector<ServedTokens> prompts{{5, 17, 30, 2}};
  const nn::GenerateOptions options{.tokens = 60, .temperature = 0.9, .seed = 4};
  std::string told;
  RowSessionsOptions client = model.client("client");
  client.report = [&](const std::string& line) { told += line; };
  {
    RowSessions sessions(client, model.store());
    const auto found = model.generate(sessions, prompts, options, [&](std::size_t count) {
      if (count != 20) return;
      EXPECT_EQ(sessions.moves(), 0);
      model.start("b", {0, 4});
      EXPECT_TRUE(served_becomes_true([&] { return sessions.moves() == 1; }));
    });
    expect_equal(found, model.reference(prompts, options));
    EXPECT_EQ(sessions.repairs(), 0);
  }
  EXPECT_THAT(told, HasSubstr("moves, since others are quicker: [0, 4) b/"));
  told.clear();
  {
    RowSessions sessions(client, model.store());
    model.generate(sessions, prompts, {.tokens = 2});
  }
  EXPECT_THAT(told, HasSubstr("blocks [0, 4): [0, 4) b/"));
}

TEST(ServedSession, asks_servers_of_another_numerics_class_where_no_other_has_a_block_unless_it_is_not_to) {
  ServedModelCase model(served.gpt());
  model.start("a", {0, 3});
  model.start("b", {0, 4}, 1024, "m");
  const nn::GenerateOptions options{.tokens = 5, .temperature = 0};
  RowSessionsOptions strict = model.client("strict");
  strict.same_bits = true;
  strict.step = 1.5;
  RowSessions waiting(strict, model.store());
  EXPECT_THROW(model.generate(waiting, served_prompts(), options), Error);
  RowSessionsOptions client = model.client("client");
  std::string told;
  client.report = [&](const std::string& line) { told += line; };
  {
    RowSessions sessions(client, model.store());
    model.generate(sessions, served_prompts(), options);
  }
  EXPECT_THAT(told, HasSubstr("bits may differ"));
}

TEST(ServedSession, is_routed_by_what_servers_announce) {
  ServedModelCase model(served.gpt());
  model.start("a", {0, 4});
  std::optional<ServedSpan> span;
  const auto is_announced = [&] {
    std::promise<Presences> read;
    model.store().presences([&](const Presences& all) { read.set_value(all); });
    for (const PresentKey& key : read.get_future().get().keys) span = served_span_of(key.value);
    return span.has_value();
  };
  ASSERT_TRUE(served_becomes_true(is_announced));
  EXPECT_GT(span->load.rate.value_or(0), 0);
  EXPECT_GE(span->load.batch, 1);
  EXPECT_EQ(span->load.room, 4 * 1024);
  EXPECT_FALSE(span->draining);
  EXPECT_EQ(served_span_of(text_of(*span)), span);
  model.drain("a");
  EXPECT_TRUE(served_becomes_true([&] { return is_announced() && span->draining; }));
  EXPECT_TRUE(model.server("a").drained());
}

TEST(ServedSession, has_the_same_bits_with_drafts_where_servers_end_in_the_middle) {
  for (const ServedGraph& graph : {served.gpt(), served.bloom()}) {
    ServedModelCase model(graph);
    const nn::GenerateOptions options{.tokens = 40, .temperature = 0.9, .top_k = 5, .seed = 4};
    const auto wanted = model.reference(served_prompts(), options);
    for (const std::optional<std::int64_t> d : {std::optional<std::int64_t>(3), std::optional<std::int64_t>()}) {
      model.start("a", {0, 2});
      model.start("b", {2, 4});
      model.start("c", {0, 1});
      model.start("d", {1, 4});
      model.start("e", {0, 4});  // each block has three servers
      RowSessionsOptions client = model.client("client");
      client.answer = 1000;
      RowSessions sessions(client, model.store());
      std::mt19937 random(3);
      const auto likely = [&](std::size_t text, std::size_t place) {
        const std::size_t at = place - served_prompts()[text].size();
        return random() % 4 > 0 ? wanted[text].tokens[at] : static_cast<std::int32_t>(random() % 37);
      };
      std::size_t count = 0;
      const nn::Speculation found = model.speculate(sessions, likely, {.tokens = d}, options, [&] {
        ++count;
        if (count == 30) model.stop_server_of(sessions, 3);
        if (count == 60) model.stop_server_of(sessions, 0);
      });
      expect_equal(found.continuations, wanted);
      EXPECT_GT(found.accepted, 0);
      EXPECT_LT(found.accepted, found.proposed);
      EXPECT_GE(sessions.repairs(), 2);
      for (const char* const name : {"a", "b", "c", "d", "e"}) model.stop(name);
    }
  }
}

/// A session that tells before each step that it is taken.
class ToldSession : public Session<Host, float> {
public:
  using Session<Host, float>::Session;

  nn::Logits append(std::span<const nn::Append> appends) {
    if (before_step) before_step();
    return Session<Host, float>::append(appends);
  }
  std::function<void()> before_step{};
};

TEST(ServedSession, has_the_beams_of_one_machine_where_servers_end_in_the_middle) {
  for (const ServedGraph& graph : {served.gpt(), served.llama()}) {
    ServedModelCase model(graph);
    model.start("a", {0, 2}, 2048);  // a beam takes the positions of a text
    model.start("b", {2, 4}, 2048);
    model.start("c", {0, 1}, 2048);
    model.start("d", {1, 4}, 2048);
    model.start("e", {0, 4}, 2048);
    RowSessionsOptions client = model.client("client");
    client.answer = 1000;
    RowSessions sessions(client, model.store());
    Host host({.threads = 1});
    ToldSession session(host, graph, {.positions = 200, .rows = 16}, sessions);
    test::set_drawn_weights(session, graph.dag());
    nn::Session<Host, float> alone(host, graph, {.positions = 200, .sequences = 5});
    test::set_drawn_weights(alone, graph.dag());
    const ServedTokens prompt(67, 9);  // beams part in the last page of the prompt, and behind it
    int step = 0;
    session.before_step = [&] {
      ++step;
      if (step == 7) model.stop_server_of(sessions, 0);
      if (step == 15) model.stop_server_of(sessions, 3);
    };
    for (const nn::BeamOptions& options :
         {nn::BeamOptions{.beams = 4, .tokens = 30}, nn::BeamOptions{.beams = 5, .tokens = 12, .ends = {3, 8}}}) {
      const auto found = nn::beam_search(session, prompt, options);
      const auto wanted = nn::beam_search(alone, prompt, options);
      ASSERT_EQ(found.size(), wanted.size());
      for (std::size_t i = 0; i < found.size(); ++i) {
        EXPECT_EQ(found[i].tokens, wanted[i].tokens);
        EXPECT_EQ(found[i].log_probability, wanted[i].log_probability);
      }
    }
    EXPECT_GE(sessions.repairs(), 2);
  }
}

TEST(ServedSession, of_a_batch_refuses_what_cannot_be_and_goes_on) {
  ServedModelCase model(served.gpt());
  model.start("a", {0, 4});
  RowSessions sessions(model.client("client"), model.store());
  Host host({.threads = 1});
  const ServedGraph graph = served.gpt();
  Session<Host, float> session(host, graph, {.positions = 200, .rows = 16}, sessions);
  test::set_drawn_weights(session, graph.dag());
  EXPECT_THROW(session.open(0), OptionError);
  EXPECT_THROW(session.open(std::int64_t{1} << 40), OptionError);
  const int batch = session.open(2);
  const auto appended = [&](const ServedTokens& tokens, bool all = false) {
    const nn::Logits logits = session.append({{batch, tokens, all}});
    return std::vector<float>(logits.values.begin(), logits.values.end());
  };
  const auto part = [](const std::vector<float>& rows, std::size_t from, std::size_t count) {
    return std::vector<float>(rows.begin() + static_cast<std::ptrdiff_t>(37 * from),
                              rows.begin() + static_cast<std::ptrdiff_t>(37 * (from + count)));
  };
  EXPECT_THROW(appended({1, 2, 3}), OptionError);
  const auto all = appended({1, 2, 3, 4, 5, 6}, true);  // 1 2 3, and 4 5 6
  EXPECT_EQ(all.size(), 6 * 37U);
  EXPECT_EQ(session.length(batch), 3);
  EXPECT_THROW(session.reorder(batch, std::vector<std::int64_t>{0}), OptionError);
  EXPECT_THROW(session.reorder(batch, std::vector<std::int64_t>{0, 2}), OptionError);
  EXPECT_THROW(session.reorder(batch + 9, std::vector<std::int64_t>{0, 1}), OptionError);
  // Cut, exchanged twice and then made the second one alone: 4 and 4.
  session.truncate(batch, 1);
  session.reorder(batch, std::vector<std::int64_t>{1, 0});
  session.reorder(batch, std::vector<std::int64_t>{1, 0});
  session.reorder(batch, std::vector<std::int64_t>{1, 1});
  const auto next = appended({5, 5});
  EXPECT_EQ(part(next, 0, 1), part(all, 4, 1));
  EXPECT_EQ(part(next, 1, 1), part(all, 4, 1));
  // An order is of one step.
  const auto last = appended({6, 7});
  EXPECT_EQ(part(last, 0, 1), part(all, 5, 1));
  EXPECT_NE(part(last, 1, 1), part(all, 5, 1));
}

TEST(ServedSession, that_is_to_do_two_steps_at_once_does_none_and_keeps_its_order) {
  ServedModelCase model(served.gpt());
  model.start("a", {0, 4});
  RowSessions sessions(model.client("client"), model.store());
  Host host({.threads = 1});
  const ServedGraph graph = served.gpt();
  Session<Host, float> session(host, graph, {.positions = 200, .rows = 16}, sessions);
  test::set_drawn_weights(session, graph.dag());
  EXPECT_THROW(session.open(max_session_batch + 1), OptionError);
  const int batch = session.open(2);
  const ServedTokens tokens{1, 2, 4, 5};  // 1 2, and 4 5
  const nn::Logits both = session.append({{batch, tokens, true}});
  const std::vector<float> first(both.row(1).begin(), both.row(1).end());
  const std::vector<float> second(both.row(3).begin(), both.row(3).end());
  session.truncate(batch, 1);
  session.reorder(batch, std::vector<std::int64_t>{1, 0});
  const ServedTokens exchanged{5, 2};
  EXPECT_THROW(session.append({{batch, exchanged}, {batch, exchanged}}), OptionError);
  const nn::Logits next = session.append({{batch, exchanged}});
  EXPECT_EQ(std::vector<float>(next.row(0).begin(), next.row(0).end()), second);
  EXPECT_EQ(std::vector<float>(next.row(1).begin(), next.row(1).end()), first);
}

TEST(ServedSession, waits_for_a_server_of_blocks_that_nobody_has_and_goes_on) {
  ServedModelCase model(served.gpt());
  model.start("a", {0, 3});
  std::thread later([&] {
    std::this_thread::sleep_for(std::chrono::seconds(1));
    model.start("b", {3, 4});
  });
  RowSessions sessions(model.client("client"), model.store());
  const nn::GenerateOptions options{.tokens = 5, .temperature = 0};
  const auto found = model.generate(sessions, served_prompts(), options);
  later.join();
  expect_equal(found, model.reference(served_prompts(), options));
}

TEST(ServedSession, a_step_that_nobody_can_compute_says_for_whom_it_waits) {
  ServedModelCase model(served.gpt());
  model.start("a", {0, 3});
  RowSessionsOptions options = model.client("client");
  options.step = 1.5;
  RowSessions sessions(options, model.store());
  try {
    model.generate(sessions, served_prompts(), {.tokens = 5});
    FAIL() << "nobody has block 3";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("for a server of the blocks [0, 4)"));
  }
}

TEST(ServedSession, leaves_no_session_behind) {
  ServedModelCase model(served.gpt());
  model.start("a", {0, 4});
  {
    RowSessions sessions(model.client("client"), model.store());
    model.generate(sessions, served_prompts(), {.tokens = 3});
  }
  for (int tries = 0; tries < 1000 && model.server("a").sessions() > 0; ++tries)
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_EQ(model.server("a").sessions(), 0u);
}

}  // namespace
}  // namespace reef::swarm
