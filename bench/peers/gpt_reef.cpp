// Reef's side of the comparison with PyTorch, on the host: see gpt_reef.hpp.

#include "gpt_reef.hpp"

int main(int argc, char** argv) { return reef_peers::main_on<reef::device::Host>(argc, argv); }
