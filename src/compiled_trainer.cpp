// What runs a step on the host in fp32, whatever the policies.

#include <reef/trainer/detail/in_library.hpp>

template class reef::run::Executable<reef::device::Host, float>;
