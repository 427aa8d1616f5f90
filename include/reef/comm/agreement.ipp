#pragma once

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <system_error>
#include <utility>

#include <reef/comm/agreement.hpp>
#include <reef/comm/detail/ranks.hpp>
#include <reef/comm/error.hpp>
#include <reef/comm/functions.hpp>
#include <reef/comm/gather.hpp>
#include <reef/core/hash.hpp>
#include <reef/core/inline.hpp>
#include <reef/core/text.hpp>

namespace reef {
inline namespace v0 {
namespace comm {

namespace detail {

REEF_INLINE std::string encode_alike(const std::vector<SharedFact>& all) {
  std::string text;
  for (const SharedFact& one : all) {
    for (const std::string* part : {&one.name, &one.value, &one.shown}) {
      text += concat(part->size(), ":", *part);
    }
  }
  return text;
}

REEF_INLINE std::vector<SharedFact> decode_alike(std::string_view text) {
  std::vector<SharedFact> all;
  while (!text.empty()) {
    SharedFact one;
    for (std::string* const part : {&one.name, &one.value, &one.shown}) {
      std::size_t size = 0;
      const char* const last = text.data() + text.size();
      const auto [stop, error] = std::from_chars(text.data(), last, size);
      if (error != std::errc() || stop == last || *stop != ':') return all;
      text.remove_prefix(static_cast<std::size_t>(stop + 1 - text.data()));
      if (size > text.size()) return all;
      *part = text.substr(0, size);
      text.remove_prefix(size);
    }
    all.push_back(std::move(one));
  }
  return all;
}

REEF_INLINE std::uint64_t hash_of(const std::vector<SharedFact>& all) {
  Hash hash;
  for (const SharedFact& one : all)
    hash.add(std::string_view(one.name)).add(std::string_view(one.value));
  return hash.value();
}

REEF_INLINE std::string describe_difference(const std::vector<std::vector<SharedFact>>& all,
                                            Missing absent) {
  constexpr std::size_t most = 8;
  std::vector<std::string> names;  // in the order in which they are met
  for (const auto& rank : all) {
    for (const SharedFact& one : rank) {
      if (std::find(names.begin(), names.end(), one.name) == names.end()) names.push_back(one.name);
    }
  }
  std::string text;
  std::size_t lines = 0;
  for (const std::string& name : names) {
    struct Held {
      const SharedFact* one;  // null: this name is not there
      std::vector<std::size_t> ranks;
    };
    std::vector<Held> values;
    for (std::size_t rank = 0; rank < all.size(); ++rank) {
      const auto found = std::find_if(all[rank].begin(), all[rank].end(),
                                      [&](const SharedFact& one) { return one.name == name; });
      const SharedFact* const one = found == all[rank].end() ? nullptr : &*found;
      if (one == nullptr && absent == Missing::ignored) continue;
      const auto held = std::find_if(values.begin(), values.end(), [&](const Held& other) {
        return one == nullptr || other.one == nullptr ? one == other.one
                                                      : one->value == other.one->value;
      });
      if (held != values.end()) {
        held->ranks.push_back(rank);
      } else {
        values.push_back({one, {rank}});
      }
    }
    if (values.size() < 2 || lines++ >= most) continue;
    text += concat(text.empty() ? "" : ";\n  ", "rank ", values[1].ranks.front(),
                   " and rank ", values[0].ranks.front(), " differ in their ", name, ": ");
    for (std::size_t i = 0; i < values.size(); ++i) {
      const SharedFact* const one = values[i].one;
      const std::string shown = one == nullptr       ? "nothing"
                                : one->shown.empty() ? one->value
                                                     : one->shown;
      text += concat(i == 0 ? "" : ", ", shown.size() > 200 ? shown.substr(0, 197) + "..." : shown,
                     " on ", name_ranks(values[i].ranks));
    }
  }
  if (lines > most) text += concat(";\n  and in ", lines - most, " more");
  return text;
}

}  // namespace detail

REEF_INLINE std::string difference(Progress& progress, const std::string& what,
                                   const std::vector<SharedFact>& mine, Missing absent) {
  if (progress.size() == 1) return {};
  if (absent == Missing::differs) {
    const auto hashes = gather_numbers(progress, what, detail::hash_of(mine));
    if (std::all_of(hashes.begin(), hashes.end(),
                    [&](std::uint64_t hash) { return hash == hashes[0]; })) {
      return {};
    }
  }
  std::vector<std::vector<SharedFact>> all;
  for (const std::string& text :
       gather_texts(progress, what + " (values)", detail::encode_alike(mine))) {
    all.push_back(detail::decode_alike(text));
  }
  std::string text = detail::describe_difference(all, absent);
  if (text.empty() && absent == Missing::differs) text = "the ranks differ in their " + what;
  text = broadcast_text(progress, what + " (difference)", std::move(text));
  if (text.empty()) return text;
  // Who ends now would end the others, perhaps before they have it: all meet once more.
  try {
    barrier(progress, what + " (told)");
  } catch (const MpiError&) {  // by who left the barrier first, and knows the same
  }
  return text;
}

REEF_INLINE void require_alike(Progress& progress, const std::string& who, const std::string& what,
                               const std::vector<SharedFact>& mine, const std::string& fix,
                               Missing absent) {
  const std::string text = difference(progress, what, mine, absent);
  if (!text.empty()) throw OptionError(who, ": ", text, ".\n  fix: ", fix);
}

}  // namespace comm
}  // namespace v0
}  // namespace reef
