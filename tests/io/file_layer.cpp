#include "file_layer.hpp"

#include <dlfcn.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <map>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>
#include <utility>

#include <reef/core/random.hpp>

namespace reef::test {

namespace {

namespace fs = std::filesystem;

/// A file or folder, whatever its names. `bytes` is what it had when the watch began.
struct Node {
  bool folder = false;
  std::string bytes;
};
using NodePointer = std::shared_ptr<Node>;
using Tree = std::map<fs::path, NodePointer>;

/// A call that changed something.
struct Change {
  enum class Kind : std::uint8_t { make, rename, remove, write, sync };
  Kind kind;
  NodePointer node;  // of sync: the file or folder that is durable now
  fs::path path;     // of sync of a folder: that folder
  fs::path to;
  std::string bytes;
};

struct Open {
  NodePointer node;
  fs::path path;
};

struct State {
  fs::path root;
  Fault fault;
  Tree before;  // names and files when the watch began
  Tree now;
  std::map<int, Open> open;
  std::vector<Change> changes;
  std::vector<std::string> calls;
};

std::atomic<bool> watching{false};
std::recursive_mutex mutex;
std::unique_ptr<State> state;

Tree read_tree(const fs::path& root) {
  Tree tree;
  for (const auto& entry : fs::recursive_directory_iterator(root)) {
    const auto node = std::make_shared<Node>();
    node->folder = entry.is_directory();
    if (!node->folder) {
      std::ifstream file(entry.path(), std::ios::binary);
      node->bytes.assign(std::istreambuf_iterator<char>(file), {});
    }
    tree[entry.path()] = node;
  }
  return tree;
}

bool is_below_root(const fs::path& path) {
  const std::string& name = path.native();
  const std::string& root = state->root.native();
  return name == root || (name.starts_with(root) && name[root.size()] == '/');
}

enum class Verdict : std::uint8_t { pass, fail, half };

/// Counts a call and says what becomes of it.
Verdict judge(const char* name) {
  const std::size_t call = state->calls.size();
  state->calls.emplace_back(name);
  const bool is_write = std::string_view(name) == "write";
  switch (state->fault.kind) {
    case Fault::Kind::none: return Verdict::pass;
    case Fault::Kind::stops: return call < state->fault.call ? Verdict::pass : Verdict::fail;
    case Fault::Kind::tears:
      if (call == state->fault.call && is_write) return Verdict::half;
      return call < state->fault.call ? Verdict::pass : Verdict::fail;
    case Fault::Kind::fails_once: return call == state->fault.call ? Verdict::fail : Verdict::pass;
    case Fault::Kind::shortens: return is_write ? Verdict::half : Verdict::pass;
  }
  return Verdict::pass;
}

int fail() {
  errno = EIO;
  return -1;
}

/// The next definition of that function: the system's, or a sanitizer's.
template <class Function>
Function* next(const char* name) {
  return reinterpret_cast<Function*>(::dlsym(RTLD_NEXT, name));
}

int remove_name(const char* call, const char* path, int (*real)(const char*)) {
  if (!watching) return real(path);
  const std::lock_guard lock(mutex);
  if (!is_below_root(path)) return real(path);
  if (judge(call) == Verdict::fail) return fail();
  const int result = real(path);
  if (result == 0) {
    state->changes.push_back({Change::Kind::remove, state->now[path], path, {}, {}});
    state->now.erase(path);
  }
  return result;
}

// -- after a power cut -------------------------------------------------------------------------

/// What of the data of a write that was not made durable is there.
std::string remains_of(const std::string& bytes, PowerCut::Data data) {
  switch (data) {
    case PowerCut::Data::none: return {};
    case PowerCut::Data::half: return bytes.substr(0, bytes.size() / 2);
    case PowerCut::Data::zeros: return std::string(bytes.size(), '\0');
    case PowerCut::Data::whole: return bytes;
  }
  return bytes;
}

bool made_durable(std::size_t change) {
  const Change& made = state->changes[change];
  for (std::size_t i = change + 1; i < state->changes.size(); ++i) {
    const Change& later = state->changes[i];
    if (later.kind != Change::Kind::sync) continue;
    if (made.kind == Change::Kind::write ? later.node == made.node
                                         : later.path == made.path.parent_path()) {
      return true;
    }
  }
  return false;
}

}  // namespace

FileLayer::FileLayer(fs::path root, Fault fault) {
  if (state) throw std::logic_error("one FileLayer at a time");
  auto fresh = std::make_unique<State>();
  fresh->root = std::move(root);
  fresh->fault = fault;
  fresh->before = read_tree(fresh->root);
  fresh->now = fresh->before;
  state = std::move(fresh);
  watching = true;
}

FileLayer::~FileLayer() {
  watching = false;
  state.reset();
}

void FileLayer::rest() { watching = false; }

std::size_t FileLayer::calls() const { return state->calls.size(); }
const std::vector<std::string>& FileLayer::names() const { return state->calls; }

Disk FileLayer::disk_after(const PowerCut& cut) const {
  Tree tree = state->before;
  std::map<NodePointer, std::string> bytes;
  for (const auto& [path, node] : tree) bytes[node] = node->bytes;
  for (std::size_t i = 0; i < state->changes.size(); ++i) {
    const Change& change = state->changes[i];
    const std::uint32_t draw = RandomStream({.seed = cut.seed, .sample = i}).block(0).word[0];
    const bool durable = made_durable(i);
    if (change.kind == Change::Kind::sync) continue;
    if (change.kind == Change::Kind::write) {
      const auto data = cut.drawn ? static_cast<PowerCut::Data>(draw % 4) : cut.data;
      bytes[change.node] += durable ? change.bytes : remains_of(change.bytes, data);
      continue;
    }
    if (!durable && !(cut.drawn ? draw % 2 == 1 : cut.names)) continue;
    if (change.kind != Change::Kind::make) tree.erase(change.path);
    if (change.kind == Change::Kind::make) tree[change.path] = change.node;
    if (change.kind == Change::Kind::rename) tree[change.to] = change.node;
  }

  Disk disk;
  for (const auto& [path, node] : tree) {
    const fs::path name = path.lexically_relative(state->root);
    const fs::path folder = name.parent_path();
    if (!folder.empty() && !disk.contains(folder)) continue;  // its folder's name was lost
    disk[name] = node->folder ? std::nullopt : std::optional(bytes[node]);
  }
  return disk;
}

}  // namespace reef::test

// -- the calls ---------------------------------------------------------------------------------

using namespace reef::test;

extern "C" {

int open(const char* path, int flags, ...) {
  static const auto real = next<int(const char*, int, ...)>("open");
  mode_t mode = 0;
  if ((flags & O_CREAT) != 0) {
    va_list arguments;
    va_start(arguments, flags);
    mode = va_arg(arguments, mode_t);
    va_end(arguments);
  }
  if (!watching) return real(path, flags, mode);
  const std::lock_guard lock(mutex);
  if (!is_below_root(path)) return real(path, flags, mode);
  if (judge("open") == Verdict::fail) return fail();
  if ((flags & O_TRUNC) != 0) std::abort();  // not modelled: nothing atomic truncates
  const int file = real(path, flags, mode);
  if (file < 0) return file;
  if (!state->now.contains(path)) {
    state->now[path] = std::make_shared<Node>();
    if (path != state->root) {
      state->changes.push_back({Change::Kind::make, state->now[path], path, {}, {}});
    }
  }
  state->open[file] = {state->now[path], path};
  return file;
}

ssize_t write(int file, const void* bytes, size_t size) {
  static const auto real = next<ssize_t(int, const void*, size_t)>("write");
  if (!watching) return real(file, bytes, size);
  const std::lock_guard lock(mutex);
  const auto found = state->open.find(file);
  if (found == state->open.end()) return real(file, bytes, size);
  const Verdict verdict = judge("write");
  if (verdict == Verdict::fail) return fail();
  const bool is_torn = verdict == Verdict::half && state->fault.kind == Fault::Kind::tears;
  const ssize_t written =
      real(file, bytes, verdict == Verdict::half ? (is_torn ? size / 2 : (size + 1) / 2) : size);
  if (written >= 0) {
    state->changes.push_back(
        {Change::Kind::write,
         found->second.node,
         found->second.path,
         {},
         std::string(static_cast<const char*>(bytes), static_cast<std::size_t>(written))});
  }
  return is_torn ? fail() : written;
}

int fsync(int file) {
  static const auto real = next<int(int)>("fsync");
  if (!watching) return real(file);
  const std::lock_guard lock(mutex);
  const auto found = state->open.find(file);
  if (found == state->open.end()) return real(file);
  if (judge("fsync") == Verdict::fail) return fail();
  // Nothing pulls the plug of this machine: the log alone needs to know.
  state->changes.push_back({Change::Kind::sync, found->second.node, found->second.path, {}, {}});
  return 0;
}

int close(int file) {
  static const auto real = next<int(int)>("close");
  if (!watching) return real(file);
  const std::lock_guard lock(mutex);
  if (state->open.erase(file) == 0) return real(file);
  const bool failed = judge("close") == Verdict::fail;
  const int result = real(file);
  return failed ? fail() : result;
}

int rename(const char* from, const char* to) noexcept {
  static const auto real = next<int(const char*, const char*)>("rename");
  if (!watching) return real(from, to);
  const std::lock_guard lock(mutex);
  if (!is_below_root(from)) return real(from, to);
  if (judge("rename") == Verdict::fail) return fail();
  const int result = real(from, to);
  if (result == 0) {
    const NodePointer node = state->now[from];
    state->changes.push_back({Change::Kind::rename, node, from, to, {}});
    state->now.erase(from);
    state->now[to] = node;
  }
  return result;
}

int unlink(const char* path) noexcept {
  static const auto real = next<int(const char*)>("unlink");
  return remove_name("unlink", path, real);
}

int remove(const char* path) noexcept {
  static const auto real = next<int(const char*)>("remove");
  return remove_name("remove", path, real);
}

int rmdir(const char* path) noexcept {
  static const auto real = next<int(const char*)>("rmdir");
  return remove_name("rmdir", path, real);
}

int mkdir(const char* path, mode_t mode) noexcept {
  static const auto real = next<int(const char*, mode_t)>("mkdir");
  if (!watching) return real(path, mode);
  const std::lock_guard lock(mutex);
  if (!is_below_root(path)) return real(path, mode);
  if (judge("mkdir") == Verdict::fail) return fail();
  const int result = real(path, mode);
  if (result == 0) {
    const auto node = std::make_shared<Node>();
    node->folder = true;
    state->now[path] = node;
    state->changes.push_back({Change::Kind::make, node, path, {}, {}});
  }
  return result;
}

}  // extern "C"
