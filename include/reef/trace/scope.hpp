#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include <reef/core/units.hpp>
#include <reef/trace/nvtx.hpp>
#include <reef/trace/sink.hpp>

namespace reef::inline v0::trace {

/// Notes how long a block of code took, on `track` and, where a CUDA profiler listens, as an NVTX
/// range. The name must live as long as the scope; the scope ends on the track's thread.
///
///     trace::Scope scope(track, trace::Activity::compute, "forward");
class Scope {
public:
  Scope(Track& track, Activity activity, std::string_view name, Bytes bytes = 0)
      : track_(track.enabled() ? &track : nullptr),
        name_(name),
        bytes_(bytes),
        activity_(activity),
        range_(name),
        begin_(track_ != nullptr ? now() : 0) {}
  ~Scope() {
    if (track_ != nullptr) track_->span(activity_, name_, begin_, now(), bytes_);
  }
  Scope(const Scope&) = delete;
  Scope& operator=(const Scope&) = delete;

private:
  Track* track_;
  std::string_view name_;
  Bytes bytes_;
  Activity activity_;
  [[no_unique_address]] NvtxRange range_;
  Seconds begin_;
};

}  // namespace reef::inline v0::trace
