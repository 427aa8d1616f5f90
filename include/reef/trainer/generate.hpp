#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include <reef/comm/at_work.hpp>
#include <reef/graph/dag.hpp>
#include <reef/nn/generator.hpp>
#include <reef/trainer/trainer.hpp>

namespace reef {
inline namespace v0 {

/// Returns the token ids of the prompt, followed by those of the text that the trainer's present weights generate.
///
/// \code
/// // given: Trainer<optim::Ddp<optim::AdamW>>& trainer, nn::GptConfig config
/// // given: const std::vector<std::int32_t>& prompt
/// config.batch = 1;
/// const auto alone = nn::gpt<device::Host, float>(config);
/// const auto tokens = generate(trainer, alone, prompt, {.tokens = 200, .seed = 1});
/// \endcode
///
/// `model` has the trainer's parameters and reads one sequence; nn::Generator states further costs and errors. The
/// model's tensors are on the trainer's device, in addition to the arenas; each call allocates them and copies all
/// parameters through host memory.
///
/// | who    | any rank, alone or with others, between steps; with stages all ranks, since each has its |
/// |        | part of the weights. All ranks get the same tokens                                       |
/// | errors | ShapeError if the trainer lacks a parameter of the model; OptionError if its committed   |
/// |        | weights are on their owners alone, as of Trainer::parameter                              |
template <class... Policies>
std::vector<std::int32_t> generate(Trainer<Policies...>& trainer,
                                   const typename Trainer<Policies...>::Model& model,
                                   std::span<const std::int32_t> prompt,
                                   const nn::GenerateOptions& options = {}) {
  const comm::AtWork at_work(trainer.progress(), "a sample");
  using Device = typename Trainer<Policies...>::Device;
  using T = typename Trainer<Policies...>::T;
  // All ranks exchange parameters first; if a rank then lacks memory for the model, it fails alone.
  std::map<std::string, std::vector<typename Trainer<Policies...>::Sum>> spread;
  for (const graph::Parameter& parameter : model.dag().parameters) {
    if (trainer.plan().topology.stages == 1) break;
    spread[parameter.name] = trainer.gather_parameter(parameter.name);
  }
  nn::Generator<Device, T> generator(trainer.device(), model);
  for (const graph::Parameter& parameter : model.dag().parameters) {
    const auto found = spread.find(parameter.name);
    generator.set_parameter(parameter.name, found != spread.end() ? found->second
                                                                  : trainer.parameter(parameter.name));
  }
  return generator.generate(prompt, options);
}

}  // namespace v0
}  // namespace reef
