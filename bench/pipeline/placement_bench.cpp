// What it is worth to place stages by the network: steps of a placement that plan::allocate finds, over those of random
// ones, beside what Eq. 1 to 4 of DT-FM predict of that.
//
//   mpiexec -n 8 build/release/bench/pipeline_placement_bench CASE.json STAGES RANDOM STEPS DEVICE...
//
//     CASE.json  of plan::allocate: its network, and what a step sends
//     STAGES     of a replica; there are as many replicas as ranks allow. Several, as in 2,4,8: one after the other
//     RANDOM     placements to compare with
//     STEPS      that are measured of each, after one that is not
//     DEVICE     of the case, one for each rank
//
// Times of the network are a fortieth of the case's, and messages as much smaller as links are slower, so that a
// step takes a second or so. Stages compute next to nothing, and a step has one micro-batch, as the equations have it.

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <numeric>
#include <random>
#include <sstream>
#include <string>
#include <vector>

#include <reef/comm/communicator.hpp>
#include <reef/comm/mpi.hpp>
#include <reef/profile/network.hpp>
#include <reef/core/error.hpp>
#include <reef/io/file.hpp>
#include <reef/io/json.hpp>
#include <reef/optim/ddp.hpp>
#include <reef/optim/sgd.hpp>
#include <reef/pipeline/gpipe.hpp>
#include <reef/plan/allocate.hpp>
#include <reef/plan/allocation_cost.hpp>
#include <reef/plan/allocation_json.hpp>
#include <reef/schedule/simulate.hpp>
#include <reef/trainer/trainer.hpp>

#include "support/measure.hpp"
#include "support/ranks_main.hpp"

namespace {

using namespace reef_bench;
using namespace reef;

using Piped = Trainer<pipeline::GPipe, optim::Ddp<optim::Sgd>>;
using Model = graph::Graph<device::Host, float>;

constexpr double faster = 1.0 / 40;
constexpr double activation_bytes = 256e3;

/// out = in + w[0], with as many weights as a stage is to have.
struct Weights {
  static constexpr std::string_view kind = "Weights";
  std::int64_t elements = 1;

  graph::Signature signature(const auto& call) const {
    graph::Signature result;
    result.outputs = {call.inputs[0]};
    result.parameters = {{"w", {elements}, graph::Init::zeros(), false}};
    result.backward_reads_inputs = false;
    result.gradient_passes = {{0, 0}};
    return result;
  }
  void forward(const auto& call) const {
    const auto in = call.input(0).span();
    std::transform(in.begin(), in.end(), call.output(0).data(),
                   [w = call.parameter(0).data()[0]](float x) { return x + w; });
  }
  void backward(const auto& call) const {
    const auto d_out = call.output_gradient(0).span();
    const auto d_w = call.parameter_gradient(0).span();
    if (!call.accumulate_parameters) std::fill(d_w.begin(), d_w.end(), 0.0F);
    d_w[0] += d_out[0];
    if (!call.wants(0)) return;
    const auto d_in = call.input_gradient(0).span();
    for (std::size_t i = 0; i < d_in.size(); ++i) d_in[i] = d_out[i] + (call.accumulates(0) ? d_in[i] : 0);
  }
};

/// loss = in[0].
struct First {
  static constexpr std::string_view kind = "First";

  graph::Signature signature(const auto& call) const {
    graph::Signature result;
    result.outputs = {call.sums({})};
    result.backward_reads_inputs = false;
    result.overwrites_gradients = true;
    return result;
  }
  void forward(const auto& call) const { call.output_sums(0).data()[0] = call.input(0).data()[0]; }
  void backward(const auto& call) const {
    const auto d_in = call.input_gradient(0).span();
    std::fill(d_in.begin(), d_in.end(), 0.0F);
    d_in[0] = call.output_gradient_sums(0).data()[0];
  }
};

Model model_of(int stages, const plan::AllocationProblem& problem) {
  Model g(1);
  const auto elements = static_cast<std::int64_t>(problem.activation_bytes / sizeof(float));
  int x = g.input("x", {{elements}, Element::float32}, true);
  for (int stage = 0; stage < stages; ++stage) {
    const Weights weights{static_cast<std::int64_t>(problem.gradient_bytes / sizeof(float))};
    x = g.add(concat("stage", stage), weights, {x})[0];
  }
  g.loss(g.add("first", First{}, {x})[0]);
  return g;
}

double fill(std::uint64_t /*first*/, std::span<const AnyView> inputs) {
  for (float& value : inputs[0].as<float>().span()) value = 1;
  return 1;
}

/// The case's network among some devices, faster, and what is sent as much smaller as its links are slower.
plan::AllocationProblem part_of(const plan::AllocationProblem& whole, const std::vector<int>& devices, int stages) {
  const auto n = static_cast<int>(devices.size());
  const double smaller = activation_bytes / whole.activation_bytes;
  plan::AllocationProblem part;
  part.network = {.devices = n};
  for (const int from : devices) {
    for (const int to : devices) {
      const auto cell = static_cast<std::size_t>(from * whole.network.devices + to);
      part.network.latencies.push_back(from == to ? 0 : whole.network.latencies[cell] * faster);
      part.network.rates.push_back(from == to ? 1e18 : whole.network.rates[cell] * smaller / faster);
    }
  }
  part.stages = stages;
  part.pipelines = n / stages;
  part.activation_bytes = activation_bytes;
  part.gradient_bytes = whole.gradient_bytes * smaller;
  return part;
}

struct Placed {
  Seconds equations = 0;
  Seconds simulated = 0;
  Seconds measured = 0;
};

Placed measure(const plan::AllocationProblem& problem, const plan::Placement& sigma, int steps,
               const comm::Communicator& world) {
  const Model model = model_of(problem.stages, problem);
  Piped::Options options;
  options.topology = run::Topology(problem.pipelines, problem.stages);
  for (const auto& pipeline : sigma) {
    options.topology->rank_at.insert(options.topology->rank_at.end(), pipeline.begin(), pipeline.end());
  }
  for (int stage = 1; stage < problem.stages; ++stage) options.cuts.push_back(stage);
  options.micro_batches = {1};
  options.clip_norm = 0;
  options.non_finite = optim::NonFinite::ignore;  // nothing waits for a norm
  options.device.threads = 1;
  const auto& network = problem.network;
  options.network = options.communication.network = network;
  const schedule::World links = schedule::World::of(network);
  Placed placed{plan::allocation_cost(problem, sigma).total(),
                schedule::simulate(Piped::programs(model, options, network.devices), links).step, 0};
  std::vector<double> seconds;
  Piped trainer(model, fill, options, {}, world);
  for (int step = 0; step <= steps; ++step) {
    const double own = seconds_of([&] { trainer.step(); });
    double slowest = 0;
    MPI_Allreduce(&own, &slowest, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    if (step > 0) seconds.push_back(slowest);
  }
  placed.measured = median(seconds);
  return placed;
}

/// The best placement of so many stages, and `count` random ones.
void compare(const plan::AllocationProblem& problem, int count, int steps, const comm::Communicator& world) {
  const Placed best = measure(problem, plan::allocate(problem, {.seed = 1, .effort = 4}).sigma, steps, world);
  std::mt19937 engine(1);
  std::vector<int> ranks(static_cast<std::size_t>(world.size()));
  std::iota(ranks.begin(), ranks.end(), 0);
  Placed sum;
  const auto line = [&](const std::string& name, const Placed& placed) {
    if (world.rank() != 0) return;
    std::printf("| %s | %.3f | %.3f | %.3f |\n", name.c_str(), placed.equations, placed.simulated, placed.measured);
    std::fflush(stdout);
  };
  if (world.rank() == 0) {
    std::printf("\n| %d replica(s) of %d stages | Eq. 1 to 4, s | simulated, s | measured, s |\n|---|--:|--:|--:|\n",
                problem.pipelines, problem.stages);
  }
  line("plan::allocate", best);
  for (int i = 0; i < count; ++i) {
    for (std::size_t last = ranks.size() - 1; last > 0; --last) std::swap(ranks[last], ranks[engine() % (last + 1)]);
    plan::Placement sigma(static_cast<std::size_t>(problem.pipelines));
    for (std::size_t r = 0; r < ranks.size(); ++r) {
      sigma[r / static_cast<std::size_t>(problem.stages)].push_back(ranks[r]);
    }
    const Placed placed = measure(problem, sigma, steps, world);
    line(concat("random ", i + 1), placed);
    sum.equations += placed.equations / count;
    sum.simulated += placed.simulated / count;
    sum.measured += placed.measured / count;
  }
  const Placed gain{sum.equations / best.equations, sum.simulated / best.simulated, sum.measured / best.measured};
  line("random, mean", sum);
  line("gain", gain);
  line("gain, of that by the equations", {1, gain.simulated / gain.equations, gain.measured / gain.equations});
}

void run_all(const std::vector<std::string>& arguments) {
  const comm::Communicator world;
  if (arguments.size() != 4 + static_cast<std::size_t>(world.size())) {
    throw OptionError("usage: pipeline_placement_bench CASE.json STAGES RANDOM STEPS DEVICE..., one for each rank");
  }
  const auto whole = plan::allocation_from_json(
      io::parse_json(io::read_file(arguments[0], Bytes{1} << 24), arguments[0]), arguments[0]);
  std::vector<int> shapes;
  std::istringstream list(arguments[1]);
  for (std::string stages; std::getline(list, stages, ',');) shapes.push_back(std::atoi(stages.c_str()));
  const int count = std::atoi(arguments[2].c_str());
  const int steps = std::atoi(arguments[3].c_str());
  const auto is_wrong = [&](int stages) { return stages < 2 || world.size() % stages != 0; };
  if (shapes.empty() || std::any_of(shapes.begin(), shapes.end(), is_wrong) || count < 1 || steps < 1) {
    throw OptionError("pipeline_placement_bench: STAGES from 2, divisors of the ranks; RANDOM and STEPS from 1");
  }
  std::vector<int> devices;
  for (std::size_t i = 4; i < arguments.size(); ++i) {
    devices.push_back(std::atoi(arguments[i].c_str()));
    if (devices.back() < 0 || devices.back() >= whole.network.devices) {
      throw OptionError("pipeline_placement_bench: the case has no device ", arguments[i]);
    }
  }
  for (const int stages : shapes) compare(part_of(whole, devices, stages), count, steps, world);
}

}  // namespace

int main(int argc, char** argv) {
  return reef_bench::ranks_main(argc, argv, "pipeline_placement_bench", run_all);
}
