#include <reef/io/json.hpp>

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <functional>
#include <limits>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include <reef/core/random.hpp>
#include <reef/core/text.hpp>
#include <reef/io/json_string.hpp>

namespace {

using namespace reef;
using io::Json;

std::string error_of(const std::function<void()>& f) {
  try {
    f();
    return "no error";
  } catch (const Error& error) {
    return error.what();
  }
}

std::string parse_error(const std::string& text, io::JsonLimits limits = {}) {
  return error_of([&] { io::parse_json(text, "case.json", limits); });
}

TEST(Json, reads_what_nlohmann_reads) {
  for (const char* text :
       {"null", "true", "-3", "18446744073709551615", "1.5e-3", "\"a\\u00e9\"", "[]", "{}",
        R"({"a":[1,{"b":[[],{}]},"x"],"c":{"a":null}})", " [1 , 2\n,3] "}) {
    EXPECT_EQ(io::parse_json(text, "x"), Json::parse(text)) << text;
  }
}

TEST(Json, errors_name_source_line_column_and_what_is_wrong) {
  const std::string text = parse_error("{\n  \"a\": 1,\n  \"b\" 2\n}");
  EXPECT_EQ(text.find("reef::io: case.json:3:7: "), 0U) << text;
  EXPECT_NE(text.find("expected ':'"), std::string::npos) << text;
  EXPECT_EQ(parse_error("").find("reef::io: case.json:1:1: "), 0U) << parse_error("");
  EXPECT_NE(parse_error("[1e999]").find("number overflow"), std::string::npos);
}

TEST(Json, errors_name_the_field) {
  for (const auto& [text, field] : {std::pair{R"({"a": {"b": [1, [2, NaN]]}})", "at 'a.b.1.1': "},
                                    std::pair{R"({"a": {"b": []}, "c": 1e999})", "at 'c': "},
                                    std::pair{R"([{"a": 1}, {"b": -}])", "at '1.b': "},
                                    std::pair{R"([1, 2, nul])", "at '2': "}}) {
    EXPECT_NE(parse_error(text).find(field), std::string::npos) << parse_error(text);
  }
}

TEST(Json, refuses_what_is_no_json_or_is_ambiguous) {
  for (const char* text : {"{", "[1,]", "{\"a\":1,}", "nul", "NaN", "[1] 2", "'a'", "// c\n1",
                           "\"\xff\"", "{1:2}", "\"a", "01", "+1"}) {
    EXPECT_NE(parse_error(text), "no error") << text;
  }
  EXPECT_EQ(
      parse_error(R"({"a":1,"b":{"a":2},"a":3})"),
      "reef::io: case.json: the key \"a\" comes twice in one object.\n  fix: keep one of the two.");
}

TEST(Json, refuses_nesting_and_size_beyond_the_limits) {
  const auto nested = [](std::size_t depth) {
    return std::string(depth, '[') + std::string(depth, ']');
  };
  EXPECT_EQ(parse_error(nested(64)), "no error");
  EXPECT_EQ(parse_error(nested(65)),
            "reef::io: case.json: it nests deeper than 64.\n  fix: check that it is the file you "
            "meant.");
  EXPECT_NE(parse_error(nested(1'000'000)), "no error");
  EXPECT_NE(parse_error("[1,2]", {.bytes = 4, .depth = 4}).find("limit"), std::string::npos);
  EXPECT_EQ(parse_error("[1,2]", {.bytes = 5, .depth = 1}), "no error");
  EXPECT_EQ(parse_error(R"({"servers":[{},[]],"edges":[1,2,3]})", {.nested = 2}), "no error");
  EXPECT_EQ(
      parse_error(R"({"L":1,"servers":[{},[],{}]})", {.nested = 2}),
      "reef::io: case.json: 'servers.2' is more than 2 in one list or object.\n  fix: check that "
      "it is the file you meant.");
}

TEST(Json, any_bytes_give_a_value_or_an_error_of_ours) {
  const std::string alphabet = "{}[]:,\"\\ u0019eE+-.truefalsn\n\x80\xff";
  int values = 0;
  for (std::uint64_t trial = 0; trial < 30'000; ++trial) {
    const DrawKey key{1, trial, 0, 0};
    std::string text;
    for (std::uint64_t i = 1; i <= 1 + random_bits(key, 0) % 8; ++i) {
      text += alphabet[random_bits(key, i) % alphabet.size()];
    }
    values += parse_error(text) == "no error" ? 1 : 0;
  }
  EXPECT_GT(values, 100);
}

TEST(Json, numbers_round_trip) {
  for (const double x : {0.1, 1.0 / 3, 5e-324, 1.7976931348623157e308, 123456789.123456789}) {
    EXPECT_EQ(io::parse_json(Json(x).dump(), "x").get<double>(), x);
  }
}

TEST(Require, gives_the_value_at_a_dotted_path_as_exactly_that_type) {
  const Json root = io::parse_json(
      R"({"a":{"b":[1,2.5,{"c":"x"}]},"n":-3,"t":true,"v":[1,2],"big":18446744073709551615})", "x");
  EXPECT_EQ(io::require<std::string>(root, "a.b.2.c"), "x");
  EXPECT_EQ(io::require<int>(root, "n"), -3);
  EXPECT_EQ(io::require<double>(root, "a.b.0"), 1.0);
  EXPECT_EQ(io::require<float>(root, "a.b.1"), 2.5F);
  EXPECT_TRUE(io::require<bool>(root, "t"));
  EXPECT_EQ(io::require<std::vector<int>>(root, "v"), (std::vector<int>{1, 2}));
  EXPECT_EQ(io::require<std::uint64_t>(root, "big"), std::numeric_limits<std::uint64_t>::max());
  EXPECT_EQ(io::require<Json>(root, "a.b").size(), 3U);
  EXPECT_EQ(io::value_or<int>(root, "n", 5), -3);
  EXPECT_EQ(io::value_or<int>(root, "a.missing", 5), 5);
}

TEST(Require, takes_real_numbers_that_are_integers_for_these_and_no_others) {
  const Json root = io::parse_json(
      R"({"m":4e9,"n":-3.0,"s":1.8446744073709550e19,"h":0.5,"big":1.8446744073709552e19,"x":1e30,"v":[1e1,2]})", "x");
  EXPECT_EQ(io::require<std::uint64_t>(root, "m"), 4'000'000'000U);
  EXPECT_EQ(io::require<std::int64_t>(root, "m"), 4'000'000'000);
  EXPECT_EQ(io::require<int>(root, "n"), -3);
  EXPECT_EQ(io::require<std::uint64_t>(root, "s"), 18'446'744'073'709'549'568U);
  EXPECT_EQ(io::require<std::vector<int>>(root, "v"), (std::vector<int>{10, 2}));
  EXPECT_EQ(error_of([&] { io::require<int>(root, "h", "case.json"); }),
            "reef::io: case.json: 'h' must be an integer from -2147483648 to 2147483647, it is 0.5.\n  fix: change it to that, "
            "or give another file.");
  EXPECT_NE(error_of([&] { io::require<int>(root, "m"); }), "no error");
  EXPECT_NE(error_of([&] { io::require<unsigned>(root, "n"); }), "no error");
  EXPECT_NE(error_of([&] { io::require<std::uint64_t>(root, "big"); }), "no error");
  EXPECT_NE(error_of([&] { io::require<std::int64_t>(root, "x"); }), "no error");
}

TEST(Json, a_byte_order_mark_of_utf_8_is_passed_over_and_one_of_utf_16_named) {
  EXPECT_EQ(io::parse_json("\xEF\xBB\xBF{\"a\": 1}", "x").at("a"), 1);
  for (const char* const mark : {"\xFF\xFE", "\xFE\xFF"}) {
    EXPECT_EQ(error_of([&] { io::parse_json(std::string(mark) + "{}", "case.json"); }),
              "reef::io: case.json begins with a byte order mark of UTF-16, and JSON is UTF-8.\n  fix: save it as UTF-8.");
  }
}

TEST(Require, says_what_is_missing_or_there_instead) {
  const Json root = io::parse_json(
      R"({"a":{"b":"text"},"n":-3,"f":1.5,"v":[1,"x"],"big":18446744073709551615})", "x");
  EXPECT_EQ(error_of([&] { io::require<int>(root, "a.c", "case.json"); }),
            "reef::io: case.json: 'a.c' is missing; it must be an integer from -2147483648 to "
            "2147483647.\n  fix: add it, or give a file that has it.");
  EXPECT_EQ(
      error_of([&] { io::require<double>(root, "a.b", "case.json"); }),
      "reef::io: case.json: 'a.b' must be a number, it is \"text\".\n  fix: change it to that, "
      "or give another file.");
  const io::JsonSource written("p.json", "measure it again.");
  EXPECT_EQ(error_of([&] { io::require<double>(root, "a.b", written); }),
            "reef::io: p.json: 'a.b' must be a number, it is \"text\".\n  fix: measure it again.");
  EXPECT_EQ(
      error_of([&] { io::require<bool>(root, "c", written); }),
      "reef::io: p.json: 'c' is missing; it must be true or false.\n  fix: measure it again.");
  EXPECT_EQ(error_of([&] { io::require<Json>(root, "c", written); }),
            "reef::io: p.json: 'c' is missing.\n  fix: measure it again.");
  EXPECT_NE(error_of([&] { io::require<unsigned>(root, "n"); }), "no error");
  EXPECT_NE(error_of([&] { io::require<int>(root, "f"); }), "no error");
  EXPECT_NE(error_of([&] { io::require<bool>(root, "n"); }), "no error");
  EXPECT_NE(error_of([&] { io::require<std::int64_t>(root, "big"); }), "no error");
  EXPECT_NE(error_of([&] { io::require<std::vector<int>>(root, "v"); }), "no error");
  EXPECT_NE(error_of([&] { io::require<int>(root, "v.2"); }), "no error");
  EXPECT_NE(error_of([&] { io::require<int>(root, "v.-1"); }), "no error");
  EXPECT_NE(error_of([&] { io::require<int>(root, "v.99999999999999999999"); }), "no error");
  EXPECT_NE(error_of([&] { io::require<int>(root, "n.x"); }), "no error");
  EXPECT_NE(error_of([&] { io::value_or<int>(root, "a.b", 1); }), "no error");
}

TEST(Require, takes_null_for_something_said_not_for_something_left_out) {
  const Json root = io::parse_json(R"({"a":null,"b":{"c":null},"v":[{}]})", "x");
  EXPECT_EQ(
      error_of([&] { io::value_or<double>(root, "b.c", 1, "case.json"); }),
      "reef::io: case.json: 'b.c' must be a number, it is null.\n  fix: change it to that, or "
      "give another file.");
  EXPECT_EQ(error_of([&] { io::value_or<int>(root, "a.slots", 0, "case.json"); }),
            "reef::io: case.json: 'a' must be an object, it is null.\n  fix: change it to that, or "
            "give another file.");
  EXPECT_EQ(error_of([&] { io::require<int>(root, "v.0.x.y", "case.json"); }),
            "reef::io: case.json: 'v.0.x.y' is missing; it must be an integer from -2147483648 to "
            "2147483647.\n  fix: add it, or give a file that has it.");
  EXPECT_EQ(error_of([&] { io::require<int>(root, "v.x", "case.json"); }),
            "reef::io: case.json: 'v' must be an object, it is [{}].\n  fix: change it to that, or "
            "give another file.");
  EXPECT_EQ(error_of([&] { io::value_or<int>(Json(5), "a", 0, "case.json"); }),
            "reef::io: case.json must be an object, it is 5.\n  fix: change it to that, or give "
            "another file.");
  EXPECT_EQ(error_of([&] { io::require_object(root.at("v"), "v", "case.json"); }),
            "reef::io: case.json: 'v' must be an object, it is [{}].\n  fix: change it to that, or "
            "give another file.");
  EXPECT_EQ(error_of([&] { io::require_object(root.at("b"), "b", "case.json"); }), "no error");
  EXPECT_TRUE(io::require<Json>(root, "b.c").is_null());
}

TEST(Require, takes_any_of_several_types_and_says_all_of_them) {
  using Either = std::variant<double, std::vector<double>>;
  const Json root = io::parse_json(R"({"one":2,"all":[1,2],"text":"1","null":null})", "x");
  EXPECT_EQ(io::require<Either>(root, "one"), Either(2.0));
  EXPECT_EQ(io::require<Either>(root, "all"), Either(std::vector<double>{1, 2}));
  for (const auto& [key, shown] : {std::pair{"text", "\"1\""}, std::pair{"null", "null"}}) {
    EXPECT_EQ(error_of([&] { io::require<Either>(root, key, "case.json"); }),
              concat("reef::io: case.json: '", key,
                     "' must be a number, or an array, each element a number, it is ", shown,
                     ".\n  fix: change it to that, or give another file."));
  }
}

TEST(ReadJson, names_the_file) {
  const auto path =
      std::filesystem::path(testing::TempDir()) / ("reef_json_" + std::to_string(::getpid()));
  std::ofstream(path) << "{\"a\": [1, 2}";
  const std::string error = error_of([&] { io::read_json(path); });
  EXPECT_NE(error.find(path.string() + ":1:12: "), std::string::npos) << error;
  std::ofstream(path) << "{\"a\": [1, 2]}";
  EXPECT_EQ(io::read_json(path)["a"][1], 2);
  EXPECT_NE(error_of([&] { io::read_json(path, {.bytes = 5, .depth = 9}); }), "no error");
  std::filesystem::remove(path);
  EXPECT_THROW(io::read_json(path), FileError);
  EXPECT_THROW(io::read_json(testing::TempDir()), FileError);
}

TEST(JsonString, any_bytes_become_a_string_that_parses) {
  EXPECT_EQ(io::json_string("a\"\\\n\t\x01"), R"("a\"\\\n\t\u0001")");
  for (const char* good : {"\xC3\xA9", "\xE2\x82\xAC", "\xF0\x9F\x8C\x8A", "\xEF\xBF\xBF"}) {
    EXPECT_EQ(io::parse_json(io::json_string(good), "x"), good);
  }
  for (const char* bad : {"\xC0\x80", "\xED\xA0\x80", "\xF5\x80\x80\x80", "\xE2\x82", "\x80"}) {
    EXPECT_NE(io::parse_json(io::json_string(bad), "x").get<std::string>().find("\xEF\xBF\xBD"),
              std::string::npos);
  }
  for (std::uint64_t trial = 0; trial < 5'000; ++trial) {
    std::string text;
    for (std::uint64_t i = 0; i < 6; ++i) {
      text += static_cast<char>(random_bits({2, trial, 0, 0}, i) >> 24);
    }
    EXPECT_TRUE(io::parse_json(io::json_string(text), "x").is_string());
  }
}

}  // namespace
