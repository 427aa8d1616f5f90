// Entries that are bound to each other and to their authors, and what readers say of a log that somebody has changed.

#include <algorithm>
#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include <laws/decision_log.hpp>
#include <reef/core/text.hpp>
#include <reef/io/json.hpp>
#include <reef/swarm/core/entry_json.hpp>
#include <reef/swarm/core/job_state.hpp>
#include <reef/swarm/log/blocking_log.hpp>
#include <reef/swarm/log/chained_log.hpp>
#include <reef/swarm/log/detail/base64.hpp>
#include <reef/swarm/log/detail/envelope_signer.hpp>
#include <reef/swarm/log/detail/http_client.hpp>
#include <reef/swarm/log/etcd_log.hpp>
#include <reef/swarm/log/local_log.hpp>
#include <reef/swarm/log/log_server.hpp>
#include <reef/swarm/log/remote_log.hpp>
#include <reef/swarm/log/simulated_log.hpp>
#include <reef/swarm/net/keys.hpp>
#include <support/etcd.hpp>
#include <support/temporary_folder.hpp>

namespace reef::test {

using swarm::ChainedLog;

/// Two clients with chains of their own over one file.
struct ChainedLocalCase {
  static constexpr Bytes most_bytes = swarm::max_chained_entry_bytes;
  swarm::DecisionLog& log() { return *first; }
  swarm::DecisionLog& other() { return *second; }
  static void pass() { std::this_thread::sleep_for(std::chrono::milliseconds(1)); }
  void close() {
    file.reset();  // answers what is open
    first.reset();
    second.reset();
  }

  TemporaryFolder folder;
  std::unique_ptr<swarm::LocalLog> file = std::make_unique<swarm::LocalLog>(folder / "log");
  std::unique_ptr<ChainedLog> first = std::make_unique<ChainedLog>(*file, swarm::ChainedLogOptions{.audit = 0});
  std::unique_ptr<ChainedLog> second = std::make_unique<ChainedLog>(*file, swarm::ChainedLogOptions{.audit = 0});
};

/// The same over a simulated network.
struct ChainedSimulatedCase {
  static constexpr Bytes most_bytes = swarm::max_chained_entry_bytes;
  swarm::DecisionLog& log() { return *first; }
  swarm::DecisionLog& other() { return *second; }
  void pass() { keepers.advance(keepers.next().value_or(keepers.now() + 0.1)); }
  void close() {
    clients.clear();
    first.reset();
    second.reset();
  }

  swarm::SimulatedKeepers keepers{{.seed = 2}};
  std::vector<std::unique_ptr<swarm::SimulatedLog>> clients = [this] {
    std::vector<std::unique_ptr<swarm::SimulatedLog>> two;
    for (std::uint64_t i = 0; i < 2; ++i) two.push_back(std::make_unique<swarm::SimulatedLog>(keepers, i));
    return two;
  }();
  std::unique_ptr<ChainedLog> first = std::make_unique<ChainedLog>(*clients[0], swarm::ChainedLogOptions{.audit = 0});
  std::unique_ptr<ChainedLog> second = std::make_unique<ChainedLog>(*clients[1], swarm::ChainedLogOptions{.audit = 0});
};

INSTANTIATE_TYPED_TEST_SUITE_P(ChainedLocal, DecisionLogLaws, testing::Types<ChainedLocalCase>);
INSTANTIATE_TYPED_TEST_SUITE_P(ChainedSimulated, DecisionLogLaws, testing::Types<ChainedSimulatedCase>);

namespace {

using swarm::BlockingLog;
using swarm::LogEnvelope;

/// A CA of one job, which all tests share, and one of another job of the same name.
class ChainKeys {
public:
  ChainKeys() : keys(swarm::Keys::make(folder / "keys", "job")), foreign(swarm::Keys::make(folder / "other", "job")) {
    for (const char* peer : {"a", "b"}) keys.issue("peer", peer);
    keys.issue("keeper", "keeper");
    keys.issue("client", "operator");
    foreign.issue("peer", "a");
  }
  static ChainKeys& of_all() {
    static ChainKeys made;
    return made;
  }

  TemporaryFolder folder;
  swarm::Keys keys;
  swarm::Keys foreign;
};

swarm::TlsFiles files_of(const std::string& name) { return ChainKeys::of_all().keys.files(name); }

std::string chained_entry(const std::string& author, std::uint64_t nonce) {
  return swarm::to_text(swarm::Entry{{author, 7}, nonce, swarm::Quarantine{{}, "a test"}});
}

bool is_broken(const std::string& entry, const std::string& why) {
  const swarm::Entry read = swarm::entry_from_text(entry);
  const auto* const unreadable = std::get_if<swarm::Unreadable>(&read.what);
  return unreadable != nullptr && unreadable->why.find(why) != std::string::npos;
}

/// The text of an entry in an envelope that follows `before`, signed by the files of `keys` for index `at`.
std::string sealed(const std::string& entry, const std::string& before, const swarm::TlsFiles& files,
                   swarm::LogIndex at) {
  LogEnvelope envelope{.previous = before.empty() ? swarm::Digest{} : swarm::digest_of_text(before), .entry = entry};
  if (!files.authority.empty()) swarm::detail::EnvelopeSigner(files).sign(envelope, at);
  return swarm::to_text(envelope);
}

TEST(LogEnvelope, text_and_back) {
  LogEnvelope envelope{.entry = "{\"a\":\"b\n\"}"};
  EXPECT_EQ(swarm::envelope_from_text(swarm::to_text(envelope)), envelope);
  envelope.previous = swarm::digest_of_text("x");
  envelope.certificate = "YQ==";
  envelope.signature = "Yg==";
  EXPECT_EQ(swarm::envelope_from_text(swarm::to_text(envelope)), envelope);
  const std::string head = swarm::to_text(envelope).substr(0, swarm::to_text(envelope).find('\n'));
  const std::vector<std::string> others{"",     "{}",   "{}\n{}", head, head + "\n", "\n" + head, "[]\nx",
                                        "{\"previous\":7}\nx",
                                        std::string(swarm::max_envelope_bytes + 1, ' ') + "\nx"};
  for (const std::string& text : others)
    EXPECT_THROW((void)swarm::envelope_from_text(text), DecodeError) << text.substr(0, 80);
}

TEST(EnvelopeSigner, a_signature_is_of_one_author_at_one_place) {
  const swarm::detail::EnvelopeSigner a(files_of("a"));
  const swarm::detail::EnvelopeSigner b(files_of("b"));
  LogEnvelope envelope{.previous = swarm::digest_of_text("x"), .entry = "{}"};
  EXPECT_NE(b.verify(envelope, 3).why, "") << "not signed";
  a.sign(envelope, 3);
  EXPECT_EQ(b.verify(envelope, 3).why, "");
  EXPECT_EQ(b.verify(envelope, 3).who, (swarm::Identity{"job", "peer", "a"}));
  EXPECT_NE(b.verify(envelope, 4).why, "") << "another index";
  const auto with = [&](const std::function<void(LogEnvelope&)>& change) {
    LogEnvelope other = envelope;
    change(other);
    return b.verify(other, 3).why;
  };
  LogEnvelope of_b{.previous = envelope.previous, .entry = envelope.entry};
  b.sign(of_b, 3);
  EXPECT_NE(with([](auto& o) { o.entry = "{ }"; }), "");
  EXPECT_NE(with([](auto& o) { o.previous = {}; }), "");
  EXPECT_NE(with([&](auto& o) { o.certificate = of_b.certificate; }), "");
  EXPECT_NE(with([&](auto& o) { o.signature = of_b.signature; }), "");
  for (const char* text : {"x", "", "YQ==", "AAAA"}) {
    EXPECT_NE(with([&](auto& o) { o.certificate = text; }), "") << text;
    EXPECT_NE(with([&](auto& o) { o.signature = text; }), "") << text;
  }
  LogEnvelope of_other{.previous = envelope.previous, .entry = envelope.entry};
  swarm::detail::EnvelopeSigner(ChainKeys::of_all().foreign.files("a")).sign(of_other, 3);
  EXPECT_NE(b.verify(of_other, 3).why.find("certificate is refused"), std::string::npos) << "another CA";
}

/// A log in memory that a test may change as it likes.
class ChangedLog final : public swarm::DecisionLog {
public:
  void append(swarm::LogIndex at, std::string entry, swarm::AppendDone done) override {
    if (at < texts.size()) {
      if (texts[at] == entry) return done({swarm::AppendOutcome::won, {}, {}});
      return done({swarm::AppendOutcome::lost, texts[at], {}});
    }
    if (at > texts.size()) return done({swarm::AppendOutcome::early, {}, "early"});
    texts.push_back(std::move(entry));
    done({swarm::AppendOutcome::won, {}, {}});
    tell();
  }
  void read(swarm::LogIndex from, swarm::ReadDone done) override {
    swarm::LogPage page{.from = from, .entries = {}, .answered = true, .why = {}};
    for (swarm::LogIndex at = from; at < texts.size(); ++at) page.entries.push_back(texts[at]);
    done(page);
  }
  swarm::LogWatch watch(swarm::LogIndex from, swarm::EntryFound found) override {
    watcher_ = std::make_shared<swarm::detail::Watcher>(from, std::move(found));
    tell();
    return swarm::LogWatch(watcher_);
  }
  void tell() {
    if (!watcher_) return;
    for (swarm::LogIndex at = watcher_->next(); at < texts.size(); ++at) watcher_->give(at, texts[at]);
  }

  std::vector<std::string> texts;

private:
  std::shared_ptr<swarm::detail::Watcher> watcher_;
};

swarm::Appended append(swarm::DecisionLog& log, swarm::LogIndex at, const std::string& entry) {
  return BlockingLog(log).append(at, entry);
}

TEST(ChainedLog, a_text_that_breaks_the_chain_is_unreadable_to_every_reader_and_counted) {
  ChangedLog log;
  ChainedLog a(log);
  EXPECT_EQ(append(a, 0, chained_entry("a", 1)).outcome, AppendOutcome::won);
  log.texts.push_back("garbage");
  log.texts.push_back(sealed(chained_entry("x", 2), "another", {}, 2));
  EXPECT_EQ(append(a, 3, chained_entry("a", 3)).outcome, AppendOutcome::won) << "goes on behind what is broken";
  for (swarm::LogIndex from = 0; from < 4; ++from) {
    ChainedLog fresh(log);
    const std::vector<std::string> read = BlockingLog(fresh).read(from);
    ASSERT_EQ(read.size(), 4 - from);
    const auto at = [&](swarm::LogIndex index_of) { return index_of < from ? std::string() : read[index_of - from]; };
    EXPECT_TRUE(from > 0 || at(0) == chained_entry("a", 1)) << at(0);
    EXPECT_TRUE(from > 1 || is_broken(at(1), "no envelope")) << at(1);
    EXPECT_TRUE(from > 2 || is_broken(at(2), "follows another entry")) << at(2);
    EXPECT_EQ(at(3), chained_entry("a", 3));
    EXPECT_EQ(fresh.tampering(), "");
  }
  swarm::core::JobState state;
  for (const std::string& entry : BlockingLog(a).read(0))
    (void)swarm::core::apply(state, swarm::entry_from_text(entry));
  EXPECT_EQ(state.entries, 4);
}

TEST(ChainedLog, what_was_read_and_is_another_one_now_is_said) {
  ChangedLog log;
  for (std::uint64_t i = 0; i < 5; ++i)
    log.texts.push_back(sealed(chained_entry("a", i), i == 0 ? "" : log.texts.back(), {}, i));
  const std::vector<std::string> whole = log.texts;
  const auto read_then = [&](const std::function<void()>& change) {
    log.texts = whole;
    auto reader = std::make_unique<ChainedLog>(log, swarm::ChainedLogOptions{.audit = 0});
    EXPECT_EQ(BlockingLog(*reader).read(0).size(), 5U);
    change();
    return reader;
  };
  const std::string rewritten = sealed(chained_entry("x", 9), whole[1], {}, 2);
  {
    const auto reader = read_then([&] { log.texts[2] = rewritten; });
    EXPECT_THROW((void)BlockingLog(*reader).read(0), Error);
    EXPECT_NE(reader->tampering().find("entry 2 is another one"), std::string::npos) << reader->tampering();
    const swarm::Appended answer = append(*reader, 5, chained_entry("a", 9));
    EXPECT_EQ(answer.outcome, AppendOutcome::unknown);
    EXPECT_EQ(answer.why, reader->tampering());
    EXPECT_EQ(log.texts.size(), 5U);
  }
  {
    const auto reader = read_then([&] { log.texts.resize(3); });
    EXPECT_THROW((void)BlockingLog(*reader).read(5), Error);
    EXPECT_NE(reader->tampering().find("entry 4, which this process has read, is gone"), std::string::npos);
  }
  {
    const auto reader = read_then([&] { log.texts.resize(3); });
    EXPECT_EQ(append(*reader, 5, chained_entry("a", 9)).outcome, AppendOutcome::unknown);
    EXPECT_NE(reader->tampering().find("is gone"), std::string::npos);
  }
  {  // by a watch that has seen all, when there is news
    const auto reader = read_then([] {});
    WatchedEntries watched;
    const swarm::LogWatch watch = reader->watch(0, watched.found());
    EXPECT_EQ(watched.seen().size(), 5U);
    log.texts[1] = rewritten;
    log.texts.push_back(sealed(chained_entry("a", 5), whole[4], {}, 5));
    log.tell();
    EXPECT_NE(reader->tampering().find("entry 1 is another one"), std::string::npos);
    log.texts.push_back(sealed(chained_entry("a", 6), log.texts.back(), {}, 6));
    log.tell();
    EXPECT_EQ(watched.seen().size(), 6U) << "nothing more is given";
  }
}

TEST(ChainedLog, entries_of_a_job_with_keys_are_those_that_their_author_has_signed) {
  ChangedLog log;
  ChainedLog a(log, {.tls = files_of("a")});
  ChainedLog b(log, {.tls = files_of("b")});
  EXPECT_EQ(append(a, 0, chained_entry("a", 1)).outcome, AppendOutcome::won);
  EXPECT_EQ(append(b, 1, chained_entry("b", 2)).outcome, AppendOutcome::won);
  EXPECT_EQ(append(b, 1, chained_entry("b", 2)).outcome, AppendOutcome::won) << "signed anew";
  EXPECT_EQ(append(a, 1, chained_entry("a", 2)).other, chained_entry("b", 2));
  const auto push = [&](const std::string& entry, const swarm::TlsFiles& files) {
    log.texts.push_back(sealed(entry, log.texts.back(), files, log.texts.size()));
  };
  push(chained_entry("a", 3), {});                                      // 2: not signed
  push(chained_entry("a", 4), files_of("b"));                           // 3: of another author
  push(chained_entry("a", 5), ChainKeys::of_all().foreign.files("a"));  // 4: by another CA
  log.texts.push_back(log.texts[0]);                                    // 5: signed for another place
  push(chained_entry("operator", 6), files_of("operator"));             // 6: clients roll back alone
  EXPECT_EQ(append(a, 7, chained_entry("a", 7)).outcome, AppendOutcome::won);
  ChainedLog fresh(log, {.tls = files_of("operator")});
  const std::vector<std::string> read = BlockingLog(fresh).read(0);
  ASSERT_EQ(read.size(), 8U);
  EXPECT_EQ(read[1], chained_entry("b", 2));
  EXPECT_TRUE(is_broken(read[2], "not signed")) << read[2];
  EXPECT_TRUE(is_broken(read[3], "author")) << read[3];
  EXPECT_TRUE(is_broken(read[4], "certificate is refused")) << read[4];
  EXPECT_TRUE(is_broken(read[5], "its signature is not")) << read[5];
  EXPECT_TRUE(is_broken(read[6], "rollbacks alone")) << read[6];
  EXPECT_EQ(read[7], chained_entry("a", 7));
  EXPECT_EQ(BlockingLog(a).read(0), read);
  EXPECT_EQ(fresh.tampering(), "");
  // Without keys entries can be read, and none can be written.
  ChainedLog keyless(log);
  EXPECT_EQ(BlockingLog(keyless).read(0)[7], chained_entry("a", 7));
  const swarm::Appended refused = append(keyless, 8, chained_entry("a", 8));
  EXPECT_EQ(refused.outcome, AppendOutcome::unknown);
  EXPECT_NE(refused.why.find("are signed"), std::string::npos) << refused.why;
}

TEST(ChainedLog, a_revoked_or_expired_author_has_written_what_it_has_written) {
  swarm::Keys& keys = ChainKeys::of_all().keys;
  keys.issue("peer", "old", {.begins = -std::chrono::hours(48), .lasts = std::chrono::hours(24)});
  keys.issue("peer", "gone");
  ChangedLog log;
  log.texts.push_back(sealed(chained_entry("old", 1), "", files_of("old"), 0));
  log.texts.push_back(sealed(chained_entry("gone", 2), log.texts[0], files_of("gone"), 1));
  keys.revoke("gone");
  ChainedLog reader(log, {.tls = files_of("a")});
  EXPECT_EQ(BlockingLog(reader).read(0), (std::vector<std::string>{chained_entry("old", 1), chained_entry("gone", 2)}));
}

TEST(ChainedLog, an_archive_has_what_was_read_and_is_read_without_the_log) {
  TemporaryFolder folder;
  ChangedLog log;
  std::vector<std::string> read;
  {
    ChainedLog a(log, {.tls = files_of("a"), .archive = folder / "archive"});
    for (std::uint64_t i = 0; i < 3; ++i) EXPECT_EQ(append(a, i, chained_entry("a", i)).outcome, AppendOutcome::won);
    log.texts.push_back("garbage");
    read = BlockingLog(a).read(0);
    EXPECT_EQ(a.archive_failure(), "");
    EXPECT_THROW(ChainedLog(log, {.archive = folder / "archive" / "decisions.log"}), Error);
  }
  {
    swarm::LocalLog archive(folder / "archive");
    EXPECT_EQ(BlockingLog(archive).read(0), log.texts) << "envelopes and all";
    ChainedLog reader(archive, {.tls = files_of("b")});
    EXPECT_EQ(BlockingLog(reader).read(0), read);
  }
  const std::vector<std::string> whole = log.texts;
  {  // a later process goes on with it
    ChainedLog a(log, {.tls = files_of("a"), .archive = folder / "archive"});
    EXPECT_EQ(append(a, 4, chained_entry("a", 4)).outcome, AppendOutcome::won);
  }
  log.texts.resize(4);  // what this process has not read itself
  {
    ChainedLog a(log, {.tls = files_of("a"), .archive = folder / "archive"});
    EXPECT_EQ(append(a, 5, chained_entry("a", 5)).outcome, AppendOutcome::unknown);
    EXPECT_NE(a.tampering().find("entry 4, which the archive has"), std::string::npos) << a.tampering();
  }
  log.texts = {"another log"};
  ChainedLog a(log, {.tls = files_of("a"), .archive = folder / "archive"});
  EXPECT_THROW((void)BlockingLog(a).read(0), Error);
  EXPECT_NE(a.tampering().find("another log"), std::string::npos) << a.tampering();
}

TEST(ChainedLog, who_reads_a_signed_log_first_hears_that_it_was_changed) {
  ChangedLog log;
  ChainedLog a(log, {.tls = files_of("a")});
  for (std::uint64_t i = 0; i < 4; ++i) EXPECT_EQ(append(a, i, chained_entry("a", i)).outcome, AppendOutcome::won);
  const std::vector<std::string> whole = log.texts;
  const auto said = [&] {
    ChainedLog fresh(log, {.tls = files_of("b")});
    EXPECT_THROW((void)BlockingLog(fresh).read(0), Error);
    return fresh.tampering();
  };
  log.texts[1] = "garbage";
  EXPECT_NE(said().find("entry 2, which reef://job/peer/a has signed, followed another entry 1"), std::string::npos);
  log.texts = whole;
  log.texts[1] = sealed(chained_entry("b", 1), whole[0], files_of("b"), 1);  // even by one that has a key
  EXPECT_NE(said().find("followed another entry 1"), std::string::npos);
}

TEST(ChainedLog, a_server_with_keys_takes_what_its_client_has_signed_and_what_follows) {
  TemporaryFolder folder;
  swarm::Keys& keys = ChainKeys::of_all().keys;
  const swarm::LogServer server({.folder = folder / "log", .tls = files_of("keeper")});
  swarm::RemoteLog plain({.servers = {server.url()}, .tls = files_of("a")});
  const auto refused = [&](swarm::LogIndex at, const std::string& text) {
    const swarm::Appended answer = append(plain, at, text);
    EXPECT_EQ(answer.outcome, AppendOutcome::unknown);
    EXPECT_NE(answer.why.find("403"), std::string::npos) << answer.why;
    return answer.why;
  };
  EXPECT_NE(refused(0, chained_entry("a", 1)).find("no entry"), std::string::npos);
  EXPECT_NE(refused(0, sealed(chained_entry("a", 1), "", {}, 0)).find("not signed"), std::string::npos);
  EXPECT_NE(refused(0, sealed(chained_entry("a", 1), "", files_of("a"), 1)).find("signature is"), std::string::npos);
  EXPECT_NE(refused(0, sealed(chained_entry("b", 1), "", files_of("b"), 0)).find("author"), std::string::npos);
  keys.issue("peer", "again");
  const std::string with_old = sealed(chained_entry("again", 1), "", files_of("again"), 0);
  keys.revoke("again");
  keys.issue("peer", "again");
  swarm::RemoteLog again({.servers = {server.url()}, .tls = files_of("again")});
  EXPECT_NE(append(again, 0, with_old).why.find("another certificate"), std::string::npos);
  EXPECT_NE(refused(0, sealed(chained_entry("a", 1), "x", files_of("a"), 0)).find("follows"), std::string::npos);
  const std::string first = sealed(chained_entry("a", 1), "", files_of("a"), 0);
  EXPECT_EQ(append(plain, 0, first).outcome, AppendOutcome::won);
  EXPECT_EQ(append(plain, 0, first).outcome, AppendOutcome::won);
  EXPECT_NE(refused(1, sealed(chained_entry("a", 2), "x", files_of("a"), 1)).find("follows"), std::string::npos);
  ChainedLog a(plain, {.tls = files_of("a")});
  EXPECT_EQ(append(a, 2, chained_entry("a", 2)).outcome, AppendOutcome::early);
  for (std::uint64_t i = 1; i < 6; ++i) EXPECT_EQ(append(a, i, chained_entry("a", i)).outcome, AppendOutcome::won);
  EXPECT_EQ(append(a, 3, chained_entry("a", 9)).outcome, AppendOutcome::lost) << "by a client that has read further";
  EXPECT_EQ(BlockingLog(a).read(0).size(), 6U);
}

/// The tools of somebody who reaches an etcd that keeps a log.
class EtcdIntruder {
public:
  explicit EtcdIntruder(std::uint16_t port) : client_({{"127.0.0.1", port, false}}, {}) {}
  void put(swarm::LogIndex at, const std::string& text) {
    send("/v3/kv/put", {{"key", key(at)}, {"value", swarm::detail::base64_of(text)}});
  }
  void remove(swarm::LogIndex at) { send("/v3/kv/deleterange", {{"key", key(at)}}); }

private:
  static std::string key(swarm::LogIndex at) {
    const std::string digits = std::to_string(at);
    return swarm::detail::base64_of("/reef/job/log/" + std::string(20 - digits.size(), '0') + digits);
  }
  void send(const std::string& target, const io::Json& body) {
    std::atomic<int> status = -1;
    swarm::detail::HttpRequest request;
    request.post = true;
    request.target = target;
    request.body = body.dump();
    request.time = 30;
    client_.request(request, [&](const swarm::detail::HttpAnswer& answer) { status = answer.status; });
    while (status < 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    EXPECT_EQ(status, 200);
  }

  swarm::detail::HttpClient client_;
};

TEST(ChainedLog, who_has_a_client_of_etcd_changes_nothing_unnoticed) {
  if (!why_no_etcd().empty()) GTEST_SKIP() << why_no_etcd();
  EtcdCluster cluster(1);
  ASSERT_TRUE(cluster.answers());
  swarm::EtcdLog kept({.keepers = cluster.urls(), .job = "job"});
  const std::string url = cluster.url(0);
  EtcdIntruder intruder(static_cast<std::uint16_t>(std::stoi(url.substr(url.rfind(':') + 1))));
  ChainedLog a(kept, {.tls = files_of("a"), .audit = 0});
  std::uint64_t end = 0;
  const auto go_on = [&](swarm::DecisionLog& log) {
    const swarm::Appended answer = append(log, end, chained_entry("a", end));
    if (answer.outcome == AppendOutcome::won) ++end;
    return answer.outcome;
  };
  for (int i = 0; i < 6; ++i) ASSERT_EQ(go_on(a), AppendOutcome::won);
  const std::vector<std::string> whole = BlockingLog(kept).read(0);
  WatchedEntries watched;
  const swarm::LogWatch watch = a.watch(0, watched.found());
  const auto seen = [&](std::size_t count) {
    for (int i = 0; i < 60000 && watched.seen().size() < count; ++i)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    return watched.seen().size() == count;
  };
  ASSERT_TRUE(seen(6));

  // What an intruder appends is broken for all, and the job goes on.
  intruder.put(6, sealed(chained_entry("a", 6), whole[5], ChainKeys::of_all().foreign.files("a"), 6));
  ASSERT_TRUE(seen(7));
  EXPECT_TRUE(is_broken(watched.seen()[6].second, "certificate is refused"));
  end = 7;
  ASSERT_EQ(go_on(a), AppendOutcome::won);
  ASSERT_TRUE(seen(8));
  EXPECT_EQ(a.tampering(), "");

  // A rewritten entry: by who reads first, and by who has read further.
  const auto fresh_says = [&] {
    ChainedLog fresh(kept, {.tls = files_of("b")});
    EXPECT_THROW((void)BlockingLog(fresh).read(0), Error);
    return fresh.tampering();
  };
  intruder.put(2, whole[1]);
  EXPECT_NE(fresh_says().find("followed another entry 2"), std::string::npos) << fresh_says();
  ChainedLog b(kept, {.tls = files_of("b"), .audit = 0});  // has read all but what is changed
  intruder.put(2, whole[2]);
  EXPECT_EQ(BlockingLog(b).read(0).size(), 8U) << b.tampering();
  intruder.put(2, whole[1]);
  for (int i = 0; i < 20 && a.tampering().empty(); ++i) {
    (void)go_on(b);  // news by another one, of which the watch hears
    (void)append(b, end, chained_entry("b", end));
    ++end;
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  EXPECT_NE(a.tampering().find("entry 2 is another one"), std::string::npos) << a.tampering();

  // A deleted one.
  intruder.put(2, whole[2]);
  ChainedLog c(kept, {.tls = files_of("b"), .audit = 0});
  (void)BlockingLog(c).read(0);
  intruder.remove(2);
  EXPECT_NE(fresh_says().find("the entry 2 is not there, but a later one is"), std::string::npos) << fresh_says();
  EXPECT_THROW((void)BlockingLog(c).read(0), Error);
  EXPECT_NE(c.tampering(), "");

  // The end of the log, by who has read it.
  intruder.put(2, whole[2]);
  ChainedLog d(kept, {.tls = files_of("a"), .audit = 0});
  const std::uint64_t all = BlockingLog(d).read(0).size();
  intruder.remove(all - 1);
  EXPECT_EQ(append(d, all, chained_entry("a", 99)).outcome, AppendOutcome::unknown);
  EXPECT_NE(d.tampering().find("is gone"), std::string::npos) << d.tampering();
}

TEST(ChainedLog, holds_across_what_its_log_has_dropped) {
  const TemporaryFolder folder;
  swarm::LocalLog file(folder / "log");
  ChainedLog reader(file, {.audit = 0});
  ChainedLog slow(file, {.audit = 0, .archive = folder / "archive"});
  std::vector<std::string> entries;
  const auto append = [&](ChainedLog& log) {
    entries.push_back(chained_entry("a", entries.size()));
    EXPECT_EQ(BlockingLog(log).append(entries.size() - 1, entries.back()).outcome, AppendOutcome::won);
  };
  for (int i = 0; i < 2; ++i) append(reader);
  EXPECT_EQ(BlockingLog(slow).read(0), entries);
  for (int i = 0; i < 4; ++i) append(reader);
  reader.drop(4);
  const std::vector<std::string> kept(entries.begin() + 4, entries.end());
  ChainedLog late(file, {.audit = 0});
  for (ChainedLog* log : {&reader, &slow, &late}) {
    const swarm::LogPage page = BlockingLog(*log).page(0);
    EXPECT_EQ(page.from, 4U);
    EXPECT_EQ(page.entries, kept) << "none of them is broken";
    EXPECT_EQ(log->tampering(), "");
  }
  EXPECT_NE(slow.archive_failure().find("dropped entries 2 to 3"), std::string::npos) << slow.archive_failure();
  for (ChainedLog* log : {&late, &slow, &reader}) append(*log);
  WatchedEntries seen;
  ChainedLog watcher(file, {.audit = 0});
  const swarm::LogWatch watch = watcher.watch(0, seen.found());
  for (int i = 0; i < 2; ++i) static_cast<void>(BlockingLog(file).page(0));  // the watch is given its entries before
  ASSERT_EQ(seen.seen().size(), 5U);
  for (std::size_t i = 0; i < 5; ++i) EXPECT_EQ(seen.seen()[i], std::pair(swarm::LogIndex{4 + i}, entries[4 + i]));

  // What follows another entry than stands before it is found across the cut.
  EXPECT_EQ(BlockingLog(file).append(9, sealed("{}", "another", {}, 9)).outcome, AppendOutcome::won);
  for (ChainedLog* log : {&reader, &late})
    EXPECT_TRUE(is_broken(BlockingLog(*log).page(9).entries.front(), "follows another entry"));
}

}  // namespace
}  // namespace reef::test
