// What the linker is asked for by all that is compiled for this library: core/inline.hpp says why.

#include <reef/core/inline.hpp>

namespace reef {
inline namespace v0 {
namespace detail {

const char REEF_COMPILED_CORE = 0;

}  // namespace detail
}  // namespace v0
}  // namespace reef
