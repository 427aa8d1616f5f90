// A program that includes all of Reef.

#include <reef/reef.hpp>

#include "ranks.cpp"
