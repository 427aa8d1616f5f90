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

/// An element type that is moved and not summed: a number, a character.
template <class T>
concept movable_element = real<T> || std::integral<T>;

namespace detail {

/// The common base of the three collectives: the plan, and the transport that carries it.
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

  /// Sets the plan's pointers, once the position of this rank, and so its own shard, is known.
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

/// Throws OptionError unless a buffer has the length that its shards state.
void check_length(const std::string& name, std::size_t have, std::int64_t need,
                  std::string_view what);

}  // namespace detail

/// Sums arrays of all ranks, or of a group; each rank gets its own shard of the sum.
///
///     output = (...((x_0 + x_1) + x_2) + ... + x_{P-1})  on [offsets[r], offsets[r+1])
///
/// | who      | all ranks, in the same order in a queue of the same name, with the same offsets      |
/// | group    | its members alone, in the same order among the collectives of that name of a group   |
/// |          | in that queue; P is then its size, r a position, and the group the same on all       |
/// | shape    | input: (n) = (offsets[P]); output: own shard, (offsets[r+1] - offsets[r]), may be empty |
/// | order    | the owner folds the chunks in rank order: the same bits on every run and transport   |
/// | rounding | every addition to Sum; of Sum = T = bf16 P - 1 times. With Sum = float, chunks of bf16  |
/// |          | travel and are summed in fp32                                                        |
/// | in place | output may be the own shard inside input, if Sum is T; otherwise they must not overlap |
/// | life     | input unchanged and both alive until complete                                         |
/// | errors   | OptionError, at once: wrong lengths or offsets, a bad group; when it is submitted: this |
/// |          | rank is no member. MpiError on members: their offsets, order or members differ        |
/// | wire     | cost(): every rank sends each owner its chunk: n - own shard elements, as a ring does |
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

  /// Sets other memory of the same lengths for the next submission; not while in flight.
  void bind(std::span<const T> input, std::span<Sum> output) {
    detail::check_length(name(), input.size(), plan_.offsets.back(), "input");
    input_ = input;
    output_ = output;
  }

  /// Calls `call(begin, end)` for each piece of the own shard as it becomes final, while it is in
  /// the cache. `begin` and `end` index output. On the progress thread: everything waits for it, so
  /// it does little (an elementwise update) and never waits. Not while in flight.
  void on_folded(std::function<void(std::int64_t, std::int64_t)> call) {
    plan_.on_folded = std::move(call);
  }

  /// Returns what rank `rank` of `ranks` sends; in a group `rank` is the position, and `ranks` the size.
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

/// Gives every rank, or every member of a group, the shards of all of them.
///
/// | who      | as of ReduceScatterTask, with a group too                                           |
/// | shape    | input: own shard; output: (n) = (offsets[P])                                         |
/// | in place | input may be the own shard inside output; otherwise they must not overlap           |
/// | life     | both alive, input unchanged, until complete                                          |
/// | wire     | cost(): every rank sends its shard to the P - 1 others                               |
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

  /// Sets other memory of the same lengths for the next submission; not while in flight.
  void bind(std::span<const T> input, std::span<T> output) {
    detail::check_length(name(), output.size(), plan_.offsets.back(), "output");
    input_ = input;
    output_ = output;
  }

  /// Returns what rank `rank` of `ranks` sends; in a group `rank` is the position, and `ranks` the size.
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

/// Replaces the array of every rank, or member of a group, by the sum over all of them: the bits of a
/// ReduceScatterTask and an AllGatherTask over the same offsets, with both under way at once.
///
/// | who   | as of ReduceScatterTask, with a group too                                         |
/// | shape | data: (n) = (offsets[P]), in place                                                 |
/// | wire  | cost(): that of a ReduceScatterTask and that of an AllGatherTask                   |
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
  /// Sums `data` in even shards over `ranks` ranks.
  AllReduceTask(std::string name, std::span<T> data, int ranks)
      : AllReduceTask(std::move(name), data,
                      even_offsets(static_cast<std::int64_t>(data.size()), ranks)) {}
  ~AllReduceTask() override { retire(); }

  /// Sets other memory of the same length for the next submission; not while in flight.
  void bind(std::span<T> data) {
    detail::check_length(name(), data.size(), plan_.offsets.back(), "data");
    data_ = data;
  }

  /// Returns what rank `rank` of `ranks` sends; in a group `rank` is the position, and `ranks` the size.
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
