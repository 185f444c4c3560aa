// What MPI_Allreduce takes by itself. ddp.py and dist.py compile it with mpicc and run it on several ranks.
//
// usage: mpi_all_reduce FLOATS ROUNDS
//
// Prints the median seconds of a sum in place, each begun after a barrier, as seen by the slowest rank.
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

static int compare(const void* a, const void* b) {
  const double x = *(const double*)a, y = *(const double*)b;
  return (x > y) - (x < y);
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  if (argc != 3) MPI_Abort(MPI_COMM_WORLD, 2);
  const int count = atoi(argv[1]), rounds = atoi(argv[2]);
  int rank = 0, ranks = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  float* const data = calloc((size_t)count, sizeof *data);
  double* const seconds = calloc((size_t)rounds, sizeof *seconds);
  for (int round = -3; round < rounds; ++round) {
    for (int i = 0; i < count; ++i) data[i] = (float)(rank + 1);
    MPI_Barrier(MPI_COMM_WORLD);
    const double began = MPI_Wtime();
    MPI_Allreduce(MPI_IN_PLACE, data, count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
    double took = MPI_Wtime() - began;
    if (data[count - 1] != (float)(ranks * (ranks + 1) / 2)) MPI_Abort(MPI_COMM_WORLD, 1);
    MPI_Allreduce(MPI_IN_PLACE, &took, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    if (round >= 0) seconds[round] = took;
  }
  qsort(seconds, (size_t)rounds, sizeof *seconds, compare);
  if (rank == 0) printf("%.9f\n", seconds[rounds / 2]);
  MPI_Finalize();
}
