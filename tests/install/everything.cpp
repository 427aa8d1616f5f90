// A program that includes all of Reef.

#include <reef/core/tensor_view.hpp>

#include "ranks.cpp"
