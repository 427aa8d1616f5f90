#pragma once

#include <functional>
#include <optional>
#include <string>

#include <reef/comm/message.hpp>
#include <reef/comm/meter.hpp>
#include <reef/comm/network_shape.hpp>
#include <reef/core/error.hpp>
#include <reef/core/units.hpp>
#include <reef/profile/network.hpp>
#include <reef/trace/sink.hpp>

namespace reef {
inline namespace v0 {
namespace comm {

/// The options of a Progress object, which runs communication. Equal on all ranks, but for `trace` and `on_failure`.
///
/// \code
/// // given: const comm::Communicator& world, trace::Sink& sink
/// comm::ProgressOptions options;
/// options.deadline = 120;
/// options.network = profile::Network::uniform(world.size(), 0.02, 12.5e6);
/// options.trace = &sink;
/// comm::Progress progress(world, options);
/// \endcode
struct ProgressOptions {
  /// Seconds after which a rank that others wait for counts as lost, if nothing was heard from it. 0: never.
  Seconds deadline = 30;

  /// Seconds between two signs of life that a rank sends to the others; at most a quarter of the deadline is used.
  Seconds heartbeat = 0.25;

  /// Seconds that an operation may wait for a rank that is alive, but is not known to compute, to send or to wait
  /// itself (AtWork, Progress::tick): the rank's program does something else. This limit ends a job in which one rank
  /// left out a collective. If all ranks that are waited for wait for each other, the limit is the deadline, at least 2
  /// s. 0: ten deadlines.
  Seconds operation_deadline = 0;

  /// The network to emulate on this machine, with at least as many devices as there are ranks (read_network); empty:
  /// messages are not delayed. detail::Wire has the formulas. Planning reads another network: TrainerSettings::network.
  profile::Network network = {};

  /// The receiver of trace events, which records every task, on a track "comm.QUEUE"; outlives the Progress object.
  trace::Sink* trace = nullptr;

  /// True if a missed deadline prints its report on standard error and ends the job (MPI_Abort). If false, it is thrown
  /// from wait as DeadlineError, on this rank, and as MpiError on the others.
  bool abort_on_deadline = true;

  /// A function that is called once, on the progress thread or one that is in Progress::run, with the text of the
  /// failure that makes the Progress object unusable: for device queues that wait for something else than a task.
  std::function<void(const std::string&)> on_failure = {};

  /// The transport of collectives. Default: shared memory if all ranks are on one node and no
  /// network is emulated, else messages. The bits are the same.
  std::optional<Transport> transport = {};

  /// True if collectives in shared memory read the arrays of the other ranks where they are, if the system lets this
  /// process (process_vm_readv); false: always through slots, which costs more copies.
  bool read_peers = true;

  /// True if payloads that one rank sends to one other rank have a checksum, which the receiver compares. A checksum
  /// costs both ranks as much as reading the payload, about 0.1 ms per MiB: a network hides this, large messages within
  /// one machine do not. If false, headers are still checked.
  bool checksums = true;

  /// The size in bytes of the pieces into which payloads are cut: smaller pieces overlap more, larger ones cost less.
  Bytes piece_bytes = default_piece_bytes;
};

/// Returns the options of a Progress object with their defaults filled in; throws OptionError for impossible options.
ProgressOptions checked(ProgressOptions options, int ranks);

}  // namespace comm
}  // namespace v0
}  // namespace reef

#ifndef REEF_COMPILED
#include <reef/comm/options.ipp>
#endif
