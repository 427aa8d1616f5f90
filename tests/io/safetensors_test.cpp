#include <reef/io/safetensors.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include <reef/core/random.hpp>
#include <support/temporary_folder.hpp>

namespace {

using namespace reef;

struct Sample {
  std::vector<float> weight{1, 2, 3, 4, 5, 6};
  std::vector<double> moment{-1, 0.1};
  std::vector<std::int32_t> cursor{7};
  std::vector<std::uint8_t> flags{1, 0, 255};
  std::vector<float> none;

  std::vector<io::NamedView> views() {
    return {{"flags", TensorView<std::uint8_t>(flags.data(), {3})},
            {"h.0.weight", TensorView<float>(weight.data(), {2, 3})},
            {"cursor", TensorView<std::int32_t>(cursor.data(), {})},
            {"empty", TensorView<float>(none.data(), {0, 5})},
            {"moment", TensorView<double>(moment.data(), {2, 1, 1})}};
  }
};

/// A safetensors file from any header text and that many bytes of data.
std::string raw(const std::string& header, std::size_t data) {
  std::string bytes(8, '\0');
  const std::uint64_t length = header.size();
  std::memcpy(bytes.data(), &length, 8);
  return bytes + header + std::string(data, 'd');
}

std::string entry(const std::string& dtype, const std::string& shape, const std::string& offsets) {
  return R"({"dtype":")" + dtype + R"(","shape":)" + shape + R"(,"data_offsets":)" + offsets + "}";
}

class Safetensors : public testing::Test {
protected:
  std::string open_error(const std::string& bytes) {
    reef::test::write_file(path_, bytes);
    try {
      const io::SafetensorsFile file(path_);
      return "no error";
    } catch (const DecodeError& error) {
      return error.what();
    }
  }

  reef::test::TemporaryFolder folder_;
  std::filesystem::path path_ = folder_ / "model.safetensors";
};

TEST_F(Safetensors, what_was_written_is_read_back) {
  Sample sample;
  const auto views = sample.views();
  const io::Shard shard = io::write_safetensors(path_, views, {{"step", "12"}, {"a", "\"\n"}});
  const io::SafetensorsFile file(path_);
  EXPECT_EQ(file.metadata(), (io::Metadata{{"step", "12"}, {"a", "\"\n"}}));
  EXPECT_EQ(file.tensors().size(), 5U);
  EXPECT_EQ(file.size(), std::filesystem::file_size(path_));
  EXPECT_EQ(shard.bytes, file.size());
  EXPECT_EQ(shard.file, "model.safetensors");
  EXPECT_EQ(shard.header_crc32c, file.header_crc32c());

  Sample copy;
  for (auto* values : {&copy.weight}) std::fill(values->begin(), values->end(), 0.0F);
  copy.moment = {0, 0};
  copy.cursor = {0};
  copy.flags = {0, 0, 0};
  for (const io::NamedView& view : copy.views()) file.read(view.name, view.view);
  EXPECT_EQ(copy.weight, sample.weight);
  EXPECT_EQ(copy.moment, sample.moment);
  EXPECT_EQ(copy.cursor, sample.cursor);
  EXPECT_EQ(copy.flags, sample.flags);
  const io::StoredTensor& weight = file.at("h.0.weight");
  EXPECT_EQ(weight.dtype, "F32");
  EXPECT_EQ(weight.shape, (std::vector<std::int64_t>{2, 3}));
  for (const io::TensorChecksum& tensor : shard.tensors) {
    std::vector<std::byte> bytes(file.at(tensor.name).bytes());
    file.read(file.at(tensor.name), bytes);
    EXPECT_EQ(io::crc32c(bytes), tensor.crc32c);
  }
}

TEST_F(Safetensors, the_bytes_are_those_of_the_format_whatever_order_was_given) {
  std::vector<float> b{1.0F};
  std::vector<std::uint8_t> a{9};
  const std::string header =
      R"({"__metadata__":{"k":"v"},"b":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},)"
      R"("a":{"dtype":"U8","shape":[],"data_offsets":[4,5]}})";
  std::string expected = raw(header + std::string((8 - header.size() % 8) % 8, ' '), 0);
  expected += std::string("\x00\x00\x80\x3f\x09", 5);
  std::vector<io::NamedView> views{{"a", TensorView<std::uint8_t>(a.data(), {})},
                                   {"b", TensorView<float>(b.data(), {1})}};
  for (int order = 0; order < 2; ++order) {
    io::write_safetensors(path_, views, {{"k", "v"}});
    EXPECT_EQ(io::read_file(path_, 4096), expected);
    std::reverse(views.begin(), views.end());
  }
}

TEST_F(Safetensors, a_file_without_tensors_is_one) {
  io::write_safetensors(path_, {});
  EXPECT_TRUE(io::SafetensorsFile(path_).tensors().empty());
  EXPECT_EQ(open_error(raw("{}", 0)), "no error");
}

TEST_F(Safetensors, a_tensor_of_another_shape_or_type_is_not_read) {
  Sample sample;
  io::write_safetensors(path_, sample.views());
  const io::SafetensorsFile file(path_);
  std::vector<float> to(6, -1);
  EXPECT_THROW(file.read("h.0.weight", TensorView<float>(to.data(), {3, 2})), DecodeError);
  EXPECT_THROW(file.read("h.0.weight", TensorView<float>(to.data(), {6})), DecodeError);
  EXPECT_THROW(file.read("cursor", TensorView<float>(to.data(), {})), DecodeError);
  EXPECT_THROW(file.read("nothing", TensorView<float>(to.data(), {})), DecodeError);
  EXPECT_THROW(file.read(file.at("cursor"), std::as_writable_bytes(std::span(to))), DecodeError);
  EXPECT_EQ(to, std::vector<float>(6, -1));
  EXPECT_EQ(file.find("nothing"), nullptr);
}

TEST_F(Safetensors, every_truncation_is_refused) {
  Sample sample;
  io::write_safetensors(path_, sample.views(), {{"k", "v"}});
  const std::string whole = io::read_file(path_, 4096);
  for (std::size_t size = 0; size < whole.size(); ++size) {
    EXPECT_NE(open_error(whole.substr(0, size)), "no error") << size;
  }
  EXPECT_NE(open_error(whole + "x"), "no error");
  EXPECT_EQ(open_error(whole), "no error");
}

TEST_F(Safetensors, lying_lengths_allocate_nothing_and_are_refused) {
  for (const std::uint64_t length :
       {std::uint64_t{3}, std::uint64_t{1000}, io::SafetensorsFile::max_header_bytes,
        io::SafetensorsFile::max_header_bytes + 1, std::uint64_t{1} << 63, ~std::uint64_t{0},
        ~std::uint64_t{7}}) {
    std::string bytes = raw("{}", 0);
    std::memcpy(bytes.data(), &length, 8);
    EXPECT_NE(open_error(bytes), "no error") << length;
  }
}

TEST_F(Safetensors, headers_that_contradict_themselves_or_the_file_are_refused) {
  const auto one = [&](const std::string& value) { return raw("{\"a\":" + value + "}", 8); };
  EXPECT_EQ(open_error(one(entry("F32", "[2]", "[0,8]"))), "no error");
  EXPECT_EQ(open_error(one(entry("BF16", "[2,2,1,1,1,1]", "[0,8]"))), "no error");
  for (const std::string& value :
       {entry("F32", "[2]", "[0,4]"),                      // shape says more
        entry("F32", "[1]", "[0,8]"),                      // shape says less
        entry("F32", "[1]", "[4,8]"),                      // a hole in front
        entry("F32", "[1]", "[0,4]"),                      // bytes left over
        entry("F32", "[2]", "[8,0]"),                      // backwards
        entry("F32", "[4]", "[0,16]"),                     // beyond the end
        entry("F32", "[2]", "[0,8,8]"),                    // three offsets
        entry("F32", "[-2]", "[0,8]"),                     // negative extents
        entry("F32", "[-1,-2]", "[0,8]"),                  //
        entry("F32", "[2.0]", "[0,8]"),                    // no integer
        entry("F32", "[\"2\"]", "[0,8]"),                  //
        entry("F32", "2", "[0,8]"),                        //
        entry("F32", "[4611686018427387906]", "[0,8]"),    // wraps to 8
        entry("F32", "[9223372036854775807,9]", "[0,8]"),  //
        entry("F32", "[18446744073709551615]", "[0,8]"),   // beyond int64
        entry("F4", "[2]", "[0,8]"),                       // unknown
        entry("f32", "[2]", "[0,8]"),                      //
        entry("F32", "[2]", "[-8,0]"),                     //
        entry("F32", "[2]", "[0,18446744073709551616]"),   //
        std::string(R"({"dtype":"F32","shape":[2]})"),     // fields missing or unknown
        std::string(R"({"dtype":"F32","shape":[2],"data_offsets":[0,8],"x":1})"),
        std::string(R"({"dtype":"F32","dtype":"F32","shape":[2],"data_offsets":[0,8]})"),
        std::string("7"),
        std::string("null"),
        std::string("[]")}) {
    EXPECT_NE(open_error(one(value)), "no error") << value;
  }
}

TEST_F(Safetensors, tensors_that_overlap_leave_gaps_or_share_a_name_are_refused) {
  const auto two = [&](const std::string& a, const std::string& b, const char* name = "b") {
    return open_error(raw("{\"a\":" + a + ",\"" + name + "\":" + b + "}", 8));
  };
  const std::string low = entry("F32", "[1]", "[0,4]");
  const std::string high = entry("F32", "[1]", "[4,8]");
  EXPECT_EQ(two(low, high), "no error");
  EXPECT_EQ(two(high, low), "no error");
  EXPECT_NE(two(low, low), "no error");
  EXPECT_NE(two(low, entry("F32", "[2]", "[0,8]")), "no error");
  EXPECT_NE(two(entry("U8", "[3]", "[0,3]"), high), "no error");
  EXPECT_NE(two(entry("U8", "[5]", "[0,5]"), high), "no error");
  EXPECT_NE(two(low, high, "a").find("comes twice"), std::string::npos);
  EXPECT_EQ(two(entry("F32", "[0,9223372036854775807]", "[0,0]"), entry("F32", "[2]", "[0,8]")),
            "no error");
  // Empty as well, but only once its size has wrapped around: the format's reader refuses it too.
  EXPECT_NE(two(entry("F32", "[4611686018427387904,8,0]", "[0,0]"), entry("F32", "[2]", "[0,8]")),
            "no error");
}

TEST_F(Safetensors, headers_that_are_no_object_of_the_format_are_refused) {
  for (const char* header :
       {"", " {}", "[]", "{", "{}{}", "{\"__metadata__\":1}", "{\"__metadata__\":{\"a\":1}}",
        "{\"__metadata__\":{},\"__metadata__\":{}}", "null"}) {
    EXPECT_NE(open_error(raw(header, 0)), "no error") << header;
  }
  std::string deep = "{\"a\":";
  deep += std::string(100'000, '[') + std::string(100'000, ']') + "}";
  EXPECT_NE(open_error(raw(deep, 0)), "no error");
  EXPECT_EQ(open_error(raw("{}   \n ", 0)), "no error");
}

TEST_F(Safetensors, any_change_of_a_byte_is_refused_or_leaves_a_consistent_file) {
  Sample sample;
  io::write_safetensors(path_, sample.views(), {{"k", "v"}});
  const std::string whole = io::read_file(path_, 4096);
  int refused = 0;
  for (std::uint64_t trial = 0; trial < 2'000; ++trial) {
    const DrawKey key{5, trial, 0, 0};
    std::string bytes = whole;
    for (std::uint64_t i = 0; i <= random_bits(key, 0) % 2; ++i) {
      bytes[random_bits(key, 2 * i + 1) % bytes.size()] =
          static_cast<char>(random_bits(key, 2 * i + 2) >> 20);
    }
    if (open_error(bytes) != "no error") {
      ++refused;
      continue;
    }
    const io::SafetensorsFile file(path_);
    for (const io::StoredTensor& tensor : file.tensors()) {
      std::vector<std::byte> to(static_cast<std::size_t>(tensor.bytes()));
      EXPECT_NO_THROW(file.read(tensor, to));
    }
  }
  EXPECT_GT(refused, 1'000);
}

TEST_F(Safetensors, names_that_the_format_cannot_hold_are_refused_before_anything_is_written) {
  io::write_atomically(path_, "old");
  std::vector<float> x{1};
  const AnyView view = TensorView<float>(x.data(), {1});
  for (const auto& views : std::vector<std::vector<io::NamedView>>{
           {{"a", view}, {"a", view}}, {{"__metadata__", view}}, {{"\xff", view}}}) {
    EXPECT_THROW(io::write_safetensors(path_, views), OptionError);
  }
  EXPECT_THROW(io::write_safetensors(path_, {}, {{"k", "\x80"}}), OptionError);
  EXPECT_EQ(io::read_file(path_, 10), "old");
}

TEST_F(Safetensors, a_source_that_gives_less_than_it_has_leaves_the_old_file) {
  io::write_atomically(path_, "old");
  const std::vector<std::byte> zeros(16);
  const auto with = [&](std::size_t bytes) {
    return std::vector<io::NamedSource>{
        {"x", Shape{4}, Element::float32,
         [&zeros, bytes](Bytes, std::span<std::byte>) { return std::span(zeros).first(bytes); }}};
  };
  EXPECT_THROW(io::stream_safetensors(path_, with(15)), OptionError);
  EXPECT_EQ(io::read_file(path_, 10), "old");
  io::stream_safetensors(path_, with(16));
  std::vector<float> x(4, 1);
  io::SafetensorsFile(path_).read("x", TensorView<float>(x.data(), {4}));
  EXPECT_EQ(x, std::vector<float>(4, 0));
}

}  // namespace
