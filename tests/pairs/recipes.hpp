#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include <reef/core/text.hpp>

#include "any_policies.hpp"

// The policies of each axis, which pairs of them there are, and which are refused.

namespace reef::test::pairs {

inline const std::vector<std::string> swaps{"Resident", "Atom", "PaperAtom", "LayerStreaming"};

inline const std::vector<std::string> compressors{
    "Dense", "Everywhere<TopK>", "Everywhere<Blockwise8>", "Everywhere<ErrorFeedback<TopK>>", "Channels<Activation<TopK>>",
    "Channels<ActivationGradient<Blockwise8>>", "Channels<Gradient<ErrorFeedback<TopK>>>", "Channels<Parameter<Blockwise8>>",
    "Channels<PseudoGradient<ErrorFeedback<TopK>>>", "AdaTopK"};

inline const std::vector<std::string> optimizers{"Ddp", "Zero1", "Dpu", "DpuPredicted", "AccoWp", "Acco", "DiLoCo"};

inline std::vector<std::string> pipeline_names() {
  std::vector<std::string> names;
  std::apply([&](const auto&... one) { (names.emplace_back(one.name), ...); }, pipelines);
  return names;
}

/// One policy of each axis; "" where the axis is not asked for.
struct Recipe {
  std::string swap{};
  std::string pipeline{};
  std::string compress{};
  std::string optim{};

  [[nodiscard]] std::vector<std::string> named() const {
    std::vector<std::string> names;
    for (const std::string* name : {&swap, &pipeline, &compress, &optim}) {
      if (!name->empty()) names.push_back(*name);
    }
    return names;
  }
  [[nodiscard]] std::string text() const { return concat_all(named()); }

  /// With the policies that are not asked for: those by which what is asked for shows.
  [[nodiscard]] Recipe whole() const {
    Recipe all = *this;
    if (all.swap.empty()) all.swap = "Resident";
    if (all.compress.empty()) all.compress = "Dense";
    if (all.optim.empty()) {
      const bool outer = all.compress.find("PseudoGradient") != std::string::npos;
      const bool owners = all.compress.find("Parameter") != std::string::npos;
      all.optim = outer ? "DiLoCo" : owners ? "Zero1" : "Ddp";
    }
    const bool between_stages = all.compress == "AdaTopK" || all.compress.find("Activation") != std::string::npos;
    if (all.pipeline.empty()) all.pipeline = between_stages ? "OneFOneB" : "Single";
    return all;
  }

private:
  static std::string concat_all(const std::vector<std::string>& names) {
    std::string all;
    for (const std::string& name : names) all += (all.empty() ? "" : " x ") + name;
    return all;
  }
};

/// Each policy of each axis with each of each other one.
inline std::vector<Recipe> all_pairs() {
  std::vector<Recipe> all;
  const auto cross = [&all](const std::vector<std::string>& first, std::string Recipe::*a, const std::vector<std::string>& second,
                            std::string Recipe::*b) {
    for (const std::string& x : first) {
      for (const std::string& y : second) {
        Recipe& recipe = all.emplace_back();
        recipe.*a = x;
        recipe.*b = y;
      }
    }
  };
  cross(swaps, &Recipe::swap, pipeline_names(), &Recipe::pipeline);
  cross(swaps, &Recipe::swap, compressors, &Recipe::compress);
  cross(swaps, &Recipe::swap, optimizers, &Recipe::optim);
  cross(pipeline_names(), &Recipe::pipeline, compressors, &Recipe::compress);
  cross(pipeline_names(), &Recipe::pipeline, optimizers, &Recipe::optim);
  cross(compressors, &Recipe::compress, optimizers, &Recipe::optim);
  return all;
}

/// Each pipeline that updates once a step, with four optimizers and three codecs.
inline std::vector<Recipe> triples() {
  std::vector<Recipe> all;
  for (const std::string& pipeline : pipeline_names()) {
    if (pipeline == "Single" || pipeline == "PipeDream" || pipeline == "TwoBw") continue;
    for (const char* const optim : {"Ddp", "Zero1", "DiLoCo", "Acco"}) {
      for (const char* const compress : {"Everywhere<TopK>", "Everywhere<Blockwise8>", "Everywhere<ErrorFeedback<TopK>>"}) {
        all.push_back({"", pipeline, compress, optim});
      }
    }
  }
  return all;
}

inline bool updates_within(const std::string& pipeline) { return pipeline == "PipeDream" || pipeline == "TwoBw"; }

/// Why a recipe is refused: what the error says, and where docs/rules.md has it. Empty where it runs.
struct Refusal {
  std::string sentence{};
  std::string rule{};
};

inline Refusal refusal_of(const Recipe& recipe) {
  const auto has = [](const std::string& text, std::string_view part) { return text.find(part) != std::string::npos; };
  const bool outer = recipe.optim == "DiLoCo";
  if (has(recipe.compress, "<Gradient") && outer) return {"this optimizer sends none of that", "r1"};
  if (has(recipe.compress, "<PseudoGradient") && !outer) return {"this optimizer sends none of that", "r1"};
  if (!updates_within(recipe.pipeline)) {
    if (!has(recipe.compress, "<Parameter") || (!outer && recipe.optim != "Ddp")) return {};
    return {"this optimizer sends none of that", "at-run-time"};
  }
  if (recipe.optim != "Ddp" && recipe.optim != "Zero1") {
    return {"this pipeline updates within a step, but this optimizer does not", "r5"};
  }
  return {};
}

/// A sample of all four axes at once: each pipeline and each optimizer that may be with it, with a way to swap and a codec in
/// turn.
inline std::vector<Recipe> quadruples() {
  std::vector<Recipe> all;
  const std::array<std::string, 4> codecs{"AdaTopK", "Everywhere<TopK>", "Everywhere<Blockwise8>",
                                          "Everywhere<ErrorFeedback<TopK>>"};
  std::size_t next = 0;
  for (const std::string& pipeline : pipeline_names()) {
    if (pipeline == "Single") continue;
    for (const std::string& optim : optimizers) {
      const Recipe recipe{swaps[1 + next % 3], pipeline, codecs[next % codecs.size()], optim};
      if (!refusal_of(recipe).sentence.empty()) continue;
      all.push_back(recipe);
      ++next;
    }
    ++next;  // other codecs with the next
  }
  return all;
}

}  // namespace reef::test::pairs
