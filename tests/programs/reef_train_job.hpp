#pragma once

#include <chrono>
#include <cstddef>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <reef/io/json.hpp>
#include <reef/io/safetensors.hpp>

#include "../support/job.hpp"
#include "../support/temporary_folder.hpp"

namespace reef::test {

/// A folder for jobs of reef-train, and what they leave in it.
class ReefTrainFolder : public testing::Test {
protected:
  [[nodiscard]] std::string path(const std::string& name) const {
    return (folder_ / name).string();
  }
  void write(const std::string& name, const std::string& bytes) const {
    write_file(path(name), bytes);
  }
  /// So many lines about an animal, of which the numbers come again after `period`.
  [[nodiscard]] static std::string story(int count, int period = 10,
                                         const std::string& animal = "fox") {
    std::string text;
    for (int i = 0; i < count; ++i)
      text += "the quick brown " + animal + " jumps over the lazy dog " +
              std::to_string(i % period) + "\n";
    return text;
  }

  [[nodiscard]] std::vector<io::Json> lines(const std::string& name) const {
    std::ifstream file(path(name));
    std::vector<io::Json> result;
    for (std::string line; std::getline(file, line) && !file.eof();) {
      result.push_back(io::parse_json(line, name));
    }
    return result;
  }

  /// The processes of this program, not their launcher, that name this file on their command line.
  [[nodiscard]] static std::vector<int> processes_with(const std::string& file,
                                                       const std::string& program = REEF_TRAIN) {
    std::vector<int> found;
    for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
      const int id = std::atoi(entry.path().filename().c_str());
      if (id <= 0) continue;
      std::ifstream stream(entry.path() / "cmdline");
      const std::string command((std::istreambuf_iterator<char>(stream)), {});
      if (command.starts_with(program) && command.find(file) != std::string::npos)
        found.push_back(id);
    }
    return found;
  }

  using Clock = std::chrono::steady_clock;

  /// Whether it has become so, in two minutes at most.
  template <class F>
  [[nodiscard]] static bool becomes(const F& so) {
    for (int tries = 0; tries < 6000; ++tries) {
      if (so()) return true;
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
    return false;
  }

  /// The bytes of a file's tensors.
  [[nodiscard]] std::vector<std::vector<std::byte>> tensors(const std::string& name) const {
    const io::SafetensorsFile file(path(name));
    std::vector<std::vector<std::byte>> result;
    for (const io::StoredTensor& tensor : file.tensors()) {
      result.emplace_back(static_cast<std::size_t>(tensor.bytes()));
      file.read(tensor, result.back());
    }
    return result;
  }

private:
  TemporaryFolder folder_;
};

/// Jobs on one text, with a model that trains in a moment.
class ReefTrain : public ReefTrainFolder {
protected:
  ReefTrain() { write("text.txt", story(400)); }

  [[nodiscard]] Ending train(int ranks, const std::string& options) const {
    return run_ranks(REEF_TEST_MPIEXEC, ranks,
                     REEF_TRAIN " --data " + path("text.txt") +
                         " --model 1x2x16 --context 16 --batch 4 --lr 0.01 --prompt-bytes 20 " +
                         options);
  }

  /// Holds that such a job ends before it trains, and says this.
  void refused(int ranks, const std::string& options, const std::string& why) const {
    const Ending end = train(ranks, options);
    EXPECT_NE(end.status, 0) << options;
    EXPECT_THAT(end.errors, testing::HasSubstr(why)) << options;
    EXPECT_THAT(end.errors, testing::Not(testing::HasSubstr("held-out loss:"))) << options;
  }
};

}  // namespace reef::test
