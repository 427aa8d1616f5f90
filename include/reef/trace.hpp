#pragma once

/// \file
/// Everything in trace/: the sink that records the spans of all lanes, trace files, and figures computed from spans.

#include <reef/trace/chrome.hpp>
#include <reef/trace/encoding.hpp>
#include <reef/trace/nvtx.hpp>
#include <reef/trace/overlap.hpp>
#include <reef/trace/report.hpp>
#include <reef/trace/sink.hpp>
#include <reef/trace/span.hpp>
#include <reef/trace/waits.hpp>
