#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <reef/core/inline.hpp>
#include <reef/core/text.hpp>
#include <reef/io/known_keys.hpp>
#include <reef/plan/chain_json.hpp>

namespace reef {
inline namespace v0 {
namespace plan {

REEF_INLINE OperatorChain chain_from_json(const io::Json& json, std::string_view source, bool memory) {
  constexpr std::array<std::string_view, 11> known{"name", "w",  "g",  "wsf", "wsb", "tf",
                                                   "tb",   "tl", "of", "ob",  "cut"};
  io::require_object(json, "chain", source);
  io::require_known_keys(json, known, source, "chain");
  OperatorChain chain;
  const auto times = io::require<std::vector<Ticks>>(json, "tf", source);
  chain.operators.resize(times.size());
  const auto read = [&]<class T>(const char* key, T ChainOperator::*member, bool needed) {
    const auto values =
        needed ? io::require<std::vector<T>>(json, key, source)
               : io::value_or<std::vector<T>>(json, key, std::vector<T>(times.size()), source);
    if (values.size() != times.size()) {
      throw DecodeError("reef::plan: ", source, ": '", key, "' has ", values.size(),
                        " numbers and 'tf' ", times.size(), ".\n  fix: one for each operator.");
    }
    for (std::size_t i = 0; i < values.size(); ++i) chain.operators[i].*member = values[i];
  };
  read("name", &ChainOperator::name, false);
  read("w", &ChainOperator::weights, memory);
  read("g", &ChainOperator::gradients, memory);
  read("wsf", &ChainOperator::forward_workspace, memory);
  read("wsb", &ChainOperator::backward_workspace, memory);
  read("tf", &ChainOperator::forward, true);
  read("tb", &ChainOperator::backward, true);
  read("tl", &ChainOperator::load, true);
  read("of", &ChainOperator::leave_forward, true);
  read("ob", &ChainOperator::leave_backward, true);
  chain.cut = memory ? io::require<std::vector<Bytes>>(json, "cut", source)
                     : std::vector<Bytes>(times.size() + 1);
  chain.validate();
  return chain;
}

}  // namespace plan
}  // namespace v0
}  // namespace reef
