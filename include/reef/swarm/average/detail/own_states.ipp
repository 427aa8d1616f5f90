#pragma once

#include <algorithm>
#include <array>
#include <charconv>
#include <exception>
#include <fstream>
#include <memory>
#include <span>
#include <system_error>

#include <reef/core/error.hpp>
#include <reef/core/inline.hpp>
#include <reef/core/text.hpp>
#include <reef/io/atomic_file.hpp>
#include <reef/io/json.hpp>
#include <reef/swarm/average/detail/own_states.hpp>
#include <reef/swarm/core/pieces.hpp>
#include <reef/swarm/net/sha256.hpp>

namespace reef {
inline namespace v0 {
namespace swarm {
namespace detail {

/// The number of bytes in which a file of a state says a piece's size.
inline constexpr std::size_t state_size_bytes = 8;

inline std::string state_head(const Genesis& genesis, std::int64_t rounds) {
  const io::Json head{{"job", genesis.job}, {"pieces", piece_count(genesis)}, {"rounds", rounds}};
  return head.dump() + "\n";
}

inline Digest digest_of_state(const std::vector<Digest>& pieces) { return root_of(pieces, sha256); }

REEF_INLINE OwnStates::OwnStates(const AveragingOptions& options) : options_(options) {
  if (options.genesis.checkpoint > 0 && !options.state.read) {
    throw OptionError("reef::swarm::AveragingPeer: a job with checkpoints, and no AveragingOptions::state.\n",
                      "  fix: functions that read and write the state, or Genesis::checkpoint = 0.");
  }
}

REEF_INLINE std::optional<core::event::StateKept> OwnStates::keep(std::int64_t rounds) const {
  const Genesis& genesis = options_.genesis;
  if (genesis.checkpoint <= 0 || rounds % genesis.checkpoint != 0) return std::nullopt;
  std::vector<Digest> digests;
  std::optional<io::AtomicFile> file;
  std::string why;
  const auto write = [&](const auto& what) {
    try {
      what();
    } catch (const FileError& error) {
      why = error.what();
      file.reset();
    }
  };
  if (!options_.checkpoints.empty()) {
    write([&] {
      io::create_folders(options_.checkpoints);
      file.emplace(file_of(rounds));
      file->write(state_head(genesis, rounds));
    });
  }
  for (std::int64_t k = 0; k < piece_count(genesis); ++k) {
    const Bulk piece = options_.state.read(k);
    digests.push_back(sha256(*piece));
    if (!file) continue;
    std::array<std::byte, state_size_bytes> size{};
    for (std::size_t i = 0; i < size.size(); ++i) size[i] = static_cast<std::byte>(piece->size() >> (8 * i));
    write([&] {
      file->write(std::span<const std::byte>(size));
      file->write(std::span<const std::byte>(*piece));
    });
  }
  if (file) write([&] { file->commit(); });
  if (!why.empty() && options_.report)
    options_.report(concat("the state after ", rounds, " rounds is not kept: ", why));
  return core::event::StateKept{rounds, digest_of_state(digests), file.has_value()};
}

REEF_INLINE std::vector<core::event::StateFound> OwnStates::found() const {
  std::vector<core::event::StateFound> all;
  for (const std::int64_t rounds : rounds_kept()) {
    try {
      std::vector<Digest> digests;
      for (const Bulk& piece : read(rounds)) digests.push_back(sha256(*piece));
      all.push_back({rounds, digest_of_state(digests)});
    } catch (const Error& error) {
      if (options_.report) options_.report(error.what());
    }
  }
  return all;
}

REEF_INLINE std::vector<Bulk> OwnStates::read(std::int64_t rounds) const {
  const std::filesystem::path path = file_of(rounds);
  const auto wrong = [&](std::string_view why) {
    throw Error("reef::swarm: ", path.string(), " is no state after ", rounds, " rounds of this job: ", why,
                ".\n  fix: the folder of this job's peer alone; the others have the state as well.");
  };
  std::ifstream file(path, std::ios::binary);
  const std::string expected = state_head(options_.genesis, rounds);
  std::string head(expected.size(), ' ');
  if (!file.read(head.data(), static_cast<std::streamsize>(head.size())) || head != expected)
    wrong("it begins with another line");
  std::error_code unknown;
  auto left = static_cast<std::uintmax_t>(std::filesystem::file_size(path, unknown)) - expected.size();
  std::vector<Bulk> pieces;
  for (std::int64_t k = 0; k < piece_count(options_.genesis); ++k) {
    std::array<char, state_size_bytes> bytes{};
    if (unknown || left < bytes.size() || !file.read(bytes.data(), bytes.size())) wrong("it is cut off");
    left -= bytes.size();
    std::uint64_t size = 0;
    for (std::size_t i = 0; i < bytes.size(); ++i)
      size |= std::uint64_t{static_cast<unsigned char>(bytes[i])} << (8 * i);
    if (size > left) wrong("a piece is larger than the file");
    left -= size;
    std::vector<std::byte> piece(static_cast<std::size_t>(size));
    if (!file.read(reinterpret_cast<char*>(piece.data()), static_cast<std::streamsize>(size))) wrong("it is cut off");
    pieces.push_back(std::make_shared<const std::vector<std::byte>>(std::move(piece)));
  }
  if (left != 0) wrong("it is longer");
  return pieces;
}

REEF_INLINE void OwnStates::remove_before(std::int64_t rounds) const {
  for (const std::int64_t kept : rounds_kept()) {
    std::error_code ignored;
    if (kept < rounds) std::filesystem::remove(file_of(kept), ignored);
  }
}

REEF_INLINE std::filesystem::path OwnStates::file_of(std::int64_t rounds) const {
  return options_.checkpoints / concat("state-", rounds, ".bin");
}

REEF_INLINE std::vector<std::int64_t> OwnStates::rounds_kept() const {
  std::vector<std::int64_t> all;
  std::error_code none;
  if (options_.checkpoints.empty() || options_.genesis.checkpoint <= 0) return all;
  for (const auto& entry : std::filesystem::directory_iterator(options_.checkpoints, none)) {
    const std::string name = entry.path().filename().string();
    constexpr std::string_view begin = "state-";
    if (!name.starts_with(begin)) continue;
    std::int64_t rounds = 0;
    std::from_chars(name.data() + begin.size(), name.data() + name.size(), rounds);
    if (rounds > 0 && entry.path() == file_of(rounds)) all.push_back(rounds);
  }
  std::sort(all.begin(), all.end());
  return all;
}

}  // namespace detail
}  // namespace swarm
}  // namespace v0
}  // namespace reef
