// Policies against vectors with known answers, each case with the policy that it names.

#include <map>
#include <string>

#include "acco_vectors.hpp"

namespace reef::test {

TEST(AccoVectors, the_policies_give_the_known_weights_and_states_to_1e_12) {
  const Vectors vectors;
  const std::map<std::string, void (*)(const Vectors&, const io::Json&)> policies{
      {"ddp", follow_ddp},
      {"dpu_w0", follow_dpu_w0},
      {"dpu_w2", follow_dpu_w2},
      {"acco-wp", follow_acco_wp},
      {"acco", follow_acco}};
  int cases = 0;
  for (const io::Json& test : vectors.file.at("cases")) {
    const auto method = test.at("method").get<std::string>();
    SCOPED_TRACE(method + ", " + test.at("optimizer").dump() + ", counts " +
                 test.at("counts").dump());
    const auto policy = policies.find(method);
    if (policy == policies.end()) {
      ADD_FAILURE() << "no policy is called " << method;
      continue;
    }
    ++cases;
    policy->second(vectors, test);
    if (method == "ddp") follow_zero1(vectors, test);
  }
  EXPECT_GT(cases, 0);
}

}  // namespace reef::test
