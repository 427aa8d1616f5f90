#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <fstream>
#include <iterator>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <utility>
#include <variant>
#include <vector>

#include <reef/core/error.hpp>
#include <reef/core/inline.hpp>
#include <reef/core/text.hpp>
#include <reef/swarm/average/detail/own_options.hpp>
#include <reef/swarm/average/detail/peer_frames.hpp>
#include <reef/swarm/average/detail/shard_frames.hpp>
#include <reef/swarm/average/detail/shard_inbox.hpp>
#include <reef/swarm/average/shard_fetch.hpp>
#include <reef/swarm/core/entry_json.hpp>
#include <reef/swarm/log/blocking_log.hpp>
#include <reef/swarm/net/endpoint.hpp>
#include <reef/swarm/net/sha256.hpp>

namespace reef {
inline namespace v0 {
namespace swarm {
namespace detail {

/// A call of fetch_shards. All of it runs on the caller's thread.
class ShardFetch {
  using Clock = std::chrono::steady_clock;

public:
  ShardFetch(const ShardFetchOptions& options, DecisionLog& log, Presence& presence)
      : options_(options), log_(log), presence_(presence) {}

  ShardFiles run() {
    const Digest wanted = shards_of_job();
    Endpoint endpoint(endpoint_options(), events());
    endpoint_ = &endpoint;
    endpoint.start();
    take_folder(wanted);
    while (!files_ || !missing_.empty() || !asked_.empty()) {
      for (ShardInbox::Event& event : inbox_->take()) {
        std::visit([&](auto& what) { hear(what, wanted); }, event);
      }
      look();
      take_back();
      ask();
      require_progress();
    }
    return std::move(*files_);
  }

private:
  /// A peer that may have the data.
  struct Holder {
    std::string address{};
    bool connected = false;
    std::string refused{};             ///< why it is asked no more
    std::string told{};                ///< what became of the last request that failed
    Clock::time_point rests_until{};
  };
  /// A request on its way: of a shard, or, of list_place, of the list.
  struct Request {
    std::string holder{};
    Clock::time_point since{};
  };

  static constexpr std::int64_t list_place = -1;
  static constexpr std::size_t window = 4;

  [[nodiscard]] static Clock::duration duration_of(Seconds seconds) {
    return std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
  }

  void tell(const std::string& line) const {
    if (options_.report) options_.report(line);
  }

  [[noreturn]] void fail(const std::string& what, const std::string& fix) const {
    throw Error("reef::swarm::fetch_shards: ", what, ".\n  fix: ", fix);
  }

  void require_progress() {
    if (options_.stops && options_.stops()) fail("stopped before all data was there", "start it again: it goes on.");
    if (Clock::now() - progress_ < duration_of(options_.deadline)) return;
    std::string names;
    for (const auto& [name, holder] : holders_) {
      const std::string state = !holder.refused.empty() ? holder.refused
                                : !holder.told.empty()  ? holder.told
                                : holder.connected      ? "it has not answered"
                                                        : "it cannot be reached";
      names += concat(names.empty() ? "" : "; ", name, ": ", state);
    }
    fail(concat("no ", files_ ? "shard" : "list of shards", " has come for ", options_.deadline, " s, ",
                files_ ? concat(missing_.size() + asked_.size(), " of ", files_->list().count(), " shards are missing")
                       : std::string("of which there is one for all data"),
                names.empty() ? concat(", and no peer of the job ", options_.net.job, " is present")
                              : concat(", of ", names)),
         "start a peer that has the data, or give it to this one.");
  }

  /// Returns the digest of the job's list of shards, as soon as the log has a first entry.
  Digest shards_of_job() {
    for (bool told = false;; told = true) {
      const LogPage page = BlockingLog(log_).page(0);
      if (page.answered && !page.entries.empty()) {
        const Entry first = entry_from_text(page.entries.front());
        const auto* const genesis = std::get_if<Genesis>(&first.what);
        if (genesis != nullptr && genesis->shards != Digest{}) {
          progress_ = Clock::now();
          return genesis->shards;
        }
        throw OptionError("reef::swarm::fetch_shards: the log's first entry names no data",
                          ".\n  why: the peer that began the job gives none (AveragingOptions::shards).\n"
                          "  fix: the data of the job, given to this peer.");
      }
      const std::string why = page.answered ? concat("nobody has begun the job ", options_.net.job) : page.why;
      if (!told) tell("waits for the log's first entry: " + why);
      if (options_.stops && options_.stops()) fail("stopped before the job had begun", "start it again.");
      if (Clock::now() - progress_ >= duration_of(options_.deadline)) {
        fail(concat("the log has had no entry for ", options_.deadline, " s: ", why),
             "start a peer that has the data.");
      }
      static_cast<void>(inbox_->take());
    }
  }

  [[nodiscard]] EndpointOptions endpoint_options() const {
    EndpointOptions net = options_.net;
    net.listen.clear();
    if (net.incarnation == 0) net.incarnation = drawn_incarnation();
    return net;
  }

  [[nodiscard]] EndpointEvents events() const {
    EndpointEvents events;
    events.on_connected = [inbox = inbox_](const RemotePeer& peer) {
      inbox->put(ShardInbox::Connected{peer.name});
    };
    events.on_lost = [inbox = inbox_](const RemotePeer& peer, const std::string& why) {
      inbox->put(ShardInbox::Lost{peer.name, why});
    };
    events.on_frame = [inbox = inbox_, this](const RemotePeer& peer, Frame frame) {
      if (is_of_shards(frame)) inbox->put(ShardInbox::Came{peer.name, std::move(frame), endpoint_->hold()});
    };
    return events;
  }

  /// Looks for peers that are present, once a second.
  void look() {
    const Clock::time_point now = Clock::now();
    if (now - looked_ < std::chrono::seconds(1)) return;
    looked_ = now;
    presence_.presences([inbox = inbox_](const Presences& read) {
      ShardInbox::Found found;
      for (const PresentKey& key : read.keys) {
        std::optional<PeerPresence> presence = presence_from_text(key.value);
        if (presence) found.peers.push_back(std::move(*presence));
      }
      inbox->put(std::move(found));
    });
  }

  void hear(const ShardInbox::Found& found, const Digest& /*wanted*/) {
    for (const PeerPresence& presence : found.peers) {
      const Member& who = presence.who;
      if (who.id.name == options_.net.name || who.address.empty()) continue;
      Holder& holder = holders_[who.id.name];
      if (holder.address == who.address || !holder.refused.empty()) continue;
      if (!holder.address.empty()) endpoint_->forget(holder.address);
      holder.address = who.address;
      endpoint_->connect(who.address, who.id.name);
    }
  }

  void hear(const ShardInbox::Connected& connected, const Digest& /*wanted*/) {
    holders_[connected.name].connected = true;
  }

  void hear(const ShardInbox::Lost& lost, const Digest& /*wanted*/) {
    Holder& holder = holders_[lost.name];
    holder.connected = false;
    holder.told = "the connection ended: " + lost.why;
    const std::size_t back = take_back_of(lost.name);
    if (back > 0) tell(concat(lost.name, " is lost; others are asked for the ", back, " shards that it was to send"));
  }

  void hear(ShardInbox::Came& came, const Digest& wanted) {
    Holder& holder = holders_[came.name];
    if (!holder.refused.empty()) return;
    std::string why;
    try {
      const ShardAnswer answer = shard_answer_of(came.frame);
      if (answer.kind == ShardAnswer::Kind::nothing) {
        holder.told = "it does not have the data";
        rest(holder);
        take_back_of(came.name);
        return;
      }
      why = answer.kind == ShardAnswer::Kind::list ? take_list(answer, wanted) : take_shard(answer);
    } catch (const DecodeError& error) {
      why = error.what();
    }
    if (why.empty()) return;
    holder.refused = why;
    take_back_of(came.name);
    tell(concat(came.name, " is asked no more: ", why));
    endpoint_->forget(holder.address);
    endpoint_->post([endpoint = endpoint_, name = came.name, why] { endpoint->disconnect(name, why); });
  }

  /// Returns why a list is refused, or an empty text.
  std::string take_list(const ShardAnswer& answer, const Digest& wanted) {
    if (sha256(*answer.bytes) != wanted) return "its list of shards has another digest than the log says";
    asked_.erase(list_place);
    if (!files_) begin({reinterpret_cast<const char*>(answer.bytes->data()), answer.bytes->size()}, wanted);
    return {};
  }

  /// Takes the list that an earlier attempt has left in the folder, if it is that of the job.
  void take_folder(const Digest& wanted) {
    std::ifstream file(options_.folder / "shards.json", std::ios::binary);
    const std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
    if (sha256(std::as_bytes(std::span(text))) == wanted) begin(text, wanted);
  }

  /// Begins with the list of the job, and with what the folder has of its shards.
  void begin(const std::string& text, const Digest& wanted) {
    files_.emplace(ShardFiles::in(options_.folder, shard_list_from_text(text)));
    if (files_->digest() != wanted) {
      throw OptionError(
          "reef::swarm::fetch_shards: the list of shards is of another version of this program.\n"
          "  fix: the same version on all peers.");
    }
    const std::size_t count = files_->list().count();
    for (std::size_t k = 0; k < count; ++k) {
      if (!files_->has(k)) missing_.insert(static_cast<std::int64_t>(k));
    }
    tell(concat("data of ", format_bytes(files_->list().bytes()), " in ", count, " shards, of which ",
                count - missing_.size(), " are there"));
    progress_ = Clock::now();
  }

  /// Returns why a shard is refused, or an empty text.
  std::string take_shard(const ShardAnswer& answer) {
    const auto k = static_cast<std::int64_t>(answer.shard);
    const bool is_missing = asked_.contains(k) || missing_.contains(k);
    if (!files_ || answer.shard >= files_->list().count()) return "it sends a shard that there is not";
    if (!files_->is(answer.shard, *answer.bytes)) {
      return concat("its shard ", answer.shard, " has other bytes than the log's list says");
    }
    if (!is_missing) return {};  // an answer that came late, after that of another
    files_->write(answer.shard, *answer.bytes);
    asked_.erase(k);
    missing_.erase(k);
    const std::size_t left = asked_.size() + missing_.size();
    const Clock::time_point now = Clock::now();
    progress_ = now;
    if (left > 0 && now - told_ < std::chrono::seconds(5)) return {};
    told_ = now;
    tell(concat("has ", files_->list().count() - left, " of ", files_->list().count(), " shards"));
    return {};
  }

  void rest(Holder& holder) const { holder.rests_until = Clock::now() + duration_of(options_.answer); }

  /// Returns the number of requests to a holder that are given up: others are asked for them.
  std::size_t take_back_of(const std::string& name) {
    return std::erase_if(asked_, [&](const auto& request) {
      if (request.second.holder != name) return false;
      if (request.first != list_place) missing_.insert(request.first);
      return true;
    });
  }

  /// Gives up requests that are not answered in time.
  void take_back() {
    const Clock::time_point before = Clock::now() - duration_of(options_.answer);
    std::set<std::string> late;
    for (const auto& [place, request] : asked_) {
      if (request.since < before) late.insert(request.holder);
    }
    for (const std::string& name : late) {
      holders_[name].told = concat("it has not answered for ", options_.answer, " s");
      rest(holders_[name]);
      take_back_of(name);
    }
  }

  /// Asks holders for the list, then for as many shards as each may be asked for.
  void ask() {
    for (auto& [name, holder] : holders_) {
      if (!holder.connected || !holder.refused.empty() || Clock::now() < holder.rests_until) continue;
      WantShards want;
      if (!files_) {
        if (asked_.contains(list_place)) return;
        asked_[list_place] = {name, Clock::now()};
        want.list = true;
      } else {
        auto asked = static_cast<std::size_t>(std::count_if(
            asked_.begin(), asked_.end(), [&, &to = name](const auto& one) { return one.second.holder == to; }));
        for (; asked < window && !missing_.empty(); ++asked) {
          const std::int64_t k = *missing_.begin();
          missing_.erase(missing_.begin());
          asked_[k] = {name, Clock::now()};
          want.shards.push_back(static_cast<std::uint32_t>(k));
        }
        if (want.shards.empty()) continue;
      }
      endpoint_->post([endpoint = endpoint_, to = name, frame = frame_of(want)] {
        static_cast<void>(endpoint->send(to, frame));
      });
    }
  }

  const ShardFetchOptions& options_;
  DecisionLog& log_;
  Presence& presence_;
  std::shared_ptr<ShardInbox> inbox_ = std::make_shared<ShardInbox>();
  Endpoint* endpoint_ = nullptr;
  std::map<std::string, Holder> holders_{};
  std::optional<ShardFiles> files_{};
  std::set<std::int64_t> missing_{};             ///< shards of which nobody is asked
  std::map<std::int64_t, Request> asked_{};      ///< by shard
  Clock::time_point progress_ = Clock::now();
  Clock::time_point looked_ = Clock::now() - std::chrono::hours(1);
  Clock::time_point told_ = Clock::now();
};

}  // namespace detail

REEF_INLINE ShardFiles fetch_shards(const ShardFetchOptions& options, DecisionLog& log, Presence& presence) {
  return detail::ShardFetch(options, log, presence).run();
}

}  // namespace swarm
}  // namespace v0
}  // namespace reef
