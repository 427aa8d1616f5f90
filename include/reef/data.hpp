#pragma once

/// \file
/// Everything in data/: text files, tokens, and which window of the text a sample is.

#include <reef/data/byte_tokenizer.hpp>
#include <reef/data/corpus.hpp>
#include <reef/data/permutation.hpp>
#include <reef/data/sampler.hpp>
