#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <unordered_map>
#include <utility>

#include <ATen/record_function.h>
#include <c10/core/Allocator.h>
#include <c10/util/ThreadLocalDebugInfo.h>
#include <torch/version.h>
#include <torch/csrc/profiler/util.h>

#include <reef/core/units.hpp>

namespace reef {
inline namespace v0 {
namespace torch::detail {

/// The most bytes that tensors which libtorch has made since then have held at once: on this thread, and on those that
/// autograd has for it.
class HeapMeter {
public:
  HeapMeter() : counts_(std::make_shared<Counts>()), guard_(c10::DebugInfoKind::PROFILER_STATE, counts_) {}

  [[nodiscard]] Bytes peak() const { return static_cast<Bytes>(counts_->peak.load()); }
  [[nodiscard]] Bytes now() const { return static_cast<Bytes>(std::max<std::int64_t>(counts_->now.load(), 0)); }

  /// Runs what frees tensors that were made before the meter was: they were not counted.
  template <class F>
  void without(const F& function) const {
    const std::int64_t now = counts_->now.load();
    function();
    counts_->now = now;
  }

private:
#if TORCH_VERSION_MAJOR >= 2
  using Total = std::size_t;
#else
  using Total = std::int64_t;
#endif

  struct Counts final : c10::MemoryReportingInfoBase {
    // Autograd works for a GPU on a thread of its own, for the host on the caller's.
    std::atomic<std::int64_t> now = 0;
    std::atomic<std::int64_t> peak = 0;

    void reportMemoryUsage(void* /*address*/, std::int64_t bytes, Total /*allocated*/, Total /*reserved*/,
                           c10::Device /*device*/) override {
      const std::int64_t after = now += bytes;
      std::int64_t most = peak;
      while (most < after && !peak.compare_exchange_weak(most, after)) {}
    }
    [[nodiscard]] bool memoryProfilingEnabled() const override { return true; }
  };

  std::shared_ptr<Counts> counts_;
  c10::DebugInfoGuard guard_;
};

/// The floating-point operations of the products, sums and convolutions that this thread has called since then.
class FlopMeter {
public:
  FlopMeter()
      : handle_(at::addThreadLocalCallback(at::RecordFunctionCallback([](const at::RecordFunction& function) {
                  return std::unique_ptr<at::ObserverContext>(std::make_unique<Called>(
                      ::torch::profiler::impl::saveExtraArgs(function), function.name()));
                },
                count)
                    .needsInputs(true)
                    .scopes({at::RecordScope::FUNCTION}))) {
    total() = 0;
  }
  FlopMeter(const FlopMeter&) = delete;
  FlopMeter& operator=(const FlopMeter&) = delete;
  ~FlopMeter() { at::removeCallback(handle_); }

  [[nodiscard]] double flops() const { return static_cast<double>(total()); }

private:
  struct Called final : at::ObserverContext {
    Called(std::unordered_map<std::string, c10::IValue> given, const char* called)
        : arguments(std::move(given)), name(called) {}
    std::unordered_map<std::string, c10::IValue> arguments;
    std::string name;
  };

  static std::uint64_t& total() {
    thread_local std::uint64_t flops = 0;
    return flops;
  }

  static void count(const at::RecordFunction& /*function*/, at::ObserverContext* context) {
    const auto& called = static_cast<const Called&>(*context);
    total() += ::torch::profiler::impl::computeFlops(called.name, called.arguments);
  }

  at::CallbackHandle handle_;
};

}  // namespace torch::detail
}  // namespace v0
}  // namespace reef
