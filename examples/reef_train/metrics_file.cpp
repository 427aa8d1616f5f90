// The file of the metrics: who may write it, which lines of it are kept, and what is done where it cannot be written.

#include <fcntl.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <utility>

#include <reef/core/error.hpp>
#include <reef/core/finite.hpp>
#include <reef/core/text.hpp>
#include <reef/io/atomic_file.hpp>
#include <reef/io/json.hpp>

#include "../support/earlier_files.hpp"
#include "../support/output_places.hpp"
#include "metrics.hpp"

namespace reef_examples {

namespace {

/// A step as the metrics tell it.
struct Line {
  reef::trace::ReportStep step;
  bool committed = false;
};

/// Nothing where it is no line of ours.
std::optional<Line> line_of(const std::string& text) {
  using reef::io::require;
  try {
    const auto json = reef::io::parse_json(text, "a line of the metrics");
    const auto number = [&](const char* key) {  // null stands for one that is not finite
      return json.at(key).is_number() ? json.at(key).get<double>()
                                      : std::numeric_limits<double>::quiet_NaN();
    };
    return Line{{require<std::int64_t>(json, "step"), require<std::int64_t>(json, "tokens"),
                 require<double>(json, "seconds"), number("loss"), number("tokens_per_s")},
                reef::io::value_or<bool>(json, "committed", false)};
  } catch (const reef::Error&) {
  } catch (const reef::io::Json::exception&) {
  }
  return std::nullopt;
}

}  // namespace

/// To add lines, of this job alone. A job that was killed a moment ago is waited for, and so is who will read a pipe.
void Metrics::open() {
  using Clock = std::chrono::steady_clock;
  const auto until = Clock::now() + std::chrono::seconds(3);
  const auto until_read = Clock::now() + std::chrono::seconds(1);
  require_place(path_);
  for (;;) {
    auto opened = reef::io::detail::open_to_write(path_, O_CREAT | O_APPEND);
    const int error = errno;
    if (!opened && error == ENXIO && Clock::now() < until_read) {
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
      continue;
    }
    if (!opened) reef::io::detail::throw_write_error(path_, error);
    std::unique_ptr<std::FILE, Close> file(::fdopen(opened.get(), "a"));
    if (file == nullptr) reef::io::detail::throw_write_error(path_, errno);
    opened.release();
    struct ::stat here {};
    struct ::stat named {};
    const int descriptor = ::fileno(file.get());
    const bool regular = ::fstat(descriptor, &here) == 0 && S_ISREG(here.st_mode);
    const bool held =
        regular && ::flock(descriptor, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK;
    if (held && Clock::now() > until) {
      throw reef::FileError("another job writes its metrics to '", path_,
                            "'.\n  why: the lines of two runs would be mixed.\n  fix: wait for its "
                            "end, or give another --metrics.");
    }
    const bool is_named = !regular || (::stat(path_.c_str(), &named) == 0 &&
                                       here.st_dev == named.st_dev && here.st_ino == named.st_ino);
    if (!held && is_named) {
      file_ = std::move(file);
      return;
    }
    if (held) std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
}

/// This run goes on after the line with the tokens and the seconds that its checkpoint has, or else after the last that
/// it wrote before: none where it begins, or where the file is of another. What is renamed or replaced stays locked
/// until its successor is.
std::string Metrics::keep_own_lines() {
  namespace fs = std::filesystem;
  const fs::path now = fs::canonical(path_);
  std::ifstream before(now, std::ios::binary);
  std::string text;
  std::size_t kept = 0;  // bytes
  std::size_t steps = 0;
  bool whole = false;
  const std::optional<MetricsLine> last = std::exchange(written_, std::nullopt);
  for (std::string line; std::getline(before, line); text += line + "\n") {
    const auto at = before.eof() || began_ == 0 || whole ? std::nullopt : line_of(line);
    if (before.eof()) {  // a crash in the middle of it
      text += line;
      break;
    }
    if (!at) continue;
    if (at->committed) steps_.push_back(at->step);  // for the page
    const auto is = [&at](std::int64_t tokens, double seconds) {
      return at->step.tokens == tokens && at->step.seconds == seconds;
    };
    whole = is(static_cast<std::int64_t>(tokens_), seconds_);
    if (!whole && !(last && is(last->tokens, last->seconds))) continue;
    kept = text.size() + line.size() + 1;
    steps = steps_.size();
    written_ = MetricsLine{at->step.step, at->step.tokens, at->step.seconds};
  }
  before.close();
  steps_.resize(steps);
  const std::string_view cut = std::string_view(text).substr(kept);
  if (kept == 0 && !cut.empty()) {
    const fs::path aside = next_free_name(now);
    fs::rename(now, aside);
    open();
    return reef::concat("metrics: those of an earlier run are now in ", aside.string());
  }
  std::string told;
  if (!whole && kept > 0 && written_->step < began_) {
    told = reef::concat("metrics: there are no lines of the steps ", written_->step + 1, " to ",
                        began_, ": those to come are added after that of step ", written_->step);
  }
  if (cut.empty()) return told;
  const fs::path aside = next_free_name(now);
  reef::io::write_atomically(aside, cut);
  reef::io::write_atomically(now, std::string_view(text).substr(0, kept));
  open();
  if (!told.empty()) return reef::concat(told, "; what came after it is now in ", aside.string());
  return reef::concat("metrics: the ",
                      std::count(cut.begin(), cut.end(), '\n') + (cut.ends_with('\n') ? 0 : 1),
                      " line(s) after that of step ", began_, " are now in ", aside.string(),
                      ", since those steps are taken again");
}

std::optional<MetricsLine> Metrics::make_durable() {
  struct ::stat status {};
  const int descriptor = file_ == nullptr ? -1 : ::fileno(file_.get());
  const bool keeps =
      descriptor >= 0 && ::fstat(descriptor, &status) == 0 && S_ISREG(status.st_mode);
  if (keeps && ::fsync(descriptor) != 0) give_up(errno);
  return written_;
}

void Metrics::write(const reef::io::Json& line) {
  if (file_ == nullptr) return;
  reef::io::Json numbers = line;
  for (reef::io::Json& value : numbers) {  // JSON has none that is not finite
    if (value.is_number_float() && !reef::is_finite(value.get<double>())) value = nullptr;
  }
  const bool written = std::fprintf(file_.get(), "%s\n", numbers.dump().c_str()) >= 0;
  if (!written || std::fflush(file_.get()) != 0) give_up(errno);
}

/// On some file systems a write fails only here. Who removes the file meanwhile removes all lines.
void Metrics::close() {
  if (file_ == nullptr) return;
  struct ::stat status {};
  const bool removed = ::fstat(::fileno(file_.get()), &status) == 0 && status.st_nlink == 0 &&
                       S_ISREG(status.st_mode);
  if (std::fclose(file_.release()) != 0) return give_up(errno);
  if (removed) give_up(ENOENT);
}

void Metrics::give_up(int error) {
  file_.reset();
  broken_ = true;
  failures_.add(reef::concat("--metrics ", path_),
                reef::concat("cannot write it: ", std::strerror(error),
                             ".\n  fix: free space there, or give another --metrics."));
}

}  // namespace reef_examples
