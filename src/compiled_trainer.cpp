// What runs a step on the host in fp32, whatever the policies.

#include <reef/trainer/detail/in_library.hpp>

namespace reef {
inline namespace v0 {

REEF_TRAINER_IN_LIBRARY()

}  // namespace v0
}  // namespace reef
