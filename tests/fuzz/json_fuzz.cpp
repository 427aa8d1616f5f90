// JSON text, and every type that `require` gives.
//
// An input is a dotted path, a newline, and the text.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <reef/io/json.hpp>

#include "target.hpp"

using reef::io::Json;

namespace {

template <class... Types>
void require_each(const Json& root, std::string_view path) {
  (reef::fuzz::reads([&] { (void)reef::io::require<Types>(root, path, "input"); }), ...);
  (reef::fuzz::reads([&] { (void)reef::io::value_or<Types>(root, path, Types{}, "input"); }), ...);
}

}  // namespace

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view input = reef::fuzz::text_of(data, size);
  const std::size_t line = std::min(input.find('\n'), input.size());
  const std::string_view path = input.substr(0, line);
  const std::string_view text = input.substr(std::min(line + 1, input.size()));

  Json root;
  if (!reef::fuzz::reads([&] { root = reef::io::parse_json(text, "input", {.depth = 16}); })) {
    return 0;
  }
  for (const std::string_view at : {path, std::string_view(), std::string_view("a.0")}) {
    require_each<bool, std::int8_t, int, std::int64_t, std::uint32_t, std::uint64_t, double, float,
                 std::string, std::vector<std::int64_t>, std::vector<std::vector<double>>,
                 std::vector<std::string>, std::vector<Json>, Json>(root, at);
  }
  reef::fuzz::demand(reef::io::parse_json(root.dump(), "its own text") == root,
                     "what was read, written and read again is the same");
  return 0;
}
