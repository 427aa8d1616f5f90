#pragma once

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <span>
#include <system_error>
#include <utility>

#include <reef/core/inline.hpp>
#include <reef/core/text.hpp>
#include <reef/io/checksum.hpp>
#include <reef/io/file.hpp>
#include <reef/swarm/log/detail/log_file.hpp>

namespace reef {
inline namespace v0 {
namespace swarm {
namespace detail {

inline constexpr std::size_t log_head_bytes = 16;
inline constexpr std::size_t cut_log_head_bytes = 24;
inline constexpr std::size_t record_head_bytes = 8;
inline constexpr std::size_t mark_bytes = 8;
inline constexpr std::string_view mark_begin = "\xFFwo\xFE";

inline void append_number(std::string& to, std::uint64_t number, int bytes) {
  for (int i = 0; i < bytes; ++i) to += static_cast<char>(number >> (8 * i) & 0xFFU);
}

inline std::uint32_t number_at(std::string_view bytes, std::size_t offset) {
  std::uint32_t number = 0;
  for (std::size_t i = 0; i < 4; ++i)
    number |= static_cast<std::uint32_t>(static_cast<unsigned char>(bytes[offset + i])) << (8 * i);
  return number;
}

inline std::uint32_t crc_of(std::string_view bytes, std::uint32_t before = 0) {
  return io::crc32c(std::as_bytes(std::span(bytes.data(), bytes.size())), before);
}

inline std::string log_head(LogIndex first = 0) {
  std::string head = "REEF-LOG";
  append_number(head, first == 0 ? 1 : 2, 4);
  if (first != 0) append_number(head, first, 8);
  append_number(head, crc_of(head), 4);
  return head;
}

inline std::uint32_t record_crc(LogIndex at, std::string_view entry) {
  std::string place;
  append_number(place, at, 8);
  append_number(place, entry.size(), 4);
  return crc_of(entry, crc_of(place));
}

inline std::string mark_of(LogIndex at) {
  std::string mark(mark_begin);
  append_number(mark, at, 4);
  return mark;
}

REEF_INLINE LogFile::LogFile(const std::filesystem::path& folder, Seconds patience)
    : path_(folder / file_name), lock_((io::create_folders(folder), folder), patience) {
  create();
  recover();
}

REEF_INLINE void LogFile::create() {
  struct ::stat found {};
  if (::lstat(path_.c_str(), &found) != 0 && errno == ENOENT) io::write_atomically(path_, log_head());
  open();
}

REEF_INLINE void LogFile::open() {
  (void)io::detail::open_regular(path_, "read");  // names what is wrong with a pipe or a folder
  file_ = io::detail::Descriptor(::open(path_.c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW));
  if (!file_) io::detail::throw_file_error("open", path_, errno, "make the file readable and writable.");
}

REEF_INLINE Bytes LogFile::read_head(Bytes bytes) {
  std::string head(log_head_bytes, '\0');
  const bool is_there = bytes >= log_head_bytes && read_at(0, head);
  if (is_there && head == log_head()) return log_head_bytes;
  std::string cut(cut_log_head_bytes, '\0');
  if (bytes >= cut_log_head_bytes && read_at(0, cut)) {
    constexpr std::size_t at = 12;
    first_ = LogIndex{number_at(cut, at)} | LogIndex{number_at(cut, at + 4)} << 32U;
    if (first_ != 0 && cut == log_head(first_)) return cut_log_head_bytes;
  }
  throw DecodeError("reef::swarm: '", path_.string(), "' is no decision log of this version: it begins with ",
                    in_quotes(head), ".\n  fix: give the folder of a log, or an empty one.");
}

REEF_INLINE void LogFile::recover() {
  struct ::stat about {};
  if (::fstat(file_.get(), &about) != 0) io::detail::throw_file_error("look at", path_, errno, "check the disk.");
  const auto end = static_cast<Bytes>(about.st_size);
  end_ = read_head(end);
  while (end_ < end) {
    const LogIndex at = size();
    const std::optional<Record> next = record(at, end_, end);
    if (!next) {
      if (won_behind(at, end_, end)) {
        throw DecodeError("reef::swarm: '", path_.string(), "': entry ", at, ", at byte ", end_,
                          ", is damaged, and it or a later one was won.\n  why: peers may have acted on it.\n  fix: "
                          "copy the file from where it is whole, for instance a peer's archive; the entries before ",
                          at, " are intact.");
      }
      break;
    }
    const Bytes behind = end_ + record_head_bytes + next->entry.size();
    offsets_.push_back(end_);
    end_ = behind + mark_bytes;
    if (next->marked) continue;
    // A record is durable before its mark is written, as in append.
    if (const int code = ::fdatasync(file_.get()) != 0 ? errno : write_at(behind, mark_of(at)); code != 0)
      io::detail::throw_file_error("repair", path_, code, "check the disk.");
  }
  if (end > end_) {
    cut_ = end - end_;
    if (::ftruncate(file_.get(), static_cast<::off_t>(end_)) != 0 || ::fsync(file_.get()) != 0)
      io::detail::throw_file_error("repair", path_, errno, "check the disk.");
  }
}

REEF_INLINE std::optional<LogFile::Record> LogFile::record(LogIndex at, Bytes offset, Bytes end) const {
  std::string head(record_head_bytes, '\0');
  if (end - offset < record_head_bytes || !read_at(offset, head)) return std::nullopt;
  const std::uint32_t bytes = number_at(head, 0);
  const Bytes room = end - offset - record_head_bytes;
  if (bytes == 0 || bytes > max_entry_bytes || bytes > room) return std::nullopt;
  std::string text(bytes + (std::min)(room - bytes, static_cast<Bytes>(mark_bytes)), '\0');
  if (!read_at(offset + record_head_bytes, text)) return std::nullopt;
  Record found;
  found.entry = text.substr(0, bytes);
  if (record_crc(at, found.entry) != number_at(head, 4)) return std::nullopt;
  found.marked = text.substr(bytes) == mark_of(at);
  return found;
}

REEF_INLINE bool LogFile::won_behind(LogIndex at, Bytes offset, Bytes end) const {
  constexpr Bytes step = 1_MiB;
  for (Bytes begin = offset; begin < end; begin += step) {
    // A mark that lies across the end of a step is in the next bytes of this one.
    std::string bytes((std::min)(step + mark_bytes - 1, end - begin), '\0');
    if (!read_at(begin, bytes)) return true;  // what cannot be read is not cut off
    for (std::size_t i = bytes.find(mark_begin); i != std::string::npos; i = bytes.find(mark_begin, i + 1)) {
      // No entry behind has an index beyond what fits into the bytes that are there.
      if (bytes.size() - i >= mark_bytes && number_at(bytes, i + 4) - static_cast<std::uint32_t>(at) <= end - offset)
        return true;
    }
  }
  return false;
}

REEF_INLINE Appended LogFile::append(LogIndex at, std::string_view entry) {
  if (at < first_) {
    return {AppendOutcome::unknown, {},
            concat("reef::swarm: entry ", at, " was dropped from the log, which begins with entry ", first_,
                   ".\n  fix: read on from there.")};
  }
  if (at > size()) {
    return {AppendOutcome::early, {}, concat("no entry stands at ", at - 1, " yet: the log has ", size(), " entries.")};
  }
  if (at < size()) {
    LogPage found = page(at);
    if (!found.answered) return {AppendOutcome::unknown, {}, std::move(found.why)};
    if (found.entries.front() == entry) return {AppendOutcome::won, {}, {}};
    return {AppendOutcome::lost, std::move(found.entries.front()), {}};
  }
  if (!broken_.empty()) return {AppendOutcome::unknown, {}, broken_};
  std::string bytes;
  append_number(bytes, entry.size(), 4);
  append_number(bytes, record_crc(at, entry), 4);
  bytes.append(entry).append(mark_bytes, '\0');
  const auto refused = [&](std::string_view verb, int code, std::string_view fix) {
    return concat("reef::swarm: cannot ", verb, " '", path_.string(),
                  "': ", std::error_code(code, std::generic_category()).message(), ".\n  fix: ", fix);
  };
  if (const int code = write_at(end_, bytes); code != 0) {
    const std::string why = refused("write to", code, "make space on the disk, and append again.");
    if (::ftruncate(file_.get(), static_cast<::off_t>(end_)) != 0) broken_ = why;
    return {AppendOutcome::unknown, {}, why};
  }
  if (::fdatasync(file_.get()) != 0) {
    // Nobody knows what the disk has now, and another fsync would not tell: only what is read anew counts.
    broken_ = refused("make durable", errno, "check the disk, and open the log again.");
    return {AppendOutcome::unknown, {}, broken_};
  }
  // A mark that cannot be written is written when the log is opened again.
  (void)write_at(end_ + bytes.size() - mark_bytes, mark_of(at));
  offsets_.push_back(end_);
  end_ += bytes.size();
  return {AppendOutcome::won, {}, {}};
}

REEF_INLINE LogPage LogFile::page(LogIndex from) const {
  from = (std::max)(from, first_);
  LogPage result{.from = from, .entries = {}, .answered = true, .why = {}};
  Bytes bytes = 0;
  for (LogIndex at = from; at < size() && bytes < log_page_bytes; ++at) {
    std::optional<Record> found = record(at, offset_of(at), offset_of(at + 1));
    if (!found) {
      if (at > from) break;
      return {.from = from,
              .entries = {},
              .answered = false,
              .why = concat("reef::swarm: '", path_.string(), "': entry ", at, ", at byte ", offset_of(at),
                            ", cannot be read.\n  fix: check the disk; copy the file from where it is whole.")};
    }
    bytes += found->entry.size();
    result.entries.push_back(std::move(found->entry));
  }
  return result;
}

REEF_INLINE void LogFile::drop(LogIndex before) {
  if (before >= size() || before <= first_ || !broken_.empty()) return;
  std::string bytes = log_head(before);
  std::vector<Bytes> offsets;
  for (LogIndex at = before; at < size(); ++at) {
    const std::optional<Record> kept = record(at, offset_of(at), offset_of(at + 1));
    if (!kept) return;  // reads say so
    offsets.push_back(bytes.size());
    append_number(bytes, kept->entry.size(), 4);
    append_number(bytes, record_crc(at, kept->entry), 4);
    bytes.append(kept->entry).append(mark_of(at));
  }
  try {
    io::write_atomically(path_, bytes);
  } catch (const FileError&) {
    return;
  }
  try {
    open();
  } catch (const FileError& error) {
    broken_ = error.what();
    return;
  }
  first_ = before;
  offsets_ = std::move(offsets);
  end_ = bytes.size();
}

REEF_INLINE bool LogFile::read_at(Bytes offset, std::string& to) const {
  for (std::size_t done = 0; done < to.size();) {
    const ::ssize_t got =
        ::pread(file_.get(), to.data() + done, to.size() - done, static_cast<::off_t>(offset + done));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return false;
    done += static_cast<std::size_t>(got);
  }
  return true;
}

REEF_INLINE int LogFile::write_at(Bytes offset, std::string_view bytes) const {
  while (!bytes.empty()) {
    const ::ssize_t put = ::pwrite(file_.get(), bytes.data(), bytes.size(), static_cast<::off_t>(offset));
    if (put < 0 && errno == EINTR) continue;
    if (put < 0) return errno;
    offset += static_cast<Bytes>(put);
    bytes.remove_prefix(static_cast<std::size_t>(put));
  }
  return 0;
}

}  // namespace detail
}  // namespace swarm
}  // namespace v0
}  // namespace reef
