#include <reef/profile/profile.hpp>

#include <filesystem>
#include <limits>
#include <string>

#include <gtest/gtest.h>

#include <reef/profile/profile_json.hpp>

namespace {

using namespace reef;
using profile::Profile;

Profile two_operators() {
  Profile result{"host", true, 2, 2.6e10, 1.5e10, 1e9, 1.0 / 3e5, 1e9, 1.0 / 7e5, 1.5, {}};
  result.operators.push_back(
      {"a.b", "Linear", 0.1, 1.0 / 3.0, 1e-3, 12, 24, 1ULL << 60, 5, 0, 64, 7, 9, 1e300, 2});
  result.operators.push_back({"quote \" and \\", "Gelu", 1e-9, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0});
  return result;
}

TEST(Profile, sums_and_finds_its_operators) {
  const Profile p = two_operators();
  EXPECT_DOUBLE_EQ(p.forward_s(), 0.1 + 1e-9);
  EXPECT_DOUBLE_EQ(p.backward_s(), 1.0 / 3.0);
  EXPECT_DOUBLE_EQ(p.backward_flops(), 2);
  EXPECT_EQ(p.at("a.b").kind, "Linear");
  EXPECT_THROW((void)p.at("a"), OptionError);
}

TEST(Profile, comes_back_from_json_bit_for_bit) {
  const Profile p = two_operators();
  EXPECT_EQ(profile::from_json(io::parse_json(profile::to_json(p).dump(), "text")), p);
}

TEST(Profile, that_holds_what_no_clock_says_is_refused_by_name) {
  EXPECT_NO_THROW(two_operators().validate());
  const auto refused = [](auto change, const std::string& what) {
    Profile p = two_operators();
    change(p);
    try {
      p.validate();
      ADD_FAILURE() << what;
    } catch (const OptionError& error) {
      EXPECT_NE(std::string(error.what()).find(what), std::string::npos) << error.what();
    }
  };
  constexpr double nan = std::numeric_limits<double>::quiet_NaN();
  refused([](Profile& p) { p.operators[0].forward_s = -1; }, "a time of operator 'a.b' is -1");
  refused([](Profile& p) { p.operators[1].load_s = nan; }, "a time of operator 'quote");
  refused([](Profile& p) { p.operators[0].backward_s = 1e300; }, "a time of operator 'a.b'");
  refused([](Profile& p) { p.copy_latency = -1; }, "copy_latency");
  refused([](Profile& p) { p.link_latency = nan; }, "link_latency");
  refused([](Profile& p) { p.slowdown = 0.5; }, "slowdown");
  refused([](Profile& p) { p.operators[0].backward_flops = -2; }, "operations of operator 'a.b'");
  refused([](Profile& p) { p.copy_bytes_per_second = -1; }, "copy_bytes_per_second");
  refused([](Profile& p) { p.memory_bytes_per_second = nan; }, "memory_bytes_per_second");
  refused([](Profile& p) { p.host_bytes_per_second = 0.5; }, "host_bytes_per_second");
  io::Json json = profile::to_json(two_operators());
  json["copy_latency"] = -1;
  EXPECT_THROW((void)profile::from_json(json, "p.json"), DecodeError);
}

TEST(Profile, comes_back_from_a_file) {
  const auto path = std::filesystem::path(testing::TempDir()) / "reef_profile_test.json";
  profile::save(two_operators(), path);
  EXPECT_EQ(profile::load(path), two_operators());
  std::filesystem::remove(path);
  EXPECT_THROW(profile::load(path), FileError);
}

TEST(Profile, a_member_that_is_missing_or_wrong_is_named_with_its_operator) {
  const auto message = [](const io::Json& json) {
    try {
      (void)profile::from_json(json, "p.json");
    } catch (const DecodeError& error) {
      return std::string(error.what());
    }
    return std::string("no error");
  };
  io::Json json = profile::to_json(two_operators());
  json["operators"][1]["saved_bytes"] = -1;
  EXPECT_NE(message(json).find("saved_bytes"), std::string::npos) << message(json);
  EXPECT_NE(message(json).find("p.json, operator 1"), std::string::npos) << message(json);
  json = profile::to_json(two_operators());
  json.erase("device");
  EXPECT_NE(message(json).find("device"), std::string::npos) << message(json);
  json = profile::to_json(two_operators());
  json["format"] = "reef-profile-1";
  EXPECT_NE(message(json).find("reef-profile-6"), std::string::npos) << message(json);
  json = profile::to_json(two_operators());
  json["link_bytes_per_seconds"] = 1e9;
  EXPECT_NE(message(json).find("did you mean 'link_bytes_per_second'?"), std::string::npos)
      << message(json);
  json = profile::to_json(two_operators());
  json["operators"][1]["forwards"] = 1;
  EXPECT_NE(message(json).find("p.json, operator 1: nothing reads the key 'forwards'"),
            std::string::npos)
      << message(json);
}

}  // namespace
