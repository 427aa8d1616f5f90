#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include <reef/core/units.hpp>
#include <reef/plan/detail/link_weights.hpp>
#include <reef/plan/detail/structural_order.hpp>

namespace reef {
inline namespace v0 {
namespace plan::detail {

/// Classes of interchangeable devices, in an order that follows from the weights alone.
///
/// Two devices are of one class where swapping them changes no weight. Devices are sorted by class, so
/// whatever names and places they had in a case, a search in this order sees the same matrices.
struct DeviceOrder {
  std::vector<int> devices;  ///< in order
  std::vector<int> sizes;    ///< of the classes, whose devices follow each other
  LinkWeights classes;       ///< between classes; within a class on the diagonal
};

inline DeviceOrder device_order(const LinkWeights& weights) {
  const auto bits = [](Seconds value) { return std::bit_cast<std::uint64_t>(value + 0.0); };
  std::vector<std::uint64_t> own;
  std::vector<std::uint64_t> links;
  for (int a = 0; a < weights.size; ++a) {
    own.push_back(bits(weights.compute_of(a)));
    for (int b = 0; b < weights.size; ++b)
      links.push_back(mix(bits(weights.dp_of(a)[b]), bits(weights.pp_of(a)[b])));
  }
  const StructuralOrder order(own, std::move(links));
  DeviceOrder result;
  std::vector<int> firsts;
  for (const std::vector<int>& of_class : order.groups()) {
    firsts.push_back(of_class[0]);
    result.sizes.push_back(static_cast<int>(of_class.size()));
    result.devices.insert(result.devices.end(), of_class.begin(), of_class.end());
  }
  result.classes = weights.of(firsts);
  for (std::size_t c = 0; c < firsts.size(); ++c) {
    const std::vector<int>& of_class = order.groups()[c];
    if (of_class.size() < 2) continue;
    const std::size_t diagonal = c * firsts.size() + c;
    result.classes.dp[diagonal] = weights.dp_of(of_class[0])[of_class[1]];
    result.classes.pp[diagonal] = weights.pp_of(of_class[0])[of_class[1]];
  }
  return result;
}

}  // namespace plan::detail
}  // namespace v0
}  // namespace reef
