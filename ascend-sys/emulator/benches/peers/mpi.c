/* The operations of an MPI library. */
#include "peer.h"
#include <mpi.h>
#include <stddef.h>

static void all_reduce(void) {
    MPI_Allreduce(my.out, my.in, my.all, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
}

static void reduce_scatter(void) {
    MPI_Reduce_scatter_block(my.out, my.in, my.block, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
}

static void all_gather(void) {
    MPI_Allgather(my.out, my.block, MPI_FLOAT, my.in, my.block, MPI_FLOAT, MPI_COMM_WORLD);
}

static void all_to_all(void) {
    MPI_Alltoall(my.out, my.block, MPI_FLOAT, my.in, my.block, MPI_FLOAT, MPI_COMM_WORLD);
}

static void broadcast(void) { MPI_Bcast(my.in, my.all, MPI_FLOAT, 0, MPI_COMM_WORLD); }

static void broadcast_from_each(void) {
    MPI_Bcast(my.in, my.all, MPI_FLOAT, next_root(), MPI_COMM_WORLD);
}

static void exchange(void) {
    int next = (my.rank + 1) % my.ranks, previous = (my.rank + my.ranks - 1) % my.ranks;
    MPI_Sendrecv(my.out, my.all, MPI_FLOAT, next, 0, my.in, my.all, MPI_FLOAT, previous, 0,
                 MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

const struct library library = {
    NULL,
    {all_reduce, reduce_scatter, all_gather, all_to_all, broadcast, broadcast_from_each, exchange},
    1, 0, 0};
