#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <reef/codec/blockwise8.hpp>
#include <reef/codec/chosen.hpp>
#include <reef/codec/chunk_top_k.hpp>
#include <reef/codec/dct.hpp>
#include <reef/codec/error_feedback.hpp>
#include <reef/codec/power_sgd.hpp>
#include <reef/compress/channels.hpp>
#include <reef/core/random.hpp>
#include <reef/core/text.hpp>
#include <reef/nn/cross_entropy.hpp>
#include <reef/nn/gelu.hpp>
#include <reef/nn/layer_norm.hpp>
#include <reef/nn/linear.hpp>
#include <reef/trainer/trainer.hpp>

#include "../support/ranks.hpp"

/// Trainings with a step that does not count, and what they leave behind.
namespace reef::test::skipped {

using codec::Chosen;
using Coded = compress::Channels<compress::Activation<Chosen>, compress::ActivationGradient<Chosen>,
                                 compress::Gradient<Chosen>, compress::Parameter<Chosen>,
                                 compress::PseudoGradient<Chosen>>;

/// All codecs, and some within each other.
inline const std::vector<Chosen>& codecs() {
  static const std::vector<Chosen> all = [] {
    std::vector<Chosen> codecs;
    for (const char* const text :
         {"dense", "bf16", "fp8:32", "blockwise8:64", "uniform8", "nf4:64", "two-bit", "sign:64",
          "top-k:4", "random-k:4", "chunk-top-k:4/32", "top-k:4+two-bit", "random-k:4+uniform8",
          "chunk-top-k:4/32+sign:8"}) {
      codecs.push_back(Chosen::of(text));
      codecs.push_back(Chosen::of(concat("ef+", text)));
      codecs.push_back(Chosen::of(concat("ef21+", text)));
    }
    codecs.push_back(Chosen::of("ef:0.9+sign:64"));
    codecs.emplace_back(codec::PowerSgd{.columns = 7, .rank = 2});
    codecs.emplace_back(codec::ErrorFeedback<codec::PowerSgd>{{.columns = 7, .rank = 2}},
                        "ef+power_sgd");
    codecs.emplace_back(codec::Dct<codec::Blockwise8>{}, "dct+blockwise8");
    codecs.emplace_back(
        codec::ErrorFeedback<codec::Dct<codec::ChunkTopK>>{{{.chunk = 32, .keep = 4}}},
        "ef+dct+chunk-top-k");
    return codecs;
  }();
  return all;
}

/// It draws by the number of a micro-batch, of which a step that never was leaves others behind it.
inline bool draws(const Chosen& codec) { return codec.text().find("random") != std::string::npos; }
inline bool sends_all(const Chosen& codec) { return compress::detail::sends_all_numbers(codec); }

inline constexpr std::int64_t batch = 2, features = 7, width = 70, classes = 5;

/// No size is a multiple of padding's, of a codec's blocks, or of a number of ranks.
inline graph::Graph<device::Host, float> model() {
  graph::Graph<device::Host, float> g(1);
  const int x = g.input("x", {{batch, features}, Element::float32});
  const int targets = g.input("targets", {{batch}, Element::int32});
  int h = g.add("first", nn::Linear{width}, {x})[0];
  h = g.add("norm", nn::LayerNorm{}, {h})[0];
  h = g.add("first gelu", nn::Gelu{}, {h})[0];
  h = g.add("second", nn::Linear{width}, {h})[0];
  h = g.add("second gelu", nn::Gelu{}, {h})[0];
  h = g.add("third", nn::Linear{width - 3}, {h})[0];
  h = g.add("head", nn::Linear{classes}, {h})[0];
  g.loss(g.add("loss", nn::CrossEntropy{}, {h, targets})[0]);
  return g;
}

/// What becomes of the micro-batches of one step.
///
/// | none     | nothing: all count                       |
/// | spoilt   | one of them is not a number              |
/// | nothing  | some have no weight                      |
/// | left_out | the step never was: those behind come in its place |
enum class Spoils : std::uint8_t { none, spoilt, nothing, left_out };

inline constexpr std::uint64_t spoilt_step = 2;

/// Two micro-batches of each replica in each phase of a step.
inline constexpr std::uint64_t of_replica = 2;

/// The micro-batches of a step, and which of its own is spoilt.
struct Place {
  std::uint64_t each = of_replica;
  std::uint64_t spoilt = 0;
  std::uint64_t first_without_weight = 0;  ///< those from here on have none
  std::uint64_t period = 0;                ///< samples come again after so many steps; 0: never
};

inline run::Source source(Spoils what, const Place& at) {
  return [=](std::uint64_t first, std::span<const AnyView> inputs) {
    const auto [each, spoilt, first_without_weight, period] = at;
    std::uint64_t number = first / batch;
    const bool here = number / each == spoilt_step;
    if (what == Spoils::left_out && number / each >= spoilt_step) number += each;
    const std::uint64_t drawn = period == 0 ? number : number % (period * each);
    std::uint64_t place = 0;
    for (float& value : inputs[0].as<float>().span()) {
      value = static_cast<float>(random_bits({drawn, 0, 3, 0}, place++) % 1000) / 500 - 1;
    }
    for (std::int32_t& target : inputs[1].as<std::int32_t>().span()) {
      target = static_cast<std::int32_t>(random_bits({drawn, 0, 4, 0}, place++) % classes);
    }
    if (!here || what == Spoils::left_out || what == Spoils::none) return 1.0;
    if (what == Spoils::nothing) return number % each >= first_without_weight ? 0.0 : 1.0;
    if (number % each == spoilt)
      inputs[0].as<float>().span()[3] = std::numeric_limits<float>::quiet_NaN();
    return 1.0;
  };
}

/// What a training leaves behind of the steps that count: every bit.
struct Left {
  std::vector<double> losses, norms;
  std::map<std::string, std::vector<float>>
      numbers;  ///< by name: weights, optimizer state, memories

  /// What differs first, in words.
  [[nodiscard]] std::string difference(const Left& other) const {
    for (std::size_t i = 0; i < std::max(losses.size(), other.losses.size()); ++i) {
      const auto text = [i](const std::vector<double>& all) {
        return i < all.size() ? concat(all[i]) : std::string("none");
      };
      if (text(losses) != text(other.losses) || losses[i] != other.losses[i]) {
        return concat("loss ", i, " is ", text(losses), ", not ", text(other.losses));
      }
      if (norms[i] != other.norms[i])
        return concat("norm ", i, " is ", norms[i], ", not ", other.norms[i]);
    }
    for (const auto& [name, values] : numbers) {
      const auto found = other.numbers.find(name);
      if (found == other.numbers.end()) return concat("there is no ", name);
      for (std::size_t i = 0; i < values.size(); ++i) {
        if (values[i] != found->second[i])
          return concat(name, "[", i, "] is ", values[i], ", not ", found->second[i]);
      }
    }
    return {};
  }
};

/// Steps until so many count, and no more than `most`; all of these where ranks step on their own.
template <class TrainerType>
Left left_by(TrainerType& trainer, int counted, int most, bool alone = false) {
  Left left;
  int taken = 0;
  for (; taken < most && (alone || std::ssize(left.losses) < counted); ++taken) {
    const StepResult result = trainer.step();
    EXPECT_EQ(result.not_finite.find("NonFinite::skip"), std::string::npos)
        << "it is on: " << result.not_finite;
    if (!result.committed || !result.not_finite.empty()) continue;
    EXPECT_TRUE(std::isfinite(result.loss) && std::isfinite(result.gradient_norm))
        << "step " << taken;
    left.losses.push_back(result.loss);
    left.norms.push_back(result.gradient_norm);
  }
  EXPECT_GE(std::ssize(left.losses), counted)
      << "after " << taken << " steps training stands still";
  trainer.gather_committed_weights();
  for (const graph::Parameter& parameter : trainer.model().dag().parameters) {
    left.numbers[parameter.name] = trainer.gather_parameter(parameter.name);
  }
  for (const auto& range : trainer.state_ranges()) {
    if (range.element == Element::float32)
      left.numbers[concat(range.name, " from ", range.begin)] = trainer.state(range);
  }
  for (const auto& [name, values] : left.numbers) {
    for (std::size_t i = 0; i < values.size(); ++i) {
      if (std::isfinite(values[i])) continue;
      ADD_FAILURE() << name << "[" << i << "] is " << values[i];
      break;
    }
  }
  return left;
}

template <class TrainerType>
typename TrainerType::Options options_with(const run::Topology& topology) {
  typename TrainerType::Options options;
  options.seed = 5;
  options.device.threads = 1;
  options.micro_batches = {static_cast<int>(of_replica)};
  options.learning_rate = {.peak = 0.01, .warmup = 2, .steps = 20};
  options.clip_norm = 0.5;
  options.bucket_bytes = 2048;
  options.non_finite = optim::NonFinite::skip;
  options.topology = topology;
  return options;
}

}  // namespace reef::test::skipped
