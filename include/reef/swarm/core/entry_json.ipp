#pragma once

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <exception>
#include <span>
#include <variant>
#include <vector>

#include <reef/core/inline.hpp>
#include <reef/core/text.hpp>
#include <reef/swarm/core/entry_json.hpp>

namespace reef {
inline namespace v0 {
namespace swarm {

namespace detail {

inline constexpr io::JsonLimits entry_limits{.bytes = 64_KiB, .depth = 8};
inline constexpr std::size_t max_pieces_of_want = 250;

inline io::Json json_of(std::span<const PeerId> ids) {
  io::Json json = io::Json::array();
  for (const PeerId& id : ids) json.push_back(to_text(id));
  return json;
}

inline std::vector<PeerId> ids_of(const io::Json& json, std::string_view key) {
  std::vector<PeerId> ids;
  for (const auto& text : io::require<std::vector<std::string>>(json, key, "an entry")) {
    ids.push_back(peer_id_from_text(text, key));
  }
  return ids;
}

inline io::Json json_of(std::span<const IndexRun> runs) {
  io::Json json = io::Json::array();
  for (const IndexRun& run : runs) json.push_back({run.first, run.stride, run.count});
  return json;
}

inline std::vector<IndexRun> runs_from(const io::Json& json, std::string_view key) {
  std::vector<IndexRun> runs;
  for (const auto& run : io::require<std::vector<std::vector<std::int64_t>>>(json, key, "an entry")) {
    if (run.size() != 3) {
      throw DecodeError("reef::swarm: ", key, ": a run has ", run.size(),
                        " numbers.\n  fix: [first, stride, count].");
    }
    runs.push_back({run[0], run[1], run[2]});
  }
  return runs;
}

inline Digest digest_at(const io::Json& json, std::string_view key) {
  return digest_from_hex(io::require<std::string>(json, key, "an entry"), key);
}

inline double finite_or_zero(double value) { return std::isfinite(value) ? value : 0; }

inline std::vector<std::int64_t> piece_list(const io::Json& json, std::string_view key) {
  const std::vector<IndexRun> runs = runs_from(json, key);
  if (count_of(runs) > static_cast<std::int64_t>(max_pieces_of_want)) {
    throw DecodeError("reef::swarm: ", key, ": ", count_of(runs), " pieces are asked for.\n  fix: at most ",
                      max_pieces_of_want, " in a message.");
  }
  return indices_of(runs);
}

inline io::Json json_of_pieces(const std::vector<std::int64_t>& pieces) {
  const std::size_t count = (std::min)(pieces.size(), max_pieces_of_want);
  return json_of(runs_of(std::span(pieces).first(count)));
}

struct EntryWriter {
  io::Json& json;

  void operator()(const Genesis& e) const {
    json["kind"] = "genesis";
    json["job"] = e.job;
    json["recipe"] = e.recipe;
    json["model"] = to_hex(e.model);
    json["data"] = to_hex(e.data);
    if (e.shards != Digest{}) json["shards"] = to_hex(e.shards);
    json["update_class"] = to_hex(e.update_class);
    json["seed"] = e.seed;
    json["global_batch"] = e.global_batch;
    json["parameters"] = e.parameters;
    json["piece"] = e.piece;
    json["codec"] = e.codec;
    if (e.checkpoint != 0) json["checkpoint"] = e.checkpoint;
  }
  void operator()(const ViewEntry& e) const {
    json["kind"] = "view";
    json["epoch"] = e.epoch;
    json["why"] = e.why;
    json["members"] = io::Json::array();
    for (const Member& member : e.members) {
      json["members"].push_back(
          {{"id", to_text(member.id)}, {"address", member.address}, {"up", member.up}, {"down", member.down}});
    }
  }
  void operator()(const Exclude& e) const {
    json["kind"] = "cut";
    json["epoch"] = e.epoch;
    json["round"] = e.round;
    json["contributors"] = json_of(e.contributors);
  }
  void operator()(const Commit& e) const {
    json["kind"] = "commit";
    json["epoch"] = e.epoch;
    json["round"] = e.round;
    json["root"] = to_hex(e.root);
    json["contributors"] = io::Json::array();
    for (const Share& share : e.shares) {
      json["contributors"].push_back({{"id", to_text(share.id)},
                                      {"numbers", json_of(share.indices)},
                                      {"weight", share.weight},
                                      {"digest", to_hex(share.digest)},
                                      {"finite", share.finite}});
    }
    json["verdict"] = {{"finite", e.verdict.finite},
                       {"norm", finite_or_zero(e.verdict.norm)},
                       {"scale", finite_or_zero(e.verdict.scale)},
                       {"loss", finite_or_zero(e.verdict.loss)}};
    json["holders"] = json_of(e.holders);
    json["laggards"] = json_of(e.stragglers);
  }
  void operator()(const Rollback& e) const {
    json["kind"] = "rollback";
    json["rounds"] = e.rounds;
    json["why"] = e.why;
  }
  void operator()(const Quarantine& e) const {
    json["kind"] = "quarantine";
    json["numbers"] = json_of(e.indices);
    json["why"] = e.why;
  }
  void operator()(const LogCheckpoint& e) const {
    json["kind"] = "checkpoint";
    json["rounds"] = e.rounds;
    json["root"] = to_hex(e.root);
    json["holders"] = json_of(e.holders);
    if (!e.summary.empty()) json["summary"] = e.summary;
  }
  void operator()(const Unreadable& e) const {
    json["kind"] = "unreadable";
    json["why"] = e.why;
  }
};

inline Genesis genesis_from(const io::Json& json) {
  Genesis e;
  e.job = io::require<std::string>(json, "job");
  e.recipe = io::require<std::string>(json, "recipe");
  e.model = digest_at(json, "model");
  e.data = digest_at(json, "data");
  if (json.contains("shards")) e.shards = digest_at(json, "shards");
  e.update_class = digest_at(json, "update_class");
  e.seed = io::require<std::uint64_t>(json, "seed");
  e.global_batch = io::require<std::int64_t>(json, "global_batch");
  e.parameters = io::require<std::int64_t>(json, "parameters");
  e.piece = io::require<std::int64_t>(json, "piece");
  e.codec = io::require<std::string>(json, "codec");
  e.checkpoint = io::value_or<std::int64_t>(json, "checkpoint", 0, "an entry");
  return e;
}

inline Member member_from(const io::Json& json) {
  Member member;
  member.id = peer_id_from_text(io::require<std::string>(json, "id"), "id");
  member.address = io::require<std::string>(json, "address");
  member.up = io::require<double>(json, "up");
  member.down = io::require<double>(json, "down");
  return member;
}

inline Commit commit_from(const io::Json& json) {
  Commit e;
  e.epoch = io::require<std::int64_t>(json, "epoch");
  e.round = io::require<std::int64_t>(json, "round");
  e.root = digest_at(json, "root");
  for (const io::Json& share : io::require<std::vector<io::Json>>(json, "contributors")) {
    e.shares.push_back({peer_id_from_text(io::require<std::string>(share, "id"), "id"), runs_from(share, "numbers"),
                        io::require<double>(share, "weight"), digest_at(share, "digest"),
                        io::value_or<bool>(share, "finite", true)});
  }
  e.verdict.finite = io::require<bool>(json, "verdict.finite");
  e.verdict.norm = io::require<double>(json, "verdict.norm");
  e.verdict.scale = io::require<double>(json, "verdict.scale");
  e.verdict.loss = io::require<double>(json, "verdict.loss");
  e.holders = ids_of(json, "holders");
  e.stragglers = ids_of(json, "laggards");
  return e;
}

inline Entry::What what_from(const io::Json& json) {
  const auto kind = io::require<std::string>(json, "kind");
  const auto number = [&](std::string_view key) { return io::require<std::int64_t>(json, key); };
  const auto text = [&](std::string_view key) { return io::require<std::string>(json, key); };
  if (kind == "genesis") return genesis_from(json);
  if (kind == "view") {
    ViewEntry e{number("epoch"), {}, text("why")};
    for (const io::Json& member : io::require<std::vector<io::Json>>(json, "members")) {
      e.members.push_back(member_from(member));
    }
    return e;
  }
  if (kind == "cut") return Exclude{number("epoch"), number("round"), ids_of(json, "contributors")};
  if (kind == "commit") return commit_from(json);
  if (kind == "rollback") return Rollback{number("rounds"), text("why")};
  if (kind == "quarantine") return Quarantine{runs_from(json, "numbers"), text("why")};
  if (kind == "checkpoint") {
    return LogCheckpoint{number("rounds"), digest_at(json, "root"), ids_of(json, "holders"),
                         io::value_or<std::string>(json, "summary", {}, "an entry")};
  }
  throw DecodeError("reef::swarm: an entry of the kind '", kind, "'.\n  fix: genesis, view, cut, commit, rollback, ",
                    "quarantine or checkpoint.");
}

}  // namespace detail

REEF_INLINE PeerId peer_id_from_text(std::string_view text, std::string_view source) {
  const std::size_t slash = text.rfind('/');
  PeerId id;
  const std::string_view number = slash == std::string_view::npos ? "" : text.substr(slash + 1);
  const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), id.incarnation, 16);
  constexpr std::size_t max_name = 64;
  if (number.empty() || error != std::errc{} || end != number.data() + number.size() || slash == 0 ||
      slash > max_name) {
    throw DecodeError("reef::swarm: ", source, ": a text is no identity of a peer.\n",
                      "  fix: its name, at most 64 bytes, a slash, and its incarnation in hexadecimal digits.");
  }
  id.name = text.substr(0, slash);
  return id;
}

REEF_INLINE std::string to_text(const Entry& entry) {
  io::Json json = {{"author", to_text(entry.author)}, {"nonce", entry.nonce}};
  std::visit(detail::EntryWriter{json}, entry.what);
  return json.dump();
}

REEF_INLINE Entry entry_from_text(std::string_view text) {
  try {
    const io::Json json = io::parse_json(text, "an entry", detail::entry_limits);
    Entry entry;
    if (io::value_or<std::string>(json, "kind", {}, "an entry") == "unreadable")
      return {{}, 0, Unreadable{io::require<std::string>(json, "why")}};
    entry.author = peer_id_from_text(io::require<std::string>(json, "author"), "author");
    entry.nonce = io::require<std::uint64_t>(json, "nonce");
    entry.what = detail::what_from(json);
    return entry;
  } catch (const std::exception& error) {
    return {{}, 0, Unreadable{error.what()}};
  }
}

REEF_INLINE io::Json to_json(const Beat& beat) {
  return {{"epoch", beat.epoch},
          {"round", beat.round},
          {"attempt", beat.attempt},
          {"applied", beat.applied},
          {"phase", static_cast<int>(beat.phase)},
          {"closed", beat.closed},
          {"computed", beat.computed},
          {"steps", beat.steps},
          {"whole", detail::json_of(beat.whole)},
          {"targets", to_hex(beat.targets)},
          {"root", to_hex(beat.root)},
          {"kept", beat.kept},
          {"kept_root", to_hex(beat.kept_root)}};
}

REEF_INLINE Beat beat_from_json(const io::Json& json) {
  Beat beat;
  beat.epoch = io::require<std::int64_t>(json, "epoch", "a beat");
  beat.round = io::require<std::int64_t>(json, "round", "a beat");
  beat.attempt = io::require<std::int64_t>(json, "attempt", "a beat");
  beat.applied = io::require<std::int64_t>(json, "applied", "a beat");
  const int phase = io::require<int>(json, "phase", "a beat");
  if (phase < 0 || phase > static_cast<int>(Phase::ready)) {
    throw DecodeError("reef::swarm: a beat of phase ", phase, ".\n  fix: 0 to ", static_cast<int>(Phase::ready), ".");
  }
  beat.phase = static_cast<Phase>(phase);
  beat.closed = io::require<bool>(json, "closed", "a beat");
  beat.computed = io::require<std::int64_t>(json, "computed", "a beat");
  if (beat.computed < 0 || beat.computed > max_indices_of_round) {
    throw DecodeError("reef::swarm: a beat of ", beat.computed, " micro-batches.\n  fix: 0 to ", max_indices_of_round,
                      ".");
  }
  beat.steps = io::require<std::int64_t>(json, "steps", "a beat");
  beat.whole = detail::ids_of(json, "whole");
  beat.targets = detail::digest_at(json, "targets");
  beat.root = detail::digest_at(json, "root");
  beat.kept = io::value_or<std::int64_t>(json, "kept", 0, "a beat");
  if (beat.kept != 0) beat.kept_root = detail::digest_at(json, "kept_root");
  return beat;
}

REEF_INLINE io::Json to_json(const Offer& offer) {
  return {{"round", offer.round},   {"attempt", offer.attempt}, {"numbers", detail::json_of(offer.indices)},
          {"weight", offer.weight}, {"loss", offer.loss},       {"digest", to_hex(offer.digest)},
          {"finite", offer.finite}};
}

REEF_INLINE Offer offer_from_json(const io::Json& json) {
  Offer offer;
  offer.round = io::require<std::int64_t>(json, "round", "an offer");
  offer.attempt = io::require<std::int64_t>(json, "attempt", "an offer");
  offer.indices = detail::runs_from(json, "numbers");
  static_cast<void>(count_of(offer.indices));
  offer.weight = io::require<double>(json, "weight", "an offer");
  offer.loss = io::require<double>(json, "loss", "an offer");
  if (!(std::isfinite(offer.weight) && offer.weight >= 0 && std::isfinite(offer.loss))) {
    throw DecodeError("reef::swarm: an offer's weight or loss is negative or not finite.\n  fix: finite ones.");
  }
  offer.digest = detail::digest_at(json, "digest");
  offer.finite = io::value_or<bool>(json, "finite", true, "an offer");
  if (!offer.finite && offer.weight != 0) {
    throw DecodeError("reef::swarm: an offer that is not finite weighs ", offer.weight, ".\n  fix: 0, and no parts.");
  }
  return offer;
}

REEF_INLINE io::Json to_json(const Want& want) {
  return {{"round", want.round},
          {"attempt", want.attempt},
          {"offer", want.offer},
          {"parts", detail::json_of_pieces(want.parts)},
          {"targets", to_hex(want.targets)},
          {"results", detail::json_of_pieces(want.results)}};
}

REEF_INLINE Want want_from_json(const io::Json& json) {
  Want want;
  want.round = io::require<std::int64_t>(json, "round", "a want");
  want.attempt = io::require<std::int64_t>(json, "attempt", "a want");
  want.offer = io::require<bool>(json, "offer", "a want");
  want.parts = detail::piece_list(json, "parts");
  want.targets = detail::digest_at(json, "targets");
  want.results = detail::piece_list(json, "results");
  return want;
}

REEF_INLINE io::Json to_json(const WantState& want) { return {{"state", detail::json_of_pieces(want.pieces)}}; }

REEF_INLINE WantState want_state_from_json(const io::Json& json) { return {detail::piece_list(json, "state")}; }

REEF_INLINE io::Json to_json(const Ledger& ledger) {
  io::Json json = {{"committed", ledger.committed().count()},
                   {"holes", ledger.holes()},
                   {"quarantined", ledger.quarantined().count()},
                   {"retried", ledger.failed().size()},
                   {"open", ledger.end()}};
  json["rounds"] = io::Json::array();
  for (const Ledger::Round& round : ledger.rounds()) {
    io::Json shares = io::Json::array();
    for (const Share& share : round.shares) {
      shares.push_back(
          {{"id", to_text(share.id)}, {"numbers", detail::json_of(share.indices)}, {"weight", share.weight}});
      if (!share.finite) shares.back()["finite"] = false;
    }
    json["rounds"].push_back(
        {{"round", round.round}, {"applied", round.applied}, {"contributors", std::move(shares)}});
  }
  return json;
}

}  // namespace swarm
}  // namespace v0
}  // namespace reef
