#pragma once

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include <reef/swarm/log/presence.hpp>

/// The laws of swarm::Presence. A case is one of DecisionLogLaws which has, too:
///
///     swarm::Presence& presence();
///     swarm::Presence& other_presence();   // another client of the same
namespace reef::test {

template <class Case>
class PresenceLaws : public testing::Test {
protected:
  void SetUp() override {
    if constexpr (requires { Case::missing(); }) {
      if (const std::string why = Case::missing(); !why.empty()) GTEST_SKIP() << why;
    }
  }
  void until(const std::function<bool()>& so) {
    const auto begin = std::chrono::steady_clock::now();
    while (!so() && std::chrono::steady_clock::now() - begin < std::chrono::seconds(60)) one.pass();
    EXPECT_TRUE(so()) << "not so after 60 s";
  }
  template <class Call>
  void write(const Call& call) {
    const auto done = std::make_shared<std::atomic<bool>>(false);
    call([done](std::string_view why) {
      EXPECT_EQ(why, "");
      *done = true;
    });
    until([&] { return done->load(); });
  }
  void present(swarm::Presence& presence, const std::string& key, const std::string& value, Seconds ttl = 30) {
    write([&](auto done) { presence.present(key, value, ttl, std::move(done)); });
  }
  void absent(swarm::Presence& presence, const std::string& key) {
    write([&](auto done) { presence.absent(key, std::move(done)); });
  }
  std::vector<swarm::PresentKey> keys(swarm::Presence& presence) {
    struct Given {
      std::mutex mutex;
      bool there = false;
      swarm::Presences answer;
    };
    const auto given = std::make_shared<Given>();
    presence.presences([given](swarm::Presences now) {
      const std::lock_guard lock(given->mutex);
      given->answer = std::move(now);
      given->there = true;
    });
    until([&] {
      const std::lock_guard lock(given->mutex);
      return given->there;
    });
    const std::lock_guard lock(given->mutex);
    EXPECT_TRUE(given->answer.answered) << given->answer.why;
    return given->answer.keys;
  }

  Case one;
};

TYPED_TEST_SUITE_P(PresenceLaws);

TYPED_TEST_P(PresenceLaws, what_is_present_is_seen_by_others_in_order) {
  using Keys = std::vector<swarm::PresentKey>;
  EXPECT_EQ(this->keys(this->one.presence()), Keys{});
  this->present(this->one.presence(), "b", "{\"reach\":[\"a\"]}");
  this->present(this->one.other_presence(), "a/1 \xC3\xA9", "");
  EXPECT_EQ(this->keys(this->one.other_presence()), (Keys{{"a/1 \xC3\xA9", ""}, {"b", "{\"reach\":[\"a\"]}"}}));
  this->present(this->one.presence(), "b", "new");
  EXPECT_EQ(this->keys(this->one.presence()), (Keys{{"a/1 \xC3\xA9", ""}, {"b", "new"}}));
  this->absent(this->one.presence(), "b");
  this->absent(this->one.presence(), "never there");
  EXPECT_EQ(this->keys(this->one.presence()), (Keys{{"a/1 \xC3\xA9", ""}}));
  this->present(this->one.presence(), "b", "again");
  EXPECT_EQ(this->keys(this->one.presence()).size(), 2U);
}

TYPED_TEST_P(PresenceLaws, what_is_not_renewed_vanishes_alone) {
  this->present(this->one.presence(), "stays", "", 600);
  this->present(this->one.presence(), "goes", "", swarm::shortest_presence);
  this->until([&] { return this->keys(this->one.other_presence()).size() == 1; });
  EXPECT_EQ(this->keys(this->one.presence()), (std::vector<swarm::PresentKey>{{"stays", ""}}));
  this->present(this->one.presence(), "goes", "back", swarm::shortest_presence);
  EXPECT_EQ(this->keys(this->one.other_presence()).size(), 2U);
}

TYPED_TEST_P(PresenceLaws, what_is_renewed_stands_whatever_another_has_written_meanwhile) {
  this->present(this->one.presence(), "a", "new");
  this->present(this->one.other_presence(), "a", "old");  // a call of the same peer that came late by another way
  this->present(this->one.presence(), "a", "new");
  EXPECT_EQ(this->keys(this->one.other_presence()), (std::vector<swarm::PresentKey>{{"a", "new"}}));
}

TYPED_TEST_P(PresenceLaws, what_is_too_long_is_refused) {
  const auto never = [](std::string_view) { ADD_FAILURE() << "called for what threw"; };
  swarm::Presence& presence = this->one.presence();
  EXPECT_THROW(presence.present("", "", 3, never), OptionError);
  EXPECT_THROW(presence.present(std::string(swarm::max_presence_key_bytes + 1, 'k'), "", 3, never), OptionError);
  EXPECT_THROW(presence.present("k", std::string(swarm::max_presence_value_bytes + 1, 'v'), 3, never), OptionError);
  EXPECT_THROW(presence.present("k", "\xFF", 3, never), OptionError);
  EXPECT_THROW(presence.present("k", "", 0, never), OptionError);
  EXPECT_THROW(presence.absent("", never), OptionError);
  EXPECT_TRUE(this->keys(presence).empty());
}

REGISTER_TYPED_TEST_SUITE_P(PresenceLaws, what_is_present_is_seen_by_others_in_order,
                            what_is_not_renewed_vanishes_alone,
                            what_is_renewed_stands_whatever_another_has_written_meanwhile, what_is_too_long_is_refused);

}  // namespace reef::test
