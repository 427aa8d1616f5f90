#include "messages.hpp"

#include <reef/graph/placed_dag.hpp>
#include <reef/io/json.hpp>

#include "commands.hpp"

namespace reef_examples {

void add_messages(Commands& commands) {
  commands.add(
      "messages",
      "which tensors and gradients go from rank to rank, and who adds what in which order.\n"
      "CASE: ranks; inputs (name, bytes, kind: float or int); nodes in topological order "
      "(name, rank, inputs, outputs: as inputs of the case, parameters); parameters (name, "
      "bytes); loss.\n"
      "The answer: forward; gradients as a sum of sums (backward, sums) or as one sum that "
      "goes from rank to rank (chained), which a Trainer sends; tied parameters, once a step; "
      "bytes of a micro-batch by ordered pair of ranks, forward and backward",
      "case.json", [](const PlanCase& test) {
        const reef::graph::PlacedDag model =
            reef::graph::placed_dag_from_json(test.json, test.file);
        return MessagesAnswer(model).json();
      });
}

}  // namespace reef_examples
