// What users read when a file is not what its reader needs: its name, what is wrong, and what to do.

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <reef/comm/network_file.hpp>
#include <reef/data/bpe_tokenizer.hpp>
#include <reef/data/corpus.hpp>
#include <reef/data/token_shards.hpp>
#include <reef/io/manifest.hpp>
#include <reef/io/read_reals.hpp>
#include <reef/profile/profile_json.hpp>
#include <reef/trace/encoding.hpp>

#include "../support/temporary_folder.hpp"

namespace {

using namespace reef;
using testing::EndsWith;
using testing::HasSubstr;
using testing::StartsWith;
using Path = std::filesystem::path;

void read_case(const Path& path) { (void)comm::read_network(path.string(), 2); }
void read_manifest(const Path& path) { (void)io::read_manifest(path.parent_path()); }
void read_unsealed(const Path& path) {
  (void)io::manifest_from_json(io::read_json(path), path.string());
}
void read_profile(const Path& path) { (void)profile::load(path); }
void read_tensors(const Path& path) { (void)io::SafetensorsFile(path).at("w"); }
void read_as_reals(const Path& path) {
  const io::SafetensorsFile file(path);
  std::vector<float> values(1);
  io::read_reals(file, file.tensors()[0], std::span(values));
}
void read_tokens(const Path& path) { data::TokenShards({path}).require_below(100); }
void read_text(const Path& path) { data::Corpus({path}); }
void read_ranks(const Path& path) { (void)data::BpeTokenizer::read_tiktoken(path); }
void read_vocabulary(const Path& path) { (void)data::BpeTokenizer::read_gpt2(path, path); }
void read_recording(const Path& path) {
  const std::string bytes = io::read_file(path, 1_MiB);
  try {
    (void)trace::decode(std::as_bytes(std::span(bytes)));
  } catch (const DecodeError& error) {  // a recording comes from a rank: it has no name
    throw DecodeError(error.what(), " ", path.string());
  }
}

std::string safetensors(std::string_view header, std::size_t data) {
  const std::uint64_t length = header.size();
  std::string bytes(sizeof(length), '\0');
  std::memcpy(bytes.data(), &length, sizeof(length));
  return bytes.append(header).append(data, '\0');
}

struct Bad {
  std::string file;
  void (*read)(const Path&);
  std::string bytes;
  std::string what;
  std::string fix;
};

const std::string by_hand = "correct it there; if the file was cut off, copy it again.";
const std::string copy = "copy the checkpoint again, or remove its folder to resume";
const std::string other_file =
    "check that it is the safetensors file you meant, and copy it again.";
const std::string unchanged = "the files as their tokenizer has written them, unchanged.";
const std::string version = R"({"format": "reef.checkpoint", "version": 2, "facts": {}, )";
const std::string rates =
    R"("memory_bytes_per_second": 1, "host_bytes_per_second": 1, "copy_bytes_per_second": 1, "copy_latency": 0, "link_bytes_per_second": 1, "link_latency": 0, "slowdown": 1, )";
const std::string format = R"({"format": "reef-profile-6", )" + rates;

const std::vector<Bad> bad_files{
    {"case.json", read_case, "{\"latency_ms\": [[0, 1],", "case.json:1:24: ", by_hand},
    {"case.json", read_case, "{\"a\": 1, \"a\": 2}", "\"a\" comes twice", "keep one of the two."},
    {"case.json", read_case, R"({"\u0000": 1, "\u0000": 2})", "\"?\" comes twice",
     "keep one of the two."},
    {"case.json", read_case, std::string(70, '['), "deeper than 64", "the file you meant."},
    {"case.json", read_case, R"({"latency": 1})", "did you mean 'latency_ms'?",
     "correct or remove it."},
    {"case.json", read_case, "{}", "'bandwidth_gbps' is missing",
     "add it, or give a file that has it."},
    {"case.json", read_case, R"({"latency_ms": "fast"})", "'latency_ms' must be a number, or an array",
     "change it to that, or give another file."},
    {"case.json", read_case, R"({"latency_ms": [[0]], "bandwidth_gbps": [[1]]})",
     "1 devices, but there are 2 ranks", "fewer ranks, or a case with more devices."},
    {"case.json", read_case, R"({"latency_ms": [[0, 1], [1]]})", "latency_ms[1] has 1 numbers",
     "a row for each device, with a number for each device."},
    {"manifest.json", read_manifest, "{\"format\"", "manifest.json:1:10: ", copy},
    {"manifest.json", read_manifest, R"({"crc32c": -1})", "'crc32c' must be an integer", copy},
    {"manifest.json", read_manifest, R"({"crc32c": 1})", "its checksum differs", copy},
    {"manifest.json", read_manifest, R"({"format": "x"})", " is no manifest.", copy},
    {"manifest.json", read_manifest, "{}", " is no manifest.", copy},
    {"manifest.json", read_manifest, R"({"format": "reef.checkpoint", "version": 1})", "of version 1, not 2",
     "read it with the Reef that wrote it."},
    {"manifest.json", read_unsealed, version + "\"shards\": 7}", "'shards' must be an array", copy},
    {"manifest.json", read_unsealed, version + "\"shards\": [{}]}", "'file' is missing", copy},
    {"manifest.json", read_unsealed,
     version + R"("shards": [{"file": "/a", "bytes": 1, "header_crc32c": 2, "tensors": {}}]})",
     "no file of its folder", copy},
    {"manifest.json", read_unsealed,
     version + R"("shards": [{"file": "a", "bytes": 1, "header_crc32c": 2, "tensors": [1]}]})",
     "'tensors' is no object", copy},
    {"p.json", read_profile, "[", "p.json:1:2: ", "measure it again."},
    {"p.json", read_profile, R"({"format": "x"})", "has the format 'x'", "measure it again."},
    {"p.json", read_profile, format + R"("device": 1})", "'device' must be", "measure it again."},
    {"p.json", read_profile,
     format + R"("device": "a", "measured": true, "threads": 1, "operators": [{}]})",
     "operator 0: 'name' is missing", "measure it again."},
    {"w.safetensors", read_tensors, "1234567", "too short", other_file},
    {"w.safetensors", read_tensors, safetensors("{\"a\"", 0), "the header of", other_file},
    {"w.safetensors", read_tensors, safetensors("{\"a\":{\"dtype\":1,\"b\":1,\"c\":1}}", 0),
     "'dtype' must be a string", other_file},
    {"w.safetensors", read_tensors, safetensors("{}", 0), "no tensor 'w'", other_file},
    {"w.safetensors", read_as_reals,
     safetensors(R"({"a":{"dtype":"I32","shape":[1],"data_offsets":[0,4]}})", 4), "'a' is I32 (1)",
     "store it as one of these"},
    {"t.bin", read_tokens, "odd", "3 bytes, an odd number", "copy it again"},
    {"t.bin", read_tokens, std::string(60, 'a'), "is 24929, outside the vocabulary of 100",
     "give the tokenizer that the file was written with."},
    {"t.bin", read_tokens, std::string(80, 'a'), "its values are of 1 byte each",
     "write it again as uint16"},
    {"t.npy", read_tokens, "\x93NUMPY\x01", "its header is none of NumPy's", "copy it again"},
    {"text.txt", read_text, std::string(100, '\1'), "100 are zeros or control characters",
     "name text, or say that bytes are meant."},
    {"text.txt", read_text, "", "it is empty", "leave it out, or give it text."},
    {"ranks", read_ranks, "IQ==\n", "line 1: after the token the rank 0", unchanged},
    {"ranks", read_ranks, "", "has no token for byte 0", "a token for each of the 256 bytes."},
    {"vocab.json", read_vocabulary, "[]", "is no object", "name GPT-2's vocab.json."},
    {"vocab.json", read_vocabulary, R"({"a": 7})", "token 'a' has the id '7', expected 0 to 0",
     unchanged},
    {"recording", read_recording, "123456789", "at its checksum", "the same version of Reef."},
};

TEST(Refusals, of_a_file_name_it_and_say_what_is_wrong_and_what_to_do) {
  const test::TemporaryFolder folder;
  for (const Bad& bad : bad_files) {
    SCOPED_TRACE(bad.file + ": " + bad.what);
    const Path path = folder / bad.file;
    test::write_file(path, bad.bytes);
    try {
      bad.read(path);
      ADD_FAILURE() << "was read";
    } catch (const Error& error) {
      const std::string text = error.what();
      const std::size_t fix = text.find("\n  fix: ");
      ASSERT_NE(fix, std::string::npos) << text;
      EXPECT_THAT(text, StartsWith("reef::"));
      EXPECT_THAT(text, HasSubstr(path.string()));
      EXPECT_THAT(text.substr(0, fix), HasSubstr(bad.what));
      EXPECT_THAT(text.substr(fix), HasSubstr(bad.fix));
      EXPECT_EQ(text.find("fix: ", fix + 8), std::string::npos) << text;
    }
  }
}

TEST(Refusals, of_a_file_that_is_not_there_say_where_it_is_looked_for) {
  for (const auto read : {read_case, read_manifest, read_profile, read_tensors, read_tokens,
                          read_text, read_ranks, read_vocabulary}) {
    try {
      read("no/such/file");
      ADD_FAILURE() << "was read";
    } catch (const FileError& error) {
      EXPECT_THAT(error.what(), HasSubstr("no/such/"));
      EXPECT_THAT(error.what(), EndsWith("relative ones start at the working directory."));
    }
  }
}

}  // namespace
