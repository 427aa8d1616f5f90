// Training that is killed while it starts, computes and writes checkpoints, again and again, or of which
// a rank is stopped. After each kill its latest checkpoint is that of a training that nobody disturbed,
// bit by bit, and so are the weights at its end. REEF_CRASHES=100 kills a hundred times; every kill
// prints a row.

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <ostream>
#include <sstream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <reef/core/random.hpp>
#include <reef/io/checkpoint_folders.hpp>
#include <reef/io/manifest.hpp>

#include "../support/same_bits.hpp"
#include "../support/job.hpp"
#include "../support/temporary_folder.hpp"

namespace reef::test {

namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;
using testing::HasSubstr;
namespace fs = std::filesystem;

constexpr int ranks = 2;
constexpr auto patience = 180s;  // with what a busy machine is late
constexpr int tries = 20;         // of a kill, since on a busy machine it may come too late

struct Disturbed {
  const char* name;
  std::vector<std::string> recipe;  ///< options of reef-train
  int kills;                        ///< unless REEF_CRASHES has another number

  friend std::ostream& operator<<(std::ostream& out, const Disturbed& one) {
    return out << one.name;
  }
};

/// The number of the process above this one; 0 if it is gone.
int parent_of(int process) {
  std::ifstream file("/proc/" + std::to_string(process) + "/stat");
  std::string line;
  std::getline(file, line);
  const std::size_t name_end = line.rfind(')');  // "id (name) state parent ..."
  if (name_end == std::string::npos) return 0;
  std::istringstream rest(line.substr(name_end + 1));
  char state = 0;
  int parent = 0;
  rest >> state >> parent;
  return parent;
}

std::string executable_of(int process) {
  std::error_code ignored;
  return fs::read_symlink("/proc/" + std::to_string(process) + "/exe", ignored).string();
}

/// All processes below this one.
std::vector<int> descendants() {
  std::vector<std::pair<int, int>> all;  // process, parent
  for (const auto& entry : fs::directory_iterator("/proc")) {
    const int process = std::atoi(entry.path().filename().c_str());
    if (process > 0) all.emplace_back(process, parent_of(process));
  }
  std::vector<int> found{::getpid()};
  for (std::size_t i = 0; i < found.size(); ++i) {
    for (const auto& [process, parent] : all) {
      if (parent == found[i]) found.push_back(process);
    }
  }
  found.erase(found.begin());
  return found;
}

/// A job that is a child of this process. Its end ends all that it started.
class Job {
public:
  Job(const std::vector<std::string>& command, const fs::path& output) : output_(output) {
    std::vector<char*> arguments;
    for (const std::string& word : command) arguments.push_back(const_cast<char*>(word.c_str()));
    arguments.push_back(nullptr);
    launcher_ = ::fork();
    if (launcher_ != 0) return;
    const int file = ::open(output.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
    ::dup2(file, 1);
    ::dup2(file, 2);
    ::execvp(arguments[0], arguments.data());
    ::_exit(127);
  }
  ~Job() { end_all(); }
  Job(const Job&) = delete;
  Job& operator=(const Job&) = delete;

  [[nodiscard]] int launcher() const { return launcher_; }

  /// Whether the launcher has ended.
  bool ended() {
    int status = 0;
    if (!ended_ && ::waitpid(launcher_, &status, WNOHANG) == launcher_) {
      ended_ = true;
      status_ = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    }
    return ended_;
  }

  /// Waits for the launcher; its exit status, 128 and more for a signal, -1 after too long.
  int wait() {
    const auto begin = Clock::now();
    while (!ended() && Clock::now() - begin < patience) std::this_thread::sleep_for(2ms);
    return ended_ ? status_ : -1;
  }

  /// Ends what is left of the job, and waits until nothing is. What loses its parent is handed to
  /// this process (it is their subreaper), so that no number can have passed to a stranger.
  void end_all() {
    for (std::vector<int> left = descendants(); !left.empty(); left = descendants()) {
      for (const int process : left) ::kill(process, SIGKILL);
      while (::waitpid(-1, nullptr, 0) > 0) {
      }
    }
    ended_ = true;
  }

  /// Returns what came through the launcher.
  [[nodiscard]] std::string output() const {
    std::ifstream file(output_);
    return {std::istreambuf_iterator<char>(file), {}};
  }

private:
  fs::path output_;
  pid_t launcher_ = 0;
  bool ended_ = false;
  int status_ = -1;
};

class KilledTraining : public testing::TestWithParam<Disturbed> {
protected:
  KilledTraining() {
    ::prctl(PR_SET_CHILD_SUBREAPER, 1);
    std::ofstream text(folder_ / "text.txt");
    for (int i = 0; i < 400; ++i) {
      text << "the quick brown fox jumps over the lazy dog " << i % 10 << '\n';
    }
  }
  ~KilledTraining() override { EXPECT_TRUE(descendants().empty()); }

  [[nodiscard]] std::string path(const std::string& name) const {
    return (folder_ / name).string();
  }

  /// The job that trains `steps()` steps, with more options; its ranks write their errors there.
  [[nodiscard]] std::vector<std::string> training(const RankErrors& errors,
                                                  const std::vector<std::string>& more) const {
    std::istringstream launcher(REEF_TEST_MPIEXEC);
    std::vector<std::string> command{std::istream_iterator<std::string>(launcher), {}};
    const std::vector<std::string> options{"-n",
                                           std::to_string(ranks),
                                           "sh",
                                           errors.script(),
                                           REEF_TRAIN,
                                           "--data",
                                           path("text.txt"),
                                           "--model",
                                           "1x2x16",
                                           "--context",
                                           "16",
                                           "--batch",
                                           "4",
                                           "--lr",
                                           "0.01",
                                           "--prompt-bytes",
                                           "0",
                                           "--steps",
                                           std::to_string(steps())};
    command.insert(command.end(), options.begin(), options.end());
    command.insert(command.end(), GetParam().recipe.begin(), GetParam().recipe.end());
    command.insert(command.end(), more.begin(), more.end());
    return command;
  }

  [[nodiscard]] static int kills() {
    const char* const wanted = std::getenv("REEF_CRASHES");
    return wanted != nullptr ? std::atoi(wanted) : GetParam().kills;
  }

  /// So many that the kills do not reach the last one: each comes some steps after a resume.
  [[nodiscard]] static int steps() { return 6 * kills() + 30; }

  /// The last step at which that kill leaves room for those that follow, and for a last resume.
  [[nodiscard]] static std::uint64_t latest(int kill) {
    return static_cast<std::uint64_t>(steps() - 4 * (kills() - kill));
  }

  [[nodiscard]] std::uint64_t last_checkpoint() const {
    const auto all = io::complete_checkpoints(path("run"));
    return all.empty() ? 0 : all.back();
  }

  /// What a kill left of the checkpoint after the latest complete one.
  [[nodiscard]] std::string left_behind() const {
    const fs::path folder = io::checkpoint_folder(path("run"), last_checkpoint() + 1);
    if (!fs::exists(folder)) return "";
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(folder)) {
      std::string name = entry.path().filename().string();
      const std::size_t temporary = name.find(".tmp.");
      if (temporary != std::string::npos) name = name.substr(0, temporary) + " (unfinished)";
      names.push_back(std::move(name));
    }
    std::sort(names.begin(), names.end());
    std::string text = "step " + std::to_string(last_checkpoint() + 1) + ": ";
    for (const std::string& name : names) text += (&name == names.data() ? "" : ", ") + name;
    return text + (names.empty() ? "an empty folder" : "");
  }

  /// The checkpoint of that step is the undisturbed training's: its facts but for the time it took, and
  /// every byte of every tensor. The names of shards may differ, where a checkpoint has taken the place
  /// of another.
  void expect_undisturbed(std::uint64_t step) const {
    const fs::path folder = io::checkpoint_folder(path("run"), step);
    io::Manifest found = io::read_manifest(folder);
    io::Manifest wanted = io::read_manifest(io::checkpoint_folder(path("undisturbed"), step));
    for (io::Manifest* manifest : {&found, &wanted}) manifest->facts.at("user").erase("seconds");
    EXPECT_EQ(found.facts, wanted.facts);
    ASSERT_EQ(found.shards.size(), wanted.shards.size());
    for (std::size_t i = 0; i < found.shards.size(); ++i) {
      EXPECT_EQ(found.shards[i].bytes, wanted.shards[i].bytes);
      EXPECT_EQ(found.shards[i].header_crc32c, wanted.shards[i].header_crc32c);
      EXPECT_EQ(found.shards[i].tensors, wanted.shards[i].tensors);
      const io::CheckedShard shard(folder, found.shards[i]);
      for (const io::StoredTensor& tensor : shard.file().tensors()) {
        const Element element = tensor.dtype == "F64" ? Element::float64 : Element::float32;
        std::vector<double> values(static_cast<std::size_t>(tensor.bytes()) / sizeof(float));
        const Shape shape = tensor.shape.size() == 2 ? Shape{tensor.shape[0], tensor.shape[1]}
                                                     : Shape{tensor.shape[0]};
        EXPECT_NO_THROW(shard.read(tensor.name, {values.data(), shape, element}));
      }
    }
  }

  /// The job's ranks.
  [[nodiscard]] static std::vector<int> training_processes() {
    std::vector<int> found;
    for (const int process : descendants()) {
      if (executable_of(process) == fs::canonical(REEF_TRAIN).string()) found.push_back(process);
    }
    std::sort(found.begin(), found.end());
    return found;
  }

  /// Starts the training where the last kill left it, and kills it, or a part of it, as number `kill` says. Returns what was
  /// killed; "" where a busy machine was so late that too few steps were left: the checkpoints are as before, for another try.
  [[nodiscard]] std::string disturb(int kill) const {
    const Philox draw(static_cast<std::uint32_t>(kill), 0, 0, 0, 3, 0);
    const std::uint64_t before = last_checkpoint();
    const bool stops = kill % 5 == 4;
    std::vector<std::string> options{"--checkpoint", path("run"), "--checkpoint-every", "1",
                                     "--resume"};
    if (stops) options.insert(options.end(), {"--deadline", "8"});
    const RankErrors errors;
    Job job(training(errors, options), path("log"));

    // One to three checkpoints later, and a little: anywhere in a step or in a checkpoint. Every
    // fifth comes while the ranks start and resume.
    const bool early = kill % 5 == 3;
    const std::uint64_t until = before + (early ? 0 : 1 + draw.word[0] % 3);
    const auto begin = Clock::now();
    while ((last_checkpoint() < until || training_processes().size() < std::size_t{ranks}) &&
           !job.ended() && Clock::now() - begin < patience) {
      std::this_thread::sleep_for(1ms);
    }
    std::this_thread::sleep_for(
        std::chrono::microseconds(draw.word[1] % (early ? 400'000 : 20'000)));
    const std::vector<int> processes = training_processes();
    std::string killed;
    if (processes.size() < std::size_t{ranks}) {
      killed = "nobody";
    } else if (early || kill % 5 == 1) {
      for (const int process : processes) ::kill(process, SIGKILL);
      killed = early ? "all ranks, early" : "all ranks";
    } else if (stops || kill % 5 == 0) {
      const std::size_t victim = draw.word[2] % ranks;
      ::kill(processes[victim], stops ? SIGSTOP : SIGKILL);
      killed = "rank " + std::to_string(victim) + (stops ? ", stopped" : "");
    } else {
      ::kill(job.launcher(), SIGKILL);
      killed = "the launcher";
    }
    const int status = job.wait();
    job.end_all();

    const std::uint64_t after = last_checkpoint();
    if (after > latest(kill)) {
      for (std::uint64_t step = before + 1; step <= after; ++step) {
        fs::remove_all(io::checkpoint_folder(path("run"), step));
      }
      return "";
    }
    const std::string said = errors.of(0) + errors.of(1) + job.output();
    EXPECT_NE(killed, "nobody") << "it ended by itself, with status " << status << ":\n" << said;
    EXPECT_GT(status, 0) << said;
    EXPECT_GE(after, until) << said;
    if (stops) {
      EXPECT_THAT(said, HasSubstr("does not answer"));
    }
    if (before != 0 && !early) {
      EXPECT_THAT(errors.of(0), HasSubstr("resume: after step " + std::to_string(before)));
    }
    return killed;
  }

  /// Every byte of the exported weights.
  [[nodiscard]] std::string weights(const std::string& name) const {
    return io::read_file(path(name), 1 << 24);
  }

private:
  TemporaryFolder folder_;
};

}  // namespace

TEST_P(KilledTraining, ends_with_the_weights_of_the_undisturbed_one) {
  const RankErrors errors;
  {
    Job whole(training(errors, {"--export", path("whole"), "--checkpoint", path("undisturbed"),
                                "--checkpoint-every", "1"}),
              path("log"));
    ASSERT_EQ(whole.wait(), 0) << errors.of(0) << errors.of(1) << whole.output();
  }
  int torn = 0;  // kills that left a folder without a manifest
  std::string left;
  std::printf(
      "| kill | killed | resumed at | complete after it | left of the next checkpoint | equal |\n");
  std::printf("|---|---|---|---|---|---|\n");
  for (int kill = 0; kill < kills(); ++kill) {
    SCOPED_TRACE(testing::Message() << "kill " << kill);
    const std::uint64_t before = last_checkpoint();
    std::string killed;
    for (int time = 0; time < tries && killed.empty(); ++time) killed = disturb(kill);
    ASSERT_NE(killed, "") << "it came too late, " << tries << " times";

    const std::uint64_t after = last_checkpoint();
    if (after != 0) expect_undisturbed(after);
    const std::string left_before = std::exchange(left, left_behind());
    torn += left.empty() || left == left_before ? 0 : 1;
    std::printf("| %d | %s | %llu | %llu | %s | %s |\n", kill, killed.c_str(),
                static_cast<unsigned long long>(before), static_cast<unsigned long long>(after),
                left.c_str(), HasFailure() ? "NO" : "yes");
    std::fflush(stdout);
  }

  const std::uint64_t before = last_checkpoint();
  Job last(training(errors, {"--checkpoint", path("run"), "--resume", "--export", path("resumed")}),
           path("log"));
  ASSERT_EQ(last.wait(), 0) << errors.of(0) << errors.of(1) << last.output();
  EXPECT_THAT(errors.of(0), HasSubstr("resume: after step " + std::to_string(before)));
  EXPECT_TRUE(same_bits(weights("resumed"), weights("whole")));
  expect_undisturbed(static_cast<std::uint64_t>(steps()));
  std::printf("%d kills, %d of them inside a checkpoint; %llu of %d steps were left\n", kills(),
              torn, static_cast<unsigned long long>(static_cast<std::uint64_t>(steps()) - before),
              steps());
}

// Acco keeps a pending gradient beside what every recipe keeps: a training goes on with its bits. Of all axes at once each
// rank saves what its stage holds, in host memory.
INSTANTIATE_TEST_SUITE_P(
    Recipes, KilledTraining,
    testing::Values(Disturbed{"zero1", {"--recipe", "zero1"}, 10},
                    Disturbed{"acco", {"--recipe", "acco", "--accumulate", "fixed:2"}, 5},
                    Disturbed{"reef", {"--recipe", "reef", "--micro-batches", "2", "--activations", "stash"}, 4}),
    [](const auto& tested) { return std::string(tested.param.name); });

}  // namespace reef::test
