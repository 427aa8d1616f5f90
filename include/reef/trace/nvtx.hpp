#pragma once

#include <string_view>

#if defined(REEF_HAS_CUDA) && __has_include(<nvtx3/nvToolsExt.h>)
#include <nvtx3/nvToolsExt.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#define REEF_HAS_NVTX
#endif

namespace reef::inline v0::trace {

/// Marks the calling thread's work in NVIDIA's profilers, in the domain "reef", from construction
/// to destruction. Nothing where no CUDA toolkit is; one branch where no profiler listens. Names
/// longer than 63 bytes are cut.
class NvtxRange {
public:
#if defined(REEF_HAS_NVTX)
  explicit NvtxRange(std::string_view name) {
    char text[64];
    const std::size_t length = name.size() < sizeof(text) ? name.size() : sizeof(text) - 1;
    std::memcpy(text, name.data(), length);
    text[length] = '\0';
    nvtxEventAttributes_t event{};
    event.version = NVTX_VERSION;
    event.size = static_cast<std::uint16_t>(sizeof(event));
    event.messageType = NVTX_MESSAGE_TYPE_ASCII;
    event.message.ascii = text;
    nvtxDomainRangePushEx(domain(), &event);
  }
  ~NvtxRange() { nvtxDomainRangePop(domain()); }
#else
  explicit NvtxRange(std::string_view /*name*/) {}
#endif
  NvtxRange(const NvtxRange&) = delete;
  NvtxRange& operator=(const NvtxRange&) = delete;

#if defined(REEF_HAS_NVTX)
private:
  static nvtxDomainHandle_t domain() {
    static const nvtxDomainHandle_t handle = nvtxDomainCreateA("reef");
    return handle;
  }
#endif
};

}  // namespace reef::inline v0::trace
