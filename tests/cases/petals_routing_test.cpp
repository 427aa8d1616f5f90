// Routes through a swarm's servers, against known costs.

#include <string>

#include <gtest/gtest.h>

#include <reef/io/json.hpp>
#include <reef/plan/route_json.hpp>
#include <reef/plan/router.hpp>

#include "case_file.hpp"

namespace reef::test {
namespace {

TEST(PetalsRouting, costs_what_is_known) {
  const io::Json file = read_case_file("petals_routing.json");
  int cases = 0;
  for (const io::Json& test : file.at("cases")) {
    SCOPED_TRACE(test.at("name").get<std::string>());
    const plan::RouteCase read = plan::route_from_json(test, "case");
    plan::Router router(read.request);
    for (const auto& [name, server] : read.servers) router.set(name, server);
    const plan::Route route = router.route();
    EXPECT_TRUE(route.feasible) << route.why;
    EXPECT_NEAR(route.cost, test.at("expect_cost").get<double>(), 1e-9);
    io::Json path = io::Json::array();
    for (const plan::RouteHop& hop : route.path) path.push_back({hop.name, hop.start, hop.end});
    EXPECT_EQ(path, test.at("expect_path"));
    ++cases;
  }
  EXPECT_GT(cases, 0);
}

}  // namespace
}  // namespace reef::test
