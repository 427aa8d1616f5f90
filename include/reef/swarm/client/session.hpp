#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <map>
#include <memory>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include <reef/core/error.hpp>
#include <reef/core/units.hpp>
#include <reef/device/concept.hpp>
#include <reef/graph/graph.hpp>
#include <reef/graph/rows.hpp>
#include <reef/nn/block_cuts.hpp>
#include <reef/nn/row_segment.hpp>
#include <reef/nn/session.hpp>
#include <reef/swarm/client/row_sessions.hpp>

namespace reef {
inline namespace v0 {
namespace swarm {

/// A language model whose blocks are computed by servers, and what stands before and behind them here: used as an
/// nn::Session is, by nn::generate too.
///
/// | holds  | embedding, final norm and head; weights of blocks take no memory                         |
/// | bits   | the logits are those of nn::Session on this machine, whichever servers fail              |
/// | memory | on the device: those weights, one pass of `rows` rows; on the host, RowSessions'         |
/// | errors | OptionError: a token or a length that cannot be; those of RowSessions and nn::RowSegment |
///
/// The device and the sessions must outlive the object, which one thread may use at a time.
///
/// \code
/// // given: device::Host& host, const graph::Graph<device::Host, float>& model, swarm::RowSessions& sessions
/// swarm::Session<device::Host, float> session(host, model, {.positions = 512}, sessions);
/// const int sequence = session.open();  // set_parameter as for an nn::Session, of those that it reads
/// const std::vector<std::int32_t> prompt{5, 17};
/// const nn::Logits next = session.append({{sequence, prompt}});
/// \endcode
template <device::device Device, real T>
class Session {
public:
  using Graph = graph::Graph<Device, T>;

  /// `options`: `sequences` is not used.
  Session(Device& device, const Graph& model, const nn::SessionOptions& options, RowSessions& sessions)
      : options_(options), lane_(device, "session"), sessions_(sessions) {
    const graph::Dag& dag = model.dag();
    const nn::BlockCuts cuts = nn::block_cuts(dag);
    const graph::Tensor& logits = dag.tensor_at(dag.tensor("logits"));
    const graph::RowOptions how{options.weights, options.positions, options.states, options.outliers};
    embedding_ = std::make_unique<Segment>(device, lane_, model, 0, cuts.nodes.front(), how, options.rows);
    head_ = std::make_unique<Segment>(device, lane_, model, cuts.nodes.back(), logits.producer + 1, how, options.rows);
    vocabulary_ = logits.spec.shape.last();
  }

  [[nodiscard]] std::int64_t vocabulary() const { return vocabulary_; }

  /// Returns true for a parameter of the embedding, the final norm or the head.
  [[nodiscard]] bool reads(std::string_view name) const { return embedding_->reads(name) || head_->reads(name); }
  /// Sets a parameter; none of a block.
  void set_parameter(std::string_view name, std::span<const sum_t<T>> values) {
    embedding_->set_parameter(name, values);
    head_->set_parameter(name, values);
  }

  /// Opens an empty sequence; returns its number.
  int open() {
    const int number = sessions_.open();
    lengths_[number] = 0;
    return number;
  }
  void close(int sequence) {
    sessions_.close(sequence);
    lengths_.erase(sequence);
  }
  [[nodiscard]] std::int64_t length(int sequence) const {
    const auto found = lengths_.find(sequence);
    if (found == lengths_.end()) {
      throw OptionError("reef::swarm::Session: sequence ", sequence,
                        " is not open.\n  fix: a number that open() gave.");
    }
    return found->second;
  }
  /// Removes all positions of a sequence from `length` on: servers hear of it with the next step.
  void truncate(int sequence, std::int64_t length) {
    if (length < 0 || length > this->length(sequence)) {
      throw OptionError("reef::swarm::Session: sequence ", sequence, " of ", this->length(sequence),
                        " tokens is to keep ", length, ".\n  fix: from 0 to its length.");
    }
    lengths_[sequence] = length;
  }

  /// Appends tokens to sequences, and returns logits, as nn::Session::append does.
  nn::Logits append(std::span<const nn::Append> appends) {
    std::vector<RowSessions::Step> steps;
    for (const nn::Append& append : appends) {
      require_valid(append);
      steps.push_back({append.sequence, length(append.sequence), std::ssize(append.tokens), embedded(append)});
    }
    const std::vector<Bulk> hidden = sessions_.run(steps);
    std::vector<std::byte> wanted;
    for (std::size_t i = 0; i < appends.size(); ++i) {
      lengths_[appends[i].sequence] += std::ssize(appends[i].tokens);
      const std::size_t from = appends[i].all ? 0 : hidden[i]->size() - head_->input_row();
      wanted.insert(wanted.end(), hidden[i]->begin() + static_cast<std::ptrdiff_t>(from), hidden[i]->end());
    }
    const std::size_t count = wanted.size() / head_->input_row();
    std::vector<T> values(count * static_cast<std::size_t>(vocabulary_));
    const std::vector<graph::Row> rows(count);
    head_->run(wanted, rows, {}, std::as_writable_bytes(std::span(values)));
    result_.assign(values.begin(), values.end());
    return {result_, vocabulary_};
  }
  nn::Logits append(std::initializer_list<nn::Append> appends) {
    return append(std::span<const nn::Append>(appends.begin(), appends.size()));
  }

private:
  using Segment = nn::RowSegment<Device, T>;

  void require_valid(const nn::Append& append) const {
    const std::int64_t length = this->length(append.sequence) + std::ssize(append.tokens);
    if (append.tokens.empty() || length > options_.positions) {
      throw OptionError("reef::swarm::Session: sequence ", append.sequence, " would have ", length, " tokens by ",
                        append.tokens.size(), " more, but has room for ", options_.positions,
                        ".\n  fix: one token at least, and no more than there is room for.");
    }
    for (const std::int32_t token : append.tokens) {
      if (token >= 0 && token < vocabulary_) continue;
      throw OptionError("reef::swarm::Session: a token for sequence ", append.sequence, " is ", token,
                        ".\n  fix: tokens from 0 to ", vocabulary_ - 1, ".");
    }
  }

  /// Returns the rows of tokens in front of the first block.
  Bulk embedded(const nn::Append& append) {
    std::vector<graph::Row> rows;
    for (std::int64_t k = 0; k < std::ssize(append.tokens); ++k) rows.push_back({0, length(append.sequence) + k});
    std::vector<std::byte> bytes(append.tokens.size() * embedding_->output_row());
    embedding_->run(std::as_bytes(append.tokens), rows, {}, bytes);
    return std::make_shared<const std::vector<std::byte>>(std::move(bytes));
  }

  nn::SessionOptions options_;
  typename Device::Lane lane_;
  RowSessions& sessions_;
  std::unique_ptr<Segment> embedding_;
  std::unique_ptr<Segment> head_;
  std::int64_t vocabulary_ = 0;
  std::map<int, std::int64_t> lengths_{};
  std::vector<float> result_{};
};

}  // namespace swarm
}  // namespace v0
}  // namespace reef
