#include <reef/io/file.hpp>
#include <reef/io/manifest.hpp>

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include <support/temporary_folder.hpp>

namespace {

using namespace reef;
using io::Json;

class Manifest : public testing::Test {
protected:
  io::Shard write(const std::string& name) {
    const std::vector<io::NamedView> views{{"w.0", TensorView<float>(w_.data(), {2, 2})},
                                           {"m", TensorView<double>(m_.data(), {1})}};
    return io::write_safetensors(folder_ / name, views);
  }

  reef::test::TemporaryFolder folder_;
  std::vector<float> w_{1, 2, 3, 4};
  std::vector<double> m_{0.1};
};

TEST_F(Manifest, what_was_written_is_read_back_and_every_shard_checks) {
  const std::vector<io::Shard> shards{write("rank-0.safetensors"), write("rank-1.safetensors")};
  io::write_manifest(folder_.path(), {{{"step", 12}, {"loss", 0.1}, {"isa", "avx2"}}, shards});
  const io::Manifest manifest = io::read_manifest(folder_.path());
  EXPECT_EQ(manifest.facts["loss"].get<double>(), 0.1);
  EXPECT_EQ(io::require<int>(manifest.facts, "step"), 12);
  ASSERT_EQ(manifest.shards.size(), 2U);
  for (std::size_t i = 0; i < 2; ++i) {
    EXPECT_EQ(manifest.shards[i].file, shards[i].file);
    const io::CheckedShard shard(folder_.path(), manifest.shards[i]);
    std::vector<float> w(4);
    std::vector<double> m(1);
    shard.read("w.0", TensorView<float>(w.data(), {2, 2}));
    shard.read("m", TensorView<double>(m.data(), {1}));
    EXPECT_EQ(w, w_);
    EXPECT_EQ(m, m_);
  }
}

TEST_F(Manifest, a_shard_travels_as_json) {
  const io::Shard shard = write("a");
  io::Shard back = io::shard_from_json(io::parse_json(io::to_json(shard).dump(), "x"), "x");
  EXPECT_EQ(back.bytes, shard.bytes);
  EXPECT_EQ(back.header_crc32c, shard.header_crc32c);
  ASSERT_EQ(back.tensors.size(), 2U);
  EXPECT_EQ(back.tensors[0], shard.tensors[0]);  // m, by name and by width
}

TEST_F(Manifest, every_damaged_byte_of_a_shard_is_noticed_and_named) {
  const io::Shard shard = write("a");
  const std::string whole = io::read_file(folder_ / "a", 4096);
  for (std::size_t i = 0; i < whole.size(); ++i) {
    std::string bytes = whole;
    bytes[i] = static_cast<char>(bytes[i] ^ 0x10);
    reef::test::write_file(folder_ / "a", bytes);
    std::vector<float> w(4);
    std::vector<double> m(1);
    try {
      const io::CheckedShard checked(folder_.path(), shard);
      checked.read("w.0", TensorView<float>(w.data(), {2, 2}));
      checked.read("m", TensorView<double>(m.data(), {1}));
      ADD_FAILURE() << "byte " << i;
    } catch (const DecodeError& error) {
      EXPECT_NE(std::string(error.what()).find((folder_ / "a").string()), std::string::npos)
          << error.what();
    }
  }
}

TEST_F(Manifest, a_tensor_of_many_pieces_is_written_read_and_checked_by_pieces) {
  constexpr Bytes piece = io::piece_bytes;
  w_.resize(2 * piece / sizeof(float) + 5);
  for (std::size_t i = 0; i < w_.size(); ++i) w_[i] = static_cast<float>(i);
  const auto bytes = std::as_bytes(std::span(w_));
  const Shape shape{static_cast<std::int64_t>(w_.size())};
  std::vector<Bytes> offsets;
  const std::vector<io::NamedSource> sources{
      {"w", shape, Element::float32, [&](Bytes offset, std::span<std::byte> room) {
         offsets.push_back(offset);
         std::ranges::copy(bytes.subspan(offset, room.size()), room.begin());
         return std::span<const std::byte>(room);
       }}};
  const io::Shard shard = io::stream_safetensors(folder_ / "a", sources);
  const std::vector<Bytes> expected{0, piece, 2 * piece};
  EXPECT_EQ(offsets, expected);
  EXPECT_EQ(shard.tensors.at(0).crc32c, io::crc32c(bytes));

  std::vector<float> whole(w_.size());
  const auto read = [&] {
    const io::CheckedShard checked(folder_.path(), shard);
    checked.read("w", {whole.data(), shape, Element::float32});
    std::vector<std::byte> room(piece);
    std::vector<std::byte> joined;
    checked.read(
        "w", shape, Element::float32, [&](Bytes, Bytes) { return room.data(); },
        [&](Bytes offset, std::span<const std::byte> part) {
          EXPECT_EQ(offset, joined.size());
          joined.insert(joined.end(), part.begin(), part.end());
        });
    EXPECT_TRUE(std::ranges::equal(joined, bytes));
  };
  read();
  EXPECT_EQ(whole, w_);
  const std::string good = io::read_file(folder_ / "a", 4 * piece);
  for (const Bytes at : {good.size() - bytes.size(), good.size() - piece, good.size() - 1}) {
    std::string bad = good;
    bad[at] = static_cast<char>(bad[at] ^ 1);
    reef::test::write_file(folder_ / "a", bad);
    EXPECT_THROW(read(), DecodeError) << at;
  }
}

TEST_F(Manifest, a_shard_that_was_cut_off_or_swapped_is_noticed) {
  const io::Shard shard = write("a");
  w_[0] = 9;
  const io::Shard other = write("b");
  std::filesystem::rename(folder_ / "b", folder_ / "a");
  const io::CheckedShard checked(folder_.path(), shard);
  std::vector<float> w(4);
  EXPECT_THROW(checked.read("w.0", TensorView<float>(w.data(), {2, 2})), DecodeError);
  reef::test::write_file(folder_ / "a", "short");
  EXPECT_THROW(io::CheckedShard(folder_.path(), shard), DecodeError);
  std::filesystem::remove(folder_ / "a");
  EXPECT_THROW(io::CheckedShard(folder_.path(), shard), FileError);
  EXPECT_NE(shard.tensors, other.tensors);
}

TEST_F(Manifest, a_shard_that_is_missing_cut_off_or_no_file_is_mended_with_its_checkpoint) {
  const io::Shard shard = write("a");
  const std::filesystem::path path = folder_ / "a";
  const std::string whole = io::read_file(path, 4096);
  const auto expect_refused = [&](const std::string& why) {
    try {
      const io::CheckedShard checked(folder_.path(), shard);
      ADD_FAILURE() << "not refused: " << why;
    } catch (const Error& error) {
      const std::string text = error.what();
      EXPECT_NE(text.find(why), std::string::npos) << text;
      EXPECT_NE(text.find(concat("\n  fix: ", io::checkpoint_fix)), std::string::npos) << text;
    }
  };
  for (const std::size_t bytes : {std::size_t{0}, std::size_t{20}, whole.size() - 1}) {
    reef::test::write_file(path, whole.substr(0, bytes));
    expect_refused(bytes == 0 ? "too short" : bytes == 20 ? "ends inside its header" : "outside the file");
  }
  std::filesystem::remove(path);
  expect_refused("No such file");
  std::filesystem::create_directory(path);
  expect_refused("Is a directory");
  std::filesystem::remove(path);
  ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);
  expect_refused("Invalid argument");
}

TEST_F(Manifest, a_shard_whose_metadata_alone_changed_is_noticed) {
  const std::vector<io::NamedView> views{{"w.0", TensorView<float>(w_.data(), {2, 2})}};
  const io::Shard shard = io::write_safetensors(folder_ / "a", views, {{"step", "1"}});
  EXPECT_NO_THROW(io::CheckedShard(folder_.path(), shard));
  const io::Shard other = io::write_safetensors(folder_ / "a", views, {{"step", "2"}});
  EXPECT_EQ(other.bytes, shard.bytes);
  EXPECT_EQ(other.tensors, shard.tensors);
  EXPECT_THROW(io::CheckedShard(folder_.path(), shard), DecodeError);
}

TEST_F(Manifest, a_shard_outside_the_folder_is_refused) {
  Json json = io::to_json(write("a"));
  for (const char* file : {"", ".", "..", "../a", "/etc/passwd", "x/y", "a\\b"}) {
    json["file"] = file;
    EXPECT_THROW(io::shard_from_json(json, "x"), DecodeError) << file;
  }
  json["file"] = std::string("a\0b", 3);
  EXPECT_THROW(io::shard_from_json(json, "x"), DecodeError);
}

TEST_F(Manifest, what_is_no_manifest_is_refused) {
  EXPECT_THROW(io::read_manifest(folder_.path()), FileError);
  const char* good =
      R"({"format":"reef.checkpoint","version":2,"facts":{},"shards":[{"file":"a","bytes":1,"header_crc32c":2,"tensors":{"t":3}}]})";
  const Json valid = io::parse_json(good, "x");
  const auto try_reading = [&](Json json) {
    json["crc32c"] = io::detail::crc32c_of_manifest(json);
    reef::test::write_file(folder_ / "manifest.json", json.dump());
    return io::read_manifest(folder_.path());
  };
  EXPECT_EQ(try_reading(valid).shards.at(0).tensors.at(0), (io::TensorChecksum{"t", 3}));
  for (const auto& [path, value] :
       std::vector<std::pair<std::string, Json>>{{"/format", "other"},
                                                 {"/version", 1},
                                                 {"/version", "2"},
                                                 {"/shards", 1},
                                                 {"/shards/0", 1},
                                                 {"/shards/0/bytes", -1},
                                                 {"/shards/0/tensors", Json::array({1})},
                                                 {"/shards/0/tensors/t", 4294967296},
                                                 {"/shards/0/tensors/t", "3"},
                                                 {"/shards/0/header_crc32c", 0.5}}) {
    Json bad = valid;
    bad[Json::json_pointer(path)] = value;
    EXPECT_THROW(try_reading(bad), DecodeError) << path;
  }
  Json twice = valid;
  twice["shards"].push_back(twice["shards"][0]);
  EXPECT_THROW(try_reading(twice), DecodeError);
  for (const auto& [key, ignored] : valid.items()) {
    Json bad = valid;
    bad.erase(key);
    EXPECT_THROW(try_reading(bad), DecodeError) << key;
  }
}

TEST_F(Manifest, a_change_of_any_fact_is_found_by_its_own_checksum) {
  io::write_manifest(folder_.path(), {{{"step", 20}, {"loss", 0.1}}, {write("a.safetensors")}});
  const std::filesystem::path path = folder_ / "manifest.json";
  std::ifstream file(path, std::ios::binary);
  const std::string good(std::istreambuf_iterator<char>(file), {});
  int found = 0;
  for (std::size_t i = 0; i < good.size(); ++i) {
    if (good[i] < '0' || good[i] > '9') continue;
    std::string bad = good;
    bad[i] = good[i] == '9' ? '8' : static_cast<char>(good[i] + 1);
    reef::test::write_file(path, bad);
    EXPECT_THROW(io::read_manifest(folder_.path()), DecodeError) << bad;
    ++found;
  }
  EXPECT_GT(found, 20);
  reef::test::write_file(path, io::parse_json(good, "x").dump());  // other spacing, same text
  EXPECT_NO_THROW(io::read_manifest(folder_.path()));
}

/// The numbers' types and bits too, which == does not look at.
void expect_identical(const Json& a, const Json& b, const std::string& where = "facts") {
  ASSERT_EQ(a, b) << where;
  if (a.is_number_float() || b.is_number_float()) {
    ASSERT_EQ(a.type(), b.type()) << where;
    EXPECT_EQ(std::bit_cast<std::uint64_t>(a.get<double>()),
              std::bit_cast<std::uint64_t>(b.get<double>()))
        << where;
  }
  if (!a.is_structured()) return;
  for (const auto& [key, value] : a.items()) {
    const Json& other = a.is_array() ? b.at(std::stoul(key)) : b.at(key);
    expect_identical(value, other, where + "." + key);
  }
}

TEST_F(Manifest, facts_come_back_as_they_went_in) {
  using Limits = std::numeric_limits<double>;
  Json deep = 1;
  for (int i = 0; i < 61; ++i) deep = Json::array({deep});  // beside the manifest and its facts
  const Json facts{
      {"integers",
       {0, -1, 9007199254740993, -9007199254740993, std::numeric_limits<std::int64_t>::min(),
        std::numeric_limits<std::int64_t>::max(), std::numeric_limits<std::uint64_t>::max()}},
      {"reals",
       {0.0, -0.0, 1.0, 0.1, -1.0 / 3, 1e22, 1e23, 9007199254740993.0, 1.8446744073709552e19,
        Limits::max(), Limits::lowest(), Limits::min(), Limits::denorm_min(), Limits::epsilon(),
        static_cast<double>(0.1F)}},
      {"texts",
       {"", "a", std::string("nul\0l", 5), "\x01\x1f\x7f", "quotes \" and \\ and /",
        "\xc3\xa4\xe2\x82\xac\xf0\x9f\x90\x9f", "\xe2\x80\xa8", "null", "NaN", "1e999"}},
      {"a.b", {{"", Json::object()}, {"\xc3\xa4", nullptr}, {"0", Json::array()}}},
      {"flags", {true, false, nullptr}},
      {"deep", deep}};
  for (const Json& some : std::vector<Json>{facts, Json::object()}) {
    io::write_manifest(folder_.path(), {some, {}});
    expect_identical(io::read_manifest(folder_.path()).facts, some);
  }
}

TEST_F(Manifest, facts_that_would_come_back_otherwise_are_refused_by_name) {
  io::write_manifest(folder_.path(), {{{"step", 1}}, {}});
  using Limits = std::numeric_limits<double>;
  Json deep = 1;
  for (int i = 0; i < 63; ++i) deep = Json::array({deep});
  const auto refused = [&](const Json& facts, const std::string& text) {
    try {
      io::write_manifest(folder_.path(), {facts, {}});
      ADD_FAILURE() << text;
    } catch (const OptionError& error) {
      EXPECT_NE(std::string(error.what()).find(text), std::string::npos) << error.what();
      EXPECT_NE(std::string(error.what()).find("fix: "), std::string::npos) << error.what();
    }
    EXPECT_EQ(io::read_manifest(folder_.path()).facts, Json({{"step", 1}}));
  };
  refused({{"loss", Limits::quiet_NaN()}}, "facts.'loss' is nan");
  refused({{"a", {1, {{"b", Limits::infinity()}}}}}, "facts.'a'[1].'b' is inf");
  refused({{"a", -Limits::infinity()}}, "facts.'a' is -inf");
  refused({{"note", "caf\xe9"}}, "facts.'note' is a text that is not UTF-8");
  refused({{"note", "\xed\xa0\x80"}}, "facts.'note' is a text that is not UTF-8");
  refused({{"caf\xe9", 1}}, "is not UTF-8");
  refused({{"bytes", Json::binary({1, 2, 3})}}, "facts.'bytes' is binary");
  refused({{"gone", Json(Json::value_t::discarded)}}, "facts.'gone' is no value");
  refused({{"deep", deep}}, "nests deeper than 64");
}

}  // namespace
