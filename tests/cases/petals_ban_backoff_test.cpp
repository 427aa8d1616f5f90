// Bans of servers that fail, and waits before attempts, against known answers.

#include <cstddef>
#include <string>

#include <gtest/gtest.h>

#include <reef/io/json.hpp>
#include <reef/swarm/core/server_bans.hpp>

#include "case_file.hpp"

namespace reef::test {
namespace {

TEST(PetalsBanBackoff, is_what_is_known) {
  const io::Json file = read_case_file("petals_ban_backoff.json");
  int timelines = 0;
  int waits = 0;
  for (const io::Json& test : file.at("cases")) {
    SCOPED_TRACE(test.at("name").get<std::string>());
    if (test.contains("events")) {
      swarm::core::ServerBans bans;
      for (const io::Json& event : test.at("events")) {
        const auto now = event.at("t").get<double>();
        const auto kind = event.at("event").get<std::string>();
        if (kind == "fail") bans.failed("server", now);
        if (kind == "ok") bans.answered("server");
        EXPECT_EQ(bans.is_banned("server", now), event.at("banned_after").get<bool>()) << kind << " at " << now << " s";
      }
      ++timelines;
    } else {
      const io::Json& expected = test.at("expect");
      for (std::size_t attempt = 0; attempt < expected.size(); ++attempt) {
        EXPECT_EQ(swarm::core::wait_before(static_cast<int>(attempt), test.at("min_backoff").get<double>(),
                                           test.at("max_backoff").get<double>()),
                  expected[attempt].get<double>())
            << "attempt " << attempt;
      }
      ++waits;
    }
  }
  EXPECT_GT(timelines, 0);
  EXPECT_GT(waits, 0);
}

}  // namespace
}  // namespace reef::test
