// The added tokens of a folder, in ascending order, each once; and what a table finds of them in a text: all of it again.
//
// The first line of an input is added_tokens.json, the second tokenizer_config.json, the rest tokenizer.json; an empty
// one is not there.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include <reef/data/added_tokens.hpp>

#include "../support/temporary_folder.hpp"
#include "target.hpp"

int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
  static const reef::test::TemporaryFolder folder;
  std::string_view rest = reef::fuzz::text_of(bytes, size);
  const auto set = [&](const char* name, std::string_view text) {
    if (text.empty()) {
      std::filesystem::remove(folder / name);
    } else {
      reef::test::write_file(folder / name, std::string(text));
    }
  };
  for (const char* const name : {"added_tokens.json", "tokenizer_config.json"}) {
    const std::string_view line = rest.substr(0, rest.find('\n'));
    set(name, line);
    rest.remove_prefix(std::min(line.size() + 1, rest.size()));
  }
  set("tokenizer.json", rest);
  const std::string_view text = reef::fuzz::text_of(bytes, std::min<std::size_t>(size, 2000));
  reef::fuzz::reads([&] {
    const std::vector<reef::data::AddedToken> tokens = reef::data::read_added_tokens(folder.path());
    std::map<std::int32_t, std::string> contents;
    std::int32_t last = -1;
    for (const reef::data::AddedToken& token : tokens) {
      reef::fuzz::demand(token.id > last && !token.content.empty(), "ids rise, and no token is empty");
      last = token.id;
      contents[token.id] = token.content;
    }
    std::string again;
    reef::data::AddedTokenTable(tokens).for_each_part(
        text, [&](std::string_view gap) { again += gap; }, [&](std::int32_t id) { again += contents.at(id); });
    reef::fuzz::demand(again == text, "parts are the text");
  });
  return 0;
}
