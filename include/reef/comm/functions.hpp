#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <reef/comm/collectives.hpp>
#include <reef/comm/point_to_point.hpp>
#include <reef/comm/progress.hpp>
#include <reef/comm/shards.hpp>
#include <reef/core/element.hpp>

namespace reef::inline v0::comm {

/// The queue that the functions below share.
inline constexpr const char* default_queue = "default";

/// Submits the task to the queue "default" and blocks until it is complete.
inline void run(Progress& progress, Task& task) {
  progress.submit(progress.queue(default_queue), task);
  progress.wait(task);
}

/// Replaces `data` by its sum over all ranks, folded in rank order: the same bits on every rank, in
/// every run, over every transport. All ranks call it, with the same name and size. Blocks.
template <real T>
void all_reduce(Progress& progress, std::string name, std::span<T> data) {
  AllReduceTask<T> task(std::move(name), data, progress.size());
  run(progress, task);
}

/// Leaves in `output` this rank's shard of the sum of `input` over all ranks. All ranks call it,
/// with the same name and offsets. Blocks. See ReduceScatterTask.
template <real T>
void reduce_scatter(Progress& progress, std::string name, std::span<const T> input,
                    std::span<T> output, std::vector<std::int64_t> offsets) {
  ReduceScatterTask<T> task(std::move(name), input, output, std::move(offsets));
  run(progress, task);
}

/// Leaves the shards of all ranks in `output`. All ranks call it, with the same name and offsets.
/// Blocks. See AllGatherTask.
template <real T>
void all_gather(Progress& progress, std::string name, std::span<const T> input, std::span<T> output,
                std::vector<std::int64_t> offsets) {
  AllGatherTask<T> task(std::move(name), input, output, std::move(offsets));
  run(progress, task);
}

/// Returns on every rank after every rank has called it, with the same name. Blocks.
inline void barrier(Progress& progress, std::string name) {
  std::vector<float> one(static_cast<std::size_t>(progress.size()), 0.0F);
  all_reduce(progress, std::move(name), std::span(one));
}

/// Sends `data` to rank `peer`, which calls receive with the same name and size. Blocks until
/// `data` may be changed.
template <class T>
void send(Progress& progress, std::string name, int peer, std::span<T> data) {
  SendTask task(std::move(name), peer, data);
  run(progress, task);
}

/// Receives into `data` what rank `peer` sends under the same name. Blocks.
template <class T>
void receive(Progress& progress, std::string name, int peer, std::span<T> data) {
  ReceiveTask task(std::move(name), peer, data);
  run(progress, task);
}

}  // namespace reef::inline v0::comm
