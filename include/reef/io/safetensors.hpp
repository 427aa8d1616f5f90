#pragma once

/// \file
/// Reading and writing safetensors files.

#include <reef/io/safetensors_file.hpp>
#include <reef/io/safetensors_writer.hpp>
