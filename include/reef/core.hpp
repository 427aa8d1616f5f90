#pragma once

/// \file
/// Everything in core/: shapes and tensor views, errors and their texts, units, random numbers, lists of policies.

#include <reef/core/bfloat16.hpp>
#include <reef/core/config.hpp>
#include <reef/core/element.hpp>
#include <reef/core/error.hpp>
#include <reef/core/finite.hpp>
#include <reef/core/first_fit.hpp>
#include <reef/core/group.hpp>
#include <reef/core/hash.hpp>
#include <reef/core/inline.hpp>
#include <reef/core/kinds.hpp>
#include <reef/core/language.hpp>
#include <reef/core/numbers.hpp>
#include <reef/core/pattern.hpp>
#include <reef/core/policy.hpp>
#include <reef/core/policy_tag.hpp>
#include <reef/core/precision.hpp>
#include <reef/core/product.hpp>
#include <reef/core/random.hpp>
#include <reef/core/shape.hpp>
#include <reef/core/tensor_view.hpp>
#include <reef/core/text.hpp>
#include <reef/core/thread.hpp>
#include <reef/core/transfer.hpp>
#include <reef/core/units.hpp>
#include <reef/core/version.hpp>
