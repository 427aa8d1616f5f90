// Messages of models whose nodes are anywhere: chains and stars against folds of random numbers, ties against their
// rule.

#include <reef/graph/remote_messages.hpp>

#include <algorithm>
#include <cstddef>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include <reef/graph/remote_edges.hpp>
#include <reef/graph/segment.hpp>

#include "random_dag.hpp"

namespace reef::test {
namespace {

using graph::Dag;
using graph::GradientStep;
using graph::GradientTerm;
using graph::RemoteMessage;
using graph::RemoteMessages;

constexpr int message_rounds = 400;

struct Placed {
  explicit Placed(int seed) : draws(static_cast<std::uint64_t>(seed)) {
    dag = random_dag(draws, 1 + draws.below(14));
    places = random_places(draws, dag.nodes.size(), 1 + draws.below(4));
  }
  [[nodiscard]] int place(int node) const { return places[static_cast<std::size_t>(node)]; }
  [[nodiscard]] int home(int tensor) const { return place(dag.tensor_at(tensor).producer); }
  [[nodiscard]] RemoteMessages messages() const { return graph::remote_messages(dag, places); }

  Draws draws;
  Dag dag;
  std::vector<int> places;
};

std::vector<GradientTerm> flat(const std::vector<GradientStep>& steps) {
  std::vector<GradientTerm> terms;
  for (const GradientStep& step : steps) {
    terms.insert(terms.end(), step.adds.begin(), step.adds.end());
  }
  return terms;
}

/// As a backward over the whole model meets them.
std::vector<GradientTerm> descending(std::vector<GradientTerm> terms) {
  std::sort(terms.begin(), terms.end(), [](const GradientTerm& a, const GradientTerm& b) {
    return a.node != b.node ? a.node > b.node : a.input < b.input;
  });
  return terms;
}

using Values = std::map<std::pair<int, int>, float>;

float fold(const std::vector<GradientTerm>& terms, Values& values, Draws& draws) {
  float sum = 0;
  for (std::size_t i = 0; i < terms.size(); ++i) {
    const auto [value, is_new] = values.try_emplace({terms[i].node, terms[i].input}, 0.F);
    if (is_new) value->second = draws.real() / 3;
    sum = i == 0 ? value->second : sum + value->second;
  }
  return sum;
}

TEST(RemoteMessages, of_a_star_have_the_bits_of_one_process_where_it_says_so_and_nowhere_else) {
  int serial = 0;
  int other = 0;
  for (int seed = 0; seed < message_rounds; ++seed) {
    SCOPED_TRACE(seed);
    Placed model(seed);
    for (const graph::StarSum& sum : model.messages().sums) {
      const std::vector<GradientTerm> terms = flat(sum.terms);
      EXPECT_GT(terms.size(), 1U);
      EXPECT_EQ(sum.place, model.home(sum.tensor));
      bool same = true;
      for (int draw = 0; draw < 60; ++draw) {
        Values values;
        const float reference = fold(descending(terms), values, model.draws);
        float nested = 0;
        for (std::size_t t = 0; t < sum.terms.size(); ++t) {
          const float part = fold(sum.terms[t].adds, values, model.draws);
          nested = t == 0 ? part : nested + part;
        }
        same = same && nested == reference;
      }
      EXPECT_EQ(sum.serial_bits, same) << model.dag.tensor_at(sum.tensor).name;
      (sum.serial_bits ? serial : other) += 1;
    }
  }
  EXPECT_GT(serial, 50);
  EXPECT_GT(other, 50);
}

TEST(RemoteMessages, of_a_star_are_one_of_each_place_whose_first_terms_descend) {
  for (int seed = 0; seed < message_rounds; ++seed) {
    SCOPED_TRACE(seed);
    const Placed model(seed);
    const RemoteMessages found = model.messages();
    for (const graph::StarSum& sum : found.sums) {
      std::set<int> senders;
      int before = model.dag.node_count();
      for (const GradientStep& term : sum.terms) {
        EXPECT_LE(term.adds.front().node, before);
        before = term.adds.front().node;
        EXPECT_EQ(term.adds, descending(term.adds));
        if (term.place == sum.place) {
          EXPECT_EQ(term.adds.size(), 1U) << "its own are added one by one";
          continue;
        }
        EXPECT_TRUE(senders.insert(term.place).second);
        const RemoteMessage message{sum.tensor, term.place, sum.place,
                                    model.dag.tensor_at(sum.tensor).spec.bytes()};
        EXPECT_EQ(std::count(found.backward.begin(), found.backward.end(), message), 1);
      }
    }
    for (const RemoteMessage& back : found.backward) {
      const RemoteMessage there{back.of, back.to, back.from, back.bytes};
      EXPECT_EQ(std::count(found.forward.begin(), found.forward.end(), there), 1)
          << "a gradient comes from where its tensor has gone";
    }
    Bytes sum = 0;
    for (const auto& [pair, bytes] : found.bytes()) sum += bytes;
    for (const auto* list : {&found.forward, &found.backward}) {
      for (const RemoteMessage& message : *list) sum -= message.bytes;
    }
    EXPECT_EQ(sum, 0U);
  }
}

TEST(RemoteMessages, list_each_tensor_with_several_terms_and_as_a_chain_where_places_are_several) {
  for (int seed = 0; seed < message_rounds; ++seed) {
    SCOPED_TRACE(seed);
    const Placed model(seed);
    const graph::GradientFlow flow = graph::gradient_flow(model.dag);
    std::vector<int> sums;
    std::vector<int> chained;
    for (std::size_t t = 0; t < model.dag.tensors.size(); ++t) {
      std::size_t terms = 0;
      std::set<int> places;
      for (const int n : model.dag.tensors[t].consumers) {
        if (model.dag.tensors[t].producer < 0 || !flow.tensors[t]) continue;
        if (!flow.nodes[static_cast<std::size_t>(n)]) continue;
        ++terms;
        places.insert(model.place(n));
      }
      if (terms > 1) sums.push_back(static_cast<int>(t));
      if (places.size() > 1) chained.push_back(static_cast<int>(t));
    }
    const RemoteMessages found = model.messages();
    ASSERT_EQ(found.sums.size(), sums.size());
    for (std::size_t s = 0; s < sums.size(); ++s) EXPECT_EQ(found.sums[s].tensor, sums[s]);
    ASSERT_EQ(found.chained.size(), chained.size());
    for (std::size_t c = 0; c < chained.size(); ++c) {
      EXPECT_EQ(found.chained[c].tensor, chained[c]);
    }
  }
}

TEST(RemoteMessages, of_a_chain_are_the_edges_of_a_trainer_and_add_as_one_process_does) {
  for (int seed = 0; seed < message_rounds; ++seed) {
    SCOPED_TRACE(seed);
    const Placed model(seed);
    const RemoteMessages found = model.messages();
    for (const graph::ChainedSum& sum : found.chained) {
      const std::vector<GradientTerm> terms = flat(sum.steps);
      EXPECT_EQ(terms, descending(terms));
      std::vector<RemoteMessage> edges;
      for (const graph::RemoteEdge& edge : graph::remote_edges(model.dag, model.places)) {
        if (edge.tensor != sum.tensor || !edge.gradient) continue;
        edges.push_back({edge.tensor, model.place(edge.from), model.place(edge.to),
                         model.dag.tensor_at(edge.tensor).spec.bytes()});
      }
      EXPECT_EQ(sum.messages, edges);
      for (std::size_t s = 0; s < sum.messages.size(); ++s) {
        EXPECT_EQ(sum.messages[s].from, sum.steps[s].place);
        const bool is_last = s + 1 == sum.messages.size();
        EXPECT_EQ(sum.messages[s].to, is_last ? model.home(sum.tensor) : sum.steps[s + 1].place);
      }
      for (const GradientStep& step : sum.steps) {
        for (const GradientTerm& term : step.adds) EXPECT_EQ(model.place(term.node), step.place);
      }
    }
  }
}

TEST(RemoteMessages, are_as_many_chained_as_to_the_star_where_places_have_nodes_in_a_row) {
  for (int seed = 0; seed < message_rounds; ++seed) {
    SCOPED_TRACE(seed);
    Placed model(seed);
    std::sort(model.places.begin(), model.places.end());
    std::size_t chained = 0;
    for (const graph::RemoteEdge& edge : graph::remote_edges(model.dag, model.places)) {
      chained += edge.gradient ? 1 : 0;
    }
    EXPECT_EQ(model.messages().backward.size(), chained);
  }
}

TEST(RemoteMessages, of_ties_lead_to_the_place_of_the_first_use_and_back) {
  int remote = 0;
  for (int seed = 0; seed < message_rounds; ++seed) {
    SCOPED_TRACE(seed);
    Placed model(seed);
    model.dag.element = Element::bfloat16;  // of which gradients are fp32
    for (graph::Parameter& parameter : model.dag.parameters) {
      parameter.spec.element = Element::bfloat16;
    }
    std::map<int, std::vector<int>> uses;  // by parameter
    for (std::size_t u = 0; u < model.dag.uses.size(); ++u) {
      uses[model.dag.uses[u].parameter].push_back(static_cast<int>(u));
    }
    std::erase_if(uses, [](const auto& entry) { return entry.second.size() < 2; });
    const RemoteMessages found = model.messages();
    ASSERT_EQ(found.tied.size(), uses.size());
    for (const graph::TiedParameter& tied : found.tied) {
      EXPECT_EQ(tied.uses, uses.at(tied.parameter));
      const auto place = [&](int use) { return model.place(model.dag.use_at(use).node); };
      EXPECT_EQ(tied.owner, place(tied.uses[0]));
      std::vector<RemoteMessage> gradients;
      std::map<int, RemoteMessage> weights;
      for (const int use : tied.uses) {
        if (place(use) == tied.owner) continue;
        gradients.push_back({use, place(use), tied.owner, 8});
        weights[place(use)] = {tied.parameter, tied.owner, place(use), 4};
      }
      EXPECT_EQ(tied.gradients, gradients);
      ASSERT_EQ(tied.weights.size(), weights.size());
      std::size_t w = 0;
      for (const auto& [to, message] : weights) EXPECT_EQ(tied.weights[w++], message);
      remote += static_cast<int>(gradients.size());
    }
  }
  EXPECT_GT(remote, 50);
}

/// x is made on place 0 and read: by a once, by b twice, by c.
TEST(RemoteMessages, of_a_node_that_reads_twice_are_one_with_two_terms_in_the_order_of_inputs) {
  Dag dag;
  graph::Signature one;
  one.outputs = {{{1}, Element::float32}};
  one.parameters = {{"w", {1}, graph::Init::zeros(), false}};
  const auto add = [&](const char* name, std::vector<int> inputs) {
    return dag.node_at(dag.add_node(name, "Op", std::move(inputs), one)).outputs[0];
  };
  const int x = add("x", {dag.add_input("i", {{1}, Element::int32})});
  const int a = add("a", {x});
  const int b = add("b", {x, a, x});
  dag.set_loss(add("c", {x, b}));
  const RemoteMessages found = graph::remote_messages(dag, std::vector<int>{0, 1, 1, 0});
  const std::vector<GradientTerm> of_b{{2, 0}, {2, 2}, {1, 0}};  // and of a
  ASSERT_EQ(found.sums.size(), 1U);
  EXPECT_EQ(found.sums[0].terms, (std::vector<GradientStep>{{0, {{3, 0}}}, {1, of_b}}));
  EXPECT_FALSE(found.sums[0].serial_bits);
  ASSERT_EQ(found.chained.size(), 1U);
  EXPECT_EQ(found.chained[0].steps, found.sums[0].terms);
  EXPECT_EQ(found.chained[0].messages, (std::vector<RemoteMessage>{{x, 0, 1, 4}, {x, 1, 0, 4}}));
  EXPECT_EQ(found.backward, (std::vector<RemoteMessage>{{x, 1, 0, 4}, {b, 0, 1, 4}}));
}

}  // namespace
}  // namespace reef::test
