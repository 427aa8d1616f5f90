#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <reef/comm/progress.hpp>
#include <reef/core/error.hpp>

namespace reef {
inline namespace v0 {
namespace comm {

/// A fact that all ranks must have alike: its name, and its value on this rank.
struct Alike {
  std::string name;
  std::string value;
  std::string shown{};  ///< text that messages show of the value, if not all of it

  friend bool operator==(const Alike&, const Alike&) = default;
};

/// The meaning of a name of which a rank has no entry.
///
/// | differs | the rank differs from those that have an entry              |
/// | ignored | the rank has no part in it: only ranks with an entry count   |
enum class Missing : std::uint8_t { differs, ignored };

namespace detail {

/// Returns each text after its length: "5:hello".
std::string encode_alike(const std::vector<Alike>& all);

/// Returns as many facts as the text has: a fact that is cut off ends it.
std::vector<Alike> decode_alike(std::string_view text);

std::uint64_t hash_of(const std::vector<Alike>& all);

/// Returns "rank 1 and rank 0 differ in their NAME: VALUE on rank 0, VALUE on rank 1", a line for each name in which
/// they differ; empty where they do not. `all`: the facts by rank.
std::string describe_difference(const std::vector<std::vector<Alike>>& all,
                                Missing absent = Missing::differs);

}  // namespace detail

/// Returns the difference between the ranks: each name, its values, and the ranks that have them; empty where nothing
/// differs. All ranks call it, with the same `what`, and all get the same text. Blocks.
///
/// | wire | a number of each rank; only where those differ, or absent ones are ignored, all that they have, to |
/// |      | rank 0                                                                                             |
std::string difference(Progress& progress, const std::string& what, const std::vector<Alike>& mine,
                       Missing absent = Missing::differs);

/// Throws OptionError on every rank, with the difference, unless all facts are alike. All ranks call it, with the same
/// `what`; `who` begins the error. Blocks.
///
/// \code
/// // given: comm::Progress& progress, std::uint32_t checksum
/// comm::require_alike(progress, "my-program", "data", {{"checksum", std::to_string(checksum)}},
///                     "give all ranks the same files.");
/// \endcode
void require_alike(Progress& progress, const std::string& who, const std::string& what,
                   const std::vector<Alike>& mine, const std::string& fix,
                   Missing absent = Missing::differs);

}  // namespace comm
}  // namespace v0
}  // namespace reef

#ifndef REEF_COMPILED
#include <reef/comm/agreement.ipp>
#endif
