#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include <reef/core/units.hpp>
#include <reef/schedule/program.hpp>
#include <reef/schedule/world.hpp>

/// \file
/// The order of posted (non-blocking) transfers: all ranks post theirs in the order in which messages are produced, an
/// order that cannot deadlock; and the number of receive buffers (slots) that a receiver needs so that no message waits
/// for one.

namespace reef {
inline namespace v0 {
namespace schedule {

/// A message in an asynchronous model of transfers, in which sends never block, and every message has a receive buffer.
/// A message leaves when it has been produced and its link is free.
struct FreeTransfer {
  std::size_t sender = 0;  ///< index of the sender's program; `send` is the index of the instruction there
  std::size_t send = 0;
  std::size_t receiver = 0;
  std::size_t receive = 0;
  Seconds produced = 0;  ///< time in seconds at which the message has been produced
  Seconds left = 0;      ///< time in seconds at which the first byte of the message leaves
  Seconds arrived = 0;
  Seconds landed = 0;    ///< start of the first instruction that reads the message; `arrived` if none reads it
  Seconds released = 0;  ///< time in seconds at which the last instruction that reads the message ends
};

/// Returns every non-blocking message of one run of the programs in the asynchronous model (sends never block), in the
/// order of the times at which they are produced; those of one time are ordered by the sender's rank, then by their
/// order in the sender's program.
///
/// | errors | ScheduleError as from simulate()                            |
/// | cost   | that of a simulation, and of a search for the first readers |
std::vector<FreeTransfer> free_transfers(std::span<const Program> programs,
                                                const World& world);

/// The messages of one kind about one tensor between two ranks, which share a ring of receive buffers (slots).
struct TransferEdge {
  int from = 0;
  int to = 0;
  int index = -1;  ///< the number of the edge between stages (Instruction::index of the receive)
  Traffic traffic = Traffic::none;

  friend constexpr auto operator<=>(const TransferEdge&, const TransferEdge&) = default;
};

/// The time for which a message occupies its receive buffer (slot).
///
/// | to_landing  | until its first reader starts: a message in host memory is copied to the device then |
/// | to_last_use | until its last reader has ended: the message is read in that buffer                  |
enum class SlotUse : std::uint8_t { to_landing, to_last_use };

/// The receive buffers (slots) in which messages arrive. The number of slots of an edge between stages is the largest
/// number of its messages that, if sends never block, have been produced but not yet used at one time. A message takes
/// the first slot that is free when it is produced, so no message ever waits for a slot.
///
/// A message occupies its slot from its production, not from its departure: receives are posted in the order
/// in which messages are produced, so a message that waits for its link would delay the messages behind it.
struct TransferSlots {
  std::vector<int> of_transfer{};         ///< index of the receive buffer of each transfer among those of its edge
  std::map<TransferEdge, int> of_edge{};  ///< the number of receive buffers of each edge
};

TransferSlots transfer_slots(std::span<const Program> programs,
                                    std::span<const FreeTransfer> transfers, SlotUse use);

/// Sorts the non-blocking transfers of each queue by the time at which their messages are produced if no send blocks,
/// on every rank by the same key: of the messages that have not arrived, the one with the smallest key can always be
/// sent. A send stays behind the instruction that produces its message, a receive before those that read the message.
/// All other instructions keep their order.
///
/// | errors | ScheduleError as from simulate(); if one end of a message is posted and the other held; |
/// |        | if a read would find another value, because a slot is still in use                      |
/// | laws   | with the slots of transfer_slots, verify() finds no deadlock, whatever the schedule,    |
/// |        | cuts, speeds and links, and simulate() gives the times of the asynchronous model        |
///
/// \code
/// // given: std::vector<schedule::Program>& programs, const schedule::World& world
/// schedule::order_transfers(programs, world);
/// schedule::verify(programs);
/// \endcode
void order_transfers(std::span<Program> programs, const World& world);

}  // namespace schedule
}  // namespace v0
}  // namespace reef

#ifndef REEF_COMPILED
#include <reef/schedule/transfer_order.ipp>
#endif
