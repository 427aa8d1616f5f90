#pragma once

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>

#include <reef/core/finite.hpp>
#include <reef/core/text.hpp>

namespace reef_examples {

/// Where a run stands.
struct Standing {
  std::int64_t step = 0;  // committed so far
  std::int64_t steps = 0;
  double loss = 0;
  double tokens_per_s = 0;
  double exposed_share = 0;  // of the time, in which communication is exposed
  double seconds = 0;        // since the first step of this run began
  std::int64_t began = 0;    // the steps before that one
  double first = 0;          // seconds that it took
};

/// "34.1k".
inline std::string short_number(double value) {
  std::array<char, 32> text{};
  const double magnitude = std::abs(value);
  if (magnitude >= 1e6) {
    std::snprintf(text.data(), text.size(), "%.2fM", value / 1e6);
  } else if (magnitude >= 1e4) {
    std::snprintf(text.data(), text.size(), "%.1fk", value / 1e3);
  } else {
    std::snprintf(text.data(), text.size(), "%.0f", value);
  }
  return text.data();
}

/// "1:05", "2:00:00"; "-" for what is no time.
inline std::string clock_text(double seconds) {
  if (!reef::within(seconds, 0, 1e8)) return "-";
  const auto whole = std::lround(seconds);
  std::array<char, 48> text{};
  if (whole >= 3600) {
    std::snprintf(text.data(), text.size(), "%ld:%02ld:%02ld", whole / 3600, whole / 60 % 60,
                  whole % 60);
  } else {
    std::snprintf(text.data(), text.size(), "%ld:%02ld", whole / 60, whole % 60);
  }
  return text.data();
}

/// The seconds that are left if steps go on taking what they took so far. The first, in which memory is
/// touched and connections are made, says little of the others, nor do a few: -1 before the fourth.
inline double seconds_left(const Standing& at) {
  if (at.step >= at.steps) return 0;
  const std::int64_t steps = at.step - at.began;
  if (steps < 4) return -1;
  return std::max(0.0, at.seconds - at.first) / static_cast<double>(steps - 1) *
         static_cast<double>(at.steps - at.step);
}

/// The figures of a step: "loss 2.345  34.1k tokens/s  exposed 8.3%".
inline std::string figures(const Standing& at) {
  std::array<char, 96> text{};
  std::snprintf(text.data(), text.size(), "loss %.3f  %s tokens/s  exposed %.1f%%", at.loss,
                short_number(at.tokens_per_s).c_str(), 100 * at.exposed_share);
  return text.data();
}

/// One line for a log: "step 10/400  loss ...  0:12, 1:35 left".
inline std::string log_line(const Standing& at) {
  return reef::concat("step ", at.step, "/", at.steps, "  ", figures(at), "  ",
                      clock_text(at.seconds), ", ", clock_text(seconds_left(at)), " left");
}

/// One line of fewer than `columns` columns: the bar takes what the figures leave, and goes first
/// where that is little. `unicode` draws the bar in eighths of a column.
inline std::string bar_line(const Standing& at, int columns, bool unicode) {
  const double share =
      at.steps <= 0
          ? 0
          : std::clamp(static_cast<double>(at.step) / static_cast<double>(at.steps), 0.0, 1.0);
  std::array<char, 16> percent{};
  std::snprintf(percent.data(), percent.size(), "%3.0f%%", std::floor(100 * share));
  const std::string last = std::to_string(at.steps);
  std::string step = std::to_string(at.step);
  step.insert(0, last.size() - std::min(last.size(), step.size()), ' ');
  const std::string right =
      " " + step + "/" + last + "  " + figures(at) + "  " + clock_text(seconds_left(at)) + " left";
  const int room = std::max(1, columns) - 1;
  const int cells = std::min(40, room - 4 - 2 - 1 - static_cast<int>(right.size()));
  if (cells < 5) {
    const std::string text = percent.data() + right;
    return text.substr(0, std::min(text.size(), static_cast<std::size_t>(room)));
  }
  std::string bar;
  const int eighths = static_cast<int>(share * cells * 8);
  static constexpr std::array<std::string_view, 8> parts{" ", "▏", "▎", "▍", "▌", "▋", "▊", "▉"};
  for (int cell = 0; cell < cells; ++cell) {
    const int filled = std::clamp(eighths - 8 * cell, 0, 8);
    if (unicode) {
      bar += filled == 8 ? "█" : parts[static_cast<std::size_t>(filled)];
    } else {
      bar += filled == 8 ? '#' : '.';
    }
  }
  return std::string(percent.data()) + (unicode ? " ▕" : " [") + bar + (unicode ? "▏" : "]") +
         right;
}

/// Shows where a run stands: a bar that is redrawn in place on a terminal, plain lines elsewhere.
///
/// A terminal is asked for its width each time, so that a resized window is no harm. Elsewhere a
/// line comes with the first and the last step and every few seconds between. Used by one thread.
class Progress {
public:
  explicit Progress(std::FILE* out = stderr) : Progress(out, is_terminal(out)) {}
  Progress(std::FILE* out, bool redraw) : out_(out), redraw_(redraw), unicode_(has_utf8()) {}
  ~Progress() { clear(); }
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  /// Shows the standing, unless it was shown just now.
  void update(const Standing& at) {
    const auto time = std::chrono::steady_clock::now();
    const bool edge = (at.step <= 1 || at.step >= at.steps) && at.step != step_;
    const auto pause = std::chrono::milliseconds(redraw_ ? 100 : 5000);
    if (!edge && shown_ && time - last_ < pause) return;
    shown_ = true;
    step_ = at.step;
    last_ = time;
    if (redraw_) {
      std::fprintf(out_, "\r%s\x1b[K", bar_line(at, columns(), unicode_).c_str());
      drawn_ = true;
    } else {
      std::fprintf(out_, "%s\n", log_line(at).c_str());
    }
    std::fflush(out_);
  }

  /// A line of text that the next takes the place of: on a terminal at once, elsewhere every few seconds.
  void show(std::string_view text) {
    const auto time = std::chrono::steady_clock::now();
    const auto pause = std::chrono::milliseconds(redraw_ ? 100 : 5000);
    if (shown_ && time - last_ < pause) return;
    shown_ = true;
    last_ = time;
    if (!redraw_) return say(text);
    const auto room = static_cast<std::size_t>(std::max(1, columns()) - 1);
    const std::string_view fits = text.substr(0, room);
    std::fprintf(out_, "\r%.*s\x1b[K", static_cast<int>(fits.size()), fits.data());
    drawn_ = true;
    std::fflush(out_);
  }

  /// A line of text, above the bar.
  void say(std::string_view text) {
    clear();
    std::fprintf(out_, "%.*s\n", static_cast<int>(text.size()), text.data());
    std::fflush(out_);
  }

  /// Leaves the bar as it is and goes on below it.
  void finish() {
    if (drawn_) std::fputc('\n', out_);
    drawn_ = false;
    std::fflush(out_);
  }

private:
  static bool is_terminal(std::FILE* out) {
    const char* term = std::getenv("TERM");
    return ::isatty(::fileno(out)) == 1 && term != nullptr && std::string_view(term) != "dumb";
  }
  static bool has_utf8() {
    for (const char* name : {"LC_ALL", "LC_CTYPE", "LANG"}) {
      const char* value = std::getenv(name);
      if (value == nullptr || *value == '\0') continue;
      const std::string_view locale(value);
      return locale.find("UTF-8") != std::string_view::npos ||
             locale.find("utf8") != std::string_view::npos;
    }
    return false;
  }
  [[nodiscard]] int columns() const {
    struct ::winsize size {};
    return ::ioctl(::fileno(out_), TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
  }
  void clear() {
    if (drawn_) std::fputs("\r\x1b[K", out_);
    drawn_ = false;
  }

  std::FILE* out_;
  bool redraw_;
  bool unicode_;
  bool shown_ = false;
  std::int64_t step_ = -1;  // the last one shown
  bool drawn_ = false;
  std::chrono::steady_clock::time_point last_;
};

}  // namespace reef_examples
