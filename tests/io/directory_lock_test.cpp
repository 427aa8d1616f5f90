#include <reef/io/directory_lock.hpp>

#include <signal.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <thread>
#include <utility>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <reef/io/file.hpp>

#include <support/temporary_folder.hpp>

namespace {

/// As on a file system that has no locks.
bool without_locks = false;  // NOLINT(cppcoreguidelines-avoid-non-const-global-variables)

}  // namespace

// In the place of the library's own.
extern "C" int flock(int file, int operation) noexcept {
  if (without_locks) {
    errno = ENOLCK;
    return -1;
  }
  return static_cast<int>(::syscall(SYS_flock, file, operation));
}

namespace {

using namespace reef;
using io::DirectoryLock;
using testing::HasSubstr;

class DirectoryLocks : public testing::TestWithParam<bool> {
protected:
  DirectoryLocks() { without_locks = !GetParam(); }
  ~DirectoryLocks() override {
    without_locks = false;
    if (child_ > 0) end_child();
  }

  /// Another process, which has the lock until it is killed.
  void start_holder() {
    int ready[2];
    ASSERT_EQ(::pipe(ready), 0);
    child_ = ::fork();
    if (child_ == 0) {
      const DirectoryLock lock(folder_.path());
      if (::write(ready[1], "!", 1) == 1) ::pause();
      ::_exit(1);
    }
    char answer = 0;
    ASSERT_EQ(::read(ready[0], &answer, 1), 1);
    ::close(ready[0]);
    ::close(ready[1]);
  }
  void end_child() {
    ::kill(child_, SIGKILL);
    ::waitpid(child_, nullptr, 0);
    child_ = 0;
  }

  [[nodiscard]] std::string refusal() const {
    try {
      const DirectoryLock lock(folder_.path());
    } catch (const FileError& error) {
      return error.what();
    }
    return "";
  }

  [[nodiscard]] std::filesystem::path file() const { return folder_ / "reef.lock"; }

  reef::test::TemporaryFolder folder_;
  pid_t child_ = 0;
};

TEST_P(DirectoryLocks, another_process_is_refused_and_told_who_has_it_until_the_end) {
  start_holder();
  const std::string text = refusal();
  EXPECT_THAT(text, HasSubstr("another job writes to '" + folder_.path().string() + "'"));
  EXPECT_THAT(text, HasSubstr("process " + std::to_string(child_) + " on '" + io::host_name()));
  EXPECT_THAT(text, HasSubstr("fix: wait for its end, or give another directory."));
  EXPECT_NE(refusal(), "") << "that was refused took nothing away";
  ::kill(child_, SIGSTOP);
  EXPECT_NE(refusal(), "") << "of a stopped holder";
}

TEST_P(DirectoryLocks, what_a_killed_process_left_is_taken_over) {
  start_holder();
  end_child();
  EXPECT_TRUE(std::filesystem::exists(file()));
  EXPECT_EQ(refusal(), "");
  EXPECT_FALSE(std::filesystem::exists(file()));
}

TEST_P(DirectoryLocks, of_a_process_that_ends_soon_is_waited_for) {
  start_holder();
  std::thread killer([this] {
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
    ::kill(child_, SIGKILL);
    ::waitpid(child_, nullptr, 0);
  });
  EXPECT_NO_THROW(DirectoryLock(folder_.path(), 60));
  killer.join();
  child_ = 0;
}

TEST_P(DirectoryLocks, its_own_process_is_refused_too_and_nothing_is_left_at_the_end) {
  auto lock = std::make_unique<DirectoryLock>(folder_.path());
  EXPECT_THAT(refusal(), HasSubstr("this process"));
  lock.reset();
  EXPECT_TRUE(std::filesystem::is_empty(folder_.path()));
  EXPECT_EQ(refusal(), "");
}

TEST_P(DirectoryLocks, one_whose_directory_was_made_anew_is_taken_again_unless_another_has_it) {
  DirectoryLock lock(folder_.path());
  lock.renew();
  std::filesystem::remove(file());
  lock.renew();
  EXPECT_TRUE(std::filesystem::exists(file()));
  EXPECT_NE(refusal(), "");
  std::filesystem::remove(file());
  start_holder();
  EXPECT_THROW(lock.renew(), FileError);
}

TEST_P(DirectoryLocks, a_file_that_nobody_can_read_is_no_holder) {
  for (const std::string& text : {std::string(), std::string(100, '\0'), std::string("{"),
                                  std::string("{\"host\": 3, \"process\": \"x\"}")}) {
    reef::test::write_file(file(), text);
    const bool names_none = text.find("host") == std::string::npos;
    EXPECT_EQ(refusal().empty(), GetParam() || names_none) << text;
  }
}

TEST_P(DirectoryLocks, what_no_job_wrote_is_refused_by_what_it_is_and_stays) {
  const std::filesystem::path own = folder_ / "own.txt";
  const std::string text = R"({"host": "a file of mine that begins as a lock does"})";
  reef::test::write_file(own, text);
  const auto refused = [&](const std::string& what) {
    EXPECT_THAT(refusal(), HasSubstr("'" + file().string() + "' " + what + ", no lock of a job"));
    EXPECT_EQ(io::read_file(own, 1000), text);
    EXPECT_TRUE(std::filesystem::exists(std::filesystem::symlink_status(file())));
    std::filesystem::remove(file());
  };
  std::filesystem::create_symlink("own.txt", file());
  refused("is a link");
  std::filesystem::create_symlink("nowhere", file());
  refused("is a link");
  EXPECT_FALSE(std::filesystem::exists(folder_ / "nowhere"));
  std::filesystem::create_hard_link(own, file());
  refused("is one of 2 names of a file");
  std::filesystem::create_directory(file());
  refused("is a folder");
  ASSERT_EQ(::mkfifo(file().c_str(), 0600), 0);
  refused("is a pipe");
  for (const char* other : {"my notes\n", "[]", "null", "{\"hosts\": []}"}) {
    reef::test::write_file(file(), other);
    refused("holds something else");
  }
}

TEST_P(DirectoryLocks, a_holder_of_another_machine_counts_where_its_lock_may_not_be_seen) {
  reef::test::write_file(file(), R"({"host": "elsewhere", "process": 7, "start": 9, "since": "noon",
                                     "job": "SLURM_JOB_ID=12"})");
  const std::string text = refusal();
  if (GetParam() && !io::is_shared_file_system(folder_.path())) {
    EXPECT_EQ(text, "");
    return;
  }
  EXPECT_THAT(text, HasSubstr("process 7 on 'elsewhere', SLURM_JOB_ID=12 since noon"));
  EXPECT_THAT(text, HasSubstr("if it has ended, remove '" + file().string() + "'"));
}

INSTANTIATE_TEST_SUITE_P(Systems, DirectoryLocks, testing::Bool(), [](const auto& tested) {
  return std::string(tested.param ? "with_locks" : "without_locks");
});

TEST(DirectoryLock, of_a_mount_is_the_servers_where_its_options_say_so) {
  const std::string mounts =
      "22 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw\n"
      "40 22 0:51 / /home rw - nfs4 server:/home rw,vers=4.2,local_lock=none,addr=10.0.0.1\n"
      "41 22 0:52 / /old rw - nfs server:/old rw,vers=3,nolock,local_lock=none\n"
      "42 22 0:53 / /own rw - nfs4 server:/own rw,local_lock=all\n"
      "43 22 0:54 / /lustre rw - lustre mgs:/l rw,flock,lazystatfs\n"
      "44 22 0:55 / /near rw - lustre mgs:/n rw,localflock\n"
      "45 22 0:5 / /beegfs rw - beegfs b rw,flock\n"
      "a line that is none";
  for (const auto& [minor, expected] : {std::pair{51U, true},
                                        {52U, false},
                                        {53U, false},
                                        {54U, true},
                                        {55U, false},
                                        {5U, false},
                                        {99U, false}}) {
    EXPECT_EQ(io::detail::locks_are_the_servers(mounts, 0, minor), expected) << minor;
  }
  EXPECT_FALSE(io::detail::locks_are_the_servers("", 0, 51));
}

TEST(DirectoryLock, of_a_directory_that_is_not_there_names_it) {
  try {
    const DirectoryLock lock("/no/such/place");
    ADD_FAILURE() << "no FileError";
  } catch (const FileError& error) {
    EXPECT_THAT(error.what(), HasSubstr("/no/such/place/reef.lock"));
  }
}

}  // namespace
