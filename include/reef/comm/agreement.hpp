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

/// A fact that must be equal on all ranks: its name, and its value on this rank.
struct SharedFact {
  std::string name;
  std::string value;
  std::string shown{};  ///< the text that messages show instead of the value; empty: the value itself

  friend bool operator==(const SharedFact&, const SharedFact&) = default;
};

/// The treatment of a fact's name for which a rank has no entry.
///
/// | differs | the rank differs from the ranks with an entry              |
/// | ignored | the rank is ignored: only ranks with an entry are compared |
enum class Missing : std::uint8_t { differs, ignored };

namespace detail {

/// Returns facts that ranks compare as one text, in which each string is preceded by its length: "5:hello".
std::string encode_alike(const std::vector<SharedFact>& all);

/// Returns the complete facts of a text by encode_alike; from the first incomplete one on, the rest is dropped.
std::vector<SharedFact> decode_alike(std::string_view text);

std::uint64_t hash_of(const std::vector<SharedFact>& all);

/// Returns "rank 1 and rank 0 differ in their NAME: VALUE on rank 0, VALUE on rank 1", a line for each name in which
/// they differ; empty if no value differs. `all` is the list of each rank's facts.
std::string describe_difference(const std::vector<std::vector<SharedFact>>& all,
                                Missing absent = Missing::differs);

}  // namespace detail

/// Returns a text with the differences between the ranks: each name, its values, and the ranks with each value;
/// empty if nothing differs. All ranks call it, with the same `what`, and all get the same text. Blocks.
///
/// | wire | one number (a hash) from each rank; if these differ, or missing entries are ignored, also all facts, |
/// |      | to rank 0                                                                                            |
std::string difference(Progress& progress, const std::string& what, const std::vector<SharedFact>& mine,
                       Missing absent = Missing::differs);

/// Throws OptionError on every rank, with the difference, unless all facts are equal on
/// all ranks. All ranks call it, with the same `what`; `who` begins the error. Blocks.
///
/// \code
/// // given: comm::Progress& progress, std::uint32_t checksum
/// comm::require_alike(progress, "my-program", "data", {{"checksum", std::to_string(checksum)}},
///                     "give all ranks the same files.");
/// \endcode
void require_alike(Progress& progress, const std::string& who, const std::string& what,
                   const std::vector<SharedFact>& mine, const std::string& fix,
                   Missing absent = Missing::differs);

}  // namespace comm
}  // namespace v0
}  // namespace reef

#ifndef REEF_COMPILED
#include <reef/comm/agreement.ipp>
#endif
