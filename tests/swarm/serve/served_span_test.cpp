// What servers announce of themselves, as others read it, and how they measure their speed.

#include <reef/swarm/serve/served_span.hpp>

#include <optional>
#include <string>

#include <gtest/gtest.h>

#include <reef/core/text.hpp>
#include <reef/swarm/log/presence.hpp>
#include <reef/swarm/serve/detail/server_pace.hpp>

namespace reef::swarm {
namespace {

std::string announced_text(const std::string& more) {
  return concat(R"({"serves":1,"name":"a","incarnation":7,"address":"127.0.0.1:1","model":"m","first":0,"last":4,)",
                R"("numerics":"n","positions":64)", more, "}");
}

TEST(ServedSpan, is_read_as_it_was_written) {
  ServedSpan span{{"a", 7}, "127.0.0.1:1", "m", {0, 4}, "n", 64};
  EXPECT_EQ(served_span_of(text_of(span)), span);
  span.load = {123.5, 4.25, 0.125, 640, {{"b/1", 0.01}, {"c/2", 0.5}}};
  span.draining = true;
  EXPECT_EQ(served_span_of(text_of(span)), span);
}

TEST(ServedSpan, takes_for_unknown_what_cannot_be) {
  for (const char* const more :
       {"", R"(,"rate":-1)", R"(,"rate":0)", R"(,"rate":"fast")", R"(,"rate":1e999)", R"(,"batch":0.5,"queue":-3)",
        R"(,"room":-1)", R"(,"pings":[1])", R"(,"pings":{"b":-1,"c":"x"})", R"(,"rate":null,"queue":{})"}) {
    const std::optional<ServedSpan> span = served_span_of(announced_text(more));
    // A number that is too large for JSON's reader is no text at all.
    if (std::string(more).find("1e999") != std::string::npos && !span) continue;
    ASSERT_TRUE(span.has_value()) << more;
    EXPECT_EQ(span->load, core::ServerLoad{}) << more;
    EXPECT_FALSE(span->draining) << more;
  }
  EXPECT_FALSE(served_span_of(announced_text(R"(,"draining":"yes")")).has_value());
  EXPECT_EQ(served_span_of(announced_text(R"(,"room":1e300)"))->load.room, 1'000'000'000'000'000);
  std::string pings = R"(,"pings":{"a":1)";
  for (int i = 0; i < 100; ++i) pings += concat(",\"p", i, "\":1");
  EXPECT_LE(served_span_of(announced_text(pings + "}"))->load.pings.size(), 16u);
}

TEST(ServerPace, is_what_passes_take_but_for_the_few_that_take_long) {
  detail::ServerPace pace(256);
  EXPECT_FALSE(pace.rate().has_value());
  EXPECT_EQ(pace.batch(), 1);
  pace.passed(1, 4, 1);
  EXPECT_FALSE(pace.rate().has_value()) << "it is measured first";
  pace.set(0.01, 0.002);
  EXPECT_DOUBLE_EQ(*pace.rate(), 100);
  EXPECT_DOUBLE_EQ(pace.batch(), 5);
  for (int i = 0; i < 300; ++i) pace.passed(1, 4, i % 10 == 0 ? 100 : 4 * 0.04);
  EXPECT_NEAR(*pace.rate(), 25, 5);
  for (int i = 0; i < 300; ++i) pace.passed(256, 4 * 256, 4 * 256 * 0.001);
  EXPECT_NEAR(pace.batch(), 40, 10);
  for (int i = 0; i < 300; ++i) pace.passed(3, 12, 100);
  EXPECT_NEAR(*pace.rate(), 25, 5) << "of neither one row nor of many";
}

}  // namespace
}  // namespace reef::swarm
