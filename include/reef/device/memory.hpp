#pragma once

#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <reef/core/error.hpp>
#include <reef/core/units.hpp>
#include <reef/device/concept.hpp>

namespace reef {
inline namespace v0 {
namespace device {

/// An account of a device's memory: the bytes of each holder, by name, the peak, and the budget.
///
/// | state  | one entry for each name that holds bytes                                            |
/// | errors | MemoryError from take(), which names who asked for how much and who holds the rest; |
/// |        | the account is unchanged                                                            |
/// | order  | thread-safe                                                                         |
///
/// \code
/// device::MemoryLedger ledger("my device", 64_MiB);
/// ledger.take(16_MiB, "weights");
/// const Bytes peak = ledger.report().peak;
/// ledger.give_back(16_MiB, "weights");
/// \endcode
class MemoryLedger {
public:
  MemoryLedger(std::string device, Bytes budget) : device_(std::move(device)), budget_(budget) {}

  /// Adds `bytes` bytes held by `what` to the account of a device's memory. Throws MemoryError if the sum would exceed
  /// the budget.
  void take(Bytes bytes, std::string_view what);

  /// Subtracts bytes that take() added to the account of a device's memory.
  void give_back(Bytes bytes, std::string_view what) noexcept;

  /// Returns the error to throw if the machine itself has no memory left; `why` is the allocator's reason.
  [[nodiscard]] MemoryError refused(Bytes bytes, std::string_view what,
                                    const std::string& why) const;

  [[nodiscard]] MemoryReport report() const;

private:
  [[nodiscard]] std::vector<std::pair<std::string, Bytes>> largest_first() const;

  [[nodiscard]] std::string refusal(Bytes bytes, std::string_view what,
                                    const std::string& why) const;

  mutable std::mutex mutex_;
  std::string device_;
  Bytes budget_ = 0;
  Bytes used_ = 0;
  Bytes peak_ = 0;
  std::vector<std::pair<std::string, Bytes>> holders_;
};

}  // namespace device
}  // namespace v0
}  // namespace reef

#ifndef REEF_COMPILED
#include <reef/device/memory.ipp>
#endif
