#pragma once

#include <algorithm>
#include <utility>

#include <reef/core/error.hpp>
#include <reef/core/inline.hpp>
#include <reef/swarm/net/identity.hpp>

namespace reef {
inline namespace v0 {
namespace swarm {

REEF_INLINE bool is_name(std::string_view text) {
  return !text.empty() && text.size() <= 64 && text.front() != '.' && std::ranges::all_of(text, [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' || c == '_' ||
           c == '-';
  });
}

REEF_INLINE bool is_role(std::string_view text) { return text == "peer" || text == "keeper" || text == "client"; }

REEF_INLINE std::optional<Identity> identity_of(std::string_view uri) {
  constexpr std::string_view scheme = "reef://";
  if (!uri.starts_with(scheme)) return std::nullopt;
  uri.remove_prefix(scheme.size());
  const std::size_t first = uri.find('/');
  const std::size_t second = first == std::string_view::npos ? first : uri.find('/', first + 1);
  if (second == std::string_view::npos) return std::nullopt;
  const std::string_view job = uri.substr(0, first);
  const std::string_view role = uri.substr(first + 1, second - first - 1);
  const std::string_view name = uri.substr(second + 1);
  if (!is_name(job) || !is_role(role) || !is_name(name)) return std::nullopt;
  return Identity{std::string(job), std::string(role), std::string(name)};
}

REEF_INLINE void require_identity(const Identity& identity, std::string_view who) {
  for (const auto& [what, text] : {std::pair{"job", &identity.job}, std::pair{"name", &identity.name}}) {
    if (!is_name(*text)) {
      throw OptionError(who, ": the ", what, " is ", in_quotes(*text),
                        ".\n  fix: 1 to 64 characters of A-Z, a-z, 0-9, '.', '_' and '-', the first no dot.");
    }
  }
  if (!is_role(identity.role)) {
    throw OptionError(who, ": the role is ", in_quotes(identity.role), ".\n  fix: peer, keeper or client.");
  }
}

}  // namespace swarm
}  // namespace v0
}  // namespace reef
