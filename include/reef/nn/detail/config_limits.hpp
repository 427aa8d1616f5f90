#pragma once

#include <cstdint>
#include <string_view>

#include <reef/core/error.hpp>
#include <reef/core/finite.hpp>
#include <reef/core/text.hpp>
#include <reef/nn/rotary_frequencies.hpp>

namespace reef {
inline namespace v0 {
namespace nn::detail {

/// The limits that configurations of decoders have in common. Throws OptionError that names the first invalid member.
class ConfigLimits {
public:
  static constexpr std::int64_t max_layers = 10'000;
  static constexpr std::int64_t wide = std::int64_t{1} << 20;
  static constexpr std::int64_t longest = std::int64_t{1} << 24;  // tokens of a sequence

  /// `whose`: the name of the configuration, for errors.
  explicit ConfigLimits(const char* whose) : whose_(whose) {}

  void require_range(bool fits, const char* member, auto value, std::string_view range) const {
    if (fits) return;
    throw OptionError("reef::nn::", whose_, ": ", member, " is ", value, ".\n  fix: ", range, ".");
  }

  void width(const char* member, std::int64_t value) const {
    require_range(value >= 1 && value <= wide, member, value, "1 to 2^20");
  }

  /// Layers, heads, channels, tokens and norms of any of them.
  void require_sizes(const auto& config) const {
    constexpr std::int64_t tokens = std::int64_t{1} << 31;  // they are int32
    require_range(config.layers >= 1 && config.layers <= max_layers, "layers", config.layers,
                  concat("1 to ", max_layers));
    width("heads", config.heads);
    width("channels", config.channels);
    require_range(config.vocabulary >= 1 && config.vocabulary < tokens, "vocabulary", config.vocabulary,
                  "1 to 2^31 - 1");
    require_range(config.context >= 1 && config.context <= longest, "context", config.context, "1 to 2^24");
    require_range(is_finite(config.epsilon) && config.epsilon >= 0, "epsilon", config.epsilon, "0 or more");
  }

  /// A batch of sequences of at most so many tokens; of valid sizes.
  void require_batch(const auto& config, std::int64_t most, std::string_view range) const {
    constexpr std::int64_t tokens = std::int64_t{1} << 31;
    require_range(config.sequence >= 0 && config.sequence <= most, "sequence", config.sequence, range);
    require_range(config.batch >= 1 && config.batch <= tokens / config.length(), "batch", config.batch,
                  "at least 1, and at most 2^31 tokens");
  }

  void require_rotary(const RotaryFrequencies& rotary) const {
    require_range(is_finite(rotary.theta) && rotary.theta > 0, "rotary.theta", rotary.theta, "above 0");
    require_range(is_finite(rotary.factor) && rotary.factor > 0, "rotary.factor", rotary.factor,
                  "above 0; 1 stretches nothing");
    require_range(rotary.original >= 0, "rotary.original", rotary.original,
                  "0, or the positions that were trained with");
    require_range(is_finite(rotary.low) && rotary.low > 0, "rotary.low", rotary.low, "above 0");
    require_range(is_finite(rotary.high) && rotary.high > rotary.low, "rotary.high", rotary.high, "above rotary.low");
  }

private:
  const char* whose_;
};

}  // namespace nn::detail
}  // namespace v0
}  // namespace reef
