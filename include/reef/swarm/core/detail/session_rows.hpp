#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <vector>

#include <reef/core/units.hpp>
#include <reef/swarm/core/message.hpp>

namespace reef {
inline namespace v0 {
namespace swarm {
namespace core {
namespace detail {

/// The shape of rows of a batch: (batch, rows, bytes of a row).
struct RowShape {
  std::int64_t batch = 1;
  std::int64_t rows = 0;
  Bytes row = 0;

  [[nodiscard]] Bytes sequence() const { return static_cast<Bytes>(rows) * row; }
  [[nodiscard]] Bytes bytes() const { return static_cast<Bytes>(batch) * sequence(); }
};

/// Returns the last `count` rows of each sequence.
inline Bulk last_rows(const RowShape& shape, const std::vector<std::byte>& rows,
                      std::int64_t count) {
  const Bytes part = static_cast<Bytes>(count) * shape.row;
  std::vector<std::byte> last(static_cast<Bytes>(shape.batch) * part);
  for (std::int64_t i = 0; i < shape.batch; ++i) {
    std::memcpy(last.data() + static_cast<Bytes>(i) * part,
                rows.data() + static_cast<Bytes>(i + 1) * shape.sequence() - part, part);
  }
  return std::make_shared<const std::vector<std::byte>>(std::move(last));
}

/// All rows that were ever sent over a boundary, as the steps of a session have left them: cut by each `keep`, gathered
/// by each `reorder`.
class RowHistory {
public:
  RowHistory(std::int64_t batch, Bytes row)
      : row_(row), sequences_(static_cast<std::size_t>(batch)) {}

  [[nodiscard]] std::int64_t length() const {
    return static_cast<std::int64_t>(sequences_.front().size() / row_);
  }

  void keep(std::int64_t length) {
    for (auto& sequence : sequences_) sequence.resize(static_cast<Bytes>(length) * row_);
  }
  void reorder(const std::vector<std::int64_t>& from) {
    if (from.empty()) return;
    const std::vector<std::vector<std::byte>> before = sequences_;
    for (std::size_t i = 0; i < from.size(); ++i)
      sequences_[i] = before[static_cast<std::size_t>(from[i])];
  }
  void append(const std::vector<std::byte>& rows) {
    const Bytes part = rows.size() / sequences_.size();
    for (std::size_t i = 0; i < sequences_.size(); ++i) {
      const auto first = rows.begin() + static_cast<std::ptrdiff_t>(i * part);
      sequences_[i].insert(sequences_[i].end(), first, first + static_cast<std::ptrdiff_t>(part));
    }
  }
  /// Returns the last `count` rows of each sequence.
  [[nodiscard]] Bulk last(std::int64_t count) const {
    const Bytes part = static_cast<Bytes>(count) * row_;
    std::vector<std::byte> rows;
    rows.reserve(sequences_.size() * part);
    for (const auto& sequence : sequences_)
      rows.insert(rows.end(), sequence.end() - static_cast<std::ptrdiff_t>(part), sequence.end());
    return std::make_shared<const std::vector<std::byte>>(std::move(rows));
  }
  friend bool operator==(const RowHistory&, const RowHistory&) = default;

private:
  Bytes row_;
  std::vector<std::vector<std::byte>> sequences_;
};

}  // namespace detail
}  // namespace core
}  // namespace swarm
}  // namespace v0
}  // namespace reef
