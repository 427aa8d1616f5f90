#pragma once

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <reef/comm/all_to_all.hpp>
#include <reef/comm/collectives.hpp>
#include <reef/comm/point_to_point.hpp>
#include <reef/comm/progress.hpp>
#include <reef/comm/shards.hpp>
#include <reef/core/element.hpp>
#include <reef/core/error.hpp>
#include <reef/core/group.hpp>
#include <reef/core/text.hpp>

namespace reef {
inline namespace v0 {
namespace comm {

namespace detail {

/// Returns the ranks that take part in a collective: the group, or all ranks as a group without a name. Throws
/// OptionError if this rank or the root is not among them.
Group members_of(const Progress& progress, std::string_view name, int root,
                 const std::optional<Group>& group);

}  // namespace detail

/// The name of the task queue of a Progress to which the blocking functions of this file submit their tasks.
inline constexpr const char* default_queue = "default";

/// Submits a communication task to the queue "default" and blocks until the task is complete.
inline void run(Progress& progress, Task& task) {
  progress.run(progress.queue(default_queue), task);
}

// With a group, its members alone call the functions below, with the same group; P is then its size, and shards are in
// the order of its members.

/// Replaces `data` by its sum over all ranks, folded in rank order: the same bits on every rank, in
/// every run, over every transport. All ranks call it, with the same name and size. Blocks.
///
/// \code
/// // given: comm::Progress& progress, std::vector<float>& weights, std::vector<float>& gradient
/// comm::broadcast(progress, "weights", 0, std::span(weights));
/// comm::all_reduce(progress, "gradient", std::span(gradient));
/// comm::barrier(progress, "step");
/// \endcode
template <real T>
void all_reduce(Progress& progress, std::string name, std::span<T> data,
                std::optional<Group> group = {}) {
  const int ranks = group ? group->size() : progress.size();
  AllReduceTask<T> task(std::move(name), data, even_offsets(std::ssize(data), ranks),
                        std::move(group));
  run(progress, task);
}

/// Sums `input` over all ranks, and stores this rank's shard of the sum in `output`.
/// All ranks call it, with the same name and offsets. Blocks. See ReduceScatterTask.
template <real T>
void reduce_scatter(Progress& progress, std::string name, std::span<const T> input,
                    std::span<T> output, std::vector<std::int64_t> offsets,
                    std::optional<Group> group = {}) {
  ReduceScatterTask<T> task(std::move(name), input, output, std::move(offsets), std::move(group));
  run(progress, task);
}
/// Sums inputs of all ranks in a wider type, bf16 in fp32; `output` receives this rank's shard of the sum. See
/// ReduceScatterTask.
template <real T, real Sum>
  requires(!std::same_as<T, Sum> && std::same_as<Sum, sum_t<T>>)
void reduce_scatter(Progress& progress, std::string name, std::span<const T> input,
                    std::span<Sum> output, std::vector<std::int64_t> offsets,
                    std::optional<Group> group = {}) {
  ReduceScatterTask<T, Sum> task(std::move(name), input, output, std::move(offsets),
                                 std::move(group));
  run(progress, task);
}

/// Gathers the shards (parts of one array) of all ranks in `output` of every rank. All ranks call it, with the same
/// name and offsets. Blocks. See AllGatherTask.
template <movable_element T>
void all_gather(Progress& progress, std::string name, std::span<const T> input, std::span<T> output,
                std::vector<std::int64_t> offsets, std::optional<Group> group = {}) {
  AllGatherTask<T> task(std::move(name), input, output, std::move(offsets), std::move(group));
  run(progress, task);
}

/// Sends every rank its part of this rank's input: bytes [input_offsets[p], input_offsets[p+1])
/// of `input` go to rank p, which stores them at output_offsets[r] of its `output`, r being this
/// rank. All ranks call it, with the same name and matching lengths. Blocks. See AllToAllTask.
inline void all_to_all(Progress& progress, std::string name, std::span<const std::byte> input,
                       std::vector<std::int64_t> input_offsets, std::span<std::byte> output,
                       std::vector<std::int64_t> output_offsets, std::optional<Group> group = {}) {
  AllToAllTask task(std::move(name), input, std::move(input_offsets), output,
                    std::move(output_offsets), std::move(group));
  run(progress, task);
}

/// Blocks until every rank has called barrier with the same name.
void barrier(Progress& progress, std::string name, std::optional<Group> group = {});

/// Copies the `data` of rank `root` to all ranks. All ranks call it, with the same name, root and
/// size. Blocks. It is an all-gather in which the root owns all elements: the root sends P - 1 times
/// the array. With a group, `root` is still a rank. Throws OptionError if the root does not take part.
template <movable_element T>
void broadcast(Progress& progress, std::string name, int root, std::span<T> data,
               std::optional<Group> group = {}) {
  const Group members = detail::members_of(progress, name, root, group);
  std::vector<std::int64_t> offsets(members.members.size() + 1, 0);
  std::fill(offsets.begin() + members.position_of(root) + 1, offsets.end(), std::ssize(data));
  const std::span<const T> own = progress.rank() == root ? data : data.first(0);
  all_gather<T>(progress, std::move(name), own, data, std::move(offsets), std::move(group));
}

/// Sends `data` to rank `peer`, which calls receive with the same name and size. Blocks until
/// `data` may be changed.
template <class T>
void send(Progress& progress, std::string name, int peer, std::span<T> data) {
  SendTask task(std::move(name), peer, data);
  run(progress, task);
}

/// Receives into `data` the bytes that rank `peer` sends under the same name. Blocks.
template <class T>
void receive(Progress& progress, std::string name, int peer, std::span<T> data) {
  ReceiveTask task(std::move(name), peer, data);
  run(progress, task);
}

/// Gathers the shards of all ranks in `output` of rank `root`; on other ranks `output` may be empty.
/// The root's `input` may be its shard inside `output`. All ranks call it, with the same name, root
/// and offsets. Blocks until `input` may be changed, on the root until all shards have arrived. With
/// a group, `root` is still a rank. Throws OptionError for an invalid root or offsets.
template <movable_element T>
void gather(Progress& progress, const std::string& name, int root, std::span<const T> input,
            std::span<T> output, std::span<const std::int64_t> offsets,
            const std::optional<Group>& group = {}) {
  const Group members = detail::members_of(progress, name, root, group);
  detail::check_ranks(name, std::ssize(offsets) - 1, members.size());
  detail::check_offsets(name, offsets, offsets.back());
  const auto own = static_cast<std::size_t>(members.position_of(progress.rank()));
  detail::check_length(name, input.size(), offsets[own + 1] - offsets[own], "input");
  if (progress.rank() != root) {
    if (!input.empty()) send(progress, name, root, input);
    return;
  }
  detail::check_length(name, output.size(), offsets.back(), "output");
  std::vector<std::unique_ptr<ReceiveTask>> tasks;
  for (std::size_t at = 0; at < members.members.size(); ++at) {
    const int peer = members.members[at];
    const auto begin = static_cast<std::size_t>(offsets[at]);
    const std::span<T> place =
        output.subspan(begin, static_cast<std::size_t>(offsets[at + 1]) - begin);
    if (peer == root) {
      if (place.data() != input.data()) std::copy(input.begin(), input.end(), place.begin());
    } else if (!place.empty()) {
      tasks.push_back(std::make_unique<ReceiveTask>(name, peer, place));
      progress.submit(progress.queue(concat(default_queue, " from ", peer)), *tasks.back());
    }
  }
  for (const auto& task : tasks) progress.wait(*task);
}

}  // namespace comm
}  // namespace v0
}  // namespace reef

#ifndef REEF_COMPILED
#include <reef/comm/functions.ipp>
#endif
