#pragma once

/// \file
/// Everything in codec/: the formats in which numbers are sent between ranks.

#include <reef/codec/adjust.hpp>
#include <reef/codec/bf16.hpp>
#include <reef/codec/blockwise8.hpp>
#include <reef/codec/chain.hpp>
#include <reef/codec/chosen.hpp>
#include <reef/codec/chunk_top_k.hpp>
#include <reef/codec/concept.hpp>
#include <reef/codec/dct.hpp>
#include <reef/codec/delta.hpp>
#include <reef/codec/dense.hpp>
#include <reef/codec/error_feedback.hpp>
#include <reef/codec/fp8.hpp>
#include <reef/codec/int8_rows.hpp>
#include <reef/codec/message.hpp>
#include <reef/codec/normal_float4.hpp>
#include <reef/codec/power_sgd.hpp>
#include <reef/codec/random_k.hpp>
#include <reef/codec/selecting.hpp>
#include <reef/codec/sign.hpp>
#include <reef/codec/threads.hpp>
#include <reef/codec/top_k.hpp>
#include <reef/codec/two_bit.hpp>
#include <reef/codec/uniform8.hpp>
