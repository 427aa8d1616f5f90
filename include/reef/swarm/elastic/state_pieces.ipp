#pragma once

#include <algorithm>
#include <utility>

#include <reef/core/error.hpp>
#include <reef/core/inline.hpp>
#include <reef/swarm/elastic/state_pieces.hpp>

namespace reef {
inline namespace v0 {
namespace swarm {

REEF_INLINE StatePieces::StatePieces(Training& training, std::int64_t numbers)
    : training_(training), numbers_(numbers), elements_(training.plan().layout.trained_elements) {
  if (numbers < 1) {
    throw OptionError("reef::swarm::StatePieces: a piece has ", numbers, " numbers.\n  fix: 1 or more.");
  }
  const run::StepPlan& plan = std::as_const(training).plan();
  Kind weights{"weights", training.facts().state.element, {}};
  for (std::size_t p = 0; p < plan.dag->parameters.size(); ++p) {
    const graph::Parameter& parameter = plan.dag->parameters[p];
    if (parameter.frozen) continue;
    weights.parts.push_back({plan.layout.parameters[p], parameter.spec.shape.size(), parameter.name, {}});
  }
  kinds_.push_back(std::move(weights));
  for (const run::StateRange& range : training.state_ranges()) {
    auto kind = std::find_if(kinds_.begin() + 1, kinds_.end(), [&](const Kind& k) { return k.name == range.name; });
    if (kind == kinds_.end()) kind = kinds_.insert(kind, Kind{range.name, range.element, {}});
    kind->parts.push_back({range.begin, range.elements, {}, range});
  }
}

REEF_INLINE std::int64_t StatePieces::count() const { return (elements_ + numbers_ - 1) / numbers_; }

REEF_INLINE std::int64_t StatePieces::elements_of(std::int64_t piece) const {
  if (piece < 0 || piece >= count()) {
    throw OptionError("reef::swarm::StatePieces: piece ", piece, " of ", count(), ".\n  fix: from 0 on, one of these.");
  }
  return (std::min)(numbers_, elements_ - piece * numbers_);
}

REEF_INLINE Bytes StatePieces::bytes_of(std::int64_t piece) const {
  Bytes bytes = 0;
  for (const Kind& kind : kinds_) bytes += static_cast<Bytes>(elements_of(piece)) * size_of(kind.element);
  return bytes;
}

REEF_INLINE void StatePieces::for_each_share(std::int64_t piece, const std::function<void(const Share&)>& visit) const {
  const std::int64_t begin = piece * numbers_;
  const std::int64_t end = begin + elements_of(piece);
  Bytes kind_begins = 0;
  for (const Kind& kind : kinds_) {
    const auto bytes = [&](std::int64_t elements) { return static_cast<Bytes>(elements) * size_of(kind.element); };
    for (const Part& part : kind.parts) {
      const std::int64_t first = (std::max)(begin, part.first);
      const std::int64_t last = (std::min)(end, part.first + part.elements);
      if (first >= last) continue;
      visit({part, kind.element, bytes(first - part.first), kind_begins + bytes(first - begin), bytes(last - first)});
    }
    kind_begins += bytes(end - begin);
  }
}

REEF_INLINE std::vector<std::byte> StatePieces::read(std::int64_t piece) const {
  const ModelState& state = training_.model_state();
  std::vector<std::byte> all(static_cast<std::size_t>(bytes_of(piece)));
  for_each_share(piece, [&](const Share& share) {
    const auto room = std::span(all).subspan(static_cast<std::size_t>(share.at), static_cast<std::size_t>(share.bytes));
    const bool weights = !share.part.parameter.empty();
    const std::span<const std::byte> from = weights ? state.weights(share.part.parameter, share.offset, room)
                                                    : state.read(share.part.range, share.offset, room);
    if (from.data() != room.data()) std::copy(from.begin(), from.end(), room.begin());
  });
  return all;
}

REEF_INLINE void StatePieces::write(std::int64_t piece, std::span<const std::byte> bytes) {
  if (bytes.size() != bytes_of(piece)) {
    throw OptionError("reef::swarm::StatePieces: piece ", piece, " has ", bytes.size(), " bytes, where ",
                      bytes_of(piece),
                      " are to be.\n  why: another model, precision or rule, or pieces of another length.\n"
                      "  fix: peers that have these alike.");
  }
  ModelState& state = training_.model_state();
  for_each_share(piece, [&](const Share& share) {  // weights first: setting them sets master weights, too
    const auto from = bytes.subspan(static_cast<std::size_t>(share.at), static_cast<std::size_t>(share.bytes));
    if (share.part.parameter.empty()) {
      state.write(share.part.range, share.offset, from);
    } else {
      const auto first = static_cast<std::int64_t>(share.offset / size_of(share.element));
      state.set_weights(share.part.parameter, first, from, share.element);
    }
  });
}

}  // namespace swarm
}  // namespace v0
}  // namespace reef
