// All of Reef that is no template, once for the program: compiled again with another Reef only.
#include <reef/implementation.hpp>
