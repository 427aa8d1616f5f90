#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include <reef/core/error.hpp>
#include <reef/io/json.hpp>
#include <reef/io/known_keys.hpp>
#include <reef/plan/chain_json.hpp>
#include <reef/plan/partition_chain.hpp>

#include "commands.hpp"

namespace reef_examples {

reef::io::Json swap(const PlanOptions& options) {
  using namespace reef;
  const io::Json test = io::read_json(options.file);
  io::require_known_keys(test, std::array<std::string_view, 3>{"cap", "C", "chain"}, options.file);
  const plan::Chain chain =
      plan::chain_from_json(io::require<io::Json>(test, "chain", options.file), options.file);
  plan::PartitionOptions wanted;
  wanted.memory = io::require<Bytes>(test, "cap", options.file);
  wanted.accumulation = io::require<std::int64_t>(test, "C", options.file);
  wanted.variant = plan::variant_of(options.variant).value();
  if (wanted.accumulation < 0) {
    throw DecodeError("reef::plan: ", options.file, ": 'C' is ", wanted.accumulation,
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

}  // namespace reef_examples
