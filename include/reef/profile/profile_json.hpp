#pragma once

#include <filesystem>
#include <string_view>

#include <reef/io/atomic_file.hpp>
#include <reef/io/json.hpp>
#include <reef/profile/profile.hpp>

namespace reef {
inline namespace v0 {
namespace profile {

/// The name and version of the file format of profiles, which every file states first.
inline constexpr std::string_view profile_format = "reef-profile-6";

/// Returns the profile as JSON, from which from_json reads the same numbers.
io::Json to_json(const Profile& profile);

/// The fix that errors recommend for a file that is not a valid profile.
inline constexpr std::string_view profile_fix = "measure it again.";

/// Reads a profile from JSON. Throws DecodeError, naming `source` and the member at fault.
Profile from_json(const io::Json& json, std::string_view source = "profile");

/// Writes the profile to a file, atomically: the file holds the old profile or the new one.
inline void save(const Profile& profile, const std::filesystem::path& path) {
  io::write_atomically(path, to_json(profile).dump(1) + "\n");
}

/// Reads a profile that save wrote. Throws FileError or DecodeError.
///
/// \code
/// // given: const profile::Profile& measured
/// profile::save(measured, "profile.json");
/// const profile::Profile again = profile::load("profile.json");
/// \endcode
inline Profile load(const std::filesystem::path& path) {
  return from_json(io::read_json(path, {}, profile_fix), path.string());
}

}  // namespace profile
}  // namespace v0
}  // namespace reef

#ifndef REEF_COMPILED
#include <reef/profile/profile_json.ipp>
#endif
