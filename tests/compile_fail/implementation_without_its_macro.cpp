// expect: this file is compiled without -DREEF_COMPILED, which says that bodies are elsewhere
#ifndef FIXED
#undef REEF_COMPILED
#endif
#ifdef REEF_COMPILED
int main() {}
#else
#include <reef/implementation.hpp>
#endif
