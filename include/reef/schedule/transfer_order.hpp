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
/// The order of posted transfers: all ranks post theirs in the order in which messages are produced, which
/// no deadlock can come of; and how many slots a receiver needs so that none of them waits for one.

namespace reef {
inline namespace v0 {
namespace schedule {

/// A message in the asynchronous model: sends never block, and for every message there is a place. It leaves
/// when it has been produced and its link is free.
struct FreeTransfer {
  std::size_t sender = 0;  ///< whose program, and where in its round
  std::size_t send = 0;
  std::size_t receiver = 0;
  std::size_t receive = 0;
  Seconds produced = 0;  ///< what is sent is there
  Seconds left = 0;      ///< its first byte leaves
  Seconds arrived = 0;
  Seconds landed = 0;    ///< the first instruction that reads it starts; `arrived` if there is none
  Seconds released = 0;  ///< the last instruction that reads it has ended
};

/// Every posted message of a round in the asynchronous model, in the order in which they are produced; of one time
/// those of lower ranks first, then as the senders' programs have them.
///
/// | errors | ScheduleError as simulate()                       |
/// | cost   | that of a simulation, and of finding first readers |
std::vector<FreeTransfer> free_transfers(std::span<const Program> programs,
                                                const World& world);

/// Whose messages share a ring of slots at the receiver: those of one kind about one tensor between two ranks.
struct TransferEdge {
  int from = 0;
  int to = 0;
  int index = -1;  ///< Instruction::index of the receive
  Traffic traffic = Traffic::none;

  friend constexpr auto operator<=>(const TransferEdge&, const TransferEdge&) = default;
};

/// How long a message has a slot.
///
/// | to_landing  | until its first reader starts: what lies in host memory is copied to the device then |
/// | to_last_use | until its last reader has ended: it is read where it lies                            |
enum class SlotUse : std::uint8_t { to_landing, to_last_use };

/// The slots in which messages arrive: of each edge as few as there are messages of one time that have been produced
/// and not been used, in the asynchronous model. Each takes the first that is free when it is produced, so none
/// ever waits for one.
///
/// A message counts from when it is produced, not from when it leaves: receives are posted in the order in which
/// messages are produced, so one that waits for its link would hold up those behind it.
struct TransferSlots {
  std::vector<int> of_transfer{};         ///< by transfer: which slot of its edge
  std::map<TransferEdge, int> of_edge{};  ///< how many slots an edge has
};

TransferSlots transfer_slots(std::span<const Program> programs,
                                    std::span<const FreeTransfer> transfers, SlotUse use);

/// Puts the posted transfers of each lane in the order in which their messages are produced in the asynchronous
/// model, on every rank by the same key: of the messages that have not arrived, the one of the smallest key can
/// always go. A send stays behind what produces its message, a receive comes ahead of what reads it. Everything
/// else keeps its order.
///
/// | errors | ScheduleError as simulate(); where one end of a message is posted and the other held; |
/// |        | where a read would find another value, because a slot is still in use                 |
/// | laws   | with slots as transfer_slots says, verify() finds no deadlock, whatever the schedule, |
/// |        | cuts, speeds and links, and simulate() gives the times of the asynchronous model      |
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
