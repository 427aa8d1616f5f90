#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

// The rules of the Trace Event Format that concern us, as a strict reader has them.

namespace reef::test {

/// Reads a document in Chrome's trace format and says what a reader may stumble over.
///
/// | document | traceEvents: an array; displayTimeUnit: "ms" or "ns"; otherData: an object of texts |
/// | event    | has exactly the fields of its phase, of their types                                 |
/// | X        | ts, dur >= 0 in us, whole nanoseconds; of a pid and a tid that have a name          |
/// | row      | the X of one pid and tid nest                                                       |
/// | s, f     | two of an id, the s not after the f, each inside an X of its row; f binds to what    |
/// |          | encloses it                                                                         |
/// | M        | one process_name a pid, one thread_name a tid, of different names; sort indices     |
///
/// Source: Google, Trace Event Format (2016), sections "JSON Object Format", "Complete Events",
/// "Flow Events", "Metadata Events".
class TraceFormat {
public:
  struct Slice {
    std::int64_t begin;
    std::int64_t end;
    std::string name;
    std::string category;
  };
  struct Arrow {
    std::string category;
    std::pair<int, int> from;  // pid, tid
    std::int64_t begin;
    std::pair<int, int> to;
    std::int64_t end;
  };

  explicit TraceFormat(const nlohmann::json& document) {
    if (!expect(document.is_object(), "the document is no object")) return;
    fields(document, {"traceEvents", "displayTimeUnit", "otherData"}, "the document");
    const auto unit = document.value("displayTimeUnit", "");
    expect(unit == "ms" || unit == "ns", "displayTimeUnit is '" + unit + "'");
    const auto other = document.find("otherData");
    if (other != document.end() && expect(other->is_object(), "otherData is no object")) {
      for (const auto& value : *other) expect(value.is_string(), "otherData has more than texts");
    }
    if (!expect(document.contains("traceEvents") && document["traceEvents"].is_array(),
                "traceEvents is no array")) {
      return;
    }
    for (const auto& event : document["traceEvents"]) read(event);
    check_names();
    check_rows();
    check_arrows();
  }

  /// Empty for a document that keeps all rules; at most the first twenty that it breaks.
  [[nodiscard]] const std::string& broken() const { return broken_; }

  [[nodiscard]] const std::map<std::pair<int, int>, std::vector<Slice>>& rows() const {
    return rows_;
  }
  [[nodiscard]] const std::vector<Arrow>& arrows() const { return arrows_; }
  [[nodiscard]] const std::map<std::pair<int, int>, std::string>& threads() const {
    return threads_;
  }
  [[nodiscard]] const std::map<int, std::string>& processes() const { return processes_; }

  /// How many arrows of that category go from one rank to another.
  [[nodiscard]] std::ptrdiff_t arrows_between_ranks(std::string_view category) const {
    return std::count_if(arrows_.begin(), arrows_.end(), [&](const Arrow& arrow) {
      return arrow.category == category && arrow.from.first != arrow.to.first;
    });
  }
  /// How many go from one row to another of the same rank.
  [[nodiscard]] std::ptrdiff_t arrows_between_rows(std::string_view category) const {
    return std::count_if(arrows_.begin(), arrows_.end(), [&](const Arrow& arrow) {
      return arrow.category == category && arrow.from.first == arrow.to.first &&
             arrow.from.second != arrow.to.second;
    });
  }

private:
  using Json = nlohmann::json;
  struct End {
    std::pair<int, int> row;
    std::int64_t time;
  };
  struct Ends {
    std::vector<End> from;
    std::vector<End> to;
  };

  bool expect(bool holds, const std::string& otherwise) {
    if (!holds && ++count_ <= 20) broken_ += otherwise + "\n";
    return holds;
  }

  bool fields(const Json& object, const std::set<std::string>& known, const std::string& what) {
    bool all = true;
    for (const auto& [key, value] : object.items()) {
      all &= expect(known.count(key) == 1, what + " has the field '" + key + "'");
    }
    return all;
  }

  /// Each field is there and of its type.
  bool typed(const Json& event, const std::vector<std::pair<std::string, char>>& wanted) {
    for (const auto& [key, type] : wanted) {
      const auto found = event.find(key);
      if (!expect(found != event.end(), "no '" + key + "' in " + event.dump())) return false;
      const bool right = type == 't'   ? found->is_string()
                         : type == 'i' ? found->is_number_integer() && *found >= 0
                                       : found->is_number() && *found >= 0;
      if (!expect(right, "'" + key + "' has another type in " + event.dump())) return false;
    }
    return true;
  }

  std::int64_t nanoseconds(const Json& event, const char* key) {
    const double exact = event.at(key).get<double>() * 1000;
    const auto whole = std::llround(exact);
    expect(std::abs(exact - static_cast<double>(whole)) < 0.01,
           std::string(key) + " is not in whole nanoseconds in " + event.dump());
    return whole;
  }

  static std::pair<int, int> row_of(const Json& event) {
    return {event.at("pid").get<int>(), event.at("tid").get<int>()};
  }

  void read(const Json& event) {
    if (!expect(event.is_object(), "an event is no object") || !typed(event, {{"ph", 't'}})) return;
    const std::string phase = event.at("ph");
    if (phase == "X") return read_slice(event);
    if (phase == "s" || phase == "f") return read_end(event, phase == "s");
    if (phase == "M") return read_meta(event);
    expect(false, "an event has the phase '" + phase + "'");
  }

  void read_slice(const Json& event) {
    fields(event, {"ph", "name", "cat", "pid", "tid", "ts", "dur", "args"}, "a slice");
    if (!typed(
            event,
            {{"name", 't'}, {"cat", 't'}, {"pid", 'i'}, {"tid", 'i'}, {"ts", 'n'}, {"dur", 'n'}})) {
      return;
    }
    if (event.contains("args")) expect(event["args"].is_object(), "args is no object");
    const std::int64_t begin = nanoseconds(event, "ts");
    rows_[row_of(event)].push_back(
        {begin, begin + nanoseconds(event, "dur"), event.at("name"), event.at("cat")});
  }

  void read_end(const Json& event, bool from) {
    fields(event, {"ph", "name", "cat", "id", "bp", "pid", "tid", "ts"}, "a flow event");
    if (!typed(event, {{"name", 't'}, {"cat", 't'}, {"pid", 'i'}, {"tid", 'i'}, {"ts", 'n'}}))
      return;
    const bool has_id =
        event.contains("id") && (event["id"].is_string() || event["id"].is_number_unsigned());
    if (!expect(has_id, "a flow event without an id")) return;
    expect(from != event.contains("bp"), "bp belongs to an f, and to it alone");
    if (!from) expect(event.value("bp", "") == "e", "an f does not bind to what encloses it");
    Ends& ends = flows_[{event.at("cat"), event.at("name"), event.at("id").dump()}];
    (from ? ends.from : ends.to).push_back({row_of(event), nanoseconds(event, "ts")});
  }

  void read_meta(const Json& event) {
    fields(event, {"ph", "name", "pid", "tid", "args"}, "a metadata event");
    if (!typed(event, {{"name", 't'}, {"pid", 'i'}}) ||
        !expect(event.contains("args") && event["args"].is_object(), "metadata without args")) {
      return;
    }
    const std::string name = event.at("name");
    const bool of_thread = name == "thread_name" || name == "thread_sort_index";
    if (of_thread && !typed(event, {{"tid", 'i'}})) return;
    if (name == "process_name" || name == "thread_name") {
      if (!typed(event.at("args"), {{"name", 't'}})) return;
      const std::string text = event.at("args").at("name");
      const bool fresh = of_thread ? threads_.emplace(row_of(event), text).second
                                   : processes_.emplace(event.at("pid"), text).second;
      expect(fresh, "a second " + name + " in " + event.dump());
    } else if (name == "process_sort_index" || name == "thread_sort_index") {
      typed(event.at("args"), {{"sort_index", 'i'}});
    } else {
      expect(false, "metadata of the name '" + name + "'");
    }
  }

  void check_names() {
    for (const auto& [row, slices] : rows_) {
      const std::string at = std::to_string(row.first) + "/" + std::to_string(row.second);
      expect(processes_.count(row.first) == 1, "no process_name for " + at);
      expect(threads_.count(row) == 1, "no thread_name for " + at);
    }
    std::set<std::pair<int, std::string>> seen;
    for (const auto& [row, name] : threads_) {
      expect(seen.emplace(row.first, name).second, "two threads of the name " + name);
    }
  }

  void check_rows() {
    for (auto& [row, slices] : rows_) {
      std::stable_sort(slices.begin(), slices.end(), [](const Slice& a, const Slice& b) {
        return a.begin != b.begin ? a.begin < b.begin : a.end > b.end;
      });
      std::vector<std::int64_t> open;
      for (const Slice& slice : slices) {
        while (!open.empty() && open.back() <= slice.begin) open.pop_back();
        expect(open.empty() || slice.end <= open.back(),
               "'" + slice.name + "' reaches out of what it begins in");
        open.push_back(slice.end);
      }
    }
  }

  [[nodiscard]] bool inside(const End& end) const {
    const auto row = rows_.find(end.row);
    if (row == rows_.end()) return false;
    return std::any_of(row->second.begin(), row->second.end(), [&](const Slice& slice) {
      return slice.begin <= end.time &&
             (end.time < slice.end || (slice.begin == slice.end && slice.end == end.time));
    });
  }

  void check_arrows() {
    for (const auto& [key, ends] : flows_) {
      const std::string what = key[0] + " " + key[2];
      if (!expect(ends.from.size() == 1 && ends.to.size() == 1, what + " is no pair")) continue;
      const End& from = ends.from.front();
      const End& to = ends.to.front();
      expect(from.time <= to.time, what + " goes back in time");
      expect(inside(from), what + " begins outside of all slices");
      expect(inside(to), what + " ends outside of all slices");
      arrows_.push_back({key[0], from.row, from.time, to.row, to.time});
    }
  }

  std::map<std::pair<int, int>, std::vector<Slice>> rows_;
  std::map<std::pair<int, int>, std::string> threads_;
  std::map<int, std::string> processes_;
  std::map<std::array<std::string, 3>, Ends> flows_;
  std::vector<Arrow> arrows_;
  std::string broken_;
  int count_ = 0;
};

}  // namespace reef::test
