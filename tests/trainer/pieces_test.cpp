#include <gtest/gtest.h>

#include <string>

#include <reef/optim/adamw.hpp>
#include <reef/optim/ddp.hpp>
#include <reef/optim/zero1.hpp>

#include "../support/small_gpt.hpp"

namespace reef::test {

namespace {

template <class Optim>
comm::Cost said_by(const Trainer<Optim>& trainer) {
  comm::Cost said;
  for (const schedule::Instruction& instruction : trainer.program().round) {
    for (const schedule::Message& message : instruction.sends) {
      said.messages += message.pieces;
      said.bytes += message.bytes;
    }
  }
  return said;
}

/// What a step with pieces of that size sends, as the program says it; the meter must agree.
template <class Optim>
comm::Cost sent_in_a_step(Bytes piece_bytes) {
  using Tested = Trainer<Optim>;
  typename Tested::Options options = small_options<Tested>();
  options.communication.transport = comm::Transport::messages;
  options.communication.piece_bytes = piece_bytes;
  const comm::Communicator world;
  Tested trainer(nn::gpt<device::Host, float>(small_config(), 1), small_source(), options, {},
                 world);
  trainer.step();
  const comm::Cost before = trainer.progress().meter().operations();
  trainer.step();
  const comm::Cost sent = trainer.progress().meter().operations() - before;
  const comm::Cost said = said_by(trainer);
  EXPECT_EQ(sent.messages, said.messages) << piece_bytes;
  EXPECT_EQ(sent.bytes, said.bytes) << piece_bytes;
  return said;
}

template <class Optim>
void expect_the_wire_to_carry_what_the_program_says() {
  const comm::Cost whole = sent_in_a_step<Optim>(comm::default_piece_bytes);
  const comm::Cost pieces = sent_in_a_step<Optim>(1000);
  sent_in_a_step<Optim>(1003);  // no whole number of elements
  sent_in_a_step<Optim>(1);     // less than an element
  if (comm::Communicator().size() == 1) {
    EXPECT_EQ(pieces.messages, 0U);
    return;
  }
  EXPECT_GT(pieces.messages, whole.messages);
  EXPECT_EQ(pieces.bytes - pieces.messages * comm::header_bytes,
            whole.bytes - whole.messages * comm::header_bytes);
}

}  // namespace

TEST(Pieces, the_wire_of_ddp_carries_what_the_program_says_whatever_their_size) {
  expect_the_wire_to_carry_what_the_program_says<optim::Ddp<optim::AdamW>>();
}

TEST(Pieces, the_wire_of_zero1_carries_what_the_program_says_whatever_their_size) {
  expect_the_wire_to_carry_what_the_program_says<optim::Zero1<optim::AdamW>>();
}

TEST(Pieces, ranks_with_pieces_of_different_size_are_refused) {
  const comm::Communicator world;
  if (world.size() == 1) GTEST_SKIP() << "needs two ranks";
  using Tested = Trainer<optim::Ddp<optim::AdamW>>;
  Tested::Options options = small_options<Tested>();
  options.communication.piece_bytes = world.rank() == 1 ? 1000 : 2000;
  try {
    Tested trainer(nn::gpt<device::Host, float>(small_config(), 1), small_source(), options, {},
                   world);
    ADD_FAILURE() << "no OptionError";
  } catch (const OptionError& error) {
    EXPECT_NE(std::string(error.what()).find("rank 1 and rank 0 differ in their plan"),
              std::string::npos)
        << error.what();
  }
}

}  // namespace reef::test
