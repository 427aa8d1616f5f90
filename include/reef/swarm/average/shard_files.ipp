#pragma once

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <fstream>
#include <iterator>
#include <memory>
#include <system_error>
#include <utility>

#include <reef/core/error.hpp>
#include <reef/core/inline.hpp>
#include <reef/core/text.hpp>
#include <reef/io/atomic_file.hpp>
#include <reef/swarm/average/shard_files.hpp>
#include <reef/swarm/net/sha256.hpp>

namespace reef {
inline namespace v0 {
namespace swarm {

namespace detail {

/// Calls f(file, first byte in the file, bytes) for each file that has bytes [first, first + count) of all.
template <class F>
void for_each_range(const ShardList& list, const std::vector<Bytes>& begins, Bytes first, Bytes count, const F& f) {
  const auto behind = std::upper_bound(begins.begin(), begins.end(), first);
  for (auto at = static_cast<std::size_t>(behind - begins.begin()) - 1; count > 0; ++at) {
    const Bytes offset = first - begins[at];
    const Bytes here = (std::min)(count, list.files[at].bytes - offset);
    if (here > 0) f(at, offset, here);
    first += here;
    count -= here;
  }
}

/// Returns a file's name as a list may have it.
inline std::string shard_file_name(const std::filesystem::path& path) {
  std::string name = path.filename().string();
  constexpr std::size_t longest = 100;
  if (name.size() > longest) name.erase(0, name.size() - longest);
  for (char& letter : name) {
    if (!names_shard_file(std::string_view(&letter, 1))) letter = '_';
  }
  return name.empty() ? "data" : name;
}

}  // namespace detail

REEF_INLINE ShardFiles::ShardFiles(ShardList list, std::vector<std::filesystem::path> files)
    : list_(std::move(list)), files_(std::move(files)) {
  Bytes begin = 0;
  for (const ShardList::File& file : list_.files) begins_.push_back(std::exchange(begin, begin + file.bytes));
}

REEF_INLINE ShardFiles ShardFiles::of(std::vector<std::filesystem::path> files, Bytes shard) {
  ShardList list;
  list.shard = shard;
  for (const std::filesystem::path& file : files) {
    std::error_code error;
    const std::uintmax_t bytes = std::filesystem::file_size(file, error);
    if (error) io::detail::throw_file_error("read", file, error.value(), "name a file that can be read.");
    if (bytes > 0) list.files.push_back({detail::shard_file_name(file), bytes});
  }
  std::erase_if(files, [](const std::filesystem::path& file) { return std::filesystem::file_size(file) == 0; });
  const Bytes all = list.bytes();
  if (all == 0 || shard < 1 || shard > max_shard_bytes || all > max_shards * shard || files.size() > max_shard_files) {
    throw OptionError("reef::swarm::ShardFiles: ", files.size(), " files of ", all, " bytes in shards of ", shard,
                      ".\n  fix: 1 to ", max_shard_files, " files, shards of 1 to ", max_shard_bytes, " bytes, ",
                      max_shards, " at most.");
  }
  ShardFiles result(std::move(list), std::move(files));
  for (std::size_t k = 0; k < result.list_.count(); ++k) result.list_.digests.push_back(sha256(*result.read(k)));
  result.text_ = to_text(result.list_);
  result.digest_ = sha256(std::as_bytes(std::span(result.text_)));
  return result;
}

REEF_INLINE ShardFiles ShardFiles::in(const std::filesystem::path& folder, ShardList list) {
  detail::require_sound(list);
  std::vector<std::filesystem::path> files;
  for (const ShardList::File& file : list.files) {
    std::string number = concat(files.size());
    constexpr std::size_t digits = 6;
    number.insert(0, digits - number.size(), '0');
    files.push_back(folder / concat(number, "-", file.name));
  }
  ShardFiles result(std::move(list), std::move(files));
  result.text_ = to_text(result.list_);
  result.digest_ = sha256(std::as_bytes(std::span(result.text_)));
  io::create_folders(folder);
  const std::filesystem::path beside = folder / "shards.json";
  std::error_code ignored;
  if (!std::filesystem::exists(beside, ignored)) {
    if (!std::filesystem::is_empty(folder, ignored)) {
      throw OptionError("reef::swarm::ShardFiles: the folder ", in_quotes(folder.string()),
                        " has other files in it.\n  fix: a new folder, or one that was begun by this job.");
    }
    io::write_atomically(beside, result.text_);
    return result;
  }
  std::ifstream file(beside, std::ios::binary);
  const std::string there((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  if (there != result.text_) {
    throw OptionError("reef::swarm::ShardFiles: the folder ", in_quotes(folder.string()),
                      " has the data of another job in it.\n  fix: another folder.");
  }
  return result;
}

REEF_INLINE Bulk ShardFiles::read(std::size_t k) const {
  const auto bytes = std::make_shared<std::vector<std::byte>>(static_cast<std::size_t>(list_.bytes_of(k)));
  std::size_t to = 0;
  detail::for_each_range(list_, begins_, k * list_.shard, bytes->size(), [&](std::size_t f, Bytes offset, Bytes count) {
    const std::filesystem::path& path = files_[f];
    const io::detail::Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
    if (!file) io::detail::throw_file_error("read", path, errno, "leave the files of a job's data in their place.");
    while (count > 0) {
      const ::ssize_t got = ::pread(file.get(), bytes->data() + to, count, static_cast<::off_t>(offset));
      if (got < 0 && errno == EINTR) continue;
      if (got < 0) io::detail::throw_file_error("read", path, errno, "leave the files of a job's data as they are.");
      if (got == 0) {
        throw FileError("cannot read '", path.string(), "' at byte ", offset,
                        ": it has become shorter.\n  fix: leave the files of a job's data as they are.");
      }
      to += static_cast<std::size_t>(got);
      offset += static_cast<Bytes>(got);
      count -= static_cast<Bytes>(got);
    }
  });
  return bytes;
}

REEF_INLINE bool ShardFiles::is(std::size_t k, std::span<const std::byte> bytes) const {
  return k < list_.digests.size() && bytes.size() == list_.bytes_of(k) && sha256(bytes) == list_.digests[k];
}

REEF_INLINE bool ShardFiles::has(std::size_t k) const {
  const std::filesystem::path* missing = nullptr;
  detail::for_each_range(list_, begins_, k * list_.shard, list_.bytes_of(k),
                         [&](std::size_t f, Bytes offset, Bytes count) {
                           std::error_code error;
                           const std::uintmax_t there = std::filesystem::file_size(files_[f], error);
                           if (error || there < offset + count) missing = &files_[f];
                         });
  return missing == nullptr && is(k, *read(k));
}

REEF_INLINE void ShardFiles::write(std::size_t k, std::span<const std::byte> bytes) {
  if (!is(k, bytes)) {
    throw DecodeError("reef::swarm::ShardFiles: ", bytes.size(), " bytes are not shard ", k, " of ",
                      list_.digests.size(), ".\n  fix: ask another holder.");
  }
  detail::for_each_range(list_, begins_, k * list_.shard, bytes.size(), [&](std::size_t f, Bytes offset, Bytes count) {
    const std::filesystem::path& path = files_[f];
    constexpr int mode = 0644;
    const io::detail::Descriptor file(::open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, mode));
    if (!file) io::detail::throw_write_error(path, errno);
    while (count > 0) {
      const ::ssize_t put = ::pwrite(file.get(), bytes.data(), count, static_cast<::off_t>(offset));
      if (put < 0 && errno == EINTR) continue;
      if (put < 0) io::detail::throw_write_error(path, errno);
      bytes = bytes.subspan(static_cast<std::size_t>(put));
      offset += static_cast<Bytes>(put);
      count -= static_cast<Bytes>(put);
    }
  });
}

}  // namespace swarm
}  // namespace v0
}  // namespace reef
