#pragma once

/// \file
/// Everything in compress/: the policies that decide in which form values are sent between ranks.

#include <reef/compress/ada_top_k.hpp>
#include <reef/compress/channel.hpp>
#include <reef/compress/channels.hpp>
#include <reef/compress/coded_messages.hpp>
#include <reef/compress/concept.hpp>
#include <reef/compress/dense.hpp>
#include <reef/compress/everywhere.hpp>
#include <reef/compress/kinds.hpp>
#include <reef/compress/ratio_function.hpp>
#include <reef/compress/ratio_ramp.hpp>
#include <reef/compress/replan.hpp>
#include <reef/compress/views.hpp>
#include <reef/compress/watch.hpp>
