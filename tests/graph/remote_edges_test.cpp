// What segments on several places exchange: laws on random models, cut anywhere, with segments anywhere. What must be
// sent, and in which order gradients are added, is found once more here, from the nodes alone.

#include <reef/graph/remote_edges.hpp>

#include <algorithm>
#include <cstddef>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include <reef/core/error.hpp>

#include "random_dag.hpp"

namespace reef::test {
namespace {

using graph::Dag;
using graph::RemoteEdge;
using graph::Segment;

constexpr int rounds = 400;

/// A random model, cut at random, each segment somewhere.
struct Cut {
  explicit Cut(int seed) : draws(static_cast<std::uint64_t>(seed)) {
    const int nodes = 1 + draws.below(14);
    dag = random_dag(draws, nodes);
    places = 1 + draws.below(4);
    int first = 0;
    for (int n = 1; n <= nodes; ++n) {
      if (n < nodes && draws.once_in(2)) continue;
      segments.push_back(graph::plan_segment(dag, first, n));
      for (; first < n; ++first) segment_of_node.push_back(static_cast<int>(segments.size()) - 1);
    }
    place_of_segment = random_places(draws, segments.size(), places);
  }

  [[nodiscard]] int place(int segment) const {
    return place_of_segment[static_cast<std::size_t>(segment)];
  }
  [[nodiscard]] int segment(int node) const {
    return segment_of_node[static_cast<std::size_t>(node)];
  }
  [[nodiscard]] std::vector<RemoteEdge> edges() const {
    return graph::remote_edges(dag, segments, place_of_segment);
  }

  Draws draws;
  Dag dag;
  int places = 0;
  std::vector<Segment> segments;
  std::vector<int> segment_of_node;
  std::vector<int> place_of_segment;
};

/// Whether the node's backward gives a gradient to what it reads: by the definition, path by path.
bool leads_to_a_result(const Dag& dag, int node) {
  for (const int output : dag.node_at(node).outputs) {
    const graph::Tensor& tensor = dag.tensor_at(output);
    if (!tensor.differentiable) continue;
    if (dag.loss >= 0 ? output == dag.loss : tensor.consumers.empty()) return true;
    for (const int consumer : tensor.consumers) {
      if (leads_to_a_result(dag, consumer)) return true;
    }
  }
  return false;
}

/// The readings whose nodes contribute to the tensor's gradient, in the order of a backward over the whole model.
std::vector<std::pair<int, int>> contributions(const Dag& dag, int id) {
  std::vector<std::pair<int, int>> found;
  if (!dag.tensor_at(id).differentiable) return found;
  for (int n = dag.node_count() - 1; n >= 0; --n) {
    if (!leads_to_a_result(dag, n)) continue;
    const std::vector<int>& inputs = dag.node_at(n).inputs;
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      if (inputs[i] == id) found.emplace_back(n, static_cast<int>(i));
    }
  }
  return found;
}

TEST(RemoteEdges, bring_each_tensor_once_to_each_place_that_reads_it) {
  for (int seed = 0; seed < rounds; ++seed) {
    SCOPED_TRACE(seed);
    const Cut cut(seed);
    std::multiset<std::pair<int, int>> wanted;  // tensor, place
    for (std::size_t id = 0; id < cut.dag.tensors.size(); ++id) {
      const graph::Tensor& tensor = cut.dag.tensors[id];
      std::set<int> places;
      for (const int n : tensor.consumers) places.insert(cut.place(cut.segment(n)));
      if (tensor.producer < 0) continue;  // each reads its own
      places.erase(cut.place(cut.segment(tensor.producer)));
      for (const int place : places) wanted.emplace(static_cast<int>(id), place);
    }
    std::multiset<std::pair<int, int>> found;
    for (const RemoteEdge& edge : cut.edges()) {
      if (edge.gradient) continue;
      found.emplace(edge.tensor, cut.place(edge.to));
      EXPECT_EQ(edge.from, cut.segment(cut.dag.tensor_at(edge.tensor).producer));
      for (const int n : cut.dag.tensor_at(edge.tensor).consumers) {
        if (cut.place(cut.segment(n)) != cut.place(edge.to)) continue;
        EXPECT_LE(edge.to, cut.segment(n)) << "it is there before the first that reads it";
      }
    }
    EXPECT_EQ(found, wanted);
  }
}

/// A backward of all segments, each on its place, that knows of gradients what the edges bring.
class Backward {
public:
  Backward(const Cut& cut, const std::map<std::pair<int, int>, float>& terms)  // by node and input
      : cut_(cut), terms_(terms), edges_(cut.edges()) {
    for (int s = static_cast<int>(cut.segments.size()) - 1; s >= 0; --s) run(s);
  }

  /// What the place of the tensor has summed up.
  [[nodiscard]] std::optional<float> at_producer(int id) const {
    const int producer = cut_.segment(cut_.dag.tensor_at(id).producer);
    const auto found = sums_.find({id, cut_.place(producer)});
    return found == sums_.end() ? std::nullopt : std::optional(found->second);
  }
  [[nodiscard]] std::size_t sent() const { return sent_; }

private:
  void run(int s) {
    const int place = cut_.place(s);
    for (const RemoteEdge& edge : edges_) {
      if (!edge.gradient || edge.to != s) continue;
      const auto message = wire_.find({edge.tensor, place});
      ASSERT_NE(message, wire_.end()) << "it has been sent before";
      EXPECT_FALSE(sums_.contains({edge.tensor, place})) << "nothing is overwritten";
      sums_[{edge.tensor, place}] = message->second;
      wire_.erase(message);
    }
    const Segment& segment = cut_.segments[static_cast<std::size_t>(s)];
    for (int n = segment.last - 1; n >= segment.first; --n) {
      const std::vector<int>& inputs = cut_.dag.node_at(n).inputs;
      for (std::size_t i = 0; i < inputs.size(); ++i) {
        const auto term = terms_.find({n, static_cast<int>(i)});
        if (term == terms_.end()) continue;
        const auto [sum, is_first] = sums_.try_emplace({inputs[i], place}, term->second);
        if (!is_first) sum->second += term->second;
      }
    }
    for (const RemoteEdge& edge : edges_) {
      if (!edge.gradient || edge.from != s) continue;
      const auto sum = sums_.find({edge.tensor, place});
      ASSERT_NE(sum, sums_.end()) << "something was added up here";
      wire_[{edge.tensor, cut_.place(edge.to)}] = sum->second;
      sums_.erase(sum);
      ++sent_;
    }
  }

  const Cut& cut_;
  const std::map<std::pair<int, int>, float>& terms_;
  std::vector<RemoteEdge> edges_;
  std::map<std::pair<int, int>, float> sums_;  // by tensor and place
  std::map<std::pair<int, int>, float> wire_;  // by tensor and place that it goes to
  std::size_t sent_ = 0;
};

TEST(RemoteEdges, add_gradients_in_the_order_of_one_process_to_the_last_bit) {
  std::size_t sums = 0;
  for (int seed = 0; seed < rounds; ++seed) {
    SCOPED_TRACE(seed);
    Cut cut(seed);
    std::map<std::pair<int, int>, float> terms;
    for (std::size_t id = 0; id < cut.dag.tensors.size(); ++id) {
      for (const auto& reading : contributions(cut.dag, static_cast<int>(id))) {
        terms[reading] = cut.draws.real() / 3;
      }
    }
    const Backward backward(cut, terms);
    for (std::size_t t = 0; t < cut.dag.tensors.size(); ++t) {
      const int id = static_cast<int>(t);
      if (cut.dag.tensors[t].producer < 0) continue;
      std::optional<float> serial;
      for (const auto& reading : contributions(cut.dag, id)) {
        serial = serial.has_value() ? *serial + terms.at(reading) : terms.at(reading);
      }
      EXPECT_EQ(backward.at_producer(id), serial) << cut.dag.tensors[t].name;
    }
    sums += backward.sent();
  }
  EXPECT_GT(sums, static_cast<std::size_t>(rounds)) << "many sums have travelled";
}

TEST(RemoteEdges, visit_places_from_the_last_contributor_to_the_producer_once_for_each_change) {
  for (int seed = 0; seed < rounds; ++seed) {
    SCOPED_TRACE(seed);
    const Cut cut(seed);
    const std::vector<RemoteEdge> edges = cut.edges();
    for (std::size_t t = 0; t < cut.dag.tensors.size(); ++t) {
      const int id = static_cast<int>(t);
      std::vector<int> wanted;  // places in the order of visits
      const auto visit = [&](int node) {
        const int place = cut.place(cut.segment(node));
        if (wanted.empty() || wanted.back() != place) wanted.push_back(place);
      };
      const auto readings = contributions(cut.dag, id);
      const bool travels = cut.dag.tensors[t].producer >= 0 && !readings.empty();
      if (travels) {
        for (const auto& [node, input] : readings) visit(node);
        visit(cut.dag.tensors[t].producer);
      }
      std::vector<int> found;
      for (const RemoteEdge& edge : edges) {
        if (edge.tensor != id || !edge.gradient) continue;
        if (found.empty()) found.push_back(cut.place(edge.from));
        EXPECT_EQ(found.back(), cut.place(edge.from));
        EXPECT_GT(edge.from, edge.to) << "backward goes back";
        found.push_back(cut.place(edge.to));
      }
      if (wanted.size() > 1 || !found.empty()) {
        EXPECT_EQ(found, wanted) << cut.dag.tensors[t].name;
      }
    }
  }
}

TEST(RemoteEdges, lead_between_what_segments_say_of_themselves) {
  const auto has = [](const std::vector<int>& ids, int id) {
    return std::find(ids.begin(), ids.end(), id) != ids.end();
  };
  for (int seed = 0; seed < rounds; ++seed) {
    SCOPED_TRACE(seed);
    const Cut cut(seed);
    for (const RemoteEdge& edge : cut.edges()) {
      const Segment& from = cut.segments[static_cast<std::size_t>(edge.from)];
      const Segment& to = cut.segments[static_cast<std::size_t>(edge.to)];
      if (!edge.gradient) {
        EXPECT_TRUE(has(from.boundary_outputs, edge.tensor) &&
                    has(to.boundary_inputs, edge.tensor));
        continue;
      }
      EXPECT_TRUE(has(from.input_gradients, edge.tensor));
      EXPECT_TRUE(has(to.input_gradients, edge.tensor) || has(to.output_gradients, edge.tensor));
    }
  }
}

TEST(RemoteEdges, are_none_in_one_place) {
  for (int seed = 0; seed < rounds; ++seed) {
    Cut cut(seed);
    cut.place_of_segment.assign(cut.segments.size(), 3);
    EXPECT_TRUE(cut.edges().empty());
    EXPECT_TRUE(graph::remote_edges(cut.dag, std::vector<int>(cut.dag.nodes.size(), 7)).empty());
  }
}

TEST(RemoteEdges, of_nodes_are_those_of_segments_of_one_node) {
  for (int seed = 0; seed < rounds; ++seed) {
    SCOPED_TRACE(seed);
    Cut cut(seed);
    const std::vector<int> places = random_places(cut.draws, cut.dag.nodes.size(), cut.places);
    std::vector<Segment> alone;
    for (int n = 0; n < cut.dag.node_count(); ++n) {
      alone.push_back(graph::plan_segment(cut.dag, n, n + 1));
    }
    EXPECT_EQ(graph::remote_edges(cut.dag, places), graph::remote_edges(cut.dag, alone, places));
  }
}

TEST(RemoteEdges, need_a_place_for_each) {
  const Cut cut(0);
  const std::vector<int> places(cut.dag.nodes.size() + 1, 0);
  EXPECT_THROW(static_cast<void>(graph::remote_edges(cut.dag, places)), OptionError);
  EXPECT_THROW(static_cast<void>(graph::remote_edges(cut.dag, cut.segments, places)), OptionError);
}

}  // namespace
}  // namespace reef::test
