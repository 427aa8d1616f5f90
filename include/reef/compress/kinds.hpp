#pragma once

#include <string_view>

#include <reef/core/language.hpp>

/// \file
/// The names of kinds of instructions that a compressor puts in a program in the place of transfers, and beside them.
///
/// \code
/// // given: const schedule::Program& program
/// Bytes encoded = 0;
/// for (const schedule::Instruction& i : program.round) {
///   if (i.kind == compress::kinds::encode) encoded += program.storages[i.writes.front().storage].bytes;
/// }
/// \endcode

namespace reef {
inline namespace v0 {
namespace compress::kinds {

// Kinds for tensors between stages: in the place of Download and Upload.
inline constexpr std::string_view encode = "Encode";
inline constexpr std::string_view decode = "Decode";

// Kinds in the place of a reduce-scatter: a message for each owner, who folds those of all ranks in rank order.
inline constexpr std::string_view encode_parts = "EncodeParts";
inline constexpr std::string_view exchange_encoded = "ExchangeEncoded";
inline constexpr std::string_view decode_fold = "DecodeFold";

// Kinds in the place of an all-gather: one message for all.
inline constexpr std::string_view encode_shard = "EncodeShard";
inline constexpr std::string_view gather_encoded = "GatherEncoded";
inline constexpr std::string_view decode_shards = "DecodeShards";

// The kind in the place of both collectives in a process that stands for several ranks.
inline constexpr std::string_view encode_in_place = "EncodeInPlace";

// The kind that commits the codecs' memory once a step counts; for pseudo-gradients, once they are sent.
inline constexpr std::string_view keep_memory = "KeepMemory";

}  // namespace compress::kinds
}  // namespace v0
}  // namespace reef
