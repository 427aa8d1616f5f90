// What goes where in models whose nodes are on several ranks, against known answers: messages in any order, sums in
// theirs, bytes to the last.

#include <algorithm>
#include <string>

#include <gtest/gtest.h>

#include <reef/graph/placed_dag.hpp>
#include <reef/io/json.hpp>

#include "../../examples/reef_plan/messages.hpp"
#include "case_file.hpp"

namespace reef::test {
namespace {

/// As a set, where it is a list.
io::Json as_set(io::Json value) {
  if (value.is_array()) std::sort(value.begin(), value.end());
  return value;
}

TEST(RemoteDagCases, send_and_sum_as_is_known) {
  const io::Json file = read_case_file("remote_dag.json");
  int cases = 0;
  for (const io::Json& test : file.at("cases")) {
    SCOPED_TRACE(test.at("name").get<std::string>());
    const graph::PlacedDag model = graph::placed_dag_from_json(test, "case");
    io::Json found = reef_examples::MessagesAnswer(model).json();
    io::Json expected = test.at("expected");
    EXPECT_EQ(found.size(), expected.size());
    for (const auto& [key, value] : expected.items()) {
      ASSERT_TRUE(found.contains(key)) << key;
      for (io::Json* tied : {&found[key], &expected[key]}) {
        if (key != "tied") continue;
        for (io::Json& parameter : *tied) {
          for (const char* messages : {"gradient_messages", "parameter_messages"}) {
            parameter[messages] = as_set(parameter.at(messages));
          }
        }
      }
      EXPECT_EQ(as_set(found.at(key)), as_set(expected.at(key))) << key;
    }
    ++cases;
  }
  EXPECT_GE(cases, 5);
}

}  // namespace
}  // namespace reef::test
