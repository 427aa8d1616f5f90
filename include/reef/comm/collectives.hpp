#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <reef/comm/detail/exchange.hpp>
#include <reef/comm/detail/exchange_plan.hpp>
#include <reef/comm/detail/fold.hpp>
#include <reef/comm/detail/station.hpp>
#include <reef/comm/shards.hpp>
#include <reef/comm/task.hpp>
#include <reef/core/element.hpp>
#include <reef/core/group.hpp>
#include <reef/core/inline.hpp>

namespace reef {
inline namespace v0 {
namespace comm {

/// An element type that collectives can move without summing it: a number, a character.
template <class T>
concept movable_element = real<T> || std::integral<T>;

namespace detail {

/// The common base class of the three collectives (reduce-scatter, all-gather, all-reduce): holds the plan of messages,
/// and the transport that executes it.
class ExchangeTask : public Task {
protected:
  ExchangeTask(Kind kind, std::string name, ExchangePlan plan, std::optional<Group> group);
  REEF_INLINE ~ExchangeTask() override;

  ExchangePlan plan_;

private:
  REEF_INLINE void start(const Station& station) final;
  Exchange& chosen(const Station& station);
  bool advance() final { return exchange_->advance(); }
  [[nodiscard]] bool done() const final { return exchange_->done(); }
  [[nodiscard]] detail::Awaited awaited() const final { return exchange_->awaited(); }
  void missing(std::vector<int>& ranks) const final { exchange_->missing(ranks); }
  [[nodiscard]] Bytes payload() const final {
    return static_cast<Bytes>(plan_.offsets.back()) * plan_.element;
  }

  /// Sets the plan's pointers for a rank at `position` in its group, which owns the shard of that number.
  virtual void place(int position) = 0;

  struct Exchanges;

  std::optional<Station> station_;
  std::unique_ptr<Exchanges> exchanges_;  // one for each transport
  Exchange* exchange_ = nullptr;
};

template <class T>
std::byte* writable(std::span<T> data) {
  return reinterpret_cast<std::byte*>(data.data());
}
template <class T>
const std::byte* readable(std::span<const T> data) {
  return reinterpret_cast<const std::byte*>(data.data());
}

/// Throws OptionError unless the length `have` of the buffer `what` is `need`, that of the ranks' shards.
void check_length(const std::string& name, std::size_t have, std::int64_t need,
                  std::string_view what);

}  // namespace detail

/// A task that sums the arrays of all ranks, or of a group; each rank receives its own shard of the sum.
///
///     output = (...((x_0 + x_1) + x_2) + ... + x_{P-1})  on [offsets[r], offsets[r+1])
///
/// | who      | all ranks submit it, in the same order in the queue of that name, with equal offsets    |
/// | group    | only its members, in the same order among the collectives of that group in the queue    |
/// |          | of that name; P is then its size, r a position, and the group the same on all           |
/// | shape    | input: (n) = (offsets[P]); output: own shard, (offsets[r+1] - offsets[r]), even 0       |
/// | order    | the owner folds the chunks in rank order: the same bits on every run and transport      |
/// | rounding | every addition rounds to Sum; for Sum = T = bf16, P - 1 times. With Sum = float, bf16   |
/// |          | chunks are sent, and summed in fp32                                                     |
/// | in place | output may be the own shard inside input, if Sum is T; else they must not overlap       |
/// | life     | both memories must exist, and the input be unchanged, until complete                    |
/// | errors   | OptionError: at once for wrong lengths or offsets or a bad group; from submit() if this |
/// |          | rank is not a member. MpiError on members: their offsets, order or members differ       |
/// | wire     | cost(): every rank sends each owner its chunk: n less own shard elements, as in a ring  |
///
/// \code
/// // given: comm::Progress& progress, std::span<const float> gradient, std::span<float> shard
/// const auto offsets = comm::even_offsets(std::ssize(gradient), progress.size());
/// comm::ReduceScatterTask<float> task("gradient", gradient, shard, offsets);
/// progress.submit(progress.queue("reduce"), task);
/// // ... what else there is to compute ...
/// progress.wait(task);
/// \endcode
template <real T, real Sum = T>
  requires std::same_as<Sum, T> || std::same_as<Sum, sum_t<T>>
class ReduceScatterTask final : public detail::ExchangeTask {
public:
  ReduceScatterTask(std::string name, std::span<const T> input, std::span<Sum> output,
                    std::vector<std::int64_t> offsets, std::optional<Group> group = {})
      : ExchangeTask(Kind::reduce_scatter, std::move(name),
                     {.offsets = std::move(offsets),
                      .reduce = true,
                      .gather = false,
                      .element = sizeof(T),
                      .fold = &detail::fold<T, Sum>,
                      .widening = sizeof(Sum) / sizeof(T)},
                     std::move(group)) {
    detail::check_offsets(this->name(), plan_.offsets, static_cast<std::int64_t>(input.size()));
    bind(input, output);
  }
  ~ReduceScatterTask() override { retire(); }

  /// Sets other memory of the same lengths for the task's next submission; not while in flight.
  void bind(std::span<const T> input, std::span<Sum> output) {
    detail::check_length(name(), input.size(), plan_.offsets.back(), "input");
    input_ = input;
    output_ = output;
  }

  /// Sets a function call(begin, end) to be called for each piece of the own shard whose sum is final, while it is in
  /// the cache; `begin` and `end` index output. The function runs on the progress thread, for which all tasks wait, so
  /// it must do little (an elementwise update) and never wait. Not while in flight.
  void on_folded(std::function<void(std::int64_t, std::int64_t)> call) {
    plan_.on_folded = std::move(call);
  }

  /// Returns the bytes and messages that rank `rank` of `ranks` sends in a reduce-scatter; in a group `rank` is the
  /// position, `ranks` the size.
  static Cost cost(int ranks, int rank, std::span<const std::int64_t> offsets, Bytes element,
                   Transport transport = Transport::messages, Bytes piece = default_piece_bytes) {
    return detail::reduce_cost(ranks, rank, offsets, element, transport, piece);
  }

private:
  void place(int position) override {
    detail::check_length(name(), output_.size(), plan_.length(position), "output");
    plan_.input = detail::readable(input_);
    plan_.output = detail::writable(output_);
    plan_.output_begin = plan_.begin(position) * plan_.widening;
  }

  std::span<const T> input_;
  std::span<Sum> output_;
};

/// A task that gives every rank, or every member of a group, the shards of all of them.
///
/// | who      | as for ReduceScatterTask, also with a group                               |
/// | shape    | input: own shard; output: (n) = (offsets[P])                              |
/// | in place | input may be the own shard inside output; otherwise they must not overlap |
/// | life     | both memories must exist, and the input be unchanged, until complete      |
/// | wire     | cost(): every rank sends its shard to the P - 1 others                    |
template <movable_element T>
class AllGatherTask final : public detail::ExchangeTask {
public:
  AllGatherTask(std::string name, std::span<const T> input, std::span<T> output,
                std::vector<std::int64_t> offsets, std::optional<Group> group = {})
      : ExchangeTask(
            Kind::all_gather, std::move(name),
            {.offsets = std::move(offsets), .reduce = false, .gather = true, .element = sizeof(T)},
            std::move(group)) {
    detail::check_offsets(this->name(), plan_.offsets, static_cast<std::int64_t>(output.size()));
    bind(input, output);
  }
  ~AllGatherTask() override { retire(); }

  /// Sets other memory of the same lengths for the task's next submission; not while in flight.
  void bind(std::span<const T> input, std::span<T> output) {
    detail::check_length(name(), output.size(), plan_.offsets.back(), "output");
    input_ = input;
    output_ = output;
  }

  /// Returns the bytes and messages that rank `rank` of `ranks` sends in an all-gather; in a group `rank` is the
  /// position, `ranks` the size.
  static Cost cost(int ranks, int rank, std::span<const std::int64_t> offsets, Bytes element,
                   Transport transport = Transport::messages, Bytes piece = default_piece_bytes) {
    return detail::gather_cost(ranks, rank, offsets, element, transport, piece);
  }

private:
  void place(int position) override {
    detail::check_length(name(), input_.size(), plan_.length(position), "input");
    plan_.input = detail::readable(input_);
    plan_.input_begin = plan_.begin(position);
    plan_.output = detail::writable(output_);
  }

  std::span<const T> input_;
  std::span<T> output_;
};

/// A task that replaces the array of every rank, or member of a group, by the sum over all of them: with
/// the bits of a ReduceScatterTask and then an AllGatherTask over the same offsets, but both run at once.
///
/// | who   | as for ReduceScatterTask, also with a group                      |
/// | shape | data: (n) = (offsets[P]), in place                               |
/// | wire  | cost(): that of a ReduceScatterTask and that of an AllGatherTask |
///
/// \code
/// // given: comm::Progress& progress, std::span<float> gradient
/// const Group stage{"stage 1", {1, 3}};  // its members call it
/// comm::AllReduceTask<float> task("gradient", gradient,
///                                 comm::even_offsets(std::ssize(gradient), stage.size()), stage);
/// progress.run(progress.queue("reduce"), task);
/// \endcode
template <real T>
class AllReduceTask final : public detail::ExchangeTask {
public:
  AllReduceTask(std::string name, std::span<T> data, std::vector<std::int64_t> offsets,
                std::optional<Group> group = {})
      : ExchangeTask(Kind::all_reduce, std::move(name),
                     {.offsets = std::move(offsets),
                      .reduce = true,
                      .gather = true,
                      .element = sizeof(T),
                      .fold = &detail::fold<T>},
                     std::move(group)) {
    detail::check_offsets(this->name(), plan_.offsets, static_cast<std::int64_t>(data.size()));
    bind(data);
  }
  /// Constructs a task that sums `data` over `ranks` ranks, in shards of even size.
  AllReduceTask(std::string name, std::span<T> data, int ranks)
      : AllReduceTask(std::move(name), data,
                      even_offsets(static_cast<std::int64_t>(data.size()), ranks)) {}
  ~AllReduceTask() override { retire(); }

  /// Sets other memory of the same length for the task's next submission; not while in flight.
  void bind(std::span<T> data) {
    detail::check_length(name(), data.size(), plan_.offsets.back(), "data");
    data_ = data;
  }

  /// Returns the bytes and messages that rank `rank` of `ranks` sends in an all-reduce; in a group `rank` is the
  /// position, `ranks` the size.
  static Cost cost(int ranks, int rank, std::span<const std::int64_t> offsets, Bytes element,
                   Transport transport = Transport::messages, Bytes piece = default_piece_bytes) {
    return detail::reduce_cost(ranks, rank, offsets, element, transport, piece) +
           detail::gather_cost(ranks, rank, offsets, element, transport, piece);
  }

private:
  void place(int) override {
    plan_.input = reinterpret_cast<const std::byte*>(data_.data());
    plan_.output = detail::writable(data_);
  }

  std::span<T> data_;
};

}  // namespace comm
}  // namespace v0
}  // namespace reef

#ifndef REEF_COMPILED
#include <reef/comm/collectives.ipp>
#endif
