#pragma once

#include <string>
#include <string_view>
#include <vector>

#include <reef/core/error.hpp>
#include <reef/core/units.hpp>

namespace reef {
inline namespace v0 {
namespace profile {

/// The times, sizes and operations of one operator, for one micro-batch.
struct OperatorProfile {
  std::string name;
  std::string kind;
  Seconds forward_s = 0;
  Seconds backward_s = 0;
  Seconds load_s = 0;         ///< time to load the operator's parameters from host memory to the device
  /// Bytes of the parameters that the operator reads; a tied parameter counts at each of its uses.
  Bytes parameter_bytes = 0;
  Bytes gradient_bytes = 0;  ///< bytes of the gradients of these parameters, in the type of their sum
  Bytes saved_bytes = 0;     ///< bytes that this operator alone keeps from forward to backward
  Bytes output_bytes = 0;
  Bytes forward_workspace_bytes = 0;
  Bytes backward_workspace_bytes = 0;
  Bytes forward_set_bytes =
      0;  ///< the working set of a forward pass in bytes: all bytes in memory during it, except parameters
  /// The working set of a backward pass in bytes: all bytes in memory during it, except parameters and their gradients.
  Bytes backward_set_bytes = 0;
  double forward_flops = 0;
  double backward_flops = 0;

  friend bool operator==(const OperatorProfile&, const OperatorProfile&) = default;
};

/// The profiles (times and sizes) of a model's operators in the order of its graph, for planners and simulators: plain
/// data.
///
/// \code
/// // given: const profile::Profile& profile
/// const Seconds micro_batch = profile.forward_s() + profile.backward_s();
/// const Seconds attention = profile.at("transformer.h.0.attn").forward_s;
/// \endcode
struct Profile {
  std::string device;     ///< the device on which the times were measured, or for which they were estimated
  bool measured = false;  ///< true: the times were measured; false: estimated
  int threads = 1;
  /// Rate of a sum in place in device memory, in bytes read and written; 0: not known.
  double memory_bytes_per_second = 0;
  double host_bytes_per_second = 0;  ///< rate of a sum in place in pinned host memory; 0: memory_bytes_per_second
  double copy_bytes_per_second = 0;  ///< rate of copies from host memory to the device; 0: no link
  Seconds copy_latency = 0;
  double link_bytes_per_second = 0;  ///< rate of an emulated link, as configured; 0: none
  Seconds link_latency = 0;          ///< latency of the emulated link in seconds
  double slowdown = 1;               ///< the factor by which the kernels of an emulated device are slower
  std::vector<OperatorProfile> operators;

  [[nodiscard]] Seconds forward_s() const { return sum(&OperatorProfile::forward_s); }
  [[nodiscard]] Seconds backward_s() const { return sum(&OperatorProfile::backward_s); }
  [[nodiscard]] double forward_flops() const { return sum(&OperatorProfile::forward_flops); }
  [[nodiscard]] double backward_flops() const { return sum(&OperatorProfile::backward_flops); }

  /// Returns the profile of the operator of this name. Throws OptionError when there is none.
  [[nodiscard]] const OperatorProfile& at(std::string_view name) const&;
  [[nodiscard]] OperatorProfile at(std::string_view name) const&& { return at(name); }

  /// Throws OptionError, naming the figure, unless all times are 0 or more and at most 1e9
  /// seconds in all, rates are 0 or at least 1, slowdowns at least 1, and operations 0 or more.
  void validate() const;

  friend bool operator==(const Profile&, const Profile&) = default;

private:
  [[nodiscard]] double sum(double OperatorProfile::*figure) const;
};

}  // namespace profile
}  // namespace v0
}  // namespace reef

#ifndef REEF_COMPILED
#include <reef/profile/profile.ipp>
#endif
