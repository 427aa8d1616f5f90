#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string_view>
#include <vector>

#include <reef/core/error.hpp>
#include <reef/data/token_file.hpp>
#include <reef/data/token_view.hpp>

namespace reef {
inline namespace v0 {
namespace data {

/// Returns true if a file's name says that the file is held out (for validation): the name has the word "val", "valid"
/// or "validation", in small or capital letters. Words are runs of letters: "x_val_01.bin", not "interval.bin".
bool names_held_out(std::string_view file);

/// Files of tokens as two sequences, neither copied: one to train on, one held out to validate on.
///
/// Files are sorted by name, whatever the order in which they are given, and form one sequence. Files for
/// which names_held_out returns true are held out; if there are none, the last tenth of all tokens is
/// held out.
///
/// | memory | pages of the files, which all processes of a node share                         |
/// | errors | those of TokenFile; OptionError for no files, a file named twice, only held-out |
/// |        | files, or too few tokens to hold any out                                        |
///
/// \code
/// const data::TokenShards shards({"train_0.bin", "train_1.bin", "val.bin"});
/// shards.require_below(50257);
/// const data::Sampler sampler(shards.training(), 1024, 1);
/// \endcode
class TokenShards {
public:
  static constexpr std::size_t held_out_share = 10;

  explicit TokenShards(std::vector<std::filesystem::path> paths);

  [[nodiscard]] const TokenView& training() const& { return training_; }
  void training() const&& = delete;
  [[nodiscard]] const TokenView& validation() const& { return validation_; }
  void validation() const&& = delete;

  /// Returns all token files, sorted by name.
  [[nodiscard]] std::span<const TokenFile> files() const& { return files_; }
  void files() const&& = delete;

  /// Returns the first token file that was truncated or written to since it was opened, or null. Its tokens may have
  /// changed, and reading tokens that were cut off ends the process (MappedFile).
  [[nodiscard]] const TokenFile* changed() const&;
  void changed() const&& = delete;

  /// Throws DecodeError, with file and index, for the first token that is not below `vocabulary`.
  /// Reads all tokens once.
  void require_below(std::int32_t vocabulary) const;

  /// Returns a checksum of all tokens, equal on every rank and after a resume. Reads all tokens once.
  [[nodiscard]] std::uint32_t fingerprint() const;

private:
  std::vector<TokenFile> files_;
  TokenView training_;
  TokenView validation_;
};

}  // namespace data
}  // namespace v0
}  // namespace reef

#ifndef REEF_COMPILED
#include <reef/data/token_shards.ipp>
#endif
