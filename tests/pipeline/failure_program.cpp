// A job whose ranks are stages, of which one does not do what it should: failure_test starts it and looks at its end.
//
//   failure_program MODE FOLDER
//
// Three steps of three micro-batches. In the second, the first rank of two, or the second of three, sends what it has
// of micro-batch 1 to the next rank, or back to the one before it, and MPI gets
//   none         that
//   kill         nothing: the rank is killed (SIGKILL)
//   lost         nothing of it: the rank goes on
//   header       a header with one bit changed
//   payload      a payload with one bit changed
//   cut-header   40 bytes of it
//   cut          all but its last 7 bytes
//   longer       7 bytes more
//   foreign      bytes that are no message
//   twice        it, and the same once more
//   old          what it sent in its place in the first step
//   and with a right seal, a header of another
//   version, plan, step, round, edge, micro-batch, direction or codec
//
// It does so in MPI_Isend, which this program defines itself, in front of MPI's own. Each rank that hears of it says
// how long after, and then waits until all have: they tell each other by files in FOLDER.

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <deque>
#include <filesystem>
#include <fstream>
#include <map>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include <reef/comm/detail/clock.hpp>
#include <reef/comm/environment.hpp>
#include <reef/comm/mpi.hpp>
#include <reef/nn/cross_entropy.hpp>
#include <reef/nn/embedding.hpp>
#include <reef/nn/gelu.hpp>
#include <reef/nn/linear.hpp>
#include <reef/pipeline/one_f_one_b.hpp>
#include <reef/trainer/trainer.hpp>

namespace {

using namespace reef;

// -- the rank that does not do what it should ----------------------------------------------------

using Message = std::vector<std::byte>;

std::string mode;
comm::Direction way{};              // of the message that is not sent as it should be
std::atomic<bool> misbehaves{false};
std::deque<Message> kept;           // what MPI may still read
std::map<std::array<std::uint32_t, 3>, Message> first_step;  // by edge, micro-batch and piece

std::array<std::uint32_t, 3> place_of(const comm::Header& header) {
  return {header.origin.edge, header.origin.micro_batch, header.piece};
}

comm::Header header_of(const Message& message) { return comm::decode_header(message).header; }

/// The message with another header, which is sealed.
Message with_header(Message message, comm::Header header) {
  header.seal = comm::seal_of(header);
  std::memcpy(message.data(), &header, sizeof header);
  return message;
}

void flip(std::byte& byte) { byte ^= std::byte{16}; }

/// What MPI gets instead: any number of messages.
std::vector<Message> misbehave(const Message& message) {
  Message other = message;
  comm::Header header = header_of(message);
  if (mode == "kill") std::raise(SIGKILL);
  if (mode == "header") flip(other[50]);
  if (mode == "payload") flip(other.back());
  if (mode == "cut-header") other.resize(40);
  if (mode == "cut") other.resize(other.size() - 7);
  if (mode == "longer") other.resize(other.size() + 7);
  if (mode == "foreign") std::fill(other.begin(), other.end(), std::byte{'?'});
  if (mode == "twice") return {message, message};
  if (mode == "old") return {first_step.at(place_of(header))};
  if (other != message || other.size() != message.size()) return {other};
  if (mode == "version") header.version = 2;
  if (mode == "plan") ++header.origin.plan;
  if (mode == "step") --header.origin.step;
  if (mode == "round") ++header.origin.round;
  if (mode == "edge") ++header.origin.edge;
  if (mode == "micro-batch") ++header.origin.micro_batch;
  if (mode == "direction") header.origin.direction = comm::Direction::parameter;
  if (mode == "codec") header.codec = 1;
  return {with_header(message, header)};
}

int send(Message message, int to, int tag, MPI_Comm ranks, MPI_Request* request) {
  kept.push_back(std::move(message));
  return PMPI_Isend(kept.back().data(), static_cast<int>(kept.back().size()), MPI_BYTE, to, tag, ranks, request);
}

/// What is to be sent, in one piece: plain bytes, or the blocks of a type.
Message packed(const void* data, int count, MPI_Datatype type) {
  int integers = 0;
  int addresses = 0;
  int types = 0;
  int combiner = 0;
  PMPI_Type_get_envelope(type, &integers, &addresses, &types, &combiner);
  if (combiner != MPI_COMBINER_HINDEXED) {
    const auto* const bytes = static_cast<const std::byte*>(data);
    return {bytes, bytes + count};
  }
  std::vector<int> lengths(static_cast<std::size_t>(integers));  // behind how many there are
  std::vector<MPI_Aint> places(static_cast<std::size_t>(addresses));
  std::vector<MPI_Datatype> of(static_cast<std::size_t>(types));
  PMPI_Type_get_contents(type, integers, addresses, types, lengths.data(), places.data(), of.data());
  Message message;
  for (std::size_t block = 0; block < places.size(); ++block) {
    const auto* const bytes = reinterpret_cast<const std::byte*>(places[block]);
    message.insert(message.end(), bytes, bytes + lengths[block + 1]);
  }
  return message;
}

}  // namespace

extern "C" int MPI_Isend(const void* data, int count, MPI_Datatype type, int to, int tag, MPI_Comm ranks,
                         MPI_Request* request) {
  if (!misbehaves) return PMPI_Isend(data, count, type, to, tag, ranks, request);
  Message message = packed(data, count, type);
  const comm::Origin origin = header_of(message).origin;
  if (origin.direction != way || origin.step > 1) return PMPI_Isend(data, count, type, to, tag, ranks, request);
  if (origin.step == 0) {
    first_step[place_of(header_of(message))] = message;
    return PMPI_Isend(data, count, type, to, tag, ranks, request);
  }
  if (origin.micro_batch != 1) return PMPI_Isend(data, count, type, to, tag, ranks, request);
  misbehaves = mode == "lost";  // all pieces
  if (misbehaves) PMPI_Comm_rank(ranks, &to);  // which awaits nothing of itself
  for (Message& instead : misbehave(message)) send(std::move(instead), to, tag, ranks, request);
  return MPI_SUCCESS;
}

// -- the job ---------------------------------------------------------------------------------------

namespace {

graph::Graph<device::Host, float> model() {
  graph::Graph<device::Host, float> g(1);
  const int tokens = g.input("tokens", {{2, 8}, Element::int32});
  const int targets = g.input("targets", {{2, 8}, Element::int32});
  int x = g.add("embedding", nn::Embedding{16, 8, 12}, {tokens})[0];
  for (const char* const layer : {"first", "second", "third"}) {
    x = g.add(layer, nn::Linear{12, true}, {x})[0];
    x = g.add(std::string(layer) + ".act", nn::Gelu{}, {x})[0];
  }
  x = g.add("head", nn::Linear{16, false}, {x})[0];
  g.loss(g.add("loss", nn::CrossEntropy{}, {x, targets})[0]);
  return g;
}

double fill(std::uint64_t first, std::span<const AnyView> inputs) {
  for (const AnyView& input : inputs) {
    for (std::int32_t& token : input.as<std::int32_t>().span()) {
      token = static_cast<std::int32_t>(first++ % 16);
    }
  }
  return 1.0;
}

std::int64_t began = 0;  // when this rank's last step did, ns

int train() {
  const comm::Communicator world;
  const int culprit = world.size() == 2 ? 0 : 1;
  using Piped = Trainer<pipeline::OneFOneB<>>;
  Piped::Options options;
  options.topology = run::Topology(1, world.size());
  options.micro_batches = {3};
  options.cuts = {3, 5};
  options.device.threads = 1;
  // Nobody misses them who is neither dead nor has lost a message.
  options.communication.deadline = mode == "kill" ? 4 : 60;
  options.communication.operation_deadline = mode == "lost" ? 5 : 300;
  options.communication.piece_bytes = 384;  // of the 768 that a stage sends
  if (world.size() == 2) options.cuts = {3};
  way = world.size() == 2 ? comm::Direction::activation : comm::Direction::activation_gradient;
  Piped trainer(model(), fill, options);
  misbehaves = world.rank() == culprit && mode != "none";
  for (int step = 0; step < 3; ++step) {
    began = comm::detail::now_ns();
    trainer.step();
  }
  if (world.rank() == 0) std::printf("all steps are done\n");
  return 0;
}

/// A launcher ends all ranks when one has ended. So this one waits, for half a minute at most.
void until_all_have_said_so(const std::filesystem::path& folder) {
  int rank = 0;
  int ranks = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  const auto mark_of = [&](int of) { return folder / std::to_string(of); };
  std::ofstream(mark_of(rank)).flush();
  for (int tries = 0; tries < 1500; ++tries) {
    int marks = 0;
    for (int of = 0; of < ranks; ++of) marks += std::filesystem::exists(mark_of(of)) ? 1 : 0;
    if (marks == ranks) return;
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
}

}  // namespace

int main(int argc, char** argv) {
  const comm::Environment environment(argc, argv);
  mode = argv[1];
  try {
    return train();
  } catch (const std::exception& error) {
    const double after = comm::detail::to_seconds(comm::detail::now_ns() - began);
    std::fprintf(stderr, "it ended %.2f s after its step began: %s\n", after, error.what());
  }
  if (mode != "kill") until_all_have_said_so(argv[2]);
  return 1;
}
