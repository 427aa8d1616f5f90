#pragma once

#include <string>
#include <vector>

#include <reef/comm/detail/names.hpp>
#include <reef/comm/detail/wire.hpp>
#include <reef/comm/message.hpp>
#include <reef/core/units.hpp>

namespace reef {
inline namespace v0 {
namespace comm::detail {

/// A rank that somebody waits for in vain.
struct Absent {
  int rank = 0;
  Seconds silence = 0;     ///< since a message or sign of life
  Seconds inactivity = 0;  ///< since it started or ended anything
  bool left = false;       ///< it has destroyed its Progress object
  std::vector<int> awaits{};  ///< whom it waits for itself, if it does nothing else
  bool direct = true;         ///< who reports waits for it; else for a rank that waits for it
};

/// One line for each absent rank: what is known of it, and what to do. `closed`: they wait for each other.
std::string list_absent(const std::vector<Absent>& ranks, Seconds deadline,
                        Seconds operation_deadline, bool closed = false);

/// What a rank says when a message is not the one that it expected.
std::string describe(const Mismatch& mismatch, int rank, Names& names);

/// The last operations of every rank that answered.
std::string list_operations(const std::vector<std::string>& dumps);

}  // namespace comm::detail
}  // namespace v0
}  // namespace reef

#ifndef REEF_COMPILED
#include <reef/comm/detail/report.ipp>
#endif
