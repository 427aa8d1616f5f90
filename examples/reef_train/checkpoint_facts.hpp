#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include <reef/io/json.hpp>
#include <reef/optim/learning_rate.hpp>

namespace reef_examples {

/// What errors call a run: by its recipe, since several have one optimizer.
inline std::string called_by(const std::string& recipe) { return "--recipe " + recipe; }

/// What a checkpoint says of the run that wrote it. Runs of before some of it was kept lack that.
struct CheckpointFacts {
  CheckpointFacts() = default;
  /// Of a manifest's facts. Throws DecodeError for what is no fact of reef-train's.
  explicit CheckpointFacts(const reef::io::Json& facts);

  std::uint32_t text = 0;  ///< its checksum
  std::int64_t batch = 0;
  std::int64_t context = 0;
  std::int64_t ranks = 0;
  std::int64_t tokens_a_step = 0;  ///< 0: not known
  std::optional<reef::optim::LearningRate> learning_rate;
  std::uint64_t model = 0;                     ///< graph::hash_of; 0: not known, as of the next two
  std::string instruction_set;                 ///< device::name_of
  std::string numerics;                        ///< nn::host::numerics_class
  std::map<std::string, std::string> options;  ///< TrainOptions::of_the_run

  /// What a person should know before `now` goes on from `step` to `steps`. Throws OptionError for what no run goes on
  /// with.
  [[nodiscard]] std::vector<std::string> compare(const CheckpointFacts& now, std::int64_t step,
                                                 std::int64_t steps) const;

  /// For a checkpoint's own facts; ranks, model, instruction set and numerics class the checkpoint tells.
  [[nodiscard]] reef::io::Json json() const;

private:
  /// "--lr was 0.01, is 0.02; ...": of the options that both know.
  [[nodiscard]] std::string differences(const std::map<std::string, std::string>& now) const;

  /// Throws OptionError, with the option and both values, for those that make another model or other numbers
  /// from the start.
  void require_model(const CheckpointFacts& now) const;
};

}  // namespace reef_examples
