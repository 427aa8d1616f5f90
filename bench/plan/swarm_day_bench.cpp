// One row of swarm_day.py: a swarm whose servers come and go, under one rule; one JSON object.
//
//   plan_swarm_day_bench ours --delay 30 --seed 1
//   plan_swarm_day_bench found --seed 1      the best placements found, of every tenth minute

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <string>
#include <vector>

#include <reef/core/error.hpp>
#include <reef/core/numbers.hpp>
#include <reef/io/json.hpp>

#include "plan/swarm_day.hpp"
#include "support/measure.hpp"

namespace {

using namespace reef_bench;
using reef::io::Json;

double number(const std::vector<std::string>& arguments, const std::string& option,
              double otherwise) {
  for (std::size_t i = 1; i + 1 < arguments.size(); ++i) {
    if (arguments[i] != option) continue;
    if (const auto value = reef::parse_number<double>(arguments[i + 1])) return *value;
    throw reef::OptionError("swarm_day: ", option, " is no number.\n  fix: ", option, " 30");
  }
  return otherwise;
}

SwarmSetting setting_of(const std::string& rule) {
  SwarmSetting setting;
  if (rule == "none") {
    setting.rule = SwarmRule::random;
  } else if (rule == "join") {
    setting.rule = SwarmRule::join;
  } else if (rule == "published") {
    setting.rule = SwarmRule::published;
    setting.quality = 1 / 1.2;
  } else if (rule == "code") {
    setting.rule = SwarmRule::published;
    setting.quality = 0.75;
    setting.guard = true;
  } else if (rule != "ours") {
    throw reef::OptionError("swarm_day: no rule is called '", rule,
                            "'.\n  fix: none, join, published, code, ours or found.");
  }
  return setting;
}

Json per_second(const std::vector<Throughput>& values) {
  Json list = Json::array();
  for (const Throughput value : values) list.push_back(reef::plan::per_second(value));
  return list;
}

Json row(const std::vector<std::string>& arguments) {
  const std::string rule = arguments.empty() ? "" : arguments[0];
  const auto seed = static_cast<std::uint64_t>(number(arguments, "--seed", 1));
  const int minutes = static_cast<int>(number(arguments, "--minutes", 1440));
  const int period = static_cast<int>(number(arguments, "--period", 1440));
  const SwarmDay day(seed, minutes, period);
  if (rule == "found") return {{"found", per_second(best_found(day))}};
  SwarmSetting setting = setting_of(rule);
  setting.seed = seed;
  setting.delay = static_cast<Milliseconds>(1000 * number(arguments, "--delay", 0));
  setting.loading = static_cast<Milliseconds>(1000 * number(arguments, "--loading", 0));
  setting.options.price_ppm = static_cast<std::int64_t>(1e6 * number(arguments, "--price", 0.55));
  const double begin = processor_seconds();
  const SwarmResult result = SwarmSimulation(day, setting).run();
  return {{"served", per_second(result.served)},
          {"bound", per_second(result.bound)},
          {"there", result.there},
          {"moves", result.moves},
          {"disconnected_s", result.disconnected_s},
          {"plans", result.plans},
          {"differing_rounds", result.differing},
          {"processor_s", processor_seconds() - begin}};
}

}  // namespace

int main(int argc, char** argv) {
  try {
    std::printf("%s\n", row({argv + 1, argv + argc}).dump().c_str());
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
