// What the linker is asked for by all that is compiled for this library: comm/detail/flavour.hpp says why.

#include <reef/comm/detail/flavour.hpp>

namespace reef {
inline namespace v0 {
namespace comm::detail {

const char REEF_COMPILED_COMM = 0;

}  // namespace comm::detail
}  // namespace v0
}  // namespace reef
