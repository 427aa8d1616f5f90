#pragma once

/// \file
/// Everything in io/: JSON, safetensors, checksums, files that appear whole or not at all.

#include <reef/io/atomic_file.hpp>
#include <reef/io/checkpoint_folders.hpp>
#include <reef/io/checksum.hpp>
#include <reef/io/directory_lock.hpp>
#include <reef/io/file.hpp>
#include <reef/io/json.hpp>
#include <reef/io/json_string.hpp>
#include <reef/io/known_keys.hpp>
#include <reef/io/manifest.hpp>
#include <reef/io/mapped_file.hpp>
#include <reef/io/read_reals.hpp>
#include <reef/io/safetensors.hpp>
#include <reef/io/safetensors_file.hpp>
#include <reef/io/safetensors_files.hpp>
#include <reef/io/safetensors_writer.hpp>
#include <reef/io/stored_tensor.hpp>
