#pragma once

#include <memory>
#include <string>

#include <reef/comm/detail/occupations.hpp>
#include <reef/core/units.hpp>

namespace reef {
inline namespace v0 {
namespace comm {

class Progress;

/// A note that the calling thread computes, for the life of this object: ranks that wait for this one then continue
/// to wait, however long it takes, and are told what it does. The lanes of a Trainer note their work themselves.
///
/// | who   | one rank alone; any thread that may compute for longer than the operation deadline |
/// | waits | while the thread waits for a task, it does not count as being at work              |
/// | life  | ends on the thread that constructed it; may outlive the Progress object            |
/// | cost  | a lock when it begins, and when it ends                                            |
///
/// \code
/// // given: comm::Progress& progress
/// {
///   const comm::AtWork at_work(progress, "reads the corpus anew", 600);  // some ten minutes
///   // ... what takes long on this rank alone ...
/// }
/// comm::barrier(progress, "read");
/// \endcode
class AtWork {
public:
  /// Begins the thread's work, named `what`. `expected` is the time in seconds that the work should take; 0 if that is
  /// not known.
  AtWork(Progress& progress, std::string what, Seconds expected = 0);

  /// Begins work that either all ranks do or none: if ranks then wait for each
  /// other, their report states `reason`, and names the ranks that do the work.
  AtWork(Progress& progress, std::string what, std::string reason);

  AtWork(const AtWork&) = delete;
  AtWork& operator=(const AtWork&) = delete;
  ~AtWork();

private:
  std::shared_ptr<detail::Occupations> all_;
  detail::OwnWork own_;
};

}  // namespace comm
}  // namespace v0
}  // namespace reef

#ifndef REEF_COMPILED
#include <reef/comm/at_work.ipp>
#endif
