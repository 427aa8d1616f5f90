#include <memory>
#include <string>

#include <reef/core/error.hpp>
#include <reef/io/json.hpp>
#include <reef/plan/adatopk.hpp>
#include <reef/plan/adatopk_json.hpp>

#include "commands.hpp"

namespace reef_examples {

void add_adatopk(Commands& commands) {
  using namespace reef;
  const auto target = std::make_shared<std::string>("paper");
  CLI::App* const command = commands.add(
      "adatopk",
      "how much each link of a pipeline is compressed.\n"
      "CASE: link_times (seconds of dense messages) and user_ratio (of bytes), or alpha, beta "
      "(seconds, "
      "seconds per byte, by link), bytes (of all, or by link) and r; index_bytes (8), compute_s "
      "(seconds by stage)",
      "case.json --target stage", [target](const PlanCase& test) -> io::Json {
        plan::AdaTopKCase read = plan::adatopk_from_json(test.json, test.file);
        if (*target == "stage") {
          if (!test.json.contains("compute_s")) {
            throw DecodeError("reef::plan: ", test.file,
                              ": --target stage needs 'compute_s'.\n"
                              "  fix: the seconds that each stage computes.");
          }
          read.options.compute = read.slowest_compute;
        }
        const plan::AdaTopKRatios found = plan::adatopk(read.links, read.options);
        return {{"ratios", found.ratios},
                {"link_times", found.times},
                {"bottleneck", found.bottleneck},
                {"target_s", found.target}};
      });
  command
      ->add_option(
          "--target", *target,
          "how fast links get: all as the slowest at the ratio, or no faster than the slowest "
          "stage")
      ->check(CLI::IsMember({"paper", "stage"}))
      ->capture_default_str();
}

}  // namespace reef_examples
