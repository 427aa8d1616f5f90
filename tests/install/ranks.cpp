// A program on several ranks that uses Reef's vocabulary beside MPI.

#include <cstdio>

#include <mpi.h>

#include <reef/core/shape.hpp>
#include <reef/core/version.hpp>

#if !defined(REEF_HAS_DNNL) && !defined(REEF_HAS_CBLAS)
#error "reef::reef must say which BLAS it brings."
#endif

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  const reef::Shape shape{2, 3, 4};
  if (rank == 0) {
    std::printf("reef %s: %s holds %lld elements\n", reef::version, shape.text().c_str(),
                static_cast<long long>(shape.size()));
  }
  MPI_Finalize();
}
