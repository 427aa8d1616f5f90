#pragma once

#include <variant>

#include <reef/core/inline.hpp>
#include <reef/core/text.hpp>
#include <reef/swarm/core/entry_json.hpp>
#include <reef/swarm/log/detail/log_rules.hpp>

namespace reef {
inline namespace v0 {
namespace swarm {
namespace detail {

REEF_INLINE ServedAnswer served_error(int status, std::string_view what, std::string_view fix) {
  return {status, {{"error", concat("reef::swarm: the log's server: ", what, ".\n  fix: ", fix)}}};
}

REEF_INLINE ServedAnswer served_append(const Appended& answer) {
  if (answer.outcome == AppendOutcome::unknown) return {503, {{"error", answer.why}}};
  io::Json json{{"outcome", std::string(name_of(answer.outcome))}};
  if (answer.outcome == AppendOutcome::lost) json["other"] = answer.other;
  if (!answer.why.empty()) json["why"] = answer.why;
  return {200, std::move(json)};
}

REEF_INLINE ServedAnswer served_page(const LogPage& page) {
  if (!page.answered) return {page.damaged ? 410 : 503, {{"error", page.why}}};
  return {200, {{"from", page.from}, {"entries", page.entries}}};
}

REEF_INLINE std::string why_not_append(const Identity& who, std::string_view job, std::string_view text) {
  if (who.job != job) return concat("the certificate is of the job ", in_quotes(who.job));
  if (who.role == "keeper") return "keepers write no entries";
  const Entry entry = entry_from_text(text);
  if (const auto* const unreadable = std::get_if<Unreadable>(&entry.what))
    return concat("the text is no entry: ", unreadable->why);
  if (entry.author.name != who.name) {
    return concat("the entry's author is ", in_quotes(entry.author.name), ", but the certificate is that of ",
                  in_quotes(who.name));
  }
  if (const auto* const genesis = std::get_if<Genesis>(&entry.what); genesis != nullptr && genesis->job != job)
    return concat("the entry begins the job ", in_quotes(genesis->job), ", but the certificate is of ", in_quotes(job));
  if (who.role == "client" && !std::holds_alternative<Rollback>(entry.what)) return "clients write rollbacks alone";
  return {};
}

REEF_INLINE std::string why_not_present(const Identity& who, std::string_view key) {
  if (who.role != "peer") return concat("the certificate is that of a ", who.role, ", which has no presence");
  if (key == who.name || key.starts_with(concat(who.name, "/"))) return {};
  return concat("the key ", in_quotes(key, 80), " is not that of ", in_quotes(who.name));
}

REEF_INLINE bool Places::take(const std::string& who) {
  const auto found = by_.find(who);
  if (taken_ >= all_ || (found != by_.end() && found->second >= (all_ + 1) / 2)) return false;
  ++taken_;
  ++by_[who];
  return true;
}

REEF_INLINE void Places::leave(const std::string& who) {
  const auto found = by_.find(who);
  if (found == by_.end()) return;
  --taken_;
  if (--found->second == 0) by_.erase(found);
}

REEF_INLINE bool RequestRate::take(const std::string& name, Seconds now) {
  constexpr double at_once = 4;
  const auto [found, fresh] = left_.try_emplace(name, Left{at_once * a_second_, now});
  Left& left = found->second;
  if (!fresh) left.requests = (std::min)(at_once * a_second_, left.requests + (now - left.at) * a_second_);
  left.at = now;
  if (left.requests < 1) return false;
  left.requests -= 1;
  return true;
}

}  // namespace detail
}  // namespace swarm
}  // namespace v0
}  // namespace reef
