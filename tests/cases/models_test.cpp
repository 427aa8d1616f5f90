// Models of Hugging Face with known logits and tokens: every folder of tests/data, and of the folder that REEF_CASES names,
// that has a config.json and an expected.json is one.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <reef/core/finite.hpp>
#include <reef/device/host.hpp>
#include <reef/io/json.hpp>
#include <reef/nn/generator.hpp>
#include <reef/nn/host.hpp>
#include <reef/nn/model_folder.hpp>

namespace reef::test {
namespace {

namespace fs = std::filesystem;
using device::Host;
using Tokens = std::vector<std::int32_t>;

/// Of two folders of one name, that of REEF_CASES.
std::map<std::string, fs::path> model_folders() {
  std::map<std::string, fs::path> found;
  const char* const others = std::getenv("REEF_CASES");
  for (const char* const place : {REEF_TEST_DATA, others}) {
    if (place == nullptr || !fs::is_directory(place)) continue;
    for (const auto& entry : fs::directory_iterator(place)) {
      if (exists(entry.path() / "config.json") && exists(entry.path() / "expected.json"))
        found[entry.path().filename().string()] = entry.path();
    }
  }
  return found;
}

/// A folder's model in fp32, its weights read.
class Model {
public:
  Model(const fs::path& folder, std::int64_t sequence)
      : graph_(nn::model_of<Host, float>(folder, {.sequence = sequence}, host_.threads())),
        generator_(host_, graph_) {
    nn::read_weights<float>(folder, graph_.dag(), [&](const auto& name, const auto& values) {
      generator_.set_parameter(name, values);
    });
  }
  nn::Generator<Host, float>& generator() { return generator_; }

private:
  Host host_{{.threads = 2}};
  graph::Graph<Host, float> graph_;
  nn::Generator<Host, float> generator_;
};

TEST(Models, have_the_logits_and_the_greedy_tokens_of_their_cases) {
  const auto folders = model_folders();
  EXPECT_GE(folders.size(), 11U);
  for (const auto& [name, folder] : folders) {
    SCOPED_TRACE(name);
    const std::string file = (folder / "expected.json").string();
    const io::Json expected = io::read_json(file);
    const auto tokens = io::require<Tokens>(expected, "tokens", file);
    const auto greedy = io::require<Tokens>(expected, "greedy", file);
    const auto logits = io::require<std::vector<std::vector<double>>>(expected, "logits", file);
    Model model(folder, static_cast<std::int64_t>(tokens.size() + greedy.size()));

    ASSERT_EQ(logits.size(), tokens.size());
    double largest = 0, furthest = 0;
    for (std::size_t t = 0; t < tokens.size(); ++t) {
      const std::vector<float> own = model.generator().logits(
          Tokens(tokens.begin(), tokens.begin() + static_cast<std::ptrdiff_t>(t) + 1));
      ASSERT_EQ(own.size(), logits[t].size());
      for (std::size_t v = 0; v < own.size(); ++v) {
        largest = (std::max)(largest, std::abs(logits[t][v]));
        ASSERT_TRUE(is_finite(own[v])) << t;
        furthest = (std::max)(furthest, std::abs(static_cast<double>(own[v]) - logits[t][v]));
      }
    }
    EXPECT_LE(furthest, 1e-5 * largest);

    Tokens wanted = tokens;
    wanted.insert(wanted.end(), greedy.begin(), greedy.end());
    EXPECT_EQ(model.generator().generate(
                  tokens, {.tokens = static_cast<std::int64_t>(greedy.size()), .temperature = 0}),
              wanted);
  }
}

}  // namespace
}  // namespace reef::test
