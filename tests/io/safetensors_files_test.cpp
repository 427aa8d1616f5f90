#include <reef/io/safetensors_files.hpp>

#include <cstddef>
#include <map>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <reef/io/safetensors_writer.hpp>

#include "../support/temporary_folder.hpp"

namespace reef::test {
namespace {

using testing::AllOf;
using testing::HasSubstr;

/// Two files in a folder: "a" and "b" in the first, "c" in the second.
class SafetensorsFiles : public testing::Test {
protected:
  SafetensorsFiles() {
    write("1.safetensors", {"a", "b"});
    write("2.safetensors", {"c"});
  }

  void write(const std::string& file, const std::vector<std::string>& names) {
    std::vector<float> values{1, 2};
    std::vector<io::NamedView> views;
    for (const std::string& name : names)
      views.push_back({name, TensorView<float>(values.data(), {2})});
    io::write_safetensors(folder_ / file, views);
  }

  /// What an index of that weight_map gives: names in their order, or what is wrong.
  std::string read(const std::string& weight_map) {
    write_file(folder_ / "model.safetensors.index.json", R"({"weight_map": )" + weight_map + "}");
    return read_place(folder_ / "model.safetensors.index.json");
  }
  static std::string read_place(const std::filesystem::path& place) {
    try {
      std::string names;
      const io::SafetensorsFiles files(place);
      for (const io::TensorInFile& found : files.tensors()) {
        names += found.tensor->name;
        std::vector<std::byte> bytes(found.tensor->bytes());
        found.file->read(*found.tensor, bytes);
      }
      return names;
    } catch (const Error& error) {
      EXPECT_THAT(error.what(), AllOf(HasSubstr(place.string()), HasSubstr("fix: ")));
      return error.what();
    }
  }

  TemporaryFolder folder_;
};

TEST_F(SafetensorsFiles, of_an_index_a_folder_or_one_file_have_their_tensors) {
  EXPECT_EQ(read(R"({"a": "1.safetensors", "b": "1.safetensors", "c": "2.safetensors"})"), "abc");
  EXPECT_EQ(read_place(folder_.path()), "abc");
  EXPECT_EQ(read_place(folder_ / "2.safetensors"), "c");
  EXPECT_EQ(io::SafetensorsFiles::paths(folder_.path()),
            (std::vector<std::filesystem::path>{folder_ / "model.safetensors.index.json",
                                                folder_ / "1.safetensors",
                                                folder_ / "2.safetensors"}));
  write("model.safetensors", {"d"});
  EXPECT_EQ(read_place(folder_.path()), "d") << "a whole model comes before an index";
}

TEST_F(SafetensorsFiles, that_their_index_does_not_describe_are_refused) {
  EXPECT_THAT(read_place(folder_.path()), HasSubstr("has neither model.safetensors nor"));
  EXPECT_THAT(read(R"({"a": "1.safetensors", "b": "1.safetensors", "c": "3.safetensors"})"),
              HasSubstr("its file '3.safetensors' is not there"));
  EXPECT_THAT(read(R"({"a": "1.safetensors", "b": "1.safetensors", "d": "1.safetensors"})"),
              HasSubstr("its tensor 'd' is not in '1.safetensors'"));
  EXPECT_THAT(read(R"({"a": "1.safetensors"})"), HasSubstr("does not name the tensor 'b'"));
  write("2.safetensors", {"a", "c"});
  EXPECT_THAT(read(R"({"a": "1.safetensors", "b": "1.safetensors", "c": "2.safetensors"})"),
              HasSubstr("its tensor 'a' is in two files, '2.safetensors' and '1.safetensors'"));
  for (const char* place : {R"("../1.safetensors")", R"("/1.safetensors")", R"("")", R"("..")",
                            R"("a\u0000.safetensors")", "7", "null"})
    EXPECT_THAT(read(R"({"a": )" + std::string(place) + "}"), HasSubstr("no file of its folder"))
        << place;
  EXPECT_THAT(read("{}"), HasSubstr("is no object of tensors and files"));
  EXPECT_THAT(read("[1]"), HasSubstr("is no object of tensors and files"));
  write_file(folder_ / "model.safetensors.index.json", "{}");
  EXPECT_THAT(read_place(folder_.path()), HasSubstr("is no index of safetensors files: it has no 'weight_map'"));
  write_file(folder_ / "case.json", "[1]");
  EXPECT_THAT(read_place(folder_ / "case.json"), HasSubstr("is no index of safetensors files"));
}

}  // namespace
}  // namespace reef::test
