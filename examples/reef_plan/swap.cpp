#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <reef/core/error.hpp>
#include <reef/io/json.hpp>
#include <reef/io/known_keys.hpp>
#include <reef/plan/chain_json.hpp>
#include <reef/plan/partition_chain.hpp>
#include <reef/plan/variant.hpp>

#include "commands.hpp"

namespace reef_examples {

namespace {

reef::io::Json swap(const PlanCase& test, const std::string& variant) {
  using namespace reef;
  io::require_known_keys(test.json, std::array<std::string_view, 3>{"cap", "C", "chain"},
                         test.file);
  const plan::OperatorChain chain =
      plan::chain_from_json(io::require<io::Json>(test.json, "chain", test.file), test.file);
  plan::PartitionOptions wanted;
  wanted.memory = io::require<Bytes>(test.json, "cap", test.file);
  wanted.accumulation = io::require<std::int64_t>(test.json, "C", test.file);
  wanted.variant = plan::variant_of(variant).value();
  if (wanted.accumulation < 0) {
    throw DecodeError("reef::plan: ", test.file, ": 'C' is ", wanted.accumulation,
                      ".\n  fix: at least 1, or 0 to find the fewest micro-batches.");
  }
  const plan::Partition found = wanted.accumulation == 0
                                    ? plan::smallest_accumulation(chain, wanted)
                                    : plan::partition_chain(chain, wanted);
  io::Json answer{{"feasible", found.feasible}, {"fits", found.fits}, {"C", found.accumulation}};
  if (!found.feasible) {
    answer["why"] = found.why;
    return answer;
  }
  io::Json segments = io::Json::array();
  for (std::size_t i = 0; i + 1 < found.bounds.size(); ++i) {
    segments.push_back({found.bounds[i], found.bounds[i + 1]});
  }
  answer["segments"] = std::move(segments);
  answer["cut_bytes"] = found.cut_bytes;
  answer["iter_us"] = found.iteration;
  answer["peak_bytes"] = found.peak_bytes;
  answer["utilisation"] = found.utilisation();
  return answer;
}

}  // namespace

void add_swap(Commands& commands) {
  const auto variant = std::make_shared<std::string>("full");
  CLI::App* const command = commands.add(
      "swap",
      "where to cut a chain of operators into sub-models that are swapped through the device.\n"
      "CASE: cap (bytes), C (micro-batches; 0 finds the fewest), chain {w, g, wsf, wsb, tf, tb, "
      "tl, of, "
      "ob, cut} (bytes and whole us)",
      "case.json --variant three",
      [variant](const PlanCase& test) { return swap(test, *variant); });
  command->add_option("--variant", *variant, "which rules a partition keeps")
      ->check(CLI::IsMember(std::vector<std::string>(reef::plan::variant_names.begin(),
                                                     reef::plan::variant_names.end())))
      ->capture_default_str();
}

}  // namespace reef_examples
