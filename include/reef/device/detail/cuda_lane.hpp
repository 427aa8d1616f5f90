#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include <cuda_runtime.h>

#include <reef/device/concept.hpp>
#include <reef/device/detail/cuda_blas.hpp>
#include <reef/device/detail/cuda_device.hpp>
#include <reef/device/detail/cuda_error.hpp>
#include <reef/device/detail/cuda_event.hpp>
#include <reef/device/detail/cuda_memory.hpp>
#include <reef/device/detail/scheduling.hpp>
#include <reef/device/detail/worker.hpp>
#include <reef/trace/span.hpp>

namespace reef {
inline namespace v0 {
namespace device {

/// An in-order queue of functions, the thread that runs them, and the stream on which they enqueue.
///
/// | order  | functions run one after another in the order of submission, and so does what they    |
/// |        | enqueue on stream()                                                                  |
/// | cost   | submit: a lock and, for functions of at most 96 bytes, no allocation                 |
/// | errors | an exception stops the lane: what is queued, and what comes before synchronize(),    |
/// |        | is dropped; synchronize() throws it and makes the lane usable again. Lanes of the    |
/// |        | same device that wait() for an event meanwhile stop too, rather than wait for ever   |
/// | life   | the destructor runs what is queued, then joins and waits for the stream; it swallows |
/// |        | an unclaimed exception                                                               |
class Cuda::Lane {
public:
  Lane(Cuda& device, std::string lane_name, Priority priority = Priority::normal)
      : device_(device),
        stream_(device, priority),
        worker_(*this, std::move(lane_name), device.failed_lanes_,
                [priority, ordinal = device.ordinal()] {
                  detail::check_cuda(cudaSetDevice(ordinal), "cudaSetDevice", ordinal);
                  if (priority == Priority::high) detail::go_first();
                }) {}
  Lane(const Lane&) = delete;
  Lane& operator=(const Lane&) = delete;
  ~Lane() {
    worker_.join();
    static_cast<void>(cudaStreamSynchronize(stream_.get));
  }

  /// Queues function(Lane&). From any thread.
  template <class F>
  void submit(F&& function) {
    worker_.submit(std::forward<F>(function));
  }

  /// Blocks until everything submitted so far is done on the device; throws what stopped the lane.
  void synchronize() {
    worker_.synchronize("Cuda");
    const auto end_what_ran = [this] {
      static_cast<void>(cudaStreamSynchronize(stream_.get));
      static_cast<void>(cudaGetLastError());
    };
    if (auto error = worker_.take_error(end_what_ran)) std::rethrow_exception(std::move(error));
    drain();
  }

  // -- inside a submitted function ---------------------------------------------------------------

  /// Completes the event once what was enqueued before is done.
  void record(Event& event) { event.record_on(stream_.get, device_.ordinal()); }

  /// The trace's clock once what was enqueued before is done; `to` is there until then.
  void stamp(Seconds& to) {
    const auto write = [](void* at) { *static_cast<Seconds*>(at) = trace::now(); };
    detail::check_cuda(cudaLaunchHostFunc(stream_.get, write, &to), "cudaLaunchHostFunc",
                       device_.ordinal());
  }

  /// What is enqueued from here on starts after completion `epoch` of the event. Blocks the lane's
  /// thread until that completion is issued.
  void wait(Event& event, std::uint64_t epoch) {
    worker_.await(event.bell_, "Cuda", [&] { return event.issued_.load() >= epoch; });
    event.wait_on(stream_.get, epoch, device_.ordinal());
  }

  /// Blocks the lane's thread until what was enqueued before is done, so the function itself may look at it.
  void settle() { drain(); }

  /// Copies. The two ranges must not overlap. Asynchronous where the host's end is a PinnedBuffer, but
  /// `on_host` ends when it is done.
  void copy(void* to, const void* from, Bytes bytes, Copy direction) {
    if (bytes == 0) return;
    const cudaMemcpyKind kind = direction == Copy::to_device   ? cudaMemcpyHostToDevice
                                : direction == Copy::to_host   ? cudaMemcpyDeviceToHost
                                : direction == Copy::on_device ? cudaMemcpyDeviceToDevice
                                                               : cudaMemcpyHostToHost;
    detail::check_cuda(
        cudaMemcpyAsync(to, from, static_cast<std::size_t>(bytes), kind, stream_.get),
        "cudaMemcpyAsync", device_.ordinal());
  }

  /// What was there is not to be read any more: NaNs, where Options::poison_freed says so.
  void poison(void* memory, Bytes bytes) {
    if (bytes == 0 || !device_.options().poison_freed) return;
    detail::check_cuda(cudaMemsetAsync(memory, 0xFF, static_cast<std::size_t>(bytes), stream_.get),
                       "cudaMemsetAsync", device_.ordinal());
  }

  void fill_zero(void* to, Bytes bytes) {
    if (bytes == 0) return;
    detail::check_cuda(cudaMemsetAsync(to, 0, static_cast<std::size_t>(bytes), stream_.get),
                       "cudaMemsetAsync", device_.ordinal());
  }

  [[nodiscard]] cudaStream_t stream() const { return stream_.get; }

  /// Matrix products on this lane; made at the first call.
  [[nodiscard]] detail::CudaBlas& blas() {
    if (!blas_) blas_ = std::make_unique<detail::CudaBlas>(device_.ordinal(), stream_.get);
    return *blas_;
  }

  /// Host threads that work for a kernel: none but the lane's own.
  [[nodiscard]] int threads() const { return 1; }

  [[nodiscard]] Cuda& device() { return device_; }
  [[nodiscard]] const std::string& lane_name() const { return worker_.name(); }

private:
  // A stream, and an event by which a host thread sleeps until the stream has done its work.
  struct Stream {
    Stream(Cuda& device, Priority priority) {
      const detail::CudaDeviceScope scope(device.ordinal());
      int lowest = 0;
      int highest = 0;
      detail::check_cuda(cudaDeviceGetStreamPriorityRange(&lowest, &highest),
                         "cudaDeviceGetStreamPriorityRange", device.ordinal());
      detail::check_cuda(cudaStreamCreateWithPriority(&get, cudaStreamNonBlocking,
                                                      priority == Priority::high ? highest : 0),
                         "cudaStreamCreateWithPriority", device.ordinal());
      const cudaError_t code =
          cudaEventCreateWithFlags(&drained, cudaEventDisableTiming | cudaEventBlockingSync);
      if (code != cudaSuccess) {
        static_cast<void>(cudaStreamDestroy(get));
        detail::check_cuda(code, "cudaEventCreateWithFlags", device.ordinal());
      }
    }
    Stream(const Stream&) = delete;
    Stream& operator=(const Stream&) = delete;
    ~Stream() {
      static_cast<void>(cudaEventDestroy(drained));
      static_cast<void>(cudaStreamDestroy(get));
    }
    cudaStream_t get = nullptr;
    cudaEvent_t drained = nullptr;
  };

  void drain() {
    const detail::CudaDeviceScope scope(device_.ordinal());
    detail::check_cuda(cudaEventRecord(stream_.drained, stream_.get), "cudaEventRecord",
                       device_.ordinal());
    detail::check_cuda(cudaEventSynchronize(stream_.drained),
                       "cudaEventSynchronize (end of a lane)", device_.ordinal());
  }

  Cuda& device_;
  Stream stream_;
  std::unique_ptr<detail::CudaBlas> blas_;  // of the lane's thread; after stream_, which it uses
  detail::Worker<Lane> worker_;             // last: its thread uses all of the above
};

}  // namespace device
}  // namespace v0
}  // namespace reef
