#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include <reef/comm/message.hpp>
#include <reef/compress/detail/coder_writer.hpp>
#include <reef/compress/detail/edge_encoder.hpp>
#include <reef/compress/detail/memories.hpp>
#include <reef/compress/kinds.hpp>
#include <reef/compress/views.hpp>
#include <reef/run/kinds.hpp>
#include <reef/run/messages.hpp>
#include <reef/run/transfers.hpp>
#include <reef/run/views.hpp>
#include <reef/schedule/rewriter.hpp>

namespace reef {
inline namespace v0 {
namespace compress::detail {

/// Rewrites the transfers of a program whose traffic has a WireForm:
///
///     Download(e, j)  Send(e, j)         Encode(e, j)  Send(e, j)            the same lanes and slots
///     Receive(e, j)   Upload(e, j)       Receive(e, j)  Decode(e, j)
///     ReduceScatter(b)                   EncodeParts(b)  ExchangeEncoded(b)  DecodeFold(b)
///     GatherGradients(b), GatherWeights  EncodeShard(b)  GatherEncoded(b)    DecodeShards(b)
///     GatherDifferences(p)               the same, of parameter after parameter
///     FoldRank(b) of virtual ranks       EncodeInPlace(b)  FoldRank(b)
///
/// What is encoded for a collective leaves the device on lane evict, so that it does not wait for what is decoded on
/// lane update. Behind all comes KeepMemory for what codecs remember. A program that commits nothing keeps nothing.
class Encoder {
public:
  explicit Encoder(run::StepBuilder& builder)
      : builder_(builder),
        program_(builder.program),
        plan_(builder.plan),
        pieces_(run::fragment_pieces(builder.plan, builder.rank())),
        coders_(builder) {}

  void run();

private:
  static std::size_t to_index(int i) { return static_cast<std::size_t>(i); }

  // -- collectives --------------------------------------------------------------------------------------------------

  /// What comes before the collective, and behind it. Of a process that stands for several ranks one instruction takes
  /// its place.
  std::optional<std::pair<run::Instruction, run::Instruction>> encode_collective(run::Instruction& instruction);

  /// As AllToAllTask has them: at least one message for each other member.
  void set_messages(run::Instruction& instruction, bool sums, std::int64_t own_bytes,
                    const std::vector<std::int64_t>& by_owner) const;

  /// A shard may be empty, and nothing then sent of it: its channel is another's of the same collective. None: all are.
  static std::uint32_t channel_of(const run::Instruction& instruction);

  run::Instruction encode_in_place(Traffic traffic, int bucket, run::Value numbers, std::pair<Side, Side> sides,
                                   int fold);

  void keep_memories();

  /// What arrives of weights is theirs where the step counts. Of rounds that overlap it goes to a buffer, and of
  /// updates without a check the verdict that is there comes behind them.
  [[nodiscard]] bool is_judged(Traffic traffic) const {
    return traffic == Traffic::parameter && plan_.waits_for_global_norm && !builder_.keeps_gradients() &&
           builder_.verdict != run::no_storage;
  }

  run::StepBuilder& builder_;
  schedule::Program& program_;
  const run::StepPlan& plan_;
  std::vector<run::FragmentPiece> pieces_;
  CoderWriter coders_;
  std::map<int, int> folds_so_far_{};             ///< by bucket
};

}  // namespace compress::detail
}  // namespace v0
}  // namespace reef

#ifndef REEF_COMPILED
#include <reef/compress/detail/encoder.ipp>
#endif
