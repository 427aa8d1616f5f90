// Accessors of temporaries. Compiled with AddressSanitizer: what dangles ends the program.

#include <reef/graph/graph.hpp>

#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include <reef/comm/meter.hpp>
#include <reef/data/corpus.hpp>
#include <reef/data/token_shards.hpp>
#include <reef/device/host.hpp>
#include <reef/graph/registry.hpp>
#include <reef/io/safetensors_file.hpp>
#include <reef/io/safetensors_files.hpp>
#include <reef/plan/balance.hpp>
#include <reef/profile/profile.hpp>
#include <reef/schedule/skeleton.hpp>
#include <reef/schedule/world.hpp>
#include <reef/trace/overlap.hpp>

namespace {

using namespace reef;
using device::Host;
using HostGraph = graph::Graph<Host, double>;

/// Whether a temporary is asked by a call of this form at all.
template <class T, class Call>
concept answers = std::is_invocable_v<Call, T>;

/// It is, and what it gives lives longer than it.
template <class T, class Call>
concept gives_value = answers<T, Call> && !std::is_reference_v<std::invoke_result_t<Call, T>>;

#define REEF_CALL(call)                                                  \
  decltype([](auto&& x) -> decltype(std::forward<decltype(x)>(x).call) { \
    return std::forward<decltype(x)>(x).call;                            \
  })

static_assert(gives_value<TensorView<float>, REEF_CALL(shape())>);
static_assert(gives_value<AnyView, REEF_CALL(shape())>);
static_assert(gives_value<const AnyView&, REEF_CALL(shape())>,
              "also of an element of a span of views");
static_assert(gives_value<comm::Meter, REEF_CALL(of(comm::Kind::send))>);
static_assert(gives_value<schedule::World, REEF_CALL(link(0, 1))>);
static_assert(gives_value<HostGraph, REEF_CALL(dag())>);
static_assert(gives_value<const HostGraph, REEF_CALL(dag())>);
static_assert(gives_value<graph::Dag, REEF_CALL(tensor_at(0))>);
static_assert(gives_value<graph::Dag, REEF_CALL(node_at(0))>);
static_assert(gives_value<graph::Dag, REEF_CALL(parameter_at(0))>);
static_assert(gives_value<graph::Dag, REEF_CALL(use_at(0))>);
static_assert(gives_value<graph::Segment, REEF_CALL(plan(0))>);
static_assert(gives_value<profile::Profile, REEF_CALL(at("fc"))>);
static_assert(gives_value<io::SafetensorsFile, REEF_CALL(path())>);
static_assert(gives_value<io::SafetensorsFile, REEF_CALL(metadata())>);
static_assert(gives_value<io::SafetensorsFile, REEF_CALL(at("fc"))>);
static_assert(std::is_same_v<decltype(std::declval<io::SafetensorsFile>().tensors()),
                             std::vector<io::StoredTensor>>);
static_assert(std::is_same_v<decltype(std::declval<trace::Intervals>().parts()),
                             std::vector<trace::Intervals::Interval>>);
static_assert(std::is_same_v<decltype(std::declval<trace::Recording>().name_of({})), std::string>);

static_assert(!answers<data::Corpus, REEF_CALL(training())>,
              "its spans are of text that ends with it");
static_assert(!answers<data::Corpus, REEF_CALL(validation_documents())>);
static_assert(!answers<data::TokenFile, REEF_CALL(tokens())>);
static_assert(!answers<data::TokenShards, REEF_CALL(training())>);
static_assert(!answers<Host::Buffer, REEF_CALL(data())>);
static_assert(!answers<Host::PinnedBuffer, REEF_CALL(data())>);
static_assert(!answers<io::MappedFile, REEF_CALL(bytes())>);
static_assert(!answers<io::SafetensorsFile, REEF_CALL(find("fc"))>);
static_assert(!answers<io::SafetensorsFiles, REEF_CALL(tensors())>);
static_assert(!answers<plan::BalancePlan, REEF_CALL(find("server"))>);
static_assert(!answers<schedule::Skeleton, REEF_CALL(waits_of(0))>);
static_assert(!answers<graph::Registry<Host, double>, REEF_CALL(kinds())>);
static_assert(!answers<graph::Registry<Host, double>, REEF_CALL(kind("Add", "a.json"))>);
static_assert(answers<const data::Corpus&, REEF_CALL(training())>,
              "an object that lives on is asked as ever");
static_assert(answers<Host::Buffer&, REEF_CALL(data())>);

#undef REEF_CALL

/// out = in of each row, times the row's number: as one writes it who names shapes by reference.
struct ByRow {
  static constexpr std::string_view kind = "ByRow";

  graph::Signature signature(const auto& call) const {
    const Shape& s = call.inputs[0].shape;
    graph::Signature result;
    result.outputs = {call.tensor(s)};
    return result;
  }
  void forward(const auto& call) const {
    const Shape& s = call.input(0).shape();
    const Shape& to = call.output(0).shape();
    EXPECT_EQ(s, to);
    for (std::int64_t i = 0; i < s.size(); ++i) {
      call.output(0).data()[i] = static_cast<double>(i / s.last()) * call.input(0).data()[i];
    }
  }
  void backward(const auto& call) const {
    const Shape& s = call.output_gradient(0).shape();
    for (std::int64_t i = 0; i < s.size(); ++i) {
      call.input_gradient(0).data()[i] =
          static_cast<double>(i / s.last()) * call.output_gradient(0).data()[i];
    }
  }
};

HostGraph model() {
  HostGraph g(1);
  const int in = g.input("in", {{3, 5}, Element::float64}, true);
  g.add("by row", ByRow{}, {in});
  return g;
}

TEST(Temporaries, shapes_of_views_outlive_them_in_an_operator_of_ones_own) {
  const HostGraph g = model();
  Host host({.threads = 1});
  Host::Lane lane(host, "compute");
  const graph::Segment all = graph::plan_segment(g.dag());
  std::vector<double> in(15, 2), out(15), d_in(15), d_out(15, 3);
  graph::SegmentBindings memory(g.dag());
  memory.tensor(0) = in.data();
  memory.tensor(1) = out.data();
  memory.gradient(0) = d_in.data();
  memory.gradient(1) = d_out.data();
  lane.submit([&](auto& own) {
    g.forward(all, memory, own, {}, graph::Forward::keeps);
    g.backward(all, memory, own, {}, false);
  });
  lane.synchronize();
  for (std::size_t i = 0; i < 15; ++i) {
    EXPECT_EQ(out[i], 2.0 * static_cast<double>(i / 5)) << i;
    EXPECT_EQ(d_in[i], 3.0 * static_cast<double>(i / 5)) << i;
  }
}

TEST(Temporaries, parts_of_graphs_that_a_function_returned_outlive_them) {
  const graph::Dag& dag = model().dag();
  EXPECT_EQ(dag.node_count(), 1);
  const graph::Node& node = model().dag().node_at(0);
  EXPECT_EQ(node.name, "by row");
  int outputs = 0;
  for (const int id : model().dag().node_at(0).outputs) outputs += id;
  EXPECT_EQ(outputs, 1);
  const graph::NodePlan& plan = graph::plan_segment(model().dag()).plan(0);
  EXPECT_EQ(plan.input_gradient.size(), 1U);
}

}  // namespace
