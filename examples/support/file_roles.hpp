#pragma once

#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <optional>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include <reef/core/error.hpp>
#include <reef/core/text.hpp>
#include <reef/io/directory_lock.hpp>
#include <reef/io/json.hpp>
#include <reef/io/manifest.hpp>

namespace reef_examples {

/// The files of a command line: what is read, what is written, and which of them are one.
///
/// Two names are of one file where they lead to the same path, whatever links are on the way, or to the
/// same file of a device, as hard links do. What keeps no bytes, a pipe or a terminal, may be named twice.
class FileRoles {
public:
  /// `option` reads this file.
  void reads(const std::string& option, const std::filesystem::path& path) {
    add(option, path, Role::input);
  }
  /// `option` writes this file, in place of what is there.
  void writes(const std::string& option, const std::filesystem::path& path) {
    add(option, path, Role::output);
  }
  /// `option` writes this file where there is none yet; one that is there is read.
  void writes_if_absent(const std::string& option, const std::filesystem::path& path) {
    add(option, path, Role::output_if_absent);
  }
  /// `option` reads it, and what `writes_if_absent` of the same.
  void reads_beside(const std::string& option, const std::filesystem::path& path) {
    add(option, path, Role::input_beside);
  }
  /// `option` keeps checkpoints in this directory, each in a folder step-N of it, and a lock.
  void keeps_checkpoints(const std::string& option, const std::filesystem::path& path) {
    add(option, path, Role::checkpoints);
    if (!path.empty()) add(option, path / reef::io::DirectoryLock::file_name, Role::lock);
  }

  /// Which option cannot have its file, and why; nothing where all is well.
  [[nodiscard]] std::optional<std::pair<std::string, std::string>> clash() const {
    for (const File& file : files_) {
      if (auto why = in_a_checkpoint(file); !why.empty())
        return std::pair(file.option, std::move(why));
    }
    for (std::size_t i = 0; i < files_.size(); ++i) {
      for (std::size_t j = 0; j < i; ++j) {
        if (!files_[i].is_output() && !files_[j].is_output()) continue;
        const File& a = files_[i].is_output() ? files_[i] : files_[j];
        const File& b = &a == &files_[i] ? files_[j] : files_[i];
        if (auto why = between(a, b); !why.empty()) return std::pair(a.option, std::move(why));
      }
    }
    return std::nullopt;
  }

private:
  enum class Role { input, input_beside, output, output_if_absent, checkpoints, lock };

  struct File {
    std::string option;
    std::string name;
    Role role;
    std::filesystem::path path;  // without links
    bool keeps_bytes = true;
    std::optional<std::pair<::dev_t, ::ino_t>> identity;  // of what is there
    [[nodiscard]] bool is_output() const { return role >= Role::output; }
  };

  /// Where a name leads, also if nothing is there yet.
  static std::filesystem::path without_links(const std::filesystem::path& name) {
    namespace fs = std::filesystem;
    std::error_code code;
    fs::path path = fs::absolute(name, code);
    constexpr int most = 40;
    for (int links = 0; links < most && fs::is_symlink(path, code); ++links) {
      if (fs::exists(path, code)) break;
      const fs::path target = fs::read_symlink(path, code);
      if (code) break;
      path = target.is_absolute() ? target : path.parent_path() / target;
    }
    const fs::path found = fs::weakly_canonical(path, code);
    return code ? path.lexically_normal() : found;
  }

  void add(const std::string& option, const std::filesystem::path& name, Role role) {
    if (name.empty()) return;
    File file{option, name.string(), role, without_links(name), true, std::nullopt};
    if (!file.path.has_filename()) file.path = file.path.parent_path();  // "DIR/"
    struct ::stat status {};
    if (::stat(name.c_str(), &status) == 0) {
      file.identity.emplace(status.st_dev, status.st_ino);
      file.keeps_bytes =
          S_ISREG(status.st_mode) || S_ISDIR(status.st_mode) || S_ISBLK(status.st_mode);
    }
    files_.push_back(std::move(file));
  }

  /// Whether this folder is a checkpoint: also one whose manifest is damaged, by its name.
  static bool is_checkpoint(const std::filesystem::path& folder) {
    std::error_code none;
    const std::filesystem::path manifest = folder / reef::io::Manifest::file;
    if (!std::filesystem::is_regular_file(manifest, none)) return false;
    try {
      const reef::io::Json json = reef::io::read_json(manifest);
      return json.is_object() && json.value("format", reef::io::Json()) == "reef.checkpoint";
    } catch (const reef::Error&) {
      return folder.filename().string().starts_with("step-");
    }
  }

  /// Why an output cannot be where it is: among the files of any run's checkpoint, or, of checkpoints, in one.
  static std::string in_a_checkpoint(const File& file) {
    if (!file.is_output() || !file.keeps_bytes || file.role == Role::lock) return {};
    if (file.role == Role::checkpoints) {
      if (!is_checkpoint(file.path)) return {};
      return reef::concat("'", file.name,
                          "' is one checkpoint; give the directory that it is in, '",
                          file.path.parent_path().string(), "'");
    }
    for (const auto& folder :
         {file.path.parent_path(), std::filesystem::path(file.name).parent_path()}) {
      if (folder.empty() || !is_checkpoint(folder)) continue;
      return reef::concat("'", file.name, "' lies in a checkpoint's folder, '", folder.string(),
                          "', whose files would be replaced; give it another place");
    }
    return {};
  }

  /// The part of a path below a folder; empty where it is not below it.
  static std::filesystem::path below(const std::filesystem::path& path,
                                     const std::filesystem::path& folder) {
    const auto [left, at] = std::mismatch(folder.begin(), folder.end(), path.begin(), path.end());
    std::filesystem::path rest;
    if (left != folder.end()) return rest;
    for (auto part = at; part != path.end(); ++part) rest /= *part;
    return rest;
  }

  /// Why `a`, an output, cannot be beside `b`; empty if it can.
  static std::string between(const File& a, const File& b) {
    if (!a.is_output() || !a.keeps_bytes || !b.keeps_bytes) return {};
    const auto is = [](const File& file, Role role) { return file.role == role; };
    if ((is(a, Role::output_if_absent) && is(b, Role::input_beside)) ||
        (is(b, Role::output_if_absent) && is(a, Role::input_beside))) {
      return {};
    }
    const bool own_lock = a.option == b.option && (is(a, Role::lock) || is(b, Role::lock));
    if (own_lock) return {};
    const std::string both = reef::concat("'", a.name, "' ");
    if (a.path == b.path || (a.identity && a.identity == b.identity)) {
      return reef::concat(both, b.is_output() ? "is the file of " : "is read by ", b.option,
                          b.is_output() ? " too" : ", and would be lost", "; give it another");
    }
    if (is(a, Role::checkpoints) || is(b, Role::checkpoints)) {
      const File& kept = is(a, Role::checkpoints) ? a : b;
      const File& file = is(a, Role::checkpoints) ? b : a;
      if (const auto rest = below(file.path, kept.path); !rest.empty()) {
        if (rest == reef::io::DirectoryLock::file_name) {
          return reef::concat("'", file.name, "' of ", file.option, " is the lock of ", kept.option,
                              "; give it another name");
        }
        if (!rest.begin()->string().starts_with("step-")) return {};
        return reef::concat("'", file.name, "' of ", file.option,
                            " lies in a checkpoint's folder of ", kept.option, " ", kept.name,
                            ", where files are replaced and removed; give it another place");
      }
    }
    const auto inside = [](const File& file, const File& folder) {
      return !below(file.path, folder.path).empty() && folder.is_output() &&
             folder.role != Role::checkpoints;
    };
    if (inside(b, a) || inside(a, b)) {
      const File& folder = inside(b, a) ? a : b;
      const File& file = inside(b, a) ? b : a;
      std::error_code none;
      if (std::filesystem::is_directory(folder.path, none)) {
        return reef::concat("'", folder.name, "' of ", folder.option,
                            " is to be a file, but it is a folder; name a file in it");
      }
      return reef::concat("'", folder.name, "' of ", folder.option, " is to be a file, but '",
                          file.name, "' of ", file.option,
                          " needs a folder of that name; give it another");
    }
    return {};
  }

  std::vector<File> files_;
};

}  // namespace reef_examples
