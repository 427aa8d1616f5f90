#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>

#include <reef/core/inline.hpp>
#include <reef/plan/detail/chain_partitioner.hpp>
#include <reef/plan/partition_chain.hpp>

namespace reef {
inline namespace v0 {
namespace plan {

REEF_INLINE Partition partition_chain(const OperatorChain& chain, const PartitionOptions& options) {
  const detail::ChainPartitioner partitioner(chain, options.variant);
  chain.validate(options.accumulation);
  Partition result = partitioner.evaluate(partitioner.bounds(options.memory, options.accumulation),
                                          options.memory, options.accumulation);
  if (!result.feasible && options.explains)
    result.why = partitioner.why(options.memory, options.accumulation);
  return result;
}

REEF_INLINE Partition smallest_accumulation(const OperatorChain& chain, PartitionOptions options) {
  const detail::ChainPartitioner partitioner(chain, options.variant);
  const std::int64_t smallest = partitioner.smallest_accumulation(options.memory);
  options.accumulation = std::max<std::int64_t>(1, smallest);
  if (smallest != partitioner.undecided) return partition_chain(chain, options);
  options.explains = false;
  Partition result = partition_chain(chain, options);
  result.why = partitioner.undecided_text();
  return result;
}

REEF_INLINE Partition evaluate_partition(const OperatorChain& chain, std::vector<int> bounds,
                                         const PartitionOptions& options) {
  const detail::ChainPartitioner partitioner(chain, options.variant);
  chain.validate(options.accumulation);
  chain.validate_bounds(bounds);
  return partitioner.evaluate(std::move(bounds), options.memory, options.accumulation);
}

}  // namespace plan
}  // namespace v0
}  // namespace reef
