#include <reef/io/mapped_file.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <utility>

#include <reef/io/atomic_file.hpp>

#include "../support/temporary_folder.hpp"

namespace {

using namespace reef;

std::string text_of(const io::MappedFile& file) {
  std::string text;
  for (const std::byte b : file.bytes()) text += static_cast<char>(b);
  return text;
}

TEST(MappedFile, has_the_bytes_of_the_file) {
  const test::TemporaryFolder folder;
  std::string large(100'001, '\0');
  for (std::size_t i = 0; i < large.size(); ++i) large[i] = static_cast<char>(i * 31 % 253);
  for (const std::string& text : {std::string("a"), std::string(4096, 'x'), large}) {
    test::write_file(folder / "f", text);
    const io::MappedFile file(folder / "f");
    EXPECT_EQ(file.size(), text.size());
    EXPECT_EQ(text_of(file), text);
    EXPECT_EQ(file.path(), folder / "f");
  }
}

TEST(MappedFile, an_empty_file_has_no_bytes) {
  const test::TemporaryFolder folder;
  test::write_file(folder / "f", "");
  const io::MappedFile file(folder / "f");
  EXPECT_EQ(file.size(), 0U);
  EXPECT_TRUE(file.bytes().empty());
}

TEST(MappedFile, moves_its_bytes_without_moving_them_in_memory) {
  const test::TemporaryFolder folder;
  test::write_file(folder / "a", "first");
  test::write_file(folder / "b", "second");
  io::MappedFile a(folder / "a");
  const std::byte* const data = a.bytes().data();
  io::MappedFile moved(std::move(a));
  EXPECT_EQ(moved.bytes().data(), data);
  EXPECT_EQ(text_of(moved), "first");
  io::MappedFile b(folder / "b");
  b = std::move(moved);
  EXPECT_EQ(b.bytes().data(), data);
  EXPECT_EQ(text_of(b), "first");
}

TEST(MappedFile, keeps_the_old_bytes_of_a_file_that_is_replaced) {
  const test::TemporaryFolder folder;
  test::write_file(folder / "f", "the old text");
  const io::MappedFile file(folder / "f");
  io::write_atomically(folder / "f", "new");
  EXPECT_EQ(text_of(file), "the old text");
  EXPECT_EQ(text_of(io::MappedFile(folder / "f")), "new");
}

TEST(MappedFile, tells_what_was_done_to_its_file_since_and_nothing_of_one_that_is_still_whole) {
  const test::TemporaryFolder folder;
  const auto change_by = [&](const auto& work) {
    std::filesystem::remove(folder / "f");
    test::write_file(folder / "f", "the old text");
    std::filesystem::last_write_time(folder / "f", std::filesystem::file_time_type{});
    io::MappedFile opened(folder / "f");
    const io::MappedFile file(std::move(opened));
    work();
    return file.change();
  };
  EXPECT_EQ(change_by([] {}), "");
  EXPECT_EQ(change_by([&] { std::filesystem::resize_file(folder / "f", 5); }),
            "it was cut from 12 to 5 bytes");
  EXPECT_EQ(change_by([&] { test::write_file(folder / "f", ""); }),
            "it was cut from 12 to 0 bytes");
  EXPECT_EQ(change_by([&] { test::write_file(folder / "f", "the new text"); }),
            "it was written to");
  EXPECT_EQ(change_by([&] { io::write_atomically(folder / "f", "new"); }), "");
  EXPECT_EQ(change_by([&] { std::filesystem::rename(folder / "f", folder / "g"); }), "");
}

TEST(MappedFile, says_which_file_it_cannot_map_and_why) {
  const test::TemporaryFolder folder;
  const auto message = [](const std::filesystem::path& path) -> std::string {
    try {
      const io::MappedFile file(path);
      return "no error";
    } catch (const FileError& error) {
      return error.what();
    }
  };
  EXPECT_THAT(message(folder / "missing"), testing::HasSubstr("missing': No such file"));
  EXPECT_THAT(message(folder.path()), testing::HasSubstr("name a regular file"));
  ASSERT_EQ(::mkfifo((folder / "pipe").c_str(), 0600), 0);
  EXPECT_THAT(message(folder / "pipe"), testing::HasSubstr("name a regular file"));
}

}  // namespace
