#pragma once

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>
#if defined(__linux__)
#include <sys/vfs.h>
#endif

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <cstdlib>
#include <ctime>
#include <fstream>
#include <iterator>
#include <system_error>
#include <thread>

#include <reef/core/inline.hpp>
#include <reef/core/text.hpp>
#include <reef/io/directory_lock.hpp>

namespace reef {
inline namespace v0 {
namespace io {

REEF_INLINE std::string host_name() {
  std::array<char, 256> name{};
  return ::gethostname(name.data(), name.size() - 1) == 0 ? std::string(name.data()) : "unknown";
}

REEF_INLINE bool is_shared_file_system([[maybe_unused]] const std::filesystem::path& path) {
#if defined(__linux__)
  struct statfs about {};
  if (::statfs(path.c_str(), &about) != 0) return true;
  // ext, XFS, Btrfs, tmpfs, ramfs, overlayfs, F2FS, ZFS, bcachefs, ReiserFS, JFS: linux/magic.h.
  constexpr std::array<std::uint32_t, 11> local{0xEF53,     0x58465342, 0x9123683E, 0x01021994,
                                                0x858458F6, 0x794C7630, 0xF2F52010, 0x2FC12FC1,
                                                0xCA451A4E, 0x52654973, 0x3153464A};
  return std::find(local.begin(), local.end(), static_cast<std::uint32_t>(about.f_type)) ==
         local.end();
#else
  return true;
#endif
}

namespace detail {

REEF_INLINE bool locks_are_the_servers(std::string_view mounts, std::uint64_t major,
                                       std::uint64_t minor) {
  const std::string device = concat(" ", major, ":", minor, " ");
  while (!mounts.empty()) {
    const std::string_view line = mounts.substr(0, mounts.find('\n'));
    mounts.remove_prefix((std::min)(line.size() + 1, mounts.size()));
    const std::size_t dash = line.find(" - ");
    if (dash == std::string_view::npos ||
        line.substr(0, dash).find(device) == std::string_view::npos)
      continue;
    const std::string about = concat(line.substr(dash + 3), ",");  // kind, source, options
    const std::string options = "," + about.substr(about.rfind(' ') + 1);
    const auto has = [&](const char* option) {
      return options.find(concat(",", option, ",")) != std::string::npos;
    };
    if (about.starts_with("nfs")) return has("local_lock=none") && !has("nolock");
    return about.starts_with("lustre ") && has("flock");
  }
  return false;
}

/// When a process of this machine began, in the kernel's ticks since it started; 0: there is none.
inline std::uint64_t start_of_process(std::int64_t process) {
  std::ifstream file(concat("/proc/", process, "/stat"));
  std::string line((std::istreambuf_iterator<char>(file)), {});
  std::size_t at = line.rfind(')');  // "id (name) state parent ...", of which the 22nd is the start
  for (int field = 2; at != std::string::npos && field < 22; ++field) at = line.find(' ', at + 1);
  std::uint64_t start = 0;
  if (at != std::string::npos)
    std::from_chars(line.data() + at + 1, line.data() + line.size(), start);
  return start;
}

}  // namespace detail

REEF_INLINE void DirectoryLock::renew() {
  if (is_named()) return;
  file_.close();
  acquire(0);
}

REEF_INLINE void DirectoryLock::acquire(Seconds patience) {
  using Clock = std::chrono::steady_clock;
  const auto begin = Clock::now();
  for (;;) {
    open();
    const bool taken = ::flock(file_.get(), LOCK_EX | LOCK_NB) == 0;
    const bool held = !taken && errno == EWOULDBLOCK;
    if (taken && !is_named()) continue;  // whoever had it has removed it meanwhile
    const Json holder = read();
    if (!held && !is_held_by(holder, taken)) break;
    if (std::chrono::duration<Seconds>(Clock::now() - begin).count() >= patience) refuse(holder);
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  write();
}

REEF_INLINE void DirectoryLock::open() {
  file_ = detail::Descriptor(::open(
      path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY, 0666));
  const int code = errno;
  if (!file_) {
    struct ::stat named {};
    if (::lstat(path_.c_str(), &named) == 0) require_own(named);
    detail::throw_file_error("make the lock", path_, code,
                             "the folder must exist, be writable, and have space left.");
  }
  struct ::stat here {};
  if (::fstat(file_.get(), &here) != 0)
    detail::throw_file_error("look at the lock", path_, errno, "check the file system.");
  require_own(here);
  std::array<char, 64> text{};
  const ::ssize_t size = ::pread(file_.get(), text.data(), text.size(), 0);
  if (!begins_as_a_lock({text.data(), static_cast<std::size_t>(std::max<::ssize_t>(size, 0))}))
    refuse_foreign("holds something else");
}

REEF_INLINE void DirectoryLock::require_own(const struct ::stat& found) {
  if (S_ISLNK(found.st_mode)) refuse_foreign("is a link");
  if (S_ISDIR(found.st_mode)) refuse_foreign("is a folder");
  if (S_ISFIFO(found.st_mode)) refuse_foreign("is a pipe");
  if (!S_ISREG(found.st_mode)) refuse_foreign("is no regular file");
  if (found.st_nlink > 1) refuse_foreign(concat("is one of ", found.st_nlink, " names of a file"));
}

REEF_INLINE bool DirectoryLock::begins_as_a_lock(std::string_view text) {
  constexpr std::string_view begin = "{\"host\"";
  if (text.find_first_not_of('\0') == std::string_view::npos) return true;  // a power cut's
  return text.starts_with(begin.substr(0, (std::min)(begin.size(), text.size())));
}

REEF_INLINE void DirectoryLock::refuse_foreign(const std::string& what) {
  file_.close();
  throw FileError("reef::io: '", path_.string(), "' ", what,
                  ", no lock of a job.\n  why: a job that writes to this directory keeps a file of "
                  "that name there, and what is there would be lost.\n  fix: move it away, or give "
                  "another directory.");
}

REEF_INLINE bool DirectoryLock::is_held_by(const Json& holder, bool taken) const {
  if (holder.is_null()) return false;
  const bool elsewhere = text_of(holder, "host") != host_name();
  return taken ? elsewhere && !locks_are_seen() : elsewhere || is_alive(holder);
}

REEF_INLINE void DirectoryLock::release() {
  if (file_ && is_named()) ::unlink(path_.c_str());
  file_.close();
}

REEF_INLINE bool DirectoryLock::is_named() const {
  struct ::stat here {};
  struct ::stat named {};
  return ::fstat(file_.get(), &here) == 0 && ::lstat(path_.c_str(), &named) == 0 &&
         here.st_dev == named.st_dev && here.st_ino == named.st_ino;
}

REEF_INLINE bool DirectoryLock::locks_are_seen() const {
  if (!is_shared_file_system(path_)) return true;
  struct ::stat here {};
  if (::fstat(file_.get(), &here) != 0) return false;
  std::ifstream file("/proc/self/mountinfo");
  const std::string mounts((std::istreambuf_iterator<char>(file)), {});
  // As makedev puts them together: <sys/sysmacros.h> would leave macros named major and minor.
  const auto device = static_cast<std::uint64_t>(here.st_dev);
  const std::uint64_t high = ((device >> 32U) & ~0xfffULL) | ((device >> 8U) & 0xfffU);
  const std::uint64_t low = ((device >> 12U) & ~0xffULL) | (device & 0xffU);
  return detail::locks_are_the_servers(mounts, high, low);
}

REEF_INLINE Json DirectoryLock::read() const {
  std::array<char, 4096> text{};
  const ::ssize_t size = ::pread(file_.get(), text.data(), text.size(), 0);
  if (size <= 0) return nullptr;
  try {
    Json holder = parse_json({text.data(), static_cast<std::size_t>(size)}, "a lock");
    return holder.is_object() ? holder : Json(nullptr);
  } catch (const Error&) {
    return nullptr;
  }
}

REEF_INLINE void DirectoryLock::write() {
  std::string job;
  for (const char* variable : {"SLURM_JOB_ID", "PBS_JOBID", "LSB_JOBID", "JOB_ID"}) {
    const char* const value = std::getenv(variable);
    if (job.empty() && value != nullptr) job = concat(variable, "=", value);
  }
  std::array<char, 32> time{};
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  std::strftime(time.data(), time.size(), "%Y-%m-%d %H:%M:%S", ::localtime_r(&now, &parts));
  const Json holder{{"host", host_name()},
                    {"process", ::getpid()},
                    {"start", detail::start_of_process(::getpid())},
                    {"since", std::string(time.data())},
                    {"job", job}};
  const std::string text = holder.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
  const bool written =
      ::ftruncate(file_.get(), 0) == 0 &&
      ::pwrite(file_.get(), text.data(), text.size(), 0) == static_cast<::ssize_t>(text.size());
  if (written) return;
  const int code = errno;
  release();
  detail::throw_file_error("write the lock", path_, code, "check space and permissions.");
}

REEF_INLINE std::string DirectoryLock::text_of(const Json& holder, const char* key) {
  const auto found = holder.find(key);
  return found != holder.end() && found->is_string() ? found->get<std::string>() : std::string();
}

REEF_INLINE std::int64_t DirectoryLock::process_of(const Json& holder) {
  const auto found = holder.find("process");
  return found != holder.end() && found->is_number_integer() ? found->get<std::int64_t>() : 0;
}

REEF_INLINE bool DirectoryLock::is_alive(const Json& holder) {
  const auto start = holder.find("start");
  const std::uint64_t found = detail::start_of_process(process_of(holder));
  return found != 0 && start != holder.end() && start->is_number_unsigned() &&
         start->get<std::uint64_t>() == found;
}

REEF_INLINE void DirectoryLock::refuse(const Json& holder) {
  file_.close();  // it is another's
  const std::filesystem::path directory = path_.parent_path();
  if (holder.is_null()) {
    throw FileError("reef::io: another job writes to '", directory.string(),
                    "'.\n  fix: wait for its end, or give another directory.");
  }
  const std::string host = text_of(holder, "host");
  const std::string job = text_of(holder, "job");
  const bool here = host == host_name();
  const std::string whose = process_of(holder) == ::getpid() && here
                                ? concat("this process (", ::getpid(), ")")
                                : concat("process ", process_of(holder));
  throw FileError("reef::io: another job writes to '", directory.string(), "': ", whose, " on '",
                  host, "'", job.empty() ? "" : ", ", job, " since ", text_of(holder, "since"),
                  ".\n  why: what two jobs write to one directory would be mixed.\n  fix: wait "
                  "for its end, or "
                  "give another directory",
                  here ? concat("") : concat("; if it has ended, remove '", path_.string(), "'"),
                  ".");
}

}  // namespace io
}  // namespace v0
}  // namespace reef
