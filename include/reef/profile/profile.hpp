#pragma once

#include <string>
#include <string_view>
#include <vector>

#include <reef/core/error.hpp>
#include <reef/core/finite.hpp>
#include <reef/core/text.hpp>
#include <reef/core/units.hpp>

namespace reef::inline v0::profile {

/// One operator's figures, for one micro-batch.
struct OperatorProfile {
  std::string name;
  std::string kind;
  Seconds forward_s = 0;
  Seconds backward_s = 0;
  Seconds load_s = 0;         ///< its parameters, from host memory to the device
  Bytes parameter_bytes = 0;  ///< that it reads; a tied parameter counts at each of its uses
  Bytes gradient_bytes = 0;   ///< of those, as they are summed
  Bytes saved_bytes = 0;      ///< what it alone keeps from forward to backward
  Bytes output_bytes = 0;
  Bytes forward_workspace_bytes = 0;
  Bytes backward_workspace_bytes = 0;
  Bytes forward_set_bytes =
      0;  ///< its working set: all that a forward alone has in memory, but parameters
  Bytes backward_set_bytes = 0;  ///< the same of a backward, but gradients of parameters
  double forward_flops = 0;
  double backward_flops = 0;

  friend bool operator==(const OperatorProfile&, const OperatorProfile&) = default;
};

/// A model's operators in the order of its Dag, as planners and simulators read them: plain data.
struct Profile {
  std::string device;     ///< on which the times were measured, or for which they were estimated
  bool measured = false;  ///< or estimated
  int threads = 1;
  double memory_bytes_per_second = 0;  ///< of a sum in place, read and written; 0: not known
  double host_bytes_per_second = 0;    ///< the same in pinned host memory; 0: as in memory
  double copy_bytes_per_second = 0;    ///< from host memory to the device; 0: no link
  Seconds copy_latency = 0;
  double link_bytes_per_second = 0;  ///< of an emulated link, as it was asked for; 0: none
  Seconds link_latency = 0;          ///< of the same
  double slowdown = 1;               ///< of an emulated device's kernels
  std::vector<OperatorProfile> operators;

  [[nodiscard]] Seconds forward_s() const { return sum(&OperatorProfile::forward_s); }
  [[nodiscard]] Seconds backward_s() const { return sum(&OperatorProfile::backward_s); }
  [[nodiscard]] double forward_flops() const { return sum(&OperatorProfile::forward_flops); }
  [[nodiscard]] double backward_flops() const { return sum(&OperatorProfile::backward_flops); }

  /// The operator of this name. Throws OptionError when there is none.
  [[nodiscard]] const OperatorProfile& at(std::string_view name) const {
    for (const OperatorProfile& entry : operators) {
      if (entry.name == name) return entry;
    }
    throw OptionError("reef::profile: there is no operator '", name, "' among the profile's ",
                      operators.size(), ".\n  fix: the profile of the graph that has it.");
  }

  /// Throws OptionError, naming the figure, unless times are 0 or more, of at most 1e9 seconds in all, rates 0
  /// or at least 1, slowdowns at least 1, and operations 0 or more.
  void validate() const {
    const auto require = [](bool holds, const std::string& what, double value) {
      if (holds) return;
      throw OptionError("reef::profile: ", what, " is ", value, ".\n  fix: measure it again.");
    };
    const auto is_rate = [](double value) { return value == 0 || within(value, 1, 1e300); };
    require(is_rate(memory_bytes_per_second), "memory_bytes_per_second", memory_bytes_per_second);
    require(is_rate(host_bytes_per_second), "host_bytes_per_second", host_bytes_per_second);
    require(is_rate(copy_bytes_per_second), "copy_bytes_per_second", copy_bytes_per_second);
    require(is_rate(link_bytes_per_second), "link_bytes_per_second", link_bytes_per_second);
    require(within(copy_latency, 0, 1e9), "copy_latency", copy_latency);
    require(within(link_latency, 0, 1e9), "link_latency", link_latency);
    require(within(slowdown, 1, 1e9), "slowdown", slowdown);
    double all = 0;
    for (const OperatorProfile& entry : operators) {
      for (const Seconds time : {entry.forward_s, entry.backward_s, entry.load_s}) {
        require(within(time, 0, 1e9) && (all += time) <= 1e9,
                concat("a time of operator '", entry.name, "'"), time);
      }
      for (const double flops : {entry.forward_flops, entry.backward_flops}) {
        require(is_finite(flops) && flops >= 0,
                concat("a count of operations of operator '", entry.name, "'"), flops);
      }
    }
  }

  friend bool operator==(const Profile&, const Profile&) = default;

private:
  [[nodiscard]] double sum(double OperatorProfile::*figure) const {
    double total = 0;
    for (const OperatorProfile& entry : operators) total += entry.*figure;
    return total;
  }
};

}  // namespace reef::inline v0::profile
