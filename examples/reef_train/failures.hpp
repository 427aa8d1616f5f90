#pragma once

#include <algorithm>
#include <exception>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include <reef/core/text.hpp>

namespace reef_examples {

/// What a run failed of while it goes on to do the rest: told when it happens, and all of it at the end.
class Failures {
public:
  /// `say` tells a person.
  explicit Failures(std::function<void(const std::string&)> say) : say_(std::move(say)) {}

  void add(const std::string& what, const std::string& why) {
    say_(reef::concat("failed: ", what, ": ", why));
    const auto same = std::find_if(failures_.begin(), failures_.end(),
                                   [&](const Failure& failure) { return failure.what == what; });
    if (same != failures_.end()) {
      ++same->times;
    } else {
      failures_.push_back({what, why, 1});
    }
  }

  /// Whether `work` could be done; what it throws is added.
  template <class F>
  bool attempt(const std::string& what, const F& work) {
    try {
      work();
      return true;
    } catch (const std::exception& error) {
      add(what, error.what());
      return false;
    }
  }

  [[nodiscard]] bool any() const { return !failures_.empty(); }

  /// "these failed, ...", each with its reason.
  [[nodiscard]] std::string text() const {
    std::string text = "not all could be done; what else there was is done:";
    for (const auto& [what, why, times] : failures_) {
      text += reef::concat("\n  failed: ", what);
      if (times > 1) text += reef::concat(" (", times, " times, here the first)");
      text += reef::concat(": ", why);
    }
    return text;
  }

private:
  struct Failure {
    std::string what;
    std::string why;
    int times;
  };

  std::function<void(const std::string&)> say_;
  std::vector<Failure> failures_;
};

}  // namespace reef_examples
