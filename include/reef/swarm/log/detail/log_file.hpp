#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <reef/core/units.hpp>
#include <reef/io/atomic_file.hpp>
#include <reef/io/directory_lock.hpp>
#include <reef/swarm/log/decision_log.hpp>

/// \file
/// The file of a LocalLog, `decisions.log` in a folder of its own. Numbers are little-endian.
///
///     0    "REEF-LOG", u32 version 1, u32 CRC-32C of these 12 bytes; where entries were dropped, version 2 and, before
///          the CRC of 20 bytes, the index of the first record (u64)
///     16   or 24: records, one after the other:
///          u32 bytes of the entry, u32 CRC-32C of its index (u64) and of both, the entry, then a mark of 8 bytes:
///          zeros until the record is durable, then FF 77 6F FE and the index (u32)
///
/// The mark is written after the fsync of its record, and made durable with the next one. An entry is UTF-8, which has
/// no byte FF or FE: a mark behind damage says that what is damaged was won, and is no write that a crash cut off.

namespace reef {
inline namespace v0 {
namespace swarm {
namespace detail {

/// The entries of a decision log in a file, with a lock on its folder. One thread uses it.
class LogFile {
public:
  static constexpr std::string_view file_name = "decisions.log";

  /// Opens the log of a folder, or makes both; a write that a crash cut off is removed. Throws FileError where another
  /// process has the log, or the system refuses, and DecodeError where an entry that was won is damaged.
  LogFile(const std::filesystem::path& folder, Seconds patience);

  [[nodiscard]] LogIndex size() const { return first_ + offsets_.size(); }

  /// Returns how many bytes of a write that was cut off were removed when the log was opened.
  [[nodiscard]] Bytes cut() const { return cut_; }

  /// Appends and makes durable, as DecisionLog::append answers.
  Appended append(LogIndex at, std::string_view entry);

  /// Reads a page, as DecisionLog::read answers.
  [[nodiscard]] LogPage page(LogIndex from) const;

  /// Drops the entries before an index at which one stands: the file is written anew with the others. Where that fails,
  /// nothing is dropped.
  void drop(LogIndex before);

private:
  struct Record {
    std::string entry;
    bool marked = false;
  };

  void create();
  void recover();
  void open();
  /// Reads the head, and returns its size.
  Bytes read_head(Bytes bytes);
  [[nodiscard]] Bytes offset_of(LogIndex at) const {
    return at < size() ? offsets_[static_cast<std::size_t>(at - first_)] : end_;
  }

  /// Reads the record of index `at` at a byte of the file; nothing where it is not whole.
  [[nodiscard]] std::optional<Record> record(LogIndex at, Bytes offset, Bytes end) const;

  /// Returns true if a mark of an entry from `at` on lies at or after `offset`.
  [[nodiscard]] bool won_behind(LogIndex at, Bytes offset, Bytes end) const;

  [[nodiscard]] bool read_at(Bytes offset, std::string& to) const;
  [[nodiscard]] int write_at(Bytes offset, std::string_view bytes) const;

  std::filesystem::path path_;
  io::DirectoryLock lock_;
  io::detail::Descriptor file_;
  LogIndex first_ = 0;          ///< index of the first record
  std::vector<Bytes> offsets_;  ///< of each record
  Bytes end_ = 0;
  Bytes cut_ = 0;
  std::string broken_;  ///< why nothing more can be appended; empty while it can
};

}  // namespace detail
}  // namespace swarm
}  // namespace v0
}  // namespace reef

#ifndef REEF_COMPILED
#include <reef/swarm/log/detail/log_file.ipp>
#endif
