// What no policy changes of a Trainer on the host in fp32.

#define REEF_LIBRARY
#include <reef/trainer/detail/in_library.hpp>
