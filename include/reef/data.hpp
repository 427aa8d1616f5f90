#pragma once

/// \file
/// Everything in data/: text files, tokens, and who takes which sample when.

#include <reef/data/byte_tokenizer.hpp>
#include <reef/data/corpus.hpp>
#include <reef/data/micro_batch_order.hpp>
#include <reef/data/permutation.hpp>
#include <reef/data/sampler.hpp>
