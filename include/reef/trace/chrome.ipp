#pragma once

#include <array>
#include <charconv>
#include <cmath>
#include <cstddef>
#include <limits>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include <reef/core/inline.hpp>
#include <reef/core/text.hpp>
#include <reef/io/json_string.hpp>
#include <reef/trace/chrome.hpp>

namespace reef {
inline namespace v0 {
namespace trace {

namespace detail {

/// The row of each span of one track, so that the spans of a row nest: row 0 for all, but for those
/// that would overlap another in part. `order` is by begin, longer ones first.
inline std::vector<int> rows_that_nest(std::span<const Nanoseconds> begin,
                                       std::span<const Nanoseconds> end,
                                       std::span<const std::size_t> order) {
  std::vector<int> row(begin.size(), 0);
  std::vector<std::vector<Nanoseconds>> open;  // per row, the ends of the spans that enclose
  for (const std::size_t i : order) {
    int r = 0;
    for (;; ++r) {
      if (static_cast<std::size_t>(r) == open.size()) open.emplace_back();
      std::vector<Nanoseconds>& ends = open[static_cast<std::size_t>(r)];
      while (!ends.empty() && ends.back() <= begin[i]) ends.pop_back();
      if (ends.empty() || end[i] <= ends.back()) {
        ends.push_back(end[i]);
        break;
      }
    }
    row[i] = r;
  }
  return row;
}

inline void append_number(std::string& out, std::int64_t value) {
  std::array<char, 24> text{};
  const auto end = std::to_chars(text.data(), text.data() + text.size(), value).ptr;
  out.append(text.data(), end);
}

/// Nanoseconds as microseconds with three decimals: exact.
inline void append_micro(std::string& out, Nanoseconds value) {
  append_number(out, value / 1000);
  const auto rest = static_cast<int>(value % 1000);
  out += '.';
  out += static_cast<char>('0' + rest / 100);
  out += static_cast<char>('0' + rest / 10 % 10);
  out += static_cast<char>('0' + rest % 10);
}

/// `,"pid":0,"tid":1,"ts":2.345`
inline void append_place(std::string& out, int pid, int tid, Nanoseconds time) {
  out += R"(,"pid":)";
  append_number(out, pid);
  out += R"(,"tid":)";
  append_number(out, tid);
  out += R"(,"ts":)";
  append_micro(out, time);
}

/// The events of one recording, each on a line that ends in a comma.
class ChromeWriter {
public:
  ChromeWriter(std::string& out, const Recording& recording, Seconds origin)
      : out_(out), recording_(recording), origin_(origin), slices_(recording.spans.size()) {}

  /// Returns where each span stands.
  std::vector<Slice> write() {
    meta("process_name", -1, concat("rank ", recording_.rank));
    sort_index("process_sort_index", -1, recording_.rank);
    std::vector<std::vector<std::size_t>> by_track(recording_.tracks.size());
    for (std::size_t i = 0; i < recording_.spans.size(); ++i) {
      by_track.at(recording_.spans[i].track).push_back(i);
    }
    int next_row =
        static_cast<int>(by_track.size());  // a track's further rows come after all tracks
    for (std::size_t track = 0; track < by_track.size(); ++track) {
      write_track(static_cast<int>(track), by_track[track], next_row);
    }
    return std::move(slices_);
  }

private:
  [[nodiscard]] Nanoseconds at(Seconds time) const {
    return static_cast<Nanoseconds>(std::llround((time - origin_) * 1e9));
  }

  void write_track(int track, std::span<const std::size_t> members, int& next_row) {
    std::vector<Nanoseconds> begin;
    std::vector<Nanoseconds> end;
    std::vector<std::size_t> order;
    for (const std::size_t i : members) {
      begin.push_back(at(recording_.spans[i].begin));
      end.push_back((std::max)(begin.back(), at(recording_.spans[i].end)));
      order.push_back(order.size());
    }
    std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
      return begin[a] != begin[b] ? begin[a] < begin[b] : end[a] > end[b];
    });
    const std::vector<int> row = rows_that_nest(begin, end, order);
    const int rows = row.empty() ? 1 : 1 + *std::max_element(row.begin(), row.end());
    const std::string& lane = recording_.tracks[static_cast<std::size_t>(track)];
    for (int r = 0; r < rows; ++r) {
      const int tid = r == 0 ? track : next_row + r - 1;
      meta("thread_name", tid, r == 0 ? lane : concat(lane, " (", r + 1, ")"));
      sort_index("thread_sort_index", tid, track * 1000 + r);
    }
    for (const std::size_t i : order) {
      const int tid = row[i] == 0 ? track : next_row + row[i] - 1;
      slices_[members[i]] = {recording_.rank, tid, begin[i], end[i]};
      write_span(recording_.spans[members[i]], slices_[members[i]]);
    }
    next_row += rows - 1;
  }

  void write_span(const Span& span, const Slice& slice) {
    out_ += R"({"ph":"X","name":)";
    io::append_json_string(out_, recording_.name_of(span));
    out_.append(R"(,"cat":")").append(trace::name_of(span.activity)).append("\"");
    append_place(out_, slice.pid, slice.tid, slice.begin);
    out_ += R"(,"dur":)";
    append_micro(out_, slice.end - slice.begin);
    if (span.bytes != 0) {
      out_ += R"(,"args":{"bytes":)";
      out_.append(std::to_string(span.bytes)).append("}");
    }
    out_ += "},\n";
  }

  void open_meta(std::string_view kind, int tid) {
    out_.append(R"({"ph":"M","name":")").append(kind).append(R"(","pid":)");
    append_number(out_, recording_.rank);
    if (tid >= 0) {
      out_ += R"(,"tid":)";
      append_number(out_, tid);
    }
  }
  void meta(std::string_view kind, int tid, std::string_view name) {
    open_meta(kind, tid);
    out_ += R"(,"args":{"name":)";
    io::append_json_string(out_, name);
    out_ += "}},\n";
  }
  void sort_index(std::string_view kind, int tid, int index) {
    open_meta(kind, tid);
    out_ += R"(,"args":{"sort_index":)";
    append_number(out_, index);
    out_ += "}},\n";
  }

  std::string& out_;
  const Recording& recording_;
  Seconds origin_;
  std::vector<Slice> slices_;
};

/// The arrows between the spans of all ranks, each a pair of events.
class ArrowWriter {
public:
  ArrowWriter(std::string& out, std::span<const Recording> recordings,
              std::span<const std::vector<Slice>> slices)
      : out_(out), recordings_(recordings), slices_(slices) {}

  void write() {
    for (std::size_t rank = 0; rank < recordings_.size(); ++rank) write_causes(rank);
    write_messages();
  }

private:
  struct End {
    std::uint64_t message;
    std::size_t rank;  // the recording's place
    std::size_t span;
  };

  /// From the end of what a lane waited for to the begin of what it did then.
  void write_causes(std::size_t rank) {
    const std::vector<Span>& spans = recordings_[rank].spans;
    std::unordered_map<std::uint32_t, std::size_t> by_id;
    for (std::size_t i = 0; i < spans.size(); ++i) {
      if (spans[i].id != 0) by_id[spans[i].id] = i;
    }
    for (std::size_t i = 0; i < spans.size(); ++i) {
      if (spans[i].cause == 0) continue;
      const auto cause = by_id.find(spans[i].cause);
      if (cause == by_id.end()) continue;  // forgotten, or on a track that is not recorded
      const Slice& to = slices_[rank][i];
      write_arrow("dependency", slices_[rank][cause->second], to, to.begin);
    }
  }

  void write_messages() {
    std::vector<End> ends;
    for (std::size_t rank = 0; rank < recordings_.size(); ++rank) {
      const std::vector<Span>& spans = recordings_[rank].spans;
      for (std::size_t i = 0; i < spans.size(); ++i) {
        if (spans[i].role != Role::none) ends.push_back({spans[i].message, rank, i});
      }
    }
    std::stable_sort(ends.begin(), ends.end(),
                     [](const End& a, const End& b) { return a.message < b.message; });
    for (auto first = ends.begin(); first != ends.end();) {
      const auto last = std::find_if(first, ends.end(),
                                     [&](const End& end) { return end.message != first->message; });
      write_message({first, last});
      first = last;
    }
  }

  /// From the sender to the receivers. In a collective, from who came last to all who met him.
  void write_message(std::span<const End> ends) {
    const End* source = nullptr;
    for (const End& end : ends) {
      const Role role = role_of(end);
      if (role == Role::receives) continue;
      if (source == nullptr || slice_of(*source).begin < slice_of(end).begin) source = &end;
    }
    if (source == nullptr) return;
    for (const End& end : ends) {
      if (&end == source || role_of(end) == Role::sends) continue;
      const Slice& to = slice_of(end);
      write_arrow("message", slice_of(*source), to, to.last());
    }
  }

  /// From the end of `from`, or from within it where `time` is before that, to `time` in `to`. An
  /// arrow back in time, of clocks that disagree, is left out.
  void write_arrow(std::string_view what, const Slice& from, const Slice& to, Nanoseconds time) {
    if (time < from.begin) return;
    ++arrows_;
    write_end('s', what, from, (std::min)(from.last(), time));
    write_end('f', what, to, time);
  }

  void write_end(char phase, std::string_view what, const Slice& slice, Nanoseconds time) {
    out_.append(R"({"ph":")").append(1, phase).append(R"(","name":")").append(what);
    out_.append(R"(","cat":")").append(what).append(R"(","id":)");
    append_number(out_, arrows_);
    if (phase == 'f') out_ += R"(,"bp":"e")";
    append_place(out_, slice.pid, slice.tid, time);
    out_ += "},\n";
  }

  [[nodiscard]] const Slice& slice_of(const End& end) const { return slices_[end.rank][end.span]; }
  [[nodiscard]] Role role_of(const End& end) const {
    return recordings_[end.rank].spans[end.span].role;
  }

  std::string& out_;
  std::span<const Recording> recordings_;
  std::span<const std::vector<Slice>> slices_;
  std::int64_t arrows_ = 0;
};

}  // namespace detail

REEF_INLINE Seconds first_begin(std::span<const Recording> recordings) {
  constexpr Seconds none = (std::numeric_limits<Seconds>::max)();
  Seconds first = none;
  for (const Recording& recording : recordings) {
    for (const Span& span : recording.spans) first = (std::min)(first, span.begin);
  }
  return first < none ? first : 0;
}

REEF_INLINE std::string chrome_json(std::span<const Recording> recordings) {
  const Seconds origin = first_begin(recordings);
  std::uint64_t dropped = 0;
  std::string out = "{\"displayTimeUnit\":\"ms\",\"traceEvents\":[\n";
  std::vector<std::vector<detail::Slice>> slices;
  for (const Recording& recording : recordings) {
    slices.push_back(detail::ChromeWriter(out, recording, origin).write());
    dropped += recording.dropped;
  }
  detail::ArrowWriter(out, recordings, slices).write();
  if (out.ends_with(",\n")) out.erase(out.size() - 2);
  out += concat("\n],\"otherData\":{\"dropped_spans\":\"", dropped, "\"}}\n");
  return out;
}

}  // namespace trace
}  // namespace v0
}  // namespace reef
