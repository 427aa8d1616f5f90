// Training data in shards, which peers that come without it get from others.

#include <reef/swarm/average/shard_fetch.hpp>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <reef/core/error.hpp>
#include <reef/core/text.hpp>
#include <reef/swarm/average/averaging_peer.hpp>
#include <reef/swarm/average/detail/peer_frames.hpp>
#include <reef/swarm/average/detail/shard_frames.hpp>
#include <reef/swarm/core/entry_json.hpp>
#include <reef/swarm/log/blocking_log.hpp>
#include <reef/swarm/log/log_server.hpp>
#include <reef/swarm/log/remote_log.hpp>
#include <reef/swarm/net/sha256.hpp>
#include <support/temporary_folder.hpp>
#include <swarm/net/recorded_peer.hpp>

namespace reef::swarm {
namespace {

using reef::test::loopback_options;
using reef::test::RecordedPeer;
using reef::test::TemporaryFolder;
using testing::HasSubstr;
using testing::StartsWith;

std::string content_of(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

void write(const std::filesystem::path& path, const std::string& content) {
  std::ofstream(path, std::ios::binary) << content;
}

/// Returns text of so many bytes, different at each place.
std::string text_of(std::size_t bytes) {
  std::string text;
  while (text.size() < bytes) text += concat("line ", text.size(), " of the text\n");
  return text.substr(0, bytes);
}

std::span<const std::byte> bytes_of(const std::string& text) { return std::as_bytes(std::span(text)); }

template <class Thrown, class F>
std::string message_of(const F& f) {
  try {
    f();
  } catch (const Thrown& error) {
    return error.what();
  }
  return "nothing was thrown";
}

TEST(ShardList, comes_from_its_text) {
  ShardList list;
  list.shard = 4;
  list.files = {{"a.txt", 3}, {"b.bin", 6}};
  EXPECT_EQ(list.bytes(), 9U);
  ASSERT_EQ(list.count(), 3U);
  EXPECT_EQ(list.bytes_of(1), 4U);
  EXPECT_EQ(list.bytes_of(2), 1U);
  for (const char* part : {"x", "y", "z"}) list.digests.push_back(sha256(bytes_of(part)));
  EXPECT_EQ(shard_list_from_text(to_text(list)), list);
}

TEST(ShardList, of_a_text_that_is_none_is_refused) {
  const std::string digest = to_hex(sha256(bytes_of("x")));
  const auto text = [&](const std::string& shard, const std::string& files, int digests) {
    std::string all;
    for (int k = 0; k < digests; ++k) all += concat(k == 0 ? "\"" : ",\"", digest, "\"");
    return concat(R"({"shard":)", shard, R"(,"files":)", files, R"(,"digests":[)", all, "]}");
  };
  EXPECT_EQ(shard_list_from_text(text("4", R"([["a",8]])", 2)).count(), 2U);
  for (const std::string& wrong :
       {text("0", R"([["a",8]])", 2), text("4194305", R"([["a",8]])", 1), text("-4", R"([["a",8]])", 2),
        text("4", "[]", 0), text("4", R"([["a",0]])", 0), text("4", R"([["a",8]])", 1), text("4", R"([["a",8]])", 3),
        text("4", R"([["../a",8]])", 2), text("4", R"([["",8]])", 2), text("4", R"([["a"]])", 2),
        text("4", R"([["a",18446744073709551615],["b",9]])", 2), text("4", R"([["a",9223372036854775807]])", 2),
        text("4", R"([["a","8"]])", 2), text("4", R"([["a",-8]])", 2), std::string("{}"), std::string("[]"),
        std::string(), text("4", R"([["a",8]])", 2).substr(0, 40)}) {
    EXPECT_THROW(shard_list_from_text(wrong), DecodeError) << wrong;
  }
}

TEST(ShardFiles, are_cut_across_files_and_filled_in_any_order) {
  const TemporaryFolder folder;
  const std::vector<std::string> texts{text_of(1000), text_of(1), text_of(2499)};
  std::vector<std::filesystem::path> files;
  for (const std::string& text : texts) {
    files.push_back(folder / concat("strange \"n\u00e4me\" ", files.size(), ".val.txt"));
    write(files.back(), text);
  }
  const ShardFiles own = ShardFiles::of(files, 1024);
  ASSERT_EQ(own.list().count(), 4U);
  EXPECT_EQ(own.digest(), sha256(bytes_of(own.text())));
  ShardFiles other = ShardFiles::in(folder / "other", shard_list_from_text(own.text()));
  EXPECT_EQ(other.digest(), own.digest());
  for (const std::size_t k : {3U, 0U, 2U}) {
    EXPECT_FALSE(other.has(k));
    other.write(k, *own.read(k));
    EXPECT_TRUE(other.has(k));
  }
  std::vector<std::byte> wrong = *own.read(1);
  wrong[5] ^= std::byte{1};
  EXPECT_THROW(other.write(1, wrong), DecodeError);
  EXPECT_THROW(other.write(0, *own.read(1)), DecodeError);
  EXPECT_FALSE(other.has(1));
  // What an attempt has left is there for the next one.
  ShardFiles again = ShardFiles::in(folder / "other", own.list());
  EXPECT_TRUE(again.has(0) && again.has(2) && again.has(3));
  EXPECT_FALSE(again.has(1));
  again.write(1, *own.read(1));
  ASSERT_EQ(again.files().size(), texts.size());
  EXPECT_TRUE(std::is_sorted(again.files().begin(), again.files().end()));
  for (std::size_t f = 0; f < texts.size(); ++f) {
    EXPECT_EQ(content_of(again.files()[f]), texts[f]);
    EXPECT_THAT(again.files()[f].filename().string(), testing::EndsWith(concat("_", f, ".val.txt")));
  }
}

TEST(ShardFiles, keep_out_of_folders_of_others) {
  const TemporaryFolder folder;
  write(folder / "a.txt", "some text");
  const ShardFiles own = ShardFiles::of({folder / "a.txt"}, 4);
  EXPECT_THAT(message_of<OptionError>([&] { static_cast<void>(ShardFiles::in(folder.path(), own.list())); }),
              HasSubstr("has other files in it"));
  static_cast<void>(ShardFiles::in(folder / "data", own.list()));
  write(folder / "b.txt", "other text");
  const ShardFiles others = ShardFiles::of({folder / "b.txt"}, 4);
  EXPECT_THAT(message_of<OptionError>([&] { static_cast<void>(ShardFiles::in(folder / "data", others.list())); }),
              HasSubstr("has the data of another job"));
  EXPECT_THROW(static_cast<void>(ShardFiles::of({folder / "none.txt"})), FileError);
  EXPECT_THROW(static_cast<void>(ShardFiles::of({})), OptionError);
  EXPECT_THROW(static_cast<void>(ShardFiles::of({folder / "a.txt"}, 0)), OptionError);
  std::filesystem::resize_file(folder / "a.txt", 5);
  EXPECT_THAT(message_of<FileError>([&] { static_cast<void>(own.read(1)); }), HasSubstr("has become shorter"));
  EXPECT_FALSE(own.has(1));
  EXPECT_TRUE(own.has(0));
}

/// A job whose data is a text of 200 shards.
class Shards : public testing::Test {
protected:
  Shards() : server_({.listen = "127.0.0.1:0", .folder = folder_ / "log"}), log_(server_.url()) {
    write(folder_ / "text.txt", text_);
    own_ = std::make_shared<ShardFiles>(ShardFiles::of({folder_ / "text.txt"}, shard));
    genesis_ = {.job = "test", .shards = own_->digest(), .parameters = 10, .piece = 4};
    fetch_.net = loopback_options("joiner");
    fetch_.folder = folder_ / "data";
    fetch_.report = [this](const std::string& line) {
      told_ += line + "\n";
      if (on_line_) on_line_(line);
    };
  }

  void begin_job() {
    const Entry entry{{"a", 1}, 1, genesis_};
    ASSERT_EQ(BlockingLog(log_).append(0, to_text(entry)).outcome, AppendOutcome::won);
  }
  std::unique_ptr<AveragingPeer> holder(const std::string& name, std::shared_ptr<const ShardFiles> shards) {
    AveragingOptions options;
    options.genesis = genesis_;
    options.net = loopback_options(name);
    options.shards = std::move(shards);
    return std::make_unique<AveragingPeer>(options, log_, log_);
  }
  using Answer = std::function<std::vector<detail::ShardAnswer>(const detail::WantShards&)>;
  /// Returns an endpoint that answers requests as `answer` says, and is present beside the log.
  std::unique_ptr<RecordedPeer> other(const std::string& name, Answer answer) {
    const auto place = std::make_shared<RecordedPeer*>(nullptr);
    auto made = std::make_unique<RecordedPeer>(loopback_options(name), [&](EndpointEvents& events) {
      events.on_frame = [place, answer = std::move(answer)](const RemotePeer& from, const Frame& frame) {
        for (const detail::ShardAnswer& one : answer(detail::want_shards_of(frame))) {
          (*place)->endpoint().send(from.name, detail::frame_of(one));
        }
      };
    });
    *place = made.get();
    PeerPresence presence;
    presence.who = {{name, 1}, made->address(), 0, 0};
    log_.present(name, detail::text_of(presence), 60, [](std::string_view) {});
    return made;
  }
  [[nodiscard]] Bulk list() const {
    const auto text = bytes_of(own_->text());
    return std::make_shared<const std::vector<std::byte>>(text.begin(), text.end());
  }
  void fetches_all() {
    const ShardFiles files = fetch_shards(fetch_, log_, log_);
    ASSERT_EQ(files.files().size(), 1U);
    EXPECT_EQ(content_of(files.files()[0]), text_);
    EXPECT_EQ(files.digest(), own_->digest());
  }
  [[nodiscard]] std::string fails() {
    return message_of<Error>([&] { static_cast<void>(fetch_shards(fetch_, log_, log_)); });
  }

  static constexpr Bytes shard = 1024;
  const std::string text_ = reef::swarm::text_of(200 * 1024 - 100);
  TemporaryFolder folder_;
  LogServer server_;
  RemoteLog log_;
  std::shared_ptr<ShardFiles> own_;
  Genesis genesis_;
  ShardFetchOptions fetch_;
  std::string told_;
  std::function<void(const std::string&)> on_line_;
};

TEST_F(Shards, come_from_several_holders_of_which_one_ends_in_between) {
  auto a = holder("a", own_);
  const auto b = holder("b", own_);
  const auto c = holder("c", nullptr);
  const std::filesystem::path file = fetch_.folder / "000000-text.txt";
  fetch_.stops = [&] {
    std::error_code none;
    const std::uintmax_t there = std::filesystem::file_size(file, none);
    if (a && !none && there >= 40 * shard) a.reset();
    return false;
  };
  fetches_all();
  EXPECT_FALSE(a) << "it has ended before all was there: " << told_;
  EXPECT_THAT(told_, HasSubstr("in 200 shards, of which 0 are there"));
  EXPECT_THAT(told_, HasSubstr("has 200 of 200 shards"));
  // All is there: nobody needs to have it.
  told_.clear();
  fetches_all();
  EXPECT_THAT(told_, HasSubstr("in 200 shards, of which 200 are there"));
}

TEST_F(Shards, of_other_bytes_are_refused_and_another_holder_is_asked) {
  begin_job();
  const auto wrong = other("liar", [this](const detail::WantShards& want) {
    std::vector<detail::ShardAnswer> answers;
    if (want.list) answers.push_back({detail::ShardAnswer::Kind::list, 0, list()});
    for (const std::uint32_t k : want.shards) {
      std::vector<std::byte> bytes = *own_->read(k);
      bytes.back() ^= std::byte{1};
      answers.push_back({detail::ShardAnswer::Kind::shard, k,
                         std::make_shared<const std::vector<std::byte>>(std::move(bytes))});
    }
    return answers;
  });
  std::unique_ptr<AveragingPeer> a;
  on_line_ = [&](const std::string& line) {
    if (line.starts_with("liar is asked no more")) a = holder("a", own_);
  };
  fetches_all();
  EXPECT_THAT(told_, HasSubstr("liar is asked no more: its shard 0 has other bytes than the log's list says"));
  wrong->wait_lost("joiner", "has other bytes");
}

TEST_F(Shards, a_list_of_other_bytes_is_refused_and_a_holder_that_is_silent_costs_its_requests_alone) {
  begin_job();
  const auto liar = other("liar", [this](const detail::WantShards&) {
    const auto text = bytes_of(text_);
    return std::vector<detail::ShardAnswer>{
        {detail::ShardAnswer::Kind::list, 0, std::make_shared<const std::vector<std::byte>>(text.begin(), text.end())}};
  });
  std::unique_ptr<RecordedPeer> silent;
  std::unique_ptr<AveragingPeer> a;
  std::atomic<bool> asked = false;
  fetch_.answer = 0.5;
  on_line_ = [&](const std::string& line) {
    if (!line.starts_with("liar is asked no more")) return;
    silent = other("silent", [&](const detail::WantShards&) {
      asked = true;
      return std::vector<detail::ShardAnswer>{};
    });
  };
  fetch_.stops = [&] {
    if (asked && !a) a = holder("a", own_);
    return false;
  };
  fetches_all();
  EXPECT_THAT(told_, HasSubstr("liar is asked no more: its list of shards has another digest than the log says"));
  silent.reset();
}

TEST_F(Shards, that_nobody_gives_end_the_wait_by_an_error_that_says_of_whom_they_were_asked) {
  fetch_.deadline = 2;
  EXPECT_THAT(fails(), HasSubstr("the log has had no entry for 2 s: nobody has begun the job test"));
  EXPECT_THAT(told_, StartsWith("waits for the log's first entry: nobody has begun the job test"));
  begin_job();
  EXPECT_THAT(fails(), HasSubstr("no list of shards has come for 2 s, of which there is one for all data, and no peer "
                                 "of the job test is present"));
  const auto a = holder("a", nullptr);
  fetch_.deadline = 4;
  EXPECT_THAT(fails(), HasSubstr("of a: it does not have the data"));
  fetch_.stops = [] { return true; };
  EXPECT_THAT(fails(), HasSubstr("stopped before all data was there"));
}

TEST_F(Shards, of_a_job_whose_first_peer_gives_none_are_said_to_be_none) {
  genesis_.shards = {};
  begin_job();
  EXPECT_THAT(fails(), HasSubstr("the log's first entry names no data"));
}

TEST_F(Shards, are_not_given_for_requests_beyond_the_bounds) {
  const auto a = holder("a", own_);
  const auto request = [&](const std::string& text, const std::string& why) {
    RecordedPeer peer(loopback_options("joiner"));
    peer.endpoint().connect(a->address());
    peer.wait_connected();
    peer.endpoint().post([&] {
      const FrameHead head{.stream = detail::shard_stream};
      peer.endpoint().send("a", text.empty() ? Frame::bulk(head, {std::byte{1}})
                                             : Frame::control(FrameKind::control, text, head));
    });
    peer.wait_lost("a", why);
  };
  request(R"({"list":false,"shards":[0,1,2,3,4,5,6,7,8]})", "names 9");
  request(R"({"list":false,"shards":[-1]})", "shards");
  request(R"({"shards":[]})", "list");
  request("", "data that nobody has asked for");
  // One that there is not is answered by nothing.
  RecordedPeer peer(loopback_options("joiner"));
  peer.endpoint().connect(a->address());
  peer.wait_connected();
  peer.endpoint().post([&] { peer.endpoint().send("a", detail::frame_of(detail::WantShards{false, {200}})); });
  peer.wait("an answer", [](const RecordedPeer::Record& record) {
    return std::any_of(record.frames.begin(), record.frames.end(),
                       [](const auto& frame) { return frame.second.text == R"({"nothing":true})"; });
  });
}

}  // namespace
}  // namespace reef::swarm
