// A program with a Trainer, by a plain command line.

#include "training.hpp"

#include <cstdio>

#include <reef/comm/environment.hpp>

int main(int argc, char** argv) {
  const reef::comm::Environment mpi(argc, argv);
  const double first = train_a_little();
  const double second =
      train_a_little();  // what a Trainer says once a process, it does not say again
  std::printf("losses %.3f %.3f\n", first, second);
}
