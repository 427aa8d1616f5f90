// reef-swarm as a user runs it: processes that are killed, that join and leave, and what the log says of them.

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <memory>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <reef/core/text.hpp>
#include <reef/io/json.hpp>

#include "support/free_port.hpp"
#include "support/job.hpp"
#include "support/raw_connection.hpp"
#include "support/temporary_folder.hpp"

namespace reef::test {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

std::string text_of_file(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

/// Returns whether it has become so, in two minutes at most.
template <class F>
bool comes_true(const F& so) {
  for (int tries = 0; tries < 2400; ++tries) {
    if (so()) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  return false;
}

/// Returns what a page of this machine answers; empty where nobody does.
std::string page_of(std::uint16_t port, const std::string& path) {
  const RawConnection reader(port);
  if (!reader.connected()) return {};
  reader.send(concat("GET ", path, " HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"));
  return reader.all();
}

/// A process of reef-swarm in the background, which ends with this object.
class SwarmProcess {
public:
  SwarmProcess(const std::filesystem::path& log, const std::string& options) : log_(log) {
    const std::string command = concat("exec ", REEF_SWARM, " ", options, " > '", log.string(), "' 2>&1");
    process_ = ::fork();
    if (process_ == 0) {
      ::execl("/bin/sh", "sh", "-c", command.c_str(), static_cast<char*>(nullptr));
      ::_exit(127);
    }
  }
  ~SwarmProcess() {
    if (!ended_) signal(SIGKILL);
    wait();
  }
  SwarmProcess(const SwarmProcess&) = delete;
  SwarmProcess& operator=(const SwarmProcess&) = delete;

  void signal(int number) const { ::kill(process_, number); }
  [[nodiscard]] std::string log() const { return text_of_file(log_); }

  /// Returns the exit status; -1 after a signal, or where it does not end in two minutes.
  int wait() {
    if (ended_) return status_;
    int status = 0;
    ended_ = comes_true([&] { return ::waitpid(process_, &status, WNOHANG) == process_; });
    if (ended_ && WIFEXITED(status)) status_ = WEXITSTATUS(status);
    return status_;
  }

private:
  std::filesystem::path log_;
  ::pid_t process_ = -1;
  bool ended_ = false;
  int status_ = -1;
};

class ReefSwarm : public testing::Test {
protected:
  ReefSwarm() {
    std::string text;
    for (int i = 0; i < 600; ++i) text += concat("the quick brown fox jumps over the lazy dog ", i * i % 97, "\n");
    write_file(path("text.txt"), text);
    serve();
  }

  /// Starts a server of the log, in place of the one before.
  void serve(const std::string& more = "") {
    server_.reset();
    std::filesystem::remove(path("port"));
    server_ = std::make_unique<SwarmProcess>(
        path("port"), concat("log-server --listen 127.0.0.1:0 --dir '", path("log"), "' ", more));
    EXPECT_TRUE(comes_true([&] { return server_->log().ends_with("\n"); })) << server_->log();
    std::istringstream(server_->log()) >> port_;
  }

  [[nodiscard]] std::string path(const std::string& name) const { return (folder_ / name).string(); }
  [[nodiscard]] std::string url() const { return concat("--log http://127.0.0.1:", port_); }

  /// The options of what is trained, by peers and by a replay.
  [[nodiscard]] std::string job(int rounds, const std::string& export_to) const {
    return concat(url(), " --rounds ", rounds,
                  " --global-batch 6 --layers 1 --heads 2 --channels 32 --context 32 --batch 2",
                  " --threads 1 --data '", path("text.txt"), "' --export '", path(export_to + ".safetensors"), "'");
  }
  [[nodiscard]] std::unique_ptr<SwarmProcess> peer(const std::string& name, int rounds, int members,
                                                   const std::string& more = "") const {
    return std::make_unique<SwarmProcess>(
        path(name + ".log"), concat("train --plain-loopback --job test --name ", name, " --members ", members, " ",
                                    job(rounds, name), " --metrics '", path(name + ".jsonl"), "' ", more));
  }
  [[nodiscard]] std::int64_t rounds_of(const std::string& name) const {
    const std::string lines = text_of_file(path(name + ".jsonl"));
    return std::count(lines.begin(), lines.end(), '\n');
  }
  [[nodiscard]] std::string weights(const std::string& name) const { return text_of_file(path(name + ".safetensors")); }
  [[nodiscard]] io::Json log() const {
    const Ending ending = run_command(concat(REEF_SWARM, " log --json ", url()));
    EXPECT_EQ(ending.status, 0) << ending;
    return io::parse_json(ending.output, "reef-swarm log");
  }

  TemporaryFolder folder_;
  std::unique_ptr<SwarmProcess> server_;
  int port_ = 0;
};

/// Throws unless the indices that rounds have are each there once, and as many as the account says.
void expect_account_adds_up(const io::Json& log) {
  std::map<std::int64_t, int> times;
  for (const io::Json& round : log.at("rounds")) {
    if (!round.at("applied").get<bool>()) continue;
    for (const io::Json& contributor : round.at("contributors")) {
      for (const io::Json& run : contributor.at("numbers")) {
        for (std::int64_t k = 0; k < run.at(2).get<std::int64_t>(); ++k) {
          ++times[run.at(0).get<std::int64_t>() + k * run.at(1).get<std::int64_t>()];
        }
      }
    }
  }
  for (const auto& [index, count] : times) EXPECT_EQ(count, 1) << index;
  const io::Json& ledger = log.at("ledger");
  const auto committed = ledger.at("committed").get<std::int64_t>();
  EXPECT_EQ(committed, static_cast<std::int64_t>(times.size()));
  EXPECT_EQ(
      committed + ledger.at("quarantined").get<std::int64_t>() + static_cast<std::int64_t>(ledger.at("holes").size()),
      ledger.at("open").get<std::int64_t>());
}

}  // namespace

TEST_F(ReefSwarm, peers_of_which_one_is_killed_and_one_joins_end_with_the_weights_of_a_replay) {
  constexpr int rounds = 120;
  const std::string slow = "--pace 0.03";  // the job takes a while, so that who joins finds it
  const auto a = peer("a", rounds, 3, slow);
  const auto b = peer("b", rounds, 3, slow);
  const auto c = peer("c", rounds, 3, slow);
  ASSERT_TRUE(comes_true([&] { return rounds_of("a") >= 4; })) << a->log();
  c->signal(SIGKILL);
  EXPECT_EQ(c->wait(), -1);
  const auto d = peer("d", rounds, 3, slow);
  EXPECT_EQ(a->wait(), 0) << a->log();
  EXPECT_EQ(b->wait(), 0) << b->log();
  EXPECT_EQ(d->wait(), 0) << d->log();
  ASSERT_THAT(weights("a"), Not(IsEmpty()));
  EXPECT_EQ(weights("a"), weights("b"));
  EXPECT_EQ(weights("a"), weights("d"));

  const io::Json said = log();
  EXPECT_EQ(said.at("round"), rounds);
  EXPECT_GE(said.at("views").size(), 2U) << "of three, and without c";
  expect_account_adds_up(said);

  const Ending replay = run_command(concat(REEF_SWARM, " replay ", job(rounds, "replay")));
  EXPECT_EQ(replay.status, 0) << replay;
  EXPECT_EQ(weights("a"), weights("replay"));

  // A peer's archive tells and replays the same without a log.
  server_.reset();
  const std::string archive = concat(" --archive '", path("a.safetensors.log"), "'");
  const Ending told = run_command(concat(REEF_SWARM, " log --json", archive));
  EXPECT_EQ(told.status, 0) << told;
  EXPECT_EQ(io::parse_json(told.output, "reef-swarm log").at("rounds"), said.at("rounds"));
  std::string options = job(rounds, "archived");
  options.erase(0, options.find(" --rounds"));
  const Ending archived = run_command(concat(REEF_SWARM, " replay ", archive, options));
  EXPECT_EQ(archived.status, 0) << archived;
  EXPECT_EQ(weights("a"), weights("archived"));
  const Ending none = run_command(concat(REEF_SWARM, " log --archive '", path("none"), "'"));
  EXPECT_EQ(none.status, 2) << none;
  EXPECT_THAT(none.errors, HasSubstr("no log is there"));

  const Ending other = run_command(concat(REEF_SWARM, " replay ", archive, options, " --seed 2"));
  EXPECT_EQ(other.status, 2);
  EXPECT_THAT(other.errors, HasSubstr("the log is of a job with another model, seed"));
}

TEST_F(ReefSwarm, peers_that_have_all_ended_begin_with_the_checkpoint_and_end_with_the_weights_of_a_replay) {
  constexpr int rounds = 60;
  constexpr int every = 10;
  const std::string kept = concat(" --checkpoint-every ", every);
  const std::string slow = kept + " --pace 0.03";
  {
    const auto a = peer("a", rounds, 2, slow);
    const auto b = peer("b", rounds, 2, slow);
    const auto is_further = [&] {
      return a->log().find("0: kept by a, b") != std::string::npos && rounds_of("a") > every + 2;
    };
    ASSERT_TRUE(comes_true(is_further)) << a->log();
    a->signal(SIGKILL);
    b->signal(SIGKILL);
    EXPECT_EQ(a->wait(), -1);
    EXPECT_EQ(b->wait(), -1);
  }
  const io::Json before = log();
  const auto last = before.at("checkpoint").at("rounds").get<std::int64_t>();
  EXPECT_EQ(last % every, 0);
  ASSERT_LT(last, rounds);
  if (before.at("round").get<std::int64_t>() > last) {
    const Ending behind = run_command(concat(REEF_SWARM, " rollback ", url(), " --rounds ", last - 1));
    EXPECT_EQ(behind.status, 2) << behind;
    EXPECT_THAT(behind.errors, HasSubstr("behind the checkpoint after"));
    const Ending back = run_command(concat(REEF_SWARM, " rollback ", url(), " --rounds ", last));
    EXPECT_EQ(back.status, 0) << back;
  }
  {
    const auto a = peer("a", rounds, 2, slow);
    const auto b = peer("b", rounds, 2, slow);
    const auto c = peer("c", rounds, 2, slow);  // has kept nothing, and gets the state of the others
    for (const auto* one : {&a, &b, &c}) EXPECT_EQ((*one)->wait(), 0) << (*one)->log();
    for (const auto* one : {&a, &b})
      EXPECT_THAT((*one)->log(), HasSubstr(concat("begins with the state that it has kept after round ", last)));
  }
  ASSERT_THAT(weights("a"), Not(IsEmpty()));
  EXPECT_EQ(weights("a"), weights("b"));
  EXPECT_EQ(weights("a"), weights("c"));
  const io::Json said = log();
  EXPECT_EQ(said.at("round"), rounds);
  EXPECT_EQ(said.at("ignored"), 0);
  EXPECT_EQ(said.at("checkpoint").at("rounds"), rounds) << "who has done all rounds stays until it is decided";
  expect_account_adds_up(said);
  const Ending replay = run_command(concat(REEF_SWARM, " replay ", job(rounds, "replay"), kept));
  EXPECT_EQ(replay.status, 0) << replay;
  EXPECT_EQ(weights("a"), weights("replay")) << "which computes all rounds from the first one on";

  // What is left of a job that is done gives its weights again.
  const std::string done = weights("a");
  for (const char* name : {"a", "b"}) std::filesystem::remove(path(concat(name, ".safetensors")));
  const auto a = peer("a", rounds, 2, kept);
  const auto b = peer("b", rounds, 2, kept);
  EXPECT_EQ(a->wait(), 0) << a->log();
  EXPECT_EQ(b->wait(), 0) << b->log();
  EXPECT_THAT(a->log(), HasSubstr(concat("begins with the state that it has kept after round ", rounds)));
  EXPECT_EQ(weights("a"), done);
  EXPECT_EQ(weights("b"), done);
  EXPECT_EQ(log().at("round"), rounds);

  const auto other = peer("d", rounds, 2, "--checkpoint-every 7");
  EXPECT_EQ(other->wait(), 2);
  EXPECT_THAT(other->log(), HasSubstr("the log is of a job with another number of rounds between checkpoints"));
}

TEST_F(ReefSwarm, a_server_that_cuts_its_log_keeps_what_the_job_needs_and_archives_keep_all) {
  constexpr int rounds = 40;
  serve("--cut");
  const std::string kept = " --checkpoint-every 5";
  const auto a = peer("a", rounds, 1, kept);
  EXPECT_EQ(a->wait(), 0) << a->log();
  EXPECT_TRUE(comes_true([&] { return log().at("forgotten") >= rounds - 10; })) << log();
  serve("--cut");
  const io::Json said = log();
  const auto forgotten = said.at("forgotten").get<std::int64_t>();
  EXPECT_LT(forgotten, rounds);
  EXPECT_EQ(said.at("round"), rounds);
  EXPECT_EQ(said.at("ignored"), 0);
  EXPECT_EQ(said.at("rounds").at(0).at("round"), forgotten);
  EXPECT_EQ(said.at("ledger").at("committed").get<std::int64_t>() +
                static_cast<std::int64_t>(said.at("ledger").at("holes").size()),
            said.at("ledger").at("open").get<std::int64_t>());
  const Ending cut = run_command(concat(REEF_SWARM, " replay ", job(rounds, "cut"), kept));
  EXPECT_EQ(cut.status, 2) << cut;
  EXPECT_THAT(cut.errors, HasSubstr(concat("the log has dropped its first ", forgotten, " rounds")));
  std::string options = job(rounds, "archived");
  options.erase(0, options.find(" --rounds"));
  const std::string archive = concat(" --archive '", path("a.safetensors.log"), "'");
  const Ending archived = run_command(concat(REEF_SWARM, " replay ", archive, options, kept));
  EXPECT_EQ(archived.status, 0) << archived;
  ASSERT_THAT(weights("a"), Not(IsEmpty()));
  EXPECT_EQ(weights("a"), weights("archived"));

  // Who comes later begins with the checkpoint that the log begins with.
  std::filesystem::remove(path("a.safetensors"));
  const auto again = peer("a", rounds, 1, kept);
  EXPECT_EQ(again->wait(), 0) << again->log();
  EXPECT_EQ(weights("a"), weights("archived"));
}

TEST_F(ReefSwarm, peers_that_send_encoded_sums_end_with_the_weights_of_a_replay) {
  constexpr int rounds = 12;
  const std::string codec = " --codec ef:0.9+top-k:10,bf16";
  const auto a = peer("a", rounds, 2, codec);
  const auto b = peer("b", rounds, 2, codec);
  EXPECT_EQ(a->wait(), 0) << a->log();
  EXPECT_EQ(b->wait(), 0) << b->log();
  ASSERT_THAT(weights("a"), Not(IsEmpty()));
  EXPECT_EQ(weights("a"), weights("b"));
  const Ending replay = run_command(concat(REEF_SWARM, " replay ", job(rounds, "replay"), codec));
  EXPECT_EQ(replay.status, 0) << replay;
  EXPECT_EQ(weights("a"), weights("replay"));
  const Ending plain = run_command(concat(REEF_SWARM, " replay ", job(rounds, "plain")));
  EXPECT_EQ(plain.status, 2);
  EXPECT_THAT(plain.errors, HasSubstr("the log is of a job with another codec"));
  const Ending none = run_command(concat(REEF_SWARM, " replay ", job(rounds, "none"), " --codec zip"));
  EXPECT_NE(none.status, 0);
  EXPECT_THAT(none.errors, HasSubstr("there is no 'zip'"));
}

TEST_F(ReefSwarm, peers_that_step_on_their_own_between_rounds_end_with_the_weights_of_a_replay) {
  constexpr int rounds = 14;
  const std::string outer = " --recipe outer --every 3";
  const std::string slow = outer + " --pace 0.03";
  const auto a = peer("a", rounds, 3, slow);
  const auto b = peer("b", rounds, 3, slow);
  const auto c = peer("c", rounds, 3, slow);
  ASSERT_TRUE(comes_true([&] { return rounds_of("a") >= 2; })) << a->log();
  c->signal(SIGKILL);
  EXPECT_EQ(c->wait(), -1);
  EXPECT_EQ(a->wait(), 0) << a->log();
  EXPECT_EQ(b->wait(), 0) << b->log();
  ASSERT_THAT(weights("a"), Not(IsEmpty()));
  EXPECT_EQ(weights("a"), weights("b"));
  expect_account_adds_up(log());
  const Ending replay = run_command(concat(REEF_SWARM, " replay ", job(rounds, "replay"), outer));
  EXPECT_EQ(replay.status, 0) << replay;
  EXPECT_EQ(weights("a"), weights("replay"));
  const Ending averaged = run_command(concat(REEF_SWARM, " replay ", job(rounds, "averaged")));
  EXPECT_EQ(averaged.status, 2);
  EXPECT_THAT(averaged.errors, HasSubstr("the log is of a job with another recipe"));
  const Ending swapped = run_command(concat(REEF_SWARM, " replay ", job(rounds, "swapped"), outer, " --swap atom"));
  EXPECT_EQ(swapped.status, 2);
  EXPECT_THAT(swapped.errors, HasSubstr("--recipe outer with --swap atom"));
}

TEST_F(ReefSwarm, sparse_is_outer_with_the_options_by_hand) {
  constexpr int rounds = 5;
  const std::string by_hand =
      " --recipe outer --every 3 --codec ef:0.95+chunk-top-k:64/4096+two-bit --outer-momentum 0";
  const auto a = peer("a", rounds, 2, " --recipe sparse --every 3");
  const auto b = peer("b", rounds, 2, by_hand);
  EXPECT_EQ(a->wait(), 0) << a->log();
  EXPECT_EQ(b->wait(), 0) << b->log();
  ASSERT_THAT(weights("a"), Not(IsEmpty()));
  EXPECT_EQ(weights("a"), weights("b"));
  for (const std::string& options : {std::string(" --recipe sparse --every 3"), by_hand}) {
    const Ending replay = run_command(concat(REEF_SWARM, " replay ", job(rounds, "replay"), options));
    EXPECT_EQ(replay.status, 0) << replay;
    EXPECT_EQ(weights("a"), weights("replay"));
  }
  const Ending other =
      run_command(concat(REEF_SWARM, " replay ", job(rounds, "other"), " --recipe sparse --every 3 --codec bf16"));
  EXPECT_EQ(other.status, 2) << "what is given stands before what the recipe sets";
  EXPECT_THAT(other.errors, HasSubstr("the log is of a job with another codec"));
}

TEST_F(ReefSwarm, a_peer_without_data_gets_it_from_the_others_and_trains) {
  constexpr int rounds = 60;
  const std::string slow = "--pace 0.03";
  const auto a = peer("a", rounds, 2, slow);
  const auto b = peer("b", rounds, 2, slow);
  ASSERT_TRUE(comes_true([&] { return rounds_of("a") >= 2; })) << a->log();
  std::string options = job(rounds, "c");
  const std::string data = concat("--data '", path("text.txt"), "'");
  options.replace(options.find(data), data.size(), concat("--data-from-peers '", path("data"), "'"));
  const std::string command = concat("train --plain-loopback --job test --name c ", slow, " ", options, " --metrics '",
                                     path("c.jsonl"), "'");
  SwarmProcess c(path("c.log"), command);
  ASSERT_TRUE(comes_true([&] { return c.log().find("shards, of which 0 are there") != std::string::npos; })) << c.log();
  b->signal(SIGKILL);
  EXPECT_EQ(a->wait(), 0) << a->log();
  EXPECT_EQ(c.wait(), 0) << c.log();
  EXPECT_EQ(text_of_file(path("data/000000-text.txt")), text_of_file(path("text.txt")));
  ASSERT_THAT(weights("a"), Not(IsEmpty()));
  EXPECT_EQ(weights("a"), weights("c"));
  EXPECT_GT(rounds_of("c"), 0);
  const Ending both = run_command(concat(REEF_SWARM, " ", command, " ", data));
  EXPECT_EQ(both.status, 2);
  EXPECT_THAT(both.errors, HasSubstr("--data excludes --data-from-peers"));
}

TEST_F(ReefSwarm, a_peer_that_is_asked_to_end_leaves_and_the_others_go_on) {
  constexpr int rounds = 60;
  const auto a = peer("a", rounds, 2, concat("--pace 0.03 --report '", path("a.json"), "'"));
  const auto b = peer("b", rounds, 2, concat("--pace 0.03 --report '", path("b.json"), "'"));
  ASSERT_TRUE(comes_true([&] { return rounds_of("b") >= 2; })) << b->log();
  b->signal(SIGTERM);
  EXPECT_EQ(b->wait(), 0) << b->log();
  EXPECT_THAT(b->log(), HasSubstr("b has left test after a signal; nothing is exported"));
  EXPECT_EQ(a->wait(), 0) << a->log();
  EXPECT_THAT(weights("a"), Not(IsEmpty()));
  EXPECT_THAT(weights("b"), IsEmpty());
  expect_account_adds_up(log());
  EXPECT_THAT(b->log(), HasSubstr("report of b after "));
  const io::Json left = io::parse_json(text_of_file(path("b.json")), "b.json");
  const io::Json stayed = io::parse_json(text_of_file(path("a.json")), "a.json");
  EXPECT_LT(left.at("rounds"), rounds);
  EXPECT_EQ(stayed.at("rounds"), rounds);
  EXPECT_EQ(stayed.at("micro_batches").at("committed"), log().at("ledger").at("committed"));
  std::int64_t micro_batches = 0;
  std::string names;
  for (const io::Json& peer : stayed.at("peers")) {
    names += peer.at("name").get<std::string>();
    micro_batches += peer.at("micro_batches").get<std::int64_t>();
    EXPECT_EQ(peer.at("stays").at(0).at("came").at("round"), 0);
  }
  EXPECT_EQ(names, "ab");
  EXPECT_EQ(stayed.at("micro_batches").at("committed"), micro_batches);
  EXPECT_LE(stayed.at("peers").at(1).at("stays").at(0).at("went").at("round"), left.at("rounds"));
  for (const io::Json& report : {left, stayed}) {
    double waited = 0;
    for (const io::Json& seconds : report.at("waited")) waited += seconds.get<double>();
    EXPECT_GT(waited, 0);
    EXPECT_LE(waited, report.at("seconds").get<double>());
    EXPECT_GT(report.at("sent_bytes"), 0);
    EXPECT_GT(report.at("received_bytes"), 0);
  }
}

TEST_F(ReefSwarm, a_peer_tells_prometheus_what_it_does_while_it_trains) {
  constexpr int rounds = 40;
  const std::uint16_t port = free_port();
  const auto a = peer("a", rounds, 1, concat("--pace 0.03 --prometheus 127.0.0.1:", port));
  ASSERT_TRUE(comes_true([&] { return rounds_of("a") >= 2; })) << a->log();
  const std::string page = page_of(port, "/metrics");
  EXPECT_THAT(page, HasSubstr("HTTP/1.1 200 OK"));
  EXPECT_THAT(page, HasSubstr("\nreef_swarm_members 1\n"));
  EXPECT_THAT(page, HasSubstr("\nreef_swarm_peer_info{job=\"test\",peer=\"a\""));
  EXPECT_THAT(page, HasSubstr("\nreef_swarm_waited_seconds_total{cause=\"commit\"} "));
  EXPECT_THAT(page_of(port, "/"), HasSubstr("HTTP/1.1 404"));
  EXPECT_EQ(a->wait(), 0) << a->log();
  EXPECT_THAT(page_of(port, "/metrics"), IsEmpty()) << "the page ends with the peer";
  const auto far = peer("b", rounds, 1, "--prometheus 0.0.0.0:9100");
  EXPECT_EQ(far->wait(), 2);
  EXPECT_THAT(far->log(), HasSubstr("fix: a loopback address"));
}

TEST_F(ReefSwarm, a_rollback_opens_the_micro_batches_of_later_rounds_again) {
  const auto a = peer("a", 4, 1);
  ASSERT_EQ(a->wait(), 0) << a->log();
  const auto before = log().at("ledger").at("committed").get<std::int64_t>();
  const Ending refused = run_command(concat(REEF_SWARM, " rollback ", url(), " --rounds 4"));
  EXPECT_EQ(refused.status, 2) << refused;
  EXPECT_THAT(refused.errors, HasSubstr("fewer than the 4 rounds"));
  const Ending done = run_command(concat(REEF_SWARM, " rollback ", url(), " --rounds 2 --why 'a test'"));
  EXPECT_EQ(done.status, 0) << done;
  EXPECT_THAT(done.output, HasSubstr("the job is after 2 rounds; it was after 4"));
  const io::Json said = log();
  EXPECT_EQ(said.at("round"), 2);
  EXPECT_EQ(said.at("rollbacks"), 1);
  EXPECT_LT(said.at("ledger").at("committed").get<std::int64_t>(), before);
  expect_account_adds_up(said);
}

TEST_F(ReefSwarm, refuses_peers_of_another_job_and_those_without_encryption_that_nobody_asked_for) {
  const auto a = peer("a", 2, 1);
  ASSERT_EQ(a->wait(), 0) << a->log();
  const auto other = peer("b", 2, 1, concat("--seed 7 --report '", path("b.json"), "'"));
  EXPECT_EQ(other->wait(), 2);
  EXPECT_THAT(other->log(), HasSubstr("the log is of a job with another model, seed"));
  const io::Json report = io::parse_json(text_of_file(path("b.json")), "b.json");
  EXPECT_THAT(report.at("error").get<std::string>(), HasSubstr("the log is of a job with another model, seed"));
  EXPECT_EQ(report.at("name"), "b");
  const auto silent = peer("d", 2, 1, "--suspect 30");
  EXPECT_EQ(silent->wait(), 2);
  EXPECT_THAT(silent->log(), HasSubstr("--suspect 30 with --exchange 30"));
  const Ending plain = run_command(concat(REEF_SWARM, " train --name c ", job(2, "c")));
  EXPECT_EQ(plain.status, 2);
  EXPECT_THAT(plain.errors, HasSubstr("neither --keys nor --plain-loopback"));
}

TEST_F(ReefSwarm, a_job_over_three_keepers_goes_on_when_one_is_killed) {
  if (::access("/usr/bin/etcd", X_OK) != 0) GTEST_SKIP() << "there is no /usr/bin/etcd: apt-get install etcd-server";
  const std::string keys = concat(" --keys '", path("keys"), "'");
  const auto issue = [&](const std::string& what) {
    EXPECT_EQ(run_command(concat(REEF_SWARM, " keys issue --dir '", path("keys"), "' --name ", what)).status, 0);
  };
  EXPECT_EQ(run_command(concat(REEF_SWARM, " keys make --job test --dir '", path("keys"), "'")).status, 0);
  for (const char* peer : {"a", "b"}) issue(peer);
  issue("reader --role client");
  std::string cluster;
  for (int i = 0; i < 3; ++i) {
    issue(concat("k", i, " --role keeper"));
    cluster += concat(i == 0 ? "" : ",", "k", i, "=127.0.0.1:", free_port());
  }
  std::vector<std::unique_ptr<SwarmProcess>> keepers;
  std::string urls;
  for (int i = 0; i < 3; ++i) {
    const std::string name = concat("k", i);
    keepers.push_back(std::make_unique<SwarmProcess>(
        path(name + ".out"),
        concat("keeper --name ", name, " --cluster ", cluster, " --dir '", path(name), "'", keys)));
    ASSERT_TRUE(comes_true([&] { return keepers.back()->log().ends_with("\n"); }));
    const std::string port = keepers.back()->log();
    urls += concat(i == 0 ? "" : ",", "https://127.0.0.1:", port.substr(0, port.size() - 1));
  }
  constexpr int rounds = 40;
  std::string options = job(rounds, "");
  options.erase(0, options.find(" --rounds"));
  options.erase(options.find(" --export"));
  const std::string at = concat(" --keepers ", urls, keys);
  const auto kept = [&](const std::string& name) {
    return std::make_unique<SwarmProcess>(
        path(name + ".log"),
        concat("train --job test --members 2 --pace 0.03 --name ", name, at, options, " --export '",
               path(name + ".safetensors"), "' --metrics '", path(name + ".jsonl"), "'"));
  };
  const auto a = kept("a");
  const auto b = kept("b");
  ASSERT_TRUE(comes_true([&] { return rounds_of("a") >= 4; })) << a->log() << keepers.front()->log();
  keepers.front()->signal(SIGKILL);
  EXPECT_EQ(keepers.front()->wait(), -1);
  EXPECT_EQ(a->wait(), 0) << a->log();
  EXPECT_EQ(b->wait(), 0) << b->log();
  ASSERT_THAT(weights("a"), Not(IsEmpty()));
  EXPECT_EQ(weights("a"), weights("b"));
  const Ending said = run_command(concat(REEF_SWARM, " log --json --name reader", at));
  ASSERT_EQ(said.status, 0) << said;
  const io::Json account = io::parse_json(said.output, "reef-swarm log");
  EXPECT_EQ(account.at("round"), rounds);
  expect_account_adds_up(account);
  const Ending replay = run_command(
      concat(REEF_SWARM, " replay --name reader", at, options, " --export '", path("replay.safetensors"), "'"));
  EXPECT_EQ(replay.status, 0) << replay;
  EXPECT_EQ(weights("a"), weights("replay"));

  EXPECT_EQ(run_command(concat(REEF_SWARM, " keys revoke --name reader --dir '", path("keys"), "'")).status, 0);
  EXPECT_TRUE(comes_true([&] { return run_command(concat(REEF_SWARM, " log --name reader", at)).status == 1; }))
      << "keepers follow the list of what is revoked";
  for (int i = 1; i < 3; ++i) keepers[static_cast<std::size_t>(i)]->signal(SIGTERM);
  for (int i = 1; i < 3; ++i) EXPECT_EQ(keepers[static_cast<std::size_t>(i)]->wait(), 0);
}

TEST_F(ReefSwarm, keepers_and_places_of_a_log_that_cannot_be_are_refused) {
  const std::string keys = concat(" --keys '", path("keys"), "'");
  EXPECT_EQ(run_command(concat(REEF_SWARM, " keys make --job test --dir '", path("keys"), "'")).status, 0);
  EXPECT_EQ(run_command(concat(REEF_SWARM, " keys issue --role keeper --name k --dir '", path("keys"), "'")).status, 0);
  const std::string keeper = concat(" keeper --name k --cluster k=127.0.0.1:1 --dir '", path("k"), "'", keys);
  const Ending none = run_command(concat(REEF_SWARM, keeper, " --etcd no-such-etcd"));
  EXPECT_EQ(none.status, 2) << none;
  EXPECT_THAT(none.errors, HasSubstr("apt-get install etcd-server"));
  EXPECT_FALSE(std::filesystem::exists(path("k"))) << "what is refused makes no folder";
  const Ending ended = run_command(concat(REEF_SWARM, keeper, " --etcd /bin/false"));
  EXPECT_EQ(ended.status, 1) << ended;
  EXPECT_THAT(ended.errors, HasSubstr("etcd has ended with status 1"));
  EXPECT_THAT(run_command(concat(REEF_SWARM, " log")).errors, HasSubstr("neither --log nor --keepers"));
  EXPECT_THAT(run_command(concat(REEF_SWARM, " log ", url(), " --keepers https://127.0.0.1:1")).errors,
              HasSubstr("a job has one log"));
  EXPECT_THAT(run_command(concat(REEF_SWARM, " log --keepers https://127.0.0.1:1")).errors,
              HasSubstr("wants certificates"));
  EXPECT_THAT(run_command(concat(REEF_SWARM, " log --keepers https://127.0.0.1:1", keys)).errors,
              HasSubstr("--keys without --name"));
}

TEST_F(ReefSwarm, keys_are_made_issued_listed_and_revoked) {
  const std::string at = concat(" --dir '", path("keys"), "'");
  EXPECT_EQ(run_command(concat(REEF_SWARM, " keys make --job test", at)).status, 0);
  EXPECT_EQ(run_command(concat(REEF_SWARM, " keys issue --name a", at)).status, 0);
  EXPECT_THAT(run_command(concat(REEF_SWARM, " keys list", at)).output, HasSubstr("peer a, serial "));
  EXPECT_THAT(run_command(concat(REEF_SWARM, " keys revoke --name a", at)).output, HasSubstr("revoked "));
  EXPECT_THAT(run_command(concat(REEF_SWARM, " keys list", at)).output, HasSubstr(", revoked"));
  EXPECT_EQ(run_command(concat(REEF_SWARM, " keys issue --name b --dir '", path("nothing"), "'")).status, 2);
}

}  // namespace reef::test
