// What the linker is asked for by all that is compiled for this library: comm/detail/flavour.hpp says why.

#include <reef/comm/detail/flavour.hpp>

namespace reef::inline v0::comm::detail {

const char REEF_COMPILED_COMM = 0;

}  // namespace reef::inline v0::comm::detail
