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

  /// Opens an empty sequence, or a batch of sequences of one length; returns its number. The tokens of a batch's Append
  /// are (batch, rows), sequence by sequence, and so are its logits.
  int open(std::int64_t batch = 1) {
    const int number = sessions_.open(batch);
    open_.emplace(number, Open{0, batch, {}});
    return number;
  }
  void close(int sequence) {
    sessions_.close(sequence);
    open_.erase(sequence);
  }
  [[nodiscard]] std::int64_t length(int sequence) const { return at(sequence).length; }

  /// Lets sequence i of a batch go on from sequence from[i]: servers hear of it with the next step.
  void reorder(int batch, std::span<const std::int64_t> from) {
    Open& open = open_.at(checked(batch, from));
    std::vector<std::int64_t> next(from.begin(), from.end());
    if (!open.reorder.empty()) {
      for (std::int64_t& one : next) one = open.reorder[static_cast<std::size_t>(one)];
    }
    open.reorder = std::move(next);
  }
  /// Removes all positions of a sequence from `length` on: servers hear of it with the next step.
  void truncate(int sequence, std::int64_t length) {
    if (length < 0 || length > this->length(sequence)) {
      throw OptionError("reef::swarm::Session: sequence ", sequence, " of ", this->length(sequence),
                        " tokens is to keep ", length, ".\n  fix: from 0 to its length.");
    }
    open_.at(sequence).length = length;
  }

  /// Appends tokens to sequences, and returns logits, as nn::Session::append does.
  nn::Logits append(std::span<const nn::Append> appends) {
    std::vector<RowSessions::Step> steps;
    for (const nn::Append& append : appends) {
      require_valid(append);
      const Open& open = at(append.sequence);
      steps.push_back({append.sequence, open.length, rows_of(append), embedded(append), open.reorder});
    }
    const std::vector<Bulk> hidden = run(steps);
    std::vector<std::byte> wanted;
    for (std::size_t i = 0; i < appends.size(); ++i) {
      Open& open = open_.at(appends[i].sequence);
      open.length += rows_of(appends[i]);
      open.reorder.clear();
      // (batch, rows, bytes of a row)
      const auto of_sequence = static_cast<std::ptrdiff_t>(hidden[i]->size()) / open.batch;
      const auto kept = appends[i].all ? of_sequence : static_cast<std::ptrdiff_t>(head_->input_row());
      for (std::int64_t b = 1; b <= open.batch; ++b) {
        const auto end = hidden[i]->begin() + b * of_sequence;
        wanted.insert(wanted.end(), end - kept, end);
      }
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

  /// A sequence, or a batch of them: the positions of each, and the order that the next step has.
  struct Open {
    std::int64_t length = 0;
    std::int64_t batch = 1;
    std::vector<std::int64_t> reorder{};
  };

  /// Runs the steps. Where one session fails, the others' steps are done: their orders are not to be given again.
  std::vector<Bulk> run(const std::vector<RowSessions::Step>& steps) {
    try {
      return sessions_.run(steps);
    } catch (const OptionError&) {
      throw;  // nothing has begun
    } catch (const Error&) {
      for (const RowSessions::Step& step : steps) open_.at(step.session).reorder.clear();
      throw;
    }
  }

  [[nodiscard]] const Open& at(int sequence) const& {
    const auto found = open_.find(sequence);
    if (found == open_.end()) {
      throw OptionError("reef::swarm::Session: sequence ", sequence,
                        " is not open.\n  fix: a number that open() gave.");
    }
    return found->second;
  }
  void at(int sequence) const&& = delete;

  /// Returns the number of new positions of each sequence.
  [[nodiscard]] std::int64_t rows_of(const nn::Append& append) const {
    return std::ssize(append.tokens) / at(append.sequence).batch;
  }

  /// Returns the number of a batch. Throws OptionError for an order that it cannot have.
  [[nodiscard]] int checked(int batch, std::span<const std::int64_t> from) const {
    const std::int64_t count = at(batch).batch;
    const bool is_order = std::ssize(from) == count && std::all_of(from.begin(), from.end(), [&](std::int64_t one) {
                            return one >= 0 && one < count;
                          });
    if (is_order) return batch;
    throw OptionError("reef::swarm::Session: an order of ", from.size(), " sequences for batch ", batch, " of ", count,
                      ".\n  fix: as many numbers, from 0 to ", count - 1, ".");
  }

  void require_valid(const nn::Append& append) const {
    const std::int64_t length = this->length(append.sequence) + rows_of(append);
    if (const std::int64_t batch = at(append.sequence).batch; std::ssize(append.tokens) % batch != 0) {
      throw OptionError("reef::swarm::Session: ", append.tokens.size(), " tokens for a batch of ", batch,
                        " sequences.\n  fix: as many for each.");
    }
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
    for (std::int64_t k = 0; k < std::ssize(append.tokens); ++k)
      rows.push_back({0, length(append.sequence) + k % rows_of(append)});
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
  std::map<int, Open> open_{};
  std::vector<float> result_{};
};

}  // namespace swarm
}  // namespace v0
}  // namespace reef
