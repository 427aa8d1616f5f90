#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <reef/core/error.hpp>
#include <reef/core/text.hpp>
#include <reef/core/units.hpp>
#include <reef/io/atomic_file.hpp>
#include <reef/io/file.hpp>
#include <reef/io/json.hpp>
#include <reef/plan/pipeline_case_json.hpp>
#include <reef/plan/pipeline_model.hpp>
#include <reef/plan/pipeline_order.hpp>
#include <reef/plan/pipeline_schedules.hpp>
#include <reef/plan/pipeline_search.hpp>

#include "../support/gantt_plot.hpp"
#include "../support/number_option.hpp"
#include "commands.hpp"

namespace reef_examples {

namespace {

using namespace reef;

struct ScheduleCommand {
  std::string schedule;  ///< empty: that of the case
  std::string order;     ///< a file with another
  std::string written;   ///< where it is to be written
  int effort = -1;
  std::string plot;
};

/// Drawings of more are too large to look at.
constexpr std::size_t max_drawn = 100'000;

plan::PipelineOrderProblem problem_of(const plan::PipelineCase& asked,
                                      const std::vector<int>& rank_of_chunk) {
  const plan::PipelineModel model = asked.model({asked.micro_batches, rank_of_chunk, {}});
  return {.micro_batches = asked.micro_batches,
          .rank_of_chunk = rank_of_chunk,
          .times = model.times,
          .forward = model.forward,
          .backward = model.backward,
          .max_activations = asked.max_activations,
          .splits = asked.splits};
}

/// Why a known order is none for this case; empty if it is one.
std::string misfit(const plan::PipelineCase& asked, const plan::PipelineModel& model,
                   const plan::PipelineEstimate& estimate) {
  for (std::size_t r = 0; r < asked.max_activations.size(); ++r) {
    if (estimate.peak_activations[r] <= asked.max_activations[r]) continue;
    return concat("rank ", r, " holds ", estimate.peak_activations[r],
                  " activations, and may hold ", asked.max_activations[r]);
  }
  for (const auto& tasks : model.order.tasks) {
    for (const auto& task : tasks) {
      if (task.kind == plan::PipelineTaskKind::weight_backward && !asked.splits) {
        return concat(asked.schedule, " runs backwards in halves, which split: false rules out");
      }
    }
  }
  return {};
}

/// The order of a file, which is to be one of this case.
plan::PipelineOrder order_of(const std::string& file, const plan::PipelineCase& asked) {
  constexpr Bytes most = 1_GiB;
  plan::PipelineOrder order = plan::parse_pipeline_order(io::read_file(file, most), file);
  const auto require = [&](const char* what, int is, int should, const char* key) {
    if (is == should) return;
    throw OptionError("reef-plan schedule: ", file, " is an order of ", is, " ", what, ", and ",
                      key, " of the case is ", should, ".\n  fix: an order of the case.");
  };
  require("ranks", order.ranks(), asked.ranks, "p");
  require("micro-batches", order.micro_batches, asked.micro_batches, "m");
  require("chunks", order.chunks(), asked.ranks * asked.chunks_per_rank, "p v");
  return order;
}

GanttPlot drawn(const plan::PipelineModel& model, const plan::PipelineEstimate& estimate,
                Seconds lower_bound, const std::string& name, const PlanCase& test) {
  const auto micro_batches = model.order.micro_batches;
  GanttPlot plot;
  plot.title =
      concat(name, ", ", micro_batches, micro_batches == 1 ? " micro-batch" : " micro-batches",
             " on ", model.order.ranks(), model.order.ranks() == 1 ? " rank" : " ranks", ", of ",
             std::filesystem::path(test.file).filename().string());
  std::string peaks;
  for (const int peak : estimate.peak_activations) peaks += concat(peaks.empty() ? "" : ", ", peak);
  plot.facts = {{"a step", concat(detail::plot_number(estimate.makespan), " us")},
                {"no order takes less than", concat(detail::plot_number(lower_bound), " us")},
                {"bubble", concat(detail::plot_number(100 * estimate.bubble), " %")},
                {"activations held at most, by rank", detail::plot_shortened(peaks, 100)}};
  plot.unit = "us";
  plot.idle = "bubble";
  plot.colours = {{"forward", "#3b76c4", "#fff"},
                  {"backward", "#c2602d", "#fff"},
                  {"I: its input half", "#e0a13a", "#15191f"},
                  {"W: its weight half", "#5d9c59", "#fff"}};
  // Of several chunks on a rank the later ones are lighter.
  const std::size_t kinds = plot.colours.size();
  const bool names = plan::names_chunks(model.order);
  if (names) {
    plot.colours.push_back({"", "#8fb4e3", "#15191f"});
    plot.colours.push_back({"", "#e3a584", "#15191f"});
    plot.colours.push_back({"", "#f0cf96", "#15191f"});
    plot.colours.push_back({"of later chunks", "#a5cda2", "#15191f"});
  }
  for (std::size_t r = 0; r < model.order.tasks.size(); ++r) {
    GanttPlot::Row row{concat("rank ", r), {}};
    const auto& tasks = model.order.tasks[r];
    for (std::size_t n = 0; n < tasks.size(); ++n) {
      const Seconds end = estimate.task_ends[r][n];
      const Seconds begin = end - model.times.of(tasks[n]);
      const bool is_later = tasks[n].chunk >= model.order.ranks();
      row.bars.push_back({begin, end,
                          static_cast<std::size_t>(tasks[n].kind) + (is_later ? kinds : 0),
                          std::to_string(tasks[n].micro_batch),
                          concat(plan::text_of(tasks[n], names), ", ", detail::plot_number(begin),
                                 " to ", detail::plot_number(end), " us")});
    }
    plot.rows.push_back(std::move(row));
  }
  return plot;
}

/// What an order takes and holds.
io::Json described(const plan::PipelineModel& model, const plan::PipelineEstimate& estimate) {
  const bool names = plan::names_chunks(model.order);
  io::Json orders = io::Json::array();
  for (const auto& tasks : model.order.tasks) {
    io::Json order = io::Json::array();
    for (const auto& task : tasks) order.push_back(plan::text_of(task, names));
    orders.push_back(std::move(order));
  }
  io::Json messages = io::Json::object();
  for (const auto& [pair, count] : estimate.messages) {
    messages[concat(pair.first, ">", pair.second)] = count;
  }
  return {{"orders", std::move(orders)},
          {"makespan_us", estimate.makespan},
          {"bubble", estimate.bubble},
          {"rank_end_us", estimate.rank_end},
          {"idle_us", estimate.idle},
          {"span_idle_us", estimate.span_idle},
          {"peak_activations", estimate.peak_activations},
          {"peak_until_input_half", estimate.peak_until_input_half},
          {"peak_pending_weight", estimate.peak_pending_weight},
          {"messages", std::move(messages)}};
}

io::Json schedule(const PlanCase& test, const ScheduleCommand& command) {
  plan::PipelineCase asked = plan::pipeline_case_from_json(test.json, test.file);
  if (!command.schedule.empty() && command.schedule != asked.schedule) {
    asked.schedule = command.schedule == "searched" ? "" : command.schedule;
    asked.warm_up.clear();
    asked.group = 0;
  }
  if (!command.order.empty()) {
    if (!command.schedule.empty()) {
      throw OptionError("reef-plan schedule: --order and --schedule.\n  fix: one of them.");
    }
    asked.schedule = "given";
  }
  const bool searches = asked.schedule.empty();
  if (!searches && command.effort >= 0) {
    throw OptionError("reef-plan schedule: --effort with the schedule ", asked.schedule,
                      ".\n  fix: --schedule searched, or leave it out.");
  }
  plan::PipelineModel model;
  plan::PipelineSearch found;
  if (searches) {
    found = plan::search_pipeline_order(
        problem_of(asked, asked.rank_of_chunk()),
        {.seed = test.seed, .effort = command.effort, .budget = test.budget});
    if (!found.feasible) return {{"feasible", false}, {"why", found.why}};
    model = asked.model(found.order);
  } else {
    model = asked.model(command.order.empty() ? asked.order() : order_of(command.order, asked));
  }
  const plan::PipelineEstimate estimate = plan::estimate(model);
  if (!searches) {
    const std::string why = misfit(asked, model, estimate);
    if (!why.empty()) return {{"feasible", false}, {"why", why}};
    found.lower_bound =
        std::min(plan::pipeline_lower_bound(problem_of(asked, model.order.rank_of_chunk)),
                 estimate.makespan);
    found.optimal = found.lower_bound == estimate.makespan;
  }
  const std::string name = searches ? "searched" : asked.schedule;
  write_output(command.written, [&] {
    io::write_atomically(command.written,
                         concat(order_begins, ": ", name, "\n", plan::text_of(model.order)));
  });
  if (!command.plot.empty()) {
    std::size_t count = 0;
    for (const auto& tasks : model.order.tasks) count += tasks.size();
    if (count > max_drawn) {
      throw OptionError("reef-plan schedule: --plot of ", count, " tasks.\n  fix: at most ",
                        max_drawn, ".");
    }
    write_output(command.plot, [&] {
      io::write_atomically(command.plot,
                           gantt_svg(drawn(model, estimate, found.lower_bound, name, test)));
    });
  }
  io::Json answer = described(model, estimate);
  answer["feasible"] = true;
  answer["schedule"] = name;
  answer["lower_bound_us"] = found.lower_bound;
  answer["optimal"] = found.optimal;
  if (searches) {
    answer["effort"] = found.effort;
    if (!found.fixed.empty()) {
      answer["best_fixed"] = found.fixed;
      answer["best_fixed_us"] = found.fixed_makespan;
    }
  }
  return answer;
}

}  // namespace

void add_schedule(Commands& commands) {
  const auto options = std::make_shared<ScheduleCommand>();
  CLI::App* const command = commands.add(
      "schedule",
      "in which order each rank of a pipeline runs its forwards and backwards, and what that "
      "takes.\n"
      "CASE: p (ranks), m (micro-batches), t_f, t_b, t_w (us: forward, input half and weight half "
      "of "
      "the backward, by chunk); and, as wanted, schedule, v (chunks on each rank, numbered in the "
      "order of the model), placement (linear, loop, v), links ([{from, to, wire_us, "
      "latency_us}]), "
      "warm_up (1f1b, by rank), group (interleaved), max_activations (by rank), split (whether a "
      "backward may run in halves)",
      "case.json --schedule searched --plot schedule.svg",
      [options](const PlanCase& test) { return schedule(test, *options); });
  const std::vector<std::string_view> known = plan::pipeline_schedule_names();
  std::vector<std::string> names(known.begin(), known.end());
  names.emplace_back("searched");
  command
      ->add_option(
          "--schedule", options->schedule,
          "a known order, or the best that is found (default: that of the case; of one that "
          "names none, searched)")
      ->check(CLI::IsMember(names));
  commands.add_input(
      command, "--order", options->order,
      "an order of one's own: a file with a line for each rank, such as 'F0 F1 B0 B1'");
  commands.add_output(command, "--write-order", Output::order, options->written,
                      "write the order to this file, which --order reads, that of reef-train too");
  command
      ->add_option(
          "--effort", options->effort,
          "rounds of the search, which with the seed decide the answer (default: 40, or as "
          "many as the budget has time for; it stops earlier with a proof)")
      ->transform(number_from<int>(0, std::numeric_limits<int>::max()));
  commands.add_output(command, "--plot", Output::drawing, options->plot,
                      "draw to this file, an SVG, when each rank runs what");
}

}  // namespace reef_examples
