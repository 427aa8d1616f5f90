#include <reef/io/atomic_file.hpp>

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <thread>

#include <reef/io/file.hpp>
#include <support/temporary_folder.hpp>

namespace {

using namespace reef;
namespace fs = std::filesystem;

std::string content(const fs::path& path) { return io::read_file(path, 1 << 20); }

std::ptrdiff_t files_in(const fs::path& folder) {
  return std::distance(fs::directory_iterator(folder), fs::directory_iterator());
}

TEST(AtomicFile, appears_whole_under_its_name_and_leaves_nothing_beside_it) {
  const reef::test::TemporaryFolder folder;
  io::write_atomically(folder / "a", "first");
  EXPECT_EQ(content(folder / "a"), "first");
  io::write_atomically(folder / "a", "");
  EXPECT_EQ(content(folder / "a"), "");
  EXPECT_EQ(files_in(folder.path()), 1);
}

TEST(AtomicFile, that_is_long_has_all_that_was_written_in_parts) {
  const reef::test::TemporaryFolder folder;
  std::string part(3'000'001, ' ');
  io::AtomicFile file(folder / "a");
  std::string all;
  for (int i = 0; i < 8; ++i) {
    for (std::size_t at = 0; at < part.size(); ++at) {
      part[at] = static_cast<char>((at * 31 + static_cast<std::size_t>(i)) % 251);
    }
    file.write(part);
    all += part;
  }
  file.commit();
  EXPECT_TRUE(io::read_file(folder / "a", Bytes{1} << 30) == all);
}

TEST(AtomicFile, without_commit_leaves_the_old_file_and_removes_its_own) {
  const reef::test::TemporaryFolder folder;
  io::write_atomically(folder / "a", "old");
  {
    io::AtomicFile file(folder / "a");
    file.write("new");
    EXPECT_EQ(content(folder / "a"), "old");
    EXPECT_EQ(files_in(folder.path()), 2);
  }
  EXPECT_EQ(content(folder / "a"), "old");
  EXPECT_EQ(files_in(folder.path()), 1);
}

TEST(AtomicFile, writes_into_what_is_no_regular_file_and_leaves_it_there) {
  const reef::test::TemporaryFolder folder;
  const auto pipe = folder.path() / "pipe";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  const int reader = ::open(pipe.c_str(), O_RDONLY | O_NONBLOCK);
  io::write_atomically(pipe, "text");
  char text[8] = {};
  EXPECT_EQ(::read(reader, text, sizeof text), 4);
  EXPECT_STREQ(text, "text");
  ::close(reader);
  EXPECT_TRUE(std::filesystem::is_fifo(pipe));
  EXPECT_THROW(io::write_atomically("/dev/full", "text"), FileError);
  EXPECT_TRUE(std::filesystem::is_character_file("/dev/full"));
}

TEST(AtomicFile, says_which_path_fails_and_why) {
  const reef::test::TemporaryFolder folder;
  try {
    io::write_atomically(folder / "missing/a", "x");
    FAIL() << "no error";
  } catch (const FileError& error) {
    const std::string text = error.what();
    EXPECT_NE(text.find("missing/a': No such file or directory"), std::string::npos) << text;
    EXPECT_NE(text.find("fix: create the folder '" + (folder / "missing").string() + "' first"),
              std::string::npos)
        << text;
  }
  ASSERT_EQ(::mkfifo((folder / "pipe").c_str(), 0600), 0);
  try {
    io::write_atomically(folder / "pipe", "x");
    FAIL() << "no error";
  } catch (const FileError& error) {
    const std::string text = error.what();
    EXPECT_NE(text.find("pipe': it is a pipe that nobody reads"), std::string::npos) << text;
  }
  fs::remove(folder / "pipe");
  fs::create_directory(folder / "a");
  EXPECT_THROW(io::write_atomically(folder / "a", "x"), FileError);
  EXPECT_TRUE(fs::is_directory(folder / "a"));
  EXPECT_EQ(files_in(folder.path()), 1);
}

TEST(AtomicFile, what_a_crash_has_left_under_its_temporary_name_is_in_nobodys_way) {
  const reef::test::TemporaryFolder folder;
  std::string last;
  {
    io::AtomicFile probe(folder / "a");
    for (const auto& entry : fs::directory_iterator(folder.path())) last = entry.path().string();
  }
  const std::size_t dot = last.rfind('.');
  ASSERT_NE(dot, std::string::npos);
  for (int next = 1; next <= 3; ++next) {
    std::ofstream(last.substr(0, dot + 1) + std::to_string(std::stoi(last.substr(dot + 1)) + next))
        << "left";
  }
  io::write_atomically(folder / "a", "new");
  EXPECT_EQ(content(folder / "a"), "new");
  EXPECT_EQ(files_in(folder.path()), 4);
}

TEST(AtomicFile, a_file_that_may_not_grow_is_an_error_and_not_a_short_file) {
  const reef::test::TemporaryFolder folder;
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    ::signal(SIGXFSZ, SIG_IGN);
    const rlimit limit{4096, 4096};
    ::setrlimit(RLIMIT_FSIZE, &limit);
    try {
      io::write_atomically(folder / "a", std::string(10'000, 'x'));
    } catch (const FileError&) {
      ::_exit(fs::exists(folder / "a") || files_in(folder.path()) != 0 ? 2 : 0);
    }
    ::_exit(1);
  }
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

TEST(AtomicFile, a_reader_sees_one_whole_version_while_a_writer_replaces_it) {
  const reef::test::TemporaryFolder folder;
  io::write_atomically(folder / "a", std::string(5000, '0'));
  std::atomic<bool> done{false};
  std::thread writer([&] {
    for (int i = 0; i < 50; ++i) {
      io::write_atomically(folder / "a", std::string(5000, static_cast<char>('0' + i % 10)));
    }
    done = true;
  });
  while (!done) {
    const std::string seen = content(folder / "a");
    EXPECT_EQ(seen.size(), 5000U);
    EXPECT_EQ(std::count(seen.begin(), seen.end(), seen[0]), 5000);
  }
  writer.join();
}

TEST(AtomicFile, a_killed_writer_leaves_the_old_file) {
  const reef::test::TemporaryFolder folder;
  io::write_atomically(folder / "a", "old");
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    io::AtomicFile file(folder / "a");
    file.write("new, but not all of it");
    ::kill(::getpid(), SIGKILL);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFSIGNALED(status));
  EXPECT_EQ(content(folder / "a"), "old");
}

TEST(File, reads_at_any_place_and_says_where_it_ends) {
  const reef::test::TemporaryFolder folder;
  io::write_atomically(folder / "a", "0123456789");
  const io::File file(folder / "a");
  EXPECT_EQ(file.size(), 10U);
  std::string part(4, ' ');
  file.read(3, std::as_writable_bytes(std::span(part)));
  EXPECT_EQ(part, "3456");
  EXPECT_THROW(file.read(7, std::as_writable_bytes(std::span(part))), FileError);
  EXPECT_THROW(io::File(folder.path()), FileError);
  EXPECT_THROW(io::File(folder / "b"), FileError);
}

TEST(File, a_pipe_of_that_name_is_refused_at_once) {
  const reef::test::TemporaryFolder folder;
  ASSERT_EQ(::mkfifo((folder / "pipe").c_str(), 0600), 0);
  ::alarm(20);  // an open that waits for a writer would wait for ever
  EXPECT_THROW(io::File(folder / "pipe"), FileError);
  ::alarm(0);
}

TEST(File, is_read_whole_up_to_the_limit_also_from_a_pipe) {
  const reef::test::TemporaryFolder folder;
  io::write_atomically(folder / "a", "0123456789");
  EXPECT_EQ(io::read_file(folder / "a", 10), "0123456789");
  EXPECT_THROW(io::read_file(folder / "a", 9), DecodeError);
  const fs::path pipe = folder / "pipe";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  const std::string text(200'000, 'x');
  std::thread writer([&] { std::ofstream(pipe) << text; });
  EXPECT_EQ(io::read_file(pipe, 1 << 20), text);
  writer.join();
}

}  // namespace
