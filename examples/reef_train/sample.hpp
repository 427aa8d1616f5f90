#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <reef/comm/stop_request.hpp>
#include <reef/core/error.hpp>
#include <reef/core/text.hpp>
#include <reef/nn/gpt.hpp>
#include <reef/trainer/generate.hpp>

#include "../support/standard_output.hpp"
#include "../support/terminal_text.hpp"
#include "failures.hpp"
#include "graph_model.hpp"
#include "setup.hpp"

// The text that a run writes once it has trained.

namespace reef_examples {

/// The prompt, and what the model adds to it until it is long enough or a signal asks to stop.
template <class TrainerType>
std::string continued_prompt(TrainerType& trainer, const Setup& run, const reef::comm::StopRequest& request) {
  reef::nn::GptConfig config = run.config;
  config.batch = 1;
  const int threads = trainer.device().threads();
  const auto model = model_of<typename TrainerType::Device, typename TrainerType::T>(run.options, config, threads);
  std::vector<std::int32_t> prompt = run.prompt;
  const auto placeholders = run.options.prompt_positions();
  prompt.insert(prompt.begin(), static_cast<std::size_t>(placeholders), 0);
  std::vector<std::int32_t> text = reef::generate(trainer, model, prompt,
                                                  {.tokens = run.options.prompt_tokens,
                                                   .vocabulary = config.vocabulary,
                                                   .seed = run.options.seed,
                                                   .proceed = [&request] { return !request.asked(); }});
  text.erase(text.begin(), text.begin() + placeholders);
  return run.tokenizer.decode(text);
}

/// What the model adds to the prompt, printed by rank 0 and returned there; empty elsewhere, and where none was asked for or
/// there is no room. All ranks call it.
template <class TrainerType>
std::string sample_text(TrainerType& trainer, const Setup& run, const reef::comm::StopRequest& request, Failures& failures) {
  std::string sample;
  const bool first = trainer.rank() == 0;
  const bool spread = trainer.plan().topology.stages > 1;  // then all ranks have parts of the weights
  if ((!first && !spread) || run.options.prompt_tokens == 0) return sample;
  failures.attempt("the sample", [&] {
    try {
      sample = continued_prompt(trainer, run, request);
      if (first) print(reef::concat("---\n", shown_on_output(sample), "\n---\n"), "the sample");
    } catch (const reef::MemoryError& error) {
      run.say(std::string("no sample: ") + error.what());
    } catch (const reef::ShapeError& error) {  // of a graph that cannot be asked for text
      if (run.options.graph.empty()) throw;
      run.say(std::string("no sample: ") + error.what());
    }
  });
  return sample;
}

}  // namespace reef_examples
