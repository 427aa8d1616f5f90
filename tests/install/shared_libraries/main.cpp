#include <cstdio>
#include <exception>
#include <optional>

#include <mpi.h>

#include <reef/comm/environment.hpp>
#include <reef/comm/stop_request.hpp>
#include <reef/core/error.hpp>
#include <reef/core/shape.hpp>
#include <reef/core/version.hpp>

#include "parts.hpp"

namespace {

/// Whether the error that a library throws is caught by its type, and by that of its base.
bool is_refused(void (*call)()) {
  try {
    call();
  } catch (const reef::OptionError&) {
    try {
      call();
    } catch (const reef::Error&) {
      return true;
    }
  }
  return false;
}

}  // namespace

int main(int argc, char** argv) try {
  const reef::comm::StopRequest stop;
  std::optional<reef::comm::Environment> mpi(std::in_place, argc, argv);
  int rank = 0;
  int ranks = 1;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  const double wanted = ranks * (ranks - 1) / 2;
  for (const double sum : {first::sum(rank), second::sum(rank), first::sum(rank)}) {
    if (sum == wanted) continue;
    std::printf("the sum over %d ranks is %g\n", ranks, sum);
    return 1;
  }
  if (!is_refused(first::ask_for_a_second_stop_request) ||
      !is_refused(second::ask_for_a_second_stop_request)) {
    std::printf("a library does not know of the program's StopRequest\n");
    return 1;
  }
  const double losses[]{first::train(), second::train()};
  if (losses[0] != losses[1]) {
    std::printf("the libraries train to losses of %.17g and %.17g\n", losses[0], losses[1]);
    return 1;
  }
  first::open();
  mpi.reset();
  const double last = first::close(rank);
  int ended = 0;
  MPI_Finalized(&ended);
  if (last != wanted || ended == 0) {
    std::printf("MPI does not end with the last object of a library: the sum is %g\n", last);
    return 1;
  }
  if (rank == 0) {
    const reef::Shape shape{2, 3, 4};
    std::printf("reef %s: %s holds %lld elements; loss %.9g\n", reef::version, shape.text().c_str(),
                static_cast<long long>(shape.size()), losses[0]);
  }
} catch (const std::exception& error) {
  return reef::comm::report_failure("consumer", error);
}
