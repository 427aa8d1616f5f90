#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>

#include <cuda_runtime.h>

#include <reef/core/policy_tag.hpp>
#include <reef/core/text.hpp>
#include <reef/device/concept.hpp>
#include <reef/device/detail/cuda_blas.hpp>
#include <reef/device/detail/cuda_error.hpp>
#include <reef/device/detail/doorbell.hpp>
#include <reef/device/detail/worker.hpp>
#include <reef/device/memory.hpp>
#include <reef/trace/span.hpp>

namespace reef::inline v0::device {

/// Whether at least one CUDA device answers; if not, `why` says what does not. Never throws.
inline bool cuda_available(std::string* why = nullptr) noexcept {
  int count = 0;  // left alone by a call that fails
  const cudaError_t code = cudaGetDeviceCount(&count);
  if (code == cudaSuccess && count > 0) return true;
  static_cast<void>(cudaGetLastError());
  if (why == nullptr) return false;
  try {
    *why = code == cudaSuccess
               ? std::string("the CUDA driver answers, but has no device")
               : concat("no CUDA device answers: ", static_cast<int>(code), " ",
                        cudaGetErrorName(code), " (", cudaGetErrorString(code), ")");
  } catch (...) {
    why->clear();
  }
  return false;
}

/// A CUDA device.
///
/// | memory | cudaMalloc; a budget of Options::memory_bytes for all Buffers together. Not of it are   |
/// |        | PinnedBuffers, the driver's context, and 32 MiB for each lane that multiplies matrices  |
/// | lane   | a host thread and a stream: functions run on the thread and enqueue on the stream       |
/// | thread | all members from any thread; the caller's current device is left as it was              |
/// | errors | MemoryError from allocate; CudaError from the constructor when no such device answers   |
class Cuda {
public:
  using policy_tag = DeviceTag;
  static constexpr std::string_view name = "cuda";

  struct Options {
    int ordinal = 0;            ///< which of the devices that CUDA_VISIBLE_DEVICES leaves
    Bytes memory_bytes = 0;     ///< 0: as much as there is
    bool poison_freed = false;  ///< new and freed memory is filled with NaNs
  };

  class Buffer;
  class PinnedBuffer;
  class Event;
  class Lane;

  Cuda() : Cuda(Options{}) {}
  explicit Cuda(Options options)
      : options_(options), ledger_(concat("CUDA device ", options.ordinal), options.memory_bytes) {
    std::string why;
    if (!cuda_available(&why)) {
      throw CudaError(concat("reef::device::Cuda: ", why,
                             ".\n  fix: install a driver, or use reef::device::Host."),
                      static_cast<int>(cudaErrorNoDevice));
    }
    detail::check_cuda(cudaGetDeviceProperties(&properties_, options_.ordinal),
                       "cudaGetDeviceProperties", options_.ordinal);
  }
  Cuda(const Cuda&) = delete;
  Cuda& operator=(const Cuda&) = delete;

  /// Device memory, aligned to 256 bytes, not initialised. MemoryError when the budget or the
  /// device has no room.
  Buffer allocate(Bytes bytes, std::string_view what);

  /// Page-locked host memory: not part of the budget.
  PinnedBuffer allocate_pinned(Bytes bytes, std::string_view what);

  /// The device's memory is not the host's: messages and files need copies over the link.
  [[nodiscard]] static constexpr bool discrete() { return true; }
  [[nodiscard]] static constexpr bool discrete(const Options& /*options*/) { return true; }

  [[nodiscard]] MemoryReport memory() const { return ledger_.report(); }
  [[nodiscard]] int threads() const { return 1; }
  [[nodiscard]] int ordinal() const { return options_.ordinal; }
  [[nodiscard]] const Options& options() const { return options_; }
  [[nodiscard]] const cudaDeviceProp& properties() const { return properties_; }

private:
  static cudaError_t poison(void* data, Bytes bytes) noexcept {
    const cudaError_t code = cudaMemset(data, 0xFF, static_cast<std::size_t>(bytes));
    return code != cudaSuccess ? code : cudaStreamSynchronize(nullptr);  // lanes do not wait for it
  }

  Options options_;
  MemoryLedger ledger_;
  cudaDeviceProp properties_{};
  std::atomic<int> failed_lanes_{0};
};

/// Device memory that is freed when this goes: the lanes that use it are done by then. Moved from,
/// it is empty.
class Cuda::Buffer {
public:
  Buffer() = default;

  [[nodiscard]] void* data() const { return memory_.get(); }
  [[nodiscard]] Bytes bytes() const { return memory_ ? memory_.get_deleter().bytes : 0; }

private:
  friend class Cuda;

  struct Release {
    Cuda* device;
    Bytes bytes;
    std::string what;

    void operator()(void* data) const {
      if (device->options_.poison_freed) static_cast<void>(poison(data, bytes));
      static_cast<void>(cudaFree(data));
      device->ledger_.give_back(bytes, what);
    }
  };

  Buffer(void* data, Release release) : memory_(data, std::move(release)) {}

  std::unique_ptr<void, Release> memory_;
};

/// Page-locked host memory, which the device's copy engines reach. Moved from, it is empty.
class Cuda::PinnedBuffer {
public:
  PinnedBuffer() = default;

  [[nodiscard]] void* data() const { return memory_.get(); }
  [[nodiscard]] Bytes bytes() const { return memory_ ? memory_.get_deleter().bytes : 0; }

private:
  friend class Cuda;

  struct Release {
    Bytes bytes;

    void operator()(void* data) const { static_cast<void>(cudaFreeHost(data)); }
  };

  PinnedBuffer(void* data, Bytes bytes) : memory_(data, Release{bytes}) {}

  std::unique_ptr<void, Release> memory_;
};

inline Cuda::Buffer Cuda::allocate(Bytes bytes, std::string_view what) {
  if (bytes == 0) return {};
  Buffer::Release release{this, bytes, std::string(what)};
  const detail::CudaDeviceScope scope(options_.ordinal);
  ledger_.take(bytes, what);
  void* data = nullptr;
  const cudaError_t code = cudaMalloc(&data, static_cast<std::size_t>(bytes));
  if (code != cudaSuccess) ledger_.give_back(bytes, what);
  if (code == cudaErrorMemoryAllocation) {
    static_cast<void>(cudaGetLastError());
    throw ledger_.refused(bytes, what, "cudaMalloc finds no room");
  }
  detail::check_cuda(code, "cudaMalloc", options_.ordinal);
  Buffer buffer(data, std::move(release));
  if (options_.poison_freed)
    detail::check_cuda(poison(data, bytes), "cudaMemset", options_.ordinal);
  return buffer;
}

inline Cuda::PinnedBuffer Cuda::allocate_pinned(Bytes bytes, std::string_view what) {
  if (bytes == 0) return {};
  const detail::CudaDeviceScope scope(options_.ordinal);
  void* data = nullptr;
  const cudaError_t code = cudaMallocHost(&data, static_cast<std::size_t>(bytes));
  if (code == cudaErrorMemoryAllocation) {
    static_cast<void>(cudaGetLastError());
    throw ledger_.refused(bytes, what, "cudaMallocHost finds no room");
  }
  detail::check_cuda(code, "cudaMallocHost", options_.ordinal);
  return {data, bytes};
}

/// Counts completions, of a lane's device work (record) or of a host thread's (signal).
///
/// | order   | completions of one event follow each other: one lane records it, or one thread signals |
/// |         | it. What came before a completion is seen by whoever saw that completion              |
/// | state   | at most 16 completions are issued and not yet happened; record() blocks for a place   |
/// | threads | all members from any thread; a thread that waits spins at most 50 us, then sleeps     |
class Cuda::Event {
public:
  Event() = default;
  explicit Event(Cuda& /*device*/) {}
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;
  ~Event() {
    // Whoever waited may destroy the event while signal() is still on its way out.
    while (signalling_.load(std::memory_order_acquire) != 0) detail::pause();
    for (cudaEvent_t slot : slots_) {
      if (slot != nullptr) static_cast<void>(cudaEventDestroy(slot));
    }
  }

  /// Completions so far.
  [[nodiscard]] std::uint64_t epoch() const {
    const std::lock_guard lock(mutex_);
    while (happened_ < issued_.load() && query(happened_ + 1)) {
    }
    return happened_;
  }

  /// One more completion, now.
  void signal() {
    signalling_.fetch_add(1, std::memory_order_relaxed);
    {
      const std::lock_guard lock(mutex_);
      happened_ = issued_.load() + 1;
      issued_.store(happened_);
    }
    bell_.ring();
    signalling_.fetch_sub(1, std::memory_order_release);
  }

  [[nodiscard]] bool ready(std::uint64_t epoch) const {
    if (epoch > issued_.load()) return false;
    const std::lock_guard lock(mutex_);
    return query(epoch);
  }

  /// Blocks the calling thread until completion `epoch`.
  void synchronize(std::uint64_t epoch) {
    bell_.await([&] { return issued_.load() >= epoch; }, detail::longest_spin);
    const auto end = std::chrono::steady_clock::now() + detail::longest_spin;
    do {
      if (ready(epoch)) return;
      detail::pause();
    } while (std::chrono::steady_clock::now() < end);
    await_device(epoch);
  }

private:
  friend class Lane;
  static constexpr std::size_t places = 16;

  // The slot of an epoch that is issued and not known to have happened: it holds no other, since
  // record() reuses a slot only once its former epoch has happened.
  [[nodiscard]] cudaEvent_t slot(std::uint64_t epoch) const { return slots_[epoch % places]; }

  // Under mutex_, for an issued epoch.
  bool query(std::uint64_t epoch) const {
    if (epoch <= happened_) return true;
    const cudaError_t code = cudaEventQuery(slot(epoch));
    if (code == cudaErrorNotReady) {
      static_cast<void>(cudaGetLastError());
      return false;
    }
    detail::check_cuda(code, "cudaEventQuery");
    happened_ = epoch;
    return true;
  }

  // Sleeps until an issued epoch has happened.
  void await_device(std::uint64_t epoch) {
    cudaEvent_t pending = nullptr;
    {
      const std::lock_guard lock(mutex_);
      if (epoch <= happened_) return;
      pending = slot(epoch);
    }
    detail::check_cuda(cudaEventSynchronize(pending), "cudaEventSynchronize");
    const std::lock_guard lock(mutex_);
    happened_ = std::max(happened_, epoch);
  }

  // On the lane's thread, whose current device is the stream's.
  void record_on(cudaStream_t stream, int ordinal) {
    std::unique_lock lock(mutex_);
    while (issued_.load() + 1 > places && issued_.load() + 1 - places > happened_) {
      const std::uint64_t former = issued_.load() + 1 - places;
      lock.unlock();
      await_device(former);
      lock.lock();
    }
    const std::uint64_t epoch = issued_.load() + 1;
    cudaEvent_t& place = slots_[epoch % places];
    if (place == nullptr) {
      detail::check_cuda(
          cudaEventCreateWithFlags(&place, cudaEventDisableTiming | cudaEventBlockingSync),
          "cudaEventCreateWithFlags", ordinal);
    }
    detail::check_cuda(cudaEventRecord(place, stream), "cudaEventRecord", ordinal);
    issued_.store(epoch);
    lock.unlock();
    bell_.ring();
  }

  // What follows on the stream starts after an issued epoch.
  void wait_on(cudaStream_t stream, std::uint64_t epoch, int ordinal) {
    const std::lock_guard lock(mutex_);
    if (epoch <= happened_) return;
    detail::check_cuda(cudaStreamWaitEvent(stream, slot(epoch), 0), "cudaStreamWaitEvent", ordinal);
  }

  mutable std::mutex mutex_;
  std::array<cudaEvent_t, places> slots_{};  // under mutex_
  mutable std::uint64_t happened_ = 0;       // under mutex_
  std::atomic<std::uint64_t> issued_{0};     // written under mutex_
  std::atomic<int> signalling_{0};
  detail::Doorbell bell_;
};

/// An in-order queue of functions, the thread that runs them, and the stream on which they enqueue.
///
/// | order  | functions run one after another in the order of submission, and so does what they    |
/// |        | enqueue on stream()                                                                   |
/// | cost   | submit: a lock and, for functions of at most 96 bytes, no allocation                |
/// | errors | an exception stops the lane: what is queued, and what comes before synchronize(),   |
/// |        | is dropped; synchronize() throws it and makes the lane usable again. Lanes of the   |
/// |        | same device that wait() for an event meanwhile stop too, rather than wait for ever  |
/// | life   | the destructor runs what is queued, then joins and waits for the stream; it swallows |
/// |        | an unclaimed exception                                                               |
class Cuda::Lane {
public:
  Lane(Cuda& device, std::string lane_name)
      : device_(device),
        stream_(device),
        worker_(*this, std::move(lane_name), device.failed_lanes_, [ordinal = device.ordinal()] {
          detail::check_cuda(cudaSetDevice(ordinal), "cudaSetDevice", ordinal);
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

  /// Copies. The two ranges must not overlap. Asynchronous where the host's end is a PinnedBuffer.
  void copy(void* to, const void* from, Bytes bytes, Copy direction) {
    if (bytes == 0) return;
    const cudaMemcpyKind kind = direction == Copy::to_device ? cudaMemcpyHostToDevice
                                : direction == Copy::to_host ? cudaMemcpyDeviceToHost
                                                             : cudaMemcpyDeviceToDevice;
    detail::check_cuda(
        cudaMemcpyAsync(to, from, static_cast<std::size_t>(bytes), kind, stream_.get),
        "cudaMemcpyAsync", device_.ordinal());
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
    explicit Stream(Cuda& device) {
      const detail::CudaDeviceScope scope(device.ordinal());
      detail::check_cuda(cudaStreamCreateWithFlags(&get, cudaStreamNonBlocking),
                         "cudaStreamCreateWithFlags", device.ordinal());
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

static_assert(device<Cuda>);

}  // namespace reef::inline v0::device
