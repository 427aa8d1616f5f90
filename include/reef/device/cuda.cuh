#pragma once

#include <reef/device/cuda.hpp>
#include <reef/device/for_each_index.cuh>
#include <reef/device/map.cuh>
#include <reef/device/transform.cuh>
