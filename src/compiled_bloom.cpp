// BLOOM's graphs on the host, with their kernels.

#include <reef/nn/detail/bloom_graph.hpp>
#include <reef/trainer/detail/in_library.hpp>  // the graph itself is elsewhere

namespace reef {
inline namespace v0 {

REEF_NN_GRAPHS_OF_HOST(, bloom, BloomConfig)

}  // namespace v0
}  // namespace reef
