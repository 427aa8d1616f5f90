#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <mutex>

#include <cuda_runtime.h>

#include <reef/device/detail/cuda_device.hpp>
#include <reef/device/detail/cuda_error.hpp>
#include <reef/device/detail/doorbell.hpp>

namespace reef {
inline namespace v0 {
namespace device {

/// Counts completions, of a lane's device work (record) or of a host thread's (signal).
///
/// | order   | completions of one event follow each other: one lane records it, or one thread signals |
/// |         | it. What came before a completion is seen by whoever saw that completion               |
/// | state   | at most 16 completions are issued and not yet happened; record() blocks for a place    |
/// | threads | all members from any thread; a thread that waits spins at most 50 us, then sleeps      |
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
    happened_ = (std::max)(happened_, epoch);
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

}  // namespace device
}  // namespace v0
}  // namespace reef
