#include <memory>
#include <string>
#include <utility>

#include <reef/io/json.hpp>
#include <reef/plan/route.hpp>
#include <reef/plan/route_json.hpp>
#include <reef/plan/router.hpp>

#include "../support/number_option.hpp"
#include "commands.hpp"

namespace reef_examples {

namespace {

reef::io::Json route(const PlanCase& test, const reef::plan::RouteOptions& options) {
  using namespace reef;
  const plan::RouteCase read = plan::route_from_json(test.json, test.file);
  plan::Router router(read.request, options);
  for (const auto& [name, server] : read.servers) router.set(name, server);
  const plan::Route found = router.route();
  io::Json answer{{"feasible", found.feasible}};
  if (!found.feasible) {
    answer["why"] = found.why;
    return answer;
  }
  io::Json path = io::Json::array();
  for (const plan::RouteHop& hop : found.path) path.push_back({hop.name, hop.start, hop.end});
  answer["cost"] = found.cost;
  answer["path"] = std::move(path);
  return answer;
}

}  // namespace

void add_route(Commands& commands) {
  const auto options = std::make_shared<reef::plan::RouteOptions>();
  CLI::App* const command = commands.add(
      "route",
      "the quickest way through blocks that servers hold.\n"
      "CASE: L (blocks), start, end (what is gone through), servers {name: {start, end, rps (steps "
      "per second through a block), cache (tokens left), next {name: rtt}, queue (requests that "
      "wait), occupancy (sequences in the batch), batch (sequences that cost no time)}}, "
      "client_rtt "
      "{name: rtt} (seconds; \"inf\": cannot be reached), cache_tokens_needed",
      "case.json --used-cache", [options](const PlanCase& test) { return route(test, *options); });
  command->add_flag("--used-cache", options->cache_of_used_blocks,
                    "the cache must hold the blocks that are used, not all that a server has");
  command
      ->add_option(
          "--full-cache", options->full_cache,
          "seconds added for a session that takes all of a cache, less for one that takes less")
      ->transform(number_from<double>(0, 100));
}

}  // namespace reef_examples
