// How long steps of pipelines take, beside what is predicted of them: of every schedule, on links that are slow.
//
//   mpiexec -n 4 build/release/bench/pipeline_schedules_bench F_MS STEPS BYTES SCHEDULES M:DELAY...
//
// schedules.py starts it, and makes the table and the drawing of what it prints: a line of JSON for each schedule. All
// ranks are the stages of one pipeline.
//
//     F_MS       milliseconds of a stage's forward; both halves of its backward take as long each
//     STEPS      that are measured, after one that is not
//     BYTES      of the tensor that goes from chunk to chunk, and of its gradient
//     SCHEDULES  of plan::pipeline_schedule_names, with commas between them, and searched, searched-free,
//                searched-halves: orders that a search finds for these links, with the memory of 1F1B, with any, and
//                with that of ZB-H1 and backwards in halves; "all" are all of them
//     M:DELAY    micro-batches, and what a hop takes, of F_MS: a tenth of that is the wire, the rest latency. 0: links
//                are not emulated

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <reef/comm/communicator.hpp>
#include <reef/comm/message.hpp>
#include <reef/comm/mpi.hpp>
#include <reef/core/error.hpp>
#include <reef/io/json_string.hpp>
#include <reef/optim/ddp.hpp>
#include <reef/optim/sgd.hpp>
#include <reef/pipeline/ordered.hpp>
#include <reef/plan/pipeline_model.hpp>
#include <reef/plan/pipeline_order.hpp>
#include <reef/plan/pipeline_schedules.hpp>
#include <reef/plan/pipeline_search.hpp>
#include <reef/schedule/simulate.hpp>
#include <reef/trainer/trainer.hpp>

#include "pipeline/closed_forms.hpp"
#include "pipeline/napping_model.hpp"
#include "support/measure.hpp"
#include "support/ranks_main.hpp"

namespace {

using namespace reef_bench;
using namespace reef;

using Piped = Trainer<pipeline::Ordered, optim::Ddp<optim::Sgd>>;

struct Setting {
  double f = 0;  ///< of a stage, seconds
  int steps = 0;
  Bytes bytes = 0;  ///< from chunk to chunk
  int stages = 1;
  int micro_batches = 1;
  double delay = 0;  ///< of f

  [[nodiscard]] Seconds hop() const { return delay * f; }
  [[nodiscard]] schedule::Link link() const {
    if (delay == 0) return {};
    const auto on_wire = static_cast<double>(comm::message_cost(bytes).bytes);
    return {0.9 * hop(), on_wire / (0.1 * hop())};
  }
};

plan::PipelineOrderProblem problem_of(const Setting& setting, const plan::PipelineOrder& order) {
  const int chunks = order.chunks() / setting.stages;
  const Seconds each = setting.f / chunks;
  plan::PipelineOrderProblem problem;
  problem.micro_batches = setting.micro_batches;
  problem.rank_of_chunk = order.rank_of_chunk;
  problem.times = plan::PipelineTimes::even(order, each, each, each, setting.link());
  problem.forward = plan::chain_edges(order.chunks(), comm::message_cost(setting.bytes).bytes);
  problem.backward = problem.forward;
  for (plan::PipelineEdge& edge : problem.backward) std::swap(edge.from, edge.to);
  return problem;
}

/// Found by rank 0 for all.
plan::PipelineOrder searched(const Setting& setting, std::string_view kind) {
  const int p = setting.stages;
  const int m = setting.micro_batches;
  std::string text;
  if (int rank = 0; MPI_Comm_rank(MPI_COMM_WORLD, &rank), rank == 0) {
    plan::PipelineOrderProblem problem = problem_of(setting, plan::one_f_one_b_order(p, m));
    problem.splits = kind == "searched-halves";
    for (int r = 0; r < p && kind != "searched-free"; ++r) {
      problem.max_activations.push_back(std::min(m, problem.splits ? p : p - r));
    }
    text = plan::text_of(plan::search_pipeline_order(problem, {.effort = 20}).order);
  }
  auto size = static_cast<int>(text.size());
  MPI_Bcast(&size, 1, MPI_INT, 0, MPI_COMM_WORLD);
  text.resize(static_cast<std::size_t>(size));
  MPI_Bcast(text.data(), size, MPI_CHAR, 0, MPI_COMM_WORLD);
  return plan::parse_pipeline_order(text);
}

struct Prediction {
  plan::PipelineEstimate model{};  ///< the order in the asynchronous model
  Seconds bound = 0;               ///< no order with chunks at these places takes less
  Seconds step = 0;                ///< the programs of a step, simulated
  std::optional<double> closed{};
};

/// What was measured, the same on all ranks; the first step is not among it.
struct Measured {
  std::vector<double> steps{};  ///< seconds, of the slowest rank
  std::vector<double>
      spans{};       ///< from the first beginning of an operator on any rank to the last end
  double busy = 0;   ///< of a step, mean over ranks
  double bytes = 0;  ///< device memory, of the rank that has most
};

std::vector<double> over_ranks(std::vector<double> values, MPI_Op op) {
  MPI_Allreduce(MPI_IN_PLACE, values.data(), static_cast<int>(values.size()), MPI_DOUBLE, op,
                MPI_COMM_WORLD);
  return values;
}

Measured measure(const Setting& setting, const NappingGraph& model, const Piped::Options& options,
                 NapRecord& record, const comm::Communicator& world) {
  std::vector<double> steps;
  std::vector<double> first;
  std::vector<double> last;
  std::vector<double> busy;
  double bytes = 0;
  {
    Piped trainer(model, napping_source, options, {}, world);
    for (int step = 0; step <= setting.steps; ++step) {
      record.reset();
      const double seconds = seconds_of([&] { trainer.step(); });
      if (step == 0) continue;
      steps.push_back(seconds);
      first.push_back(-record.first);
      last.push_back(record.last);
      busy.push_back(record.busy / setting.stages);
    }
    bytes = static_cast<double>(trainer.device().memory().peak);
  }
  Measured result;
  result.steps = over_ranks(std::move(steps), MPI_MAX);
  first = over_ranks(std::move(first), MPI_MAX);
  last = over_ranks(std::move(last), MPI_MAX);
  for (std::size_t i = 0; i < first.size(); ++i) result.spans.push_back(last[i] + first[i]);
  result.busy = median(over_ranks(std::move(busy), MPI_SUM));
  result.bytes = over_ranks({bytes}, MPI_MAX)[0];
  return result;
}

void print_list(const char* name, const std::vector<double>& values) {
  std::printf("\"%s\": [", name);
  for (std::size_t i = 0; i < values.size(); ++i) {
    std::printf("%s%.6f", i == 0 ? "" : ", ", values[i]);
  }
  std::printf("]");
}

void print(const Setting& setting, std::string_view name, const plan::PipelineOrder& order,
           const Prediction& foreseen, const Measured* measured, const std::string& why) {
  const int v = order.chunks() / setting.stages;
  const auto& peaks = foreseen.model.peak_activations;
  std::printf(
      "{\"stages\": %d, \"micro_batches\": %d, \"delay\": %g, \"f\": %g, \"message\": %.0f, "
      "\"schedule\": \"%s\", "
      "\"chunks\": %d, \"makespan\": %.6f, \"bound\": %.6f, \"bubble\": %.5f, \"activations\": %g",
      setting.stages, setting.micro_batches, setting.delay, setting.f,
      static_cast<double>(setting.bytes), std::string(name).c_str(), v, foreseen.model.makespan,
      foreseen.bound, foreseen.model.bubble,
      static_cast<double>(*std::max_element(peaks.begin(), peaks.end())) / v);
  if (foreseen.closed) std::printf(", \"closed\": %.6f", *foreseen.closed);
  if (measured != nullptr) {
    std::printf(", \"simulated\": %.6f, \"bytes\": %.0f, \"busy\": %.6f, ", foreseen.step,
                measured->bytes, measured->busy);
    print_list("steps", measured->steps);
    std::printf(", ");
    print_list("spans", measured->spans);
  } else {
    std::printf(", \"why\": %s", io::json_string(why).c_str());
  }
  std::printf("}\n");
  std::fflush(stdout);
}

void run_schedule(const Setting& setting, std::string_view name, const comm::Communicator& world) {
  const plan::PipelineOrder order =
      name.starts_with("searched")
          ? searched(setting, name)
          : plan::pipeline_order_of(name, setting.stages, setting.micro_batches);
  const int chunks = order.chunks();
  const Seconds each = setting.f * setting.stages / chunks;
  const NapTimes times{each, each, each};
  const auto record = std::make_shared<NapRecord>();
  const NappingGraph model = napping_model(
      chunks, static_cast<std::int64_t>(setting.bytes / sizeof(float)), times, record);

  Piped::Options options;
  options.topology = run::Topology(1, setting.stages);
  options.micro_batches = {setting.micro_batches};
  options.cuts = napping_cuts(chunks);
  options.profile = napping_profile(model.dag(), times);
  options.device.threads = 1;
  options.pipeline.order = order;
  const auto machine = run::machine_of(*options.profile);
  const auto network = schedule::World::uniform(setting.stages, machine, setting.link());
  const auto rate = setting.link().bytes_per_second;
  options.network = profile::Network::uniform(setting.stages, setting.link().latency, rate > 0 ? rate : profile::Network::max_rate);
  if (setting.delay > 0) options.communication.network = *options.network;

  const plan::PipelineOrderProblem problem = problem_of(setting, order);
  Prediction foreseen{
      plan::estimate(problem.model(order.tasks)), plan::pipeline_lower_bound(problem), 0,
      closed_form(name, {setting.stages, setting.micro_batches, chunks / setting.stages, each, each,
                         each, setting.hop()})};
  std::string why;
  try {
    const auto programs = Piped::programs(model, options, setting.stages);
    foreseen.step = schedule::simulate(programs, network).step;
  } catch (const Error& error) {
    why = error.what();
  }
  if (!why.empty()) {
    if (world.rank() == 0) print(setting, name, order, foreseen, nullptr, why);
    return;
  }
  const Measured measured = measure(setting, model, options, *record, world);
  if (world.rank() == 0) print(setting, name, order, foreseen, &measured, {});
}

std::vector<std::string> schedules_of(const std::string& text) {
  std::vector<std::string> names;
  if (text == "all") {
    for (const std::string_view name : plan::pipeline_schedule_names(false)) {
      if (name != "three-slot") names.emplace_back(name);  // the order of gpipe
    }
    names.insert(names.end(), {"searched", "searched-free", "searched-halves"});
    return names;
  }
  for (std::size_t at = 0; at <= text.size();) {
    const std::size_t end = std::min(text.find(',', at), text.size());
    names.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  return names;
}

void run_all(const std::vector<std::string>& arguments) {
  if (arguments.size() < 5) {
    throw OptionError("usage: pipeline_schedules_bench F_MS STEPS BYTES SCHEDULES M:DELAY...");
  }
  const comm::Communicator world;
  for (std::size_t i = 4; i < arguments.size(); ++i) {
    Setting setting;
    setting.f = 1e-3 * std::atof(arguments[0].c_str());
    setting.steps = std::atoi(arguments[1].c_str());
    setting.bytes = static_cast<Bytes>(std::max(std::atoll(arguments[2].c_str()), 0LL));
    setting.stages = world.size();
    setting.micro_batches = std::atoi(arguments[i].c_str());
    const std::size_t colon = arguments[i].find(':');
    if (colon != std::string::npos) setting.delay = std::atof(arguments[i].c_str() + colon + 1);
    if (setting.f <= 0 || setting.steps < 1 || setting.bytes < sizeof(float) ||
        setting.micro_batches < 1 || setting.delay < 0) {
      throw OptionError(
          "pipeline_schedules_bench: '", arguments[i],
          "' is no setting.\n  fix: M:DELAY, as 8:0.5; F_MS above 0, STEPS from 1, BYTES from 4.");
    }
    for (const std::string& name : schedules_of(arguments[3])) run_schedule(setting, name, world);
  }
}

}  // namespace

int main(int argc, char** argv) {
  return reef_bench::ranks_main(argc, argv, "pipeline_schedules_bench", run_all);
}
