#pragma once

/// \file
/// Everything in trace/: the recording of what ranks' queues and messages do, trace files, and figures computed from
/// recordings.

#include <reef/trace/chrome.hpp>
#include <reef/trace/encoding.hpp>
#include <reef/trace/nvtx.hpp>
#include <reef/trace/overlap.hpp>
#include <reef/trace/report.hpp>
#include <reef/trace/sink.hpp>
#include <reef/trace/span.hpp>
#include <reef/trace/waits.hpp>
