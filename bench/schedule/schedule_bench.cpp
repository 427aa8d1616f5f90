// What a rank does before the first step, for GPT-2 124M on 2 and 8 ranks: placing its storages and deriving
// its dependencies, verifying the programs of all ranks together, simulating two rounds of them.
//
//   roof      copying the programs: each instruction is touched once. M/s are instructions
//   pairs     derive's rival: a loop over all pairs of a program's instructions, which keeps those that
//             touch one storage, one of them writing; waits that follow from others stay in
//   boost     the rival of verify and simulate, where there is a Boost: Boost.Graph's topological_sort of
//             the same instructions and what orders them, which knows neither values nor messages

#include <cstddef>
#include <functional>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#if __has_include(<boost/graph/topological_sort.hpp>)
#include <boost/graph/adjacency_list.hpp>
#include <boost/graph/topological_sort.hpp>
#define REEF_BENCH_BOOST
#endif

#include <reef/nn/gpt.hpp>
#include <reef/optim/adamw.hpp>
#include <reef/optim/zero1.hpp>
#include <reef/schedule/simulate.hpp>
#include <reef/schedule/verify.hpp>
#include <reef/trainer/trainer.hpp>

#include "support/compare.hpp"

namespace {

using namespace reef;
using Trainer = reef::Trainer<optim::Zero1<optim::AdamW>>;
using Programs = std::vector<schedule::Program>;

struct Work {
  std::string name;
  std::function<void()> run;
};

/// Rivals of the programs; what they need is made before they are timed.
using Rivals = std::vector<Work> (*)(const Programs&);

bool meet(const std::vector<schedule::Value>& a, const std::vector<schedule::Value>& b) {
  for (const schedule::Value& x : a) {
    for (const schedule::Value& y : b) {
      if (x.storage == y.storage) return true;
    }
  }
  return false;
}

std::vector<Work> pairs(const Programs& programs) {
  return {{"pairs", [&programs] {
             for (const schedule::Program& program : programs) {
               std::vector<std::pair<std::size_t, std::size_t>> found;
               for (std::size_t i = 0; i < program.round.size(); ++i) {
                 for (std::size_t j = 0; j < i; ++j) {
                   const schedule::Instruction& a = program.round[j];
                   const schedule::Instruction& b = program.round[i];
                   const bool ordered =
                       meet(a.writes, b.reads) || meet(a.reads, b.writes) ||
                       meet(a.writes, b.writes) || meet(a.accumulates, b.reads) ||
                       meet(a.accumulates, b.writes) || meet(a.accumulates, b.accumulates) ||
                       meet(a.reads, b.accumulates) || meet(a.writes, b.accumulates);
                   if (ordered) found.emplace_back(j, i);
                 }
               }
               benchmark::DoNotOptimize(found.data());
             }
           }}};
}

std::vector<Work> boost_graph(const Programs& programs) {
#if defined(REEF_BENCH_BOOST)
  using Graph = boost::adjacency_list<boost::vecS, boost::vecS, boost::directedS>;
  constexpr std::size_t rounds = 2;
  std::vector<std::pair<std::size_t, std::size_t>> edges;
  std::size_t first = 0;
  for (const schedule::Program& program : programs) {
    const std::size_t count = program.round.size();
    for (const auto& edge :
         schedule::precedences(program, schedule::derive(program, schedule::place(program)))) {
      const std::size_t later = edge.previous_round ? 1 : 0;
      for (std::size_t round = 0; round + later < rounds; ++round) {
        edges.emplace_back(first + round * count + edge.from,
                           first + (round + later) * count + edge.to);
      }
    }
    first += rounds * count;
  }
  return {{"boost", [edges = std::move(edges), first] {
             const Graph graph(edges.begin(), edges.end(), first);
             std::vector<std::size_t> order;
             order.reserve(first);
             boost::topological_sort(graph, std::back_inserter(order));
             benchmark::DoNotOptimize(order.data());
           }}};
#else
  static_cast<void>(programs);
  return {};
#endif
}

void bench(const std::string& name, int ranks, const std::function<void(const Programs&)>& work,
           Rivals rivals) {
  reef_bench::add(name + "/ranks:" + std::to_string(ranks), 9, [=](benchmark::State& state) {
    Trainer::Options options;
    options.micro_batches = {4};
    const auto programs = Trainer::programs(nn::gpt<device::Host, float>({}, 1), options, ranks);
    double instructions = 0;
    for (const schedule::Program& program : programs)
      instructions += static_cast<double>(program.round.size());
    const auto timed = [](const auto& once) {
      return [once] { return reef_bench::seconds_of(once); };
    };
    std::vector<reef_bench::Contender> contenders{{"roof", timed([&] {
                                                     auto copy = programs;
                                                     benchmark::DoNotOptimize(copy.data());
                                                   })}};
    for (const Work& rival : rivals(programs)) contenders.push_back({rival.name, timed(rival.run)});
    reef_bench::compare(state, timed([&] { work(programs); }), contenders, {.items = instructions});
  });
}

void register_all() {
  for (const int ranks : {2, 8}) {
    bench(
        "derive", ranks,
        [](const auto& programs) {
          for (const schedule::Program& program : programs) {
            benchmark::DoNotOptimize(schedule::derive(program, schedule::place(program)));
          }
        },
        pairs);
    bench(
        "verify", ranks, [](const auto& programs) { schedule::verify(programs); }, boost_graph);
    bench(
        "simulate", ranks,
        [ranks](const auto& programs) {
          const auto world = schedule::World::uniform(ranks, {1e11, 2e10, 1e10, 1e-5}, {1e-4, 1e9});
          benchmark::DoNotOptimize(schedule::simulate(programs, world).total);
        },
        boost_graph);
  }
}

}  // namespace

int main(int argc, char** argv) { return reef_bench::run(argc, argv, register_all); }
