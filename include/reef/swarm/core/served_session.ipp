#pragma once

#include <algorithm>
#include <utility>

#include <reef/core/inline.hpp>
#include <reef/io/checksum.hpp>
#include <reef/swarm/core/detail/session_rows.hpp>
#include <reef/swarm/core/served_session.hpp>

namespace reef {
inline namespace v0 {
namespace swarm {
namespace core {

REEF_INLINE ServedSession::ServedSession(const OpenSession& open, Bytes row_bytes)
    : open_(open), row_bytes_(row_bytes), epoch_(open.epoch), last_(open.step) {}

REEF_INLINE bool ServedSession::is_well_formed(const SessionStep& step) const {
  if (!step.bytes || step.keep < 0 || step.rows < 1 || step.rows > open_.max_length) return false;
  if (step.keep > open_.max_length - step.rows) return false;
  if (step.whole ? length_ != 0 : step.keep > length_) return false;
  const std::int64_t positions = step.whole ? step.keep + step.rows : step.rows;
  if (step.bytes->size() != static_cast<Bytes>(open_.batch * positions) * row_bytes_) return false;
  if (step.reorder.empty()) return true;
  return static_cast<std::int64_t>(step.reorder.size()) == open_.batch &&
         std::all_of(step.reorder.begin(), step.reorder.end(),
                     [&](std::int64_t i) { return i >= 0 && i < open_.batch; });
}

REEF_INLINE ServedSession::Verdict ServedSession::take(const SessionStep& step) {
  const auto refused = [&](SessionRefusal why) {
    return SessionRefused{open_.session, step.epoch, step.step, why};
  };
  if (step.epoch != epoch_) return refused(SessionRefusal::epoch);
  if (step.step == last_ && kept_) return *kept_;
  if (step.step != last_ + 1) return refused(SessionRefusal::step);
  if (!is_well_formed(step)) return refused(SessionRefusal::malformed);
  Compute compute{{step.keep, step.reorder, step.rows}, step.bytes};
  if (step.whole) {
    compute.cache = {0, {}, step.keep + step.rows};
  } else if (prepared_) {
    if (*prepared_ != std::pair(step.keep, step.reorder)) return refused(SessionRefusal::step);
    compute.cache.reorder.clear();  // done already
  }
  prepared_.reset();
  kept_ = StepDone{open_.session, epoch_, step.step, io::crc32c(*step.bytes), {}};
  last_ = step.step;
  length_ = step.keep + step.rows;
  step_ = step;
  step_.bytes.reset();
  return compute;
}

REEF_INLINE ServedSession::Answer ServedSession::computed(const Bulk& rows) {
  const detail::RowShape shape{open_.batch, step_.whole ? length_ : step_.rows, row_bytes_};
  const auto part = [&](bool whole) {
    return whole || !step_.whole ? rows : detail::last_rows(shape, *rows, step_.rows);
  };
  kept_->bytes = part(step_.answers_whole);
  Answer answer{*kept_, {}, {}};
  if (step_.next.empty()) return answer;
  const NextHop& next = step_.next.front();
  answer.next = next.server;
  answer.push = step_;
  answer.push.session = next.session;
  answer.push.whole = next.whole;
  answer.push.answers_whole = next.answers_whole;
  answer.push.next.erase(answer.push.next.begin());
  answer.push.bytes = part(next.whole);
  return answer;
}

REEF_INLINE std::variant<SessionReady, SessionRefused> ServedSession::take(
    const SessionEpoch& epoch) {
  const auto refused = [&](SessionRefusal why) {
    return SessionRefused{open_.session, epoch.epoch, 0, why};
  };
  if (epoch.epoch < epoch_) return refused(SessionRefusal::epoch);
  if (epoch.epoch == epoch_) return SessionReady{open_.session, epoch_, length_};  // a second copy
  const bool undo = epoch.step == last_ - 1 && kept_.has_value();
  if (epoch.step != last_ && !undo) return refused(SessionRefusal::step);
  epoch_ = epoch.epoch;
  if (undo) {
    // Rows of all positions are undone as a whole: the client has not compared their checksum.
    length_ = step_.whole ? 0 : step_.keep;
    if (!step_.whole) prepared_.emplace(step_.keep, step_.reorder);
    --last_;
    kept_.reset();
  } else if (kept_) {
    kept_->epoch = epoch_;
  }
  return SessionReady{open_.session, epoch_, length_};
}

}  // namespace core
}  // namespace swarm
}  // namespace v0
}  // namespace reef
