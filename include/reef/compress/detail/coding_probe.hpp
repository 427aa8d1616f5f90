#pragma once

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <reef/codec/concept.hpp>
#include <reef/compress/detail/masks.hpp>
#include <reef/compress/kinds.hpp>
#include <reef/compress/watch.hpp>
#include <reef/core/finite.hpp>
#include <reef/core/product.hpp>
#include <reef/core/shape.hpp>
#include <reef/core/text.hpp>
#include <reef/run/links.hpp>
#include <reef/run/rank_context.hpp>
#include <reef/run/step_builder.hpp>
#include <reef/run/transfers.hpp>

namespace reef {
inline namespace v0 {
namespace compress::detail {

/// What a Watch sees of the messages of one instruction. On its lane.
class CodingProbe {
public:
  /// Null where there is nothing to be seen. `parts`: as EncodingCode has them.
  template <class RankContext, class Codec, class Parts>
  static std::shared_ptr<CodingProbe> at(const Watch& watch, const RankContext& context, const schedule::Instruction& i,
                                  run::Value message, const Codec& codec, const Parts& parts) {
    const bool records = watch.record && watch.step && context.builder.purpose != run::Purpose::evaluation;
    if (!watch.measures_error && !records) return nullptr;
    auto look = std::make_shared<CodingProbe>(watch, context.state, records);
    for (std::size_t part = 0; part + 1 < parts.numbers.size(); ++part) {
      const std::int64_t n = parts.numbers[part + 1] - parts.numbers[part];
      const std::int64_t received = codec::received_state_of(codec, n);
      if (received != 0 && received != codec::state_of(codec, n)) return nullptr;
      std::string name = concat(schedule::name_of(i.traffic), " ", i.index);
      if (i.micro_batch >= 0) name += concat(", micro-batch ", i.micro_batch);
      const int member = static_cast<int>(part / parts.of_each);
      const int rank = i.kind == kinds::encode_parts ? parts.ranks[static_cast<std::size_t>(member)] : -1;
      if (rank >= 0) name += concat(", for rank ", rank);
      if (parts.of_each > 1) name += concat(", part ", part % parts.of_each);
      // What a rank has for itself goes nowhere.
      look->messages_.push_back({std::move(name), Shape{n}, rank != context.rank()});
    }
    if (!i.collective) {
      const graph::RemoteEdge& edge = context.plan().remote_edges[static_cast<std::size_t>(i.index)];
      look->messages_.front().shape = context.plan().dag->tensor_at(edge.tensor).spec.shape;
    }
    if (watch.measures_error) {
      look->loss_ =
          &context.losses.emplace_back(run::CodingLoss{flow_of(context, i, message), 0, 0});
    }
    return look;
  }

  CodingProbe(const Watch& watch, const run::StepState& state, bool records)
      : watch_(watch), state_(state), records_(records) {}

  [[nodiscard]] bool sees(std::size_t part) const {
    return messages_[part].leaves && (loss_ != nullptr || records_now());
  }

  /// Before a message is encoded, what the sender remembers: encoding may overwrite it.
  void remember(std::span<const float> state) { state_before_.assign(state.begin(), state.end()); }

  /// Decodes as receivers do.
  template <class Codec>
  void see(const Codec& codec, std::size_t part, std::span<const float> values, std::span<const std::byte> message) {
    // A program that keeps nothing has no memory for some codecs.
    const auto state = state_before_.empty()
                           ? std::size_t{0}
                           : static_cast<std::size_t>(codec::received_state_of(codec, std::ssize(values)));
    decoded_.resize(values.size());
    state_behind_.resize(state);
    codec::decode(codec, message, std::span<const float>(state_before_).first(state), std::span<float>(state_behind_),
                  std::span<float>(decoded_));
    tell(part, values);
  }

  /// Of a message of the numbers that a mask names; the others arrive as zero.
  template <class Codec>
  void see_masked(const Codec& codec, std::span<const float> values, std::span<const std::uint8_t> mask,
                  std::span<const std::byte> message) {
    std::vector<float> packed(count_of(mask));
    codec::decode(codec, message, {}, {}, std::span<float>(packed));
    decoded_.resize(values.size());
    unpack(packed, mask, decoded_);
    tell(0, values);
  }

private:
  struct Seen {
    std::string name;
    Shape shape;
    bool leaves;
  };

  /// That of a collective, or of the send behind an edge's message.
  template <class RankContext>
  static run::Flow flow_of(const RankContext& context, const schedule::Instruction& encode,
                           run::Value message) {
    if (encode.collective) return run::flow_of(encode, context.rank());
    for (const schedule::Instruction& send : context.builder.program.round) {
      const bool of_edge =
          send.traffic == encode.traffic && send.index == encode.index && !send.collective;
      if (!of_edge || send.sends.empty()) continue;
      if (run::SendView(send).payload.front().storage == message.storage)
        return run::flow_of(send, context.rank());
    }
    return run::flow_of(encode, context.rank());
  }

  void tell(std::size_t part, std::span<const float> values) {
    if (loss_ != nullptr) measure(values);
    if (records_now()) watch_.record({messages_[part].name, messages_[part].shape, values, decoded_});
  }

  [[nodiscard]] bool records_now() const { return records_ && state_.committed == *watch_.step; }

  /// Numbers that are not finite before they are encoded are not measured: of a step that is skipped, they would be all
  /// that the link is ever said to lose.
  void measure(std::span<const float> values) {
    double numbers = 0;
    double lost = 0;
    for (std::size_t i = 0; i < values.size(); ++i) {
      const double x = values[i];
      const double difference = x - decoded_[i];
      numbers += product(x, x);
      lost += product(difference, difference);
    }
    if (!is_finite(numbers)) return;
    loss_->numbers += numbers;
    loss_->lost += lost;
  }

  Watch watch_;
  const run::StepState& state_;
  bool records_;
  run::CodingLoss* loss_ = nullptr;
  std::vector<Seen> messages_{};
  std::vector<float> state_before_{};
  std::vector<float> state_behind_{};
  std::vector<float> decoded_{};
};

}  // namespace compress::detail
}  // namespace v0
}  // namespace reef
