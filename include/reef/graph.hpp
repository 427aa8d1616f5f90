#pragma once

/// \file
/// Everything in graph/: models as graphs of operators, their division into segments, differentiation.

#include <reef/graph/attribute.hpp>
#include <reef/graph/bindings.hpp>
#include <reef/graph/chain.hpp>
#include <reef/graph/check_gradients.hpp>
#include <reef/graph/crossing.hpp>
#include <reef/graph/dag.hpp>
#include <reef/graph/estimate.hpp>
#include <reef/graph/gradient_check.hpp>
#include <reef/graph/graph.hpp>
#include <reef/graph/graph_json.hpp>
#include <reef/graph/hash.hpp>
#include <reef/graph/measure.hpp>
#include <reef/graph/model_file.hpp>
#include <reef/graph/operator.hpp>
#include <reef/graph/operator_optimizer.hpp>
#include <reef/graph/parameter_layout.hpp>
#include <reef/graph/placed_dag.hpp>
#include <reef/graph/registry.hpp>
#include <reef/graph/remote_edges.hpp>
#include <reef/graph/remote_messages.hpp>
#include <reef/graph/rewritten.hpp>
#include <reef/graph/row_model.hpp>
#include <reef/graph/rows.hpp>
#include <reef/graph/segment.hpp>
#include <reef/graph/signature.hpp>
#include <reef/graph/sub_dags.hpp>
