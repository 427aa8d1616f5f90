#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <reef/core/error.hpp>
#include <reef/core/text.hpp>
#include <reef/io/json.hpp>
#include <reef/io/known_keys.hpp>
#include <reef/plan/balance.hpp>
#include <reef/plan/block_choice.hpp>
#include <reef/plan/number_json.hpp>
#include <reef/plan/swarm.hpp>
#include <reef/plan/swarm_json.hpp>

#include "commands.hpp"

namespace reef_examples {

namespace {

using reef::io::Json;
using reef::plan::Swarm;
using reef::plan::Throughput;

Json best_start(const PlanCase& test) {
  const auto t = reef::plan::numbers_from_json(test.json, "t", 0, 1e15, test.file);
  if (t.empty() || t.size() > std::size_t{Swarm::max_blocks}) {
    throw reef::DecodeError("reef::plan: ", test.file, ": 't' has ", t.size(),
                            " numbers.\n  fix: one for each of 1 to ", Swarm::max_blocks,
                            " blocks.");
  }
  const int length =
      reef::plan::count_from_json(test.json, "K", 1, static_cast<int>(t.size()), test.file);
  return {{"start", reef::plan::best_start<double>(t, length)}};
}

Json choose_blocks(const PlanCase& test) {
  const Swarm swarm = reef::plan::swarm_from_json(test.json, test.file);
  const int length = reef::plan::count_from_json(test.json, "K", 1, swarm.blocks, test.file);
  return {{"start", reef::plan::best_start<Throughput>(block_throughputs(swarm), length)}};
}

Json should_move(const PlanCase& test) {
  const Swarm swarm = reef::plan::swarm_from_json(test.json, test.file);
  const auto found = reef::plan::should_move(
      swarm, reef::io::require<std::string>(test.json, "me", test.file),
      reef::plan::number_from_json(test.json, "balance_quality", 0, 1e9, test.file), test.seed);
  Json answer{{"move", found.move}, {"current_throughput", reef::plan::per_second(found.now)}};
  if (found.then) answer["simulated_throughput"] = reef::plan::per_second(*found.then);
  return answer;
}

Json throughput(const PlanCase& test) {
  reef::plan::ServerSpeed speed;
  speed.forward_rps =
      reef::plan::number_from_json(test.json, "forward_rps_one_block", 0, 1e15, test.file);
  const auto network = reef::io::value_or<Json>(test.json, "network_rps", {}, test.file);
  if (!network.is_null() && network != "inf")
    speed.network_rps = reef::plan::number_from_json(test.json, "network_rps", 0, 1e15, test.file);
  speed.blocks =
      reef::plan::count_from_json(test.json, "num_blocks", 1, Swarm::max_blocks, test.file);
  speed.relay = reef::io::value_or<bool>(test.json, "relay", false, test.file);
  return {{"throughput", reef::plan::advertised_throughput(speed)}};
}

Json greedy_join(const PlanCase& test) {
  Swarm swarm;
  swarm.blocks = reef::plan::count_from_json(test.json, "L", 1, Swarm::max_blocks, test.file);
  const auto room =
      reef::io::require<std::vector<std::int64_t>>(test.json, "capacities", test.file);
  const auto rates = reef::plan::numbers_from_json(test.json, "throughputs", 0, 1e9, test.file);
  if (room.size() != rates.size() || room.size() > std::size_t{Swarm::max_servers}) {
    throw reef::DecodeError("reef::plan: ", test.file, ": 'capacities' has ", room.size(),
                            " numbers and 'throughputs' ", rates.size(),
                            ".\n  fix: one for each server, and at most ", Swarm::max_servers,
                            ".");
  }
  for (std::size_t i = 0; i < room.size(); ++i) {
    reef::plan::SwarmServer server;
    server.id = std::to_string(i);
    server.length = reef::plan::count_from_json(test.json, reef::concat("capacities.", i), 1,
                                                swarm.blocks, test.file);
    server.throughput = reef::plan::to_throughput(rates[i]);
    swarm.servers.push_back(std::move(server));
  }
  const std::vector<int> starts = reef::plan::join_in_turn(swarm);
  for (std::size_t i = 0; i < starts.size(); ++i) swarm.servers[i].start = starts[i];
  const std::vector<Throughput> t = block_throughputs(swarm);
  Json each = Json::array();
  for (const Throughput block : t) each.push_back(reef::plan::per_second(block));
  return {{"starts", starts},
          {"t", std::move(each)},
          {"throughput", reef::plan::per_second(reef::plan::slowest_block(t))}};
}

/// Where all servers are to hold what, by the plan that each of them makes.
Json plan(const PlanCase& test) {
  const Swarm swarm = reef::plan::swarm_from_json(test.json, test.file);
  reef::plan::BalanceOptions options;
  if (test.json.contains("price"))
    options.price_ppm =
        std::llround(1e6 * reef::plan::number_from_json(test.json, "price", 0, 1e3, test.file));
  const reef::plan::BalancePlan found = reef::plan::balance(swarm, options);
  Json moves = Json::array();
  for (const reef::plan::BalanceMove& move : found.moves) {
    const auto& server = swarm.servers[static_cast<std::size_t>(swarm.find(move.id))];
    moves.push_back({{"id", move.id}, {"start", move.start}, {"end", move.start + server.length}});
  }
  Json answer{{"feasible", found.then > 0},
              {"moves", std::move(moves)},
              {"throughput", reef::plan::per_second(found.then)},
              {"current_throughput", reef::plan::per_second(found.now)},
              {"upper_bound", reef::plan::per_second(found.bound)},
              {"version", found.version}};
  if (found.then == 0) answer["why"] = "no placement was found in which each block has a server";
  return answer;
}

/// The question of a case that does not say it: of a list of rooms, joining; of a swarm, our plan.
const char* usual_op(const Json& test) {
  return test.is_object() && test.contains("capacities") ? "greedy_join" : "plan";
}

Json blocks(const PlanCase& test) {
  using Answer = Json (*)(const PlanCase&);
  using Keys = std::vector<std::string_view>;
  struct Op {
    std::string_view name;
    Answer answer;
    Keys keys;
  };
  static const std::array<Op, 6> ops{{
      {"best_start", best_start, {"t", "K"}},
      {"choose_blocks", choose_blocks, {"L", "servers", "K"}},
      {"should_move", should_move, {"L", "servers", "me", "balance_quality", "current_throughput"}},
      {"throughput", throughput, {"forward_rps_one_block", "network_rps", "num_blocks", "relay"}},
      {"greedy_join", greedy_join, {"L", "capacities", "throughputs"}},
      {"plan", plan, {"L", "servers", "price"}},
  }};
  const auto op = reef::io::value_or<std::string>(test.json, "op", usual_op(test.json), test.file);
  std::string names;
  for (const Op& known : ops) {
    if (op == known.name) {
      Keys keys = known.keys;
      keys.emplace_back("op");
      reef::io::require_known_keys(test.json, keys, test.file);
      return known.answer(test);
    }
    names += reef::concat(names.empty() ? "" : ", ", known.name);
  }
  throw reef::DecodeError("reef::plan: ", test.file, ": 'op' is ", reef::in_quotes(op),
                          ".\n  fix: ", names, ".");
}

}  // namespace

void add_blocks(Commands& commands) {
  commands.add(
      "blocks",
      "which consecutive blocks of a model each server holds.\n"
      "CASE: op and what it asks about. plan (the default): L (blocks), servers [{id, start, end, "
      "thr (requests per second), state (ONLINE, JOINING, OFFLINE); K, its room, instead of start "
      "and end, of who holds none yet}], price (a move must bring price / servers more). "
      "should_move, the published rule: L, servers, me, balance_quality. choose_blocks: L, "
      "servers, K. best_start: t (throughput of each block), K. greedy_join: L, capacities, "
      "throughputs. throughput: forward_rps_one_block, network_rps, num_blocks, relay",
      "case.json", blocks);
}

}  // namespace reef_examples
