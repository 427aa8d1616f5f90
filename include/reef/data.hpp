#pragma once

/// \file
/// Everything in data/: text files, token files, tokenizers, and samplers, which map each sample to a window of the
/// tokens.

#include <reef/data/added_tokens.hpp>
#include <reef/data/behind_prompt.hpp>
#include <reef/data/bpe_tokenizer.hpp>
#include <reef/data/byte_tokenizer.hpp>
#include <reef/data/chat_template.hpp>
#include <reef/data/conversations.hpp>
#include <reef/data/corpus.hpp>
#include <reef/data/gpt2_pattern.hpp>
#include <reef/data/json_lines.hpp>
#include <reef/data/labelled_texts.hpp>
#include <reef/data/packed_pairs.hpp>
#include <reef/data/pairs.hpp>
#include <reef/data/permutation.hpp>
#include <reef/data/sampler.hpp>
#include <reef/data/sentence_piece_tokenizer.hpp>
#include <reef/data/split_pattern.hpp>
#include <reef/data/text_functions.hpp>
#include <reef/data/token_file.hpp>
#include <reef/data/token_shards.hpp>
#include <reef/data/token_view.hpp>
#include <reef/data/tokenizer_json.hpp>
