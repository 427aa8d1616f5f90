#include <array>
#include <string>
#include <string_view>

#include <gtest/gtest.h>

#include <reef/io/known_keys.hpp>

namespace reef::test {
namespace {

constexpr std::array<std::string_view, 3> known{"latency_ms", "bandwidth_gbps", "ranks"};

std::string message(const char* json, std::string_view at = {}) {
  try {
    io::require_known_keys(io::parse_json(json, "text"), known, "case.json", at);
  } catch (const DecodeError& error) {
    return error.what();
  }
  return "none";
}

TEST(KnownKeys, a_key_that_nothing_reads_is_named_with_the_one_that_may_be_meant) {
  EXPECT_EQ(message(R"({"ranks": 2, "bandwith_gbps": 1})", "network"),
            "reef::io: case.json: nothing reads the key 'network.bandwith_gbps'; did you mean "
            "'network.bandwidth_gbps'?\n  fix: correct or remove it. Known are latency_ms, "
            "bandwidth_gbps, ranks.");
  EXPECT_NE(message(R"({"latency": 1})").find("did you mean 'latency_ms'?"), std::string::npos);
  EXPECT_NE(message(R"({"Ranks": 1})").find("did you mean 'ranks'?"), std::string::npos);
  EXPECT_NE(message(R"({"colour": 1})").find("nothing reads the key 'colour'.\n"),
            std::string::npos);
  EXPECT_NE(message(R"({"": 1})").find("nothing reads the key ''"), std::string::npos);
}

TEST(KnownKeys, known_ones_and_remarks_may_be_there) {
  EXPECT_EQ(message(R"({"ranks": 2, "latency_ms": 1, "bandwidth_gbps": 1})"), "none");
  EXPECT_EQ(message(R"({"name": 1, "note": 2, "expected": {}, "all_of_it": 1, "old_iter_us": 3})"),
            "none");
  EXPECT_EQ(message(R"({"name": 1, "about": 2, "note": 3, "source": 4})", "network"), "none");
  EXPECT_EQ(message("[1, 2]"), "none") << "what is no object has no keys";
}

TEST(KnownKeys, what_another_command_reads_is_no_remark) {
  for (const char* key : {"ratios", "model", "recompute", "device_flops",
                          "device_memory_gbps", "model_flops", "reciprocal_gbps"}) {
    EXPECT_NE(message(concat("{\"", key, "\": 1}").c_str()).find(concat("the key '", key, "'")),
              std::string::npos)
        << key;
  }
}

TEST(KnownKeys, what_a_case_expects_stands_at_its_top_and_in_no_object_inside) {
  for (const char* key : {"seed",
                          "unit",
                          "workload_note",
                          "regions",
                          "planted",
                          "optimum",
                          "raw",
                          "log",
                          "i32",
                          "i64",
                          "T_star",
                          "join_order",
                          "lp_upper_bound",
                          "best_assignment_found",
                          "expected",
                          "exact_us",
                          "identity_us",
                          "lp_bound",
                          "all_us",
                          "raw_bandwidth_gbps",
                          "log_x",
                          "simulated_us",
                          "old_iter_us",
                          "compute_us"}) {
    const std::string json = concat("{\"", key, "\": 1}");
    EXPECT_EQ(message(json.c_str()), "none");
    EXPECT_NE(message(json.c_str(), "network").find(concat("the key 'network.", key, "'")),
              std::string::npos)
        << key;
  }
}

}  // namespace
}  // namespace reef::test
