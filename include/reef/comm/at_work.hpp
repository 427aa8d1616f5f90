#pragma once

#include <memory>
#include <string>

#include <reef/comm/detail/occupations.hpp>
#include <reef/core/units.hpp>

namespace reef {
inline namespace v0 {
namespace comm {

class Progress;

/// Notes that the calling thread computes, while this object lives: ranks that wait for this one then wait on, however
/// long it takes, and are told what it is at. The lanes of a Trainer do so themselves.
///
/// | who    | one rank alone; any thread that may compute for longer than the operation deadline |
/// | waits  | where the thread waits for a task meanwhile, it is not at work                      |
/// | life   | ends on the thread that began it; may outlive the Progress object                   |
/// | cost   | a lock when it begins, and when it ends                                             |
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
  /// Begins the work. `expected`: how long it should take, if that is known.
  AtWork(Progress& progress, std::string what, Seconds expected = 0);

  /// Begins work that all ranks do or none: if ranks then wait for each other, their report gives `reason`, and the
  /// ranks on which alone it holds.
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
