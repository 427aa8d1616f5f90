#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <reef/core/units.hpp>
#include <reef/io/json.hpp>
#include <reef/nn/gpt.hpp>
#include <reef/profile/network.hpp>
#include <reef/profile/profile.hpp>
#include <reef/schedule/world.hpp>

namespace reef_examples {

/// The recipes of reef-train.
inline constexpr const char* recipe_names = "ddp, zero1, dpu, acco-wp, acco, atom, diloco, sparse, dtfm, fusion or reef";

/// Recipes over stages.
inline bool is_spread(const std::string& recipe) { return recipe == "dtfm" || recipe == "fusion" || recipe == "reef"; }

/// Recipes whose models pass through the device.
inline bool is_swapped(const std::string& recipe) { return recipe == "atom" || recipe == "reef"; }

/// Recipes whose phases may take further micro-batches while they communicate.
inline bool can_adapt(const std::string& recipe) {
  return recipe == "acco" || recipe == "acco-wp" || recipe == "dpu" || recipe == "reef";
}

/// Phases of a step, which share its micro-batches.
inline int phases_of(const std::string& recipe) { return recipe == "acco" || recipe == "reef" ? 2 : 1; }

/// Of layers, and two more, by micro-batches of all replicas.
inline constexpr std::int64_t largest = 65536;

/// A training that is foreseen: what reef-train would be given, and the machines.
struct RecipeCase {
  std::string recipe;
  reef::nn::GptConfig model;                     ///< of a graph its samples and tokens, and as many layers as take its operators
  std::string graph_file{};                      ///< as --graph of reef-train: what is trained instead of a GPT, or empty
  std::shared_ptr<const reef::io::Json> graph{};  ///< what that file holds
  int micro_batches = 1;  ///< of each replica, in a step
  reef::Bytes memory = 0;
  double link = 0;  ///< bytes per second
  double flops = 0;
  double memory_rate = 0;
  int ranks = 1;
  reef::profile::Network network = reef::profile::Network::uniform(1, 0, reef::profile::Network::max_rate);
  int stages = 1;                              ///< of recipes over stages, as what follows
  std::string pipeline = "1f1b";
  std::string layout = "balanced";             ///< or op-fence
  int unit = 1;                                ///< micro-batches that the order counts as one; 0: all
  std::vector<int> rank_at;                    ///< by replica and stage; empty: in turn
  std::map<std::string, std::string> compress;  ///< channel: codec, as of reef-train
  bool one_mask = false;
  bool adapt_ratios = false;
  bool adapts = false;  ///< of acco, acco-wp, dpu and reef: a phase takes further micro-batches for as long as it communicates
  int most = 0;         ///< of a replica in such a phase; 0: no bound
  int sync_every = 50;  ///< of diloco and sparse
  int fragments = 1;
  std::string overlap = "none";

  /// The links of planners that know no uplinks: none is better than its ends.
  [[nodiscard]] reef::profile::Network links() const;

  [[nodiscard]] bool has_graph() const { return graph != nullptr; }

  /// As --accumulate of reef-train: fixed, adaptive, or cap:M.
  [[nodiscard]] std::string accumulate() const;

  [[nodiscard]] int replicas() const { return ranks / stages; }

  /// Every rank's program is written, placed and simulated, which takes memory and time in proportion; a rank of several
  /// stages has its share of layers.
  [[nodiscard]] bool is_too_large() const { return is_too_large(static_cast<double>(micro_batches) * replicas()); }
  /// By the micro-batches of all replicas.
  [[nodiscard]] bool is_too_large(double of_all) const { return (static_cast<double>(model.layers) + 2) * of_all > largest; }

  /// Micro-batches of a replica in a phase that adapts, up to which it is simulated: of one that is not too large. The body of a
  /// loop is written and placed once, so there may be sixteen times as many as where all are written.
  [[nodiscard]] int max_simulated() const {
    return static_cast<int>(16 * largest / ((model.layers + 2) * replicas() * phases_of(recipe)));
  }

  /// The ranks and what is between them.
  [[nodiscard]] reef::schedule::World world(const reef::profile::Profile& profile) const;
};

/// Throws DecodeError, with the file.
[[noreturn]] void refuse(const std::string& file, const std::string& why, const std::string& fix);

/// What a case is of, which says the keys that it may have: plan chooses a recipe itself.
enum class CaseOf : std::uint8_t { simulate, estimate, plan };
RecipeCase read_case(const reef::io::Json& test, const std::string& file, CaseOf use);

}  // namespace reef_examples
