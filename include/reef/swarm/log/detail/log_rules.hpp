#pragma once

#include <algorithm>
#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include <reef/core/numbers.hpp>
#include <reef/core/units.hpp>
#include <reef/io/json.hpp>
#include <reef/swarm/log/decision_log.hpp>
#include <reef/swarm/net/identity.hpp>

namespace reef {
inline namespace v0 {
namespace swarm {
namespace detail {

/// What a request to a log's server is answered with.
struct ServedAnswer {
  int status = 200;
  io::Json body = io::Json::object();
};

/// Returns a refusal, which says what is wrong, and the fix.
ServedAnswer served_error(int status, std::string_view what, std::string_view fix);

/// Returns what a log's server says of an append; 503 where nobody can say, so that a client asks another server.
ServedAnswer served_append(const Appended& answer);

/// Returns what a log's server says to a read; 503 where the log does not answer, 410 where an entry was deleted.
ServedAnswer served_page(const LogPage& page);

/// Returns the value of a number in the query of a target, such as from=7; nothing where it is no number.
template <class Number>
std::optional<Number> query_number(std::string_view target, std::string_view key, Number otherwise) {
  std::string_view rest = target.substr((std::min)(target.find('?'), target.size()));
  while (!rest.empty()) {
    rest.remove_prefix(1);  // ? or &
    const std::string_view pair = rest.substr(0, rest.find('&'));
    rest.remove_prefix(pair.size());
    const std::size_t equals = (std::min)(pair.find('='), pair.size());
    if (pair.substr(0, equals) == key)
      return parse_number<Number>(pair.substr((std::min)(equals + 1, pair.size())));
  }
  return otherwise;
}

/// Returns why the owner of a certificate may not append this text to the log of job `job`; empty where it may: the
/// text is an entry, its author has the name of the certificate, a genesis is of that job, and clients write rollbacks
/// alone.
std::string why_not_append(const Identity& who, std::string_view job, std::string_view text);

/// Returns why the owner of a certificate may not write or remove a presence; empty where it may: a peer's key is its
/// name, or begins with its name and a slash.
std::string why_not_present(const Identity& who, std::string_view key);

/// The places for connections at a server, each of somebody: an address, or a name. Nobody has more than half of them.
/// One thread uses it.
class Places {
public:
  explicit Places(std::size_t all) : all_((std::max)(all, std::size_t{1})) {}

  /// Takes a place. Returns false where there is none for `who`.
  bool take(const std::string& who);

  /// Gives a place of `who` back. Nothing happens where there is none.
  void leave(const std::string& who);

private:
  std::size_t all_;
  std::size_t taken_ = 0;
  std::map<std::string, std::size_t> by_{};
};

/// The requests that each name may still make: `a_second` on average, four seconds' worth at once. One thread uses it.
class RequestRate {
public:
  explicit RequestRate(double a_second) : a_second_(a_second) {}

  /// Counts a request at a time of the caller's clock. Returns false where it is one too many.
  bool take(const std::string& name, Seconds now);

private:
  struct Left {
    double requests = 0;
    Seconds at = 0;
  };

  double a_second_;
  std::map<std::string, Left> left_{};
};

}  // namespace detail
}  // namespace swarm
}  // namespace v0
}  // namespace reef

#ifndef REEF_COMPILED
#include <reef/swarm/log/detail/log_rules.ipp>
#endif
