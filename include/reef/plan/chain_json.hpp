#pragma once

#include <string_view>

#include <reef/core/error.hpp>
#include <reef/io/json.hpp>
#include <reef/plan/chain.hpp>

namespace reef {
inline namespace v0 {
namespace plan {

/// Reads a model as a sequence of operators from JSON: an array for each figure, with a number for each operator.
///
/// | w, g, wsf, wsb     | bytes of weights, gradients, workspace of a forward and of a backward    |
/// | tf, tb, tl, of, ob | ticks: forward, backward, load, eviction after a forward, a backward     |
/// | cut                | bytes that cross each boundary, one boundary more than operators         |
/// | name               | names; may be left out                                                   |
/// | errors             | DecodeError with source and member, also for arrays of different lengths |
/// |                    | and unknown keys                                                         |
///
/// If `memory` is false, the members in bytes may be left out, and are 0.
///
/// \code
/// const plan::OperatorChain chain = plan::chain_from_json(io::read_json("chain.json"), "chain.json");
/// \endcode
OperatorChain chain_from_json(const io::Json& json, std::string_view source, bool memory = true);

}  // namespace plan
}  // namespace v0
}  // namespace reef

#ifndef REEF_COMPILED
#include <reef/plan/chain_json.ipp>
#endif
