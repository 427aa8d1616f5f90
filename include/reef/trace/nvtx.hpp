#pragma once

#include <string>

#if defined(REEF_HAS_CUDA) && __has_include(<nvtx3/nvToolsExt.h>)
#include <nvtx3/nvToolsExt.h>

#include <cstdint>
#define REEF_HAS_NVTX
#endif

#include <reef/core/language.hpp>

namespace reef {
inline namespace v0 {
namespace trace {

/// A name for a range of work in NVIDIA's profilers, in the domain "reef". Construct it once, since a
/// profiler never frees it. It does nothing in a build without reef::cuda, but has the same size there, so
/// that translation units with and without reef::cuda agree on the layout of classes with such members.
class NvtxName {
public:
  NvtxName() = default;
#if defined(REEF_HAS_NVTX)
  explicit NvtxName(const std::string& name)
      : handle_(nvtxDomainRegisterStringA(domain(), name.c_str())) {}
#else
  explicit NvtxName(const std::string& /*name*/) {}
#endif

private:
  friend class NvtxRange;

#if defined(REEF_HAS_NVTX)
  static nvtxDomainHandle_t domain() {
    static const nvtxDomainHandle_t handle = nvtxDomainCreateA("reef");
    return handle;
  }
  [[nodiscard]] nvtxStringHandle_t handle() const {
    return static_cast<nvtxStringHandle_t>(handle_);
  }
#endif

  // The profiler's handle of the name; null in a translation unit without reef::cuda.
  [[maybe_unused]] void* handle_ = nullptr;
};
static_assert(sizeof(NvtxName) == sizeof(void*));

/// A range in NVIDIA's profilers: marks the calling thread's work, and the device work that it
/// enqueues, from construction to destruction. Costs two branches if no profiler is attached.
///
/// \code
/// static const trace::NvtxName name("forward");
/// const trace::NvtxRange range(name);  // until the end of scope
/// \endcode
class NvtxRange {
public:
#if defined(REEF_HAS_NVTX)
  explicit NvtxRange(const NvtxName& name) {
    nvtxEventAttributes_t event{};
    event.version = NVTX_VERSION;
    event.size = static_cast<std::uint16_t>(sizeof(event));
    event.messageType = NVTX_MESSAGE_TYPE_REGISTERED;
    event.message.registered = name.handle();
    nvtxDomainRangePushEx(NvtxName::domain(), &event);
  }
  ~NvtxRange() { nvtxDomainRangePop(NvtxName::domain()); }
#else
  explicit NvtxRange(const NvtxName& /*name*/) {}
  ~NvtxRange() {}  // not trivial, so that compilers do not warn of an unused variable
#endif
  NvtxRange(const NvtxRange&) = delete;
  NvtxRange& operator=(const NvtxRange&) = delete;
};

}  // namespace trace
}  // namespace v0
}  // namespace reef
