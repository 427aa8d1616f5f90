#pragma once

#include <reef/schedule/dependencies.hpp>
#include <reef/schedule/program.hpp>

namespace reef {
inline namespace v0 {
namespace run {

/// Returns dependencies that make every instruction of a program follow its predecessor in the program: with them an
/// Executor runs serially, as the reference for the bits of a concurrent run. The instruction that ends a loop
/// (Repeat::until) is then complete before the loop begins: the loop runs as often as Executor::replay was told, and
/// else never.
///
/// \code
/// // given: const schedule::Program& program
/// const schedule::Dependencies waits = run::serial_order(program);
/// \endcode
schedule::Dependencies serial_order(const schedule::Program& program);

}  // namespace run
}  // namespace v0
}  // namespace reef

#ifndef REEF_COMPILED
#include <reef/run/serial_order.ipp>
#endif
