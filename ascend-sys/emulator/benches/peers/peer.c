/* The operations of the bench `collectives`, measured in the same way with another library.
 * `compare` builds it together with the source file of the library (see `peer.h`), and runs it:
 *
 *     mpirun -np RANKS peer BYTES
 *
 * MPI starts the ranks and lets them meet before each batch, whatever library is measured.
 *
 * For each operation that the library has, it prints a line `operation bytes best median` in
 * microseconds a call: of batches of back-to-back calls, of which the slowest rank counts. f32, out
 * of place where the library can (a broadcast has one buffer), bytes of the larger buffer of a
 * rank. The number of calls in a batch and the number of batches are those of the bench (but see
 * `calls` in `peer.h`). All buffers hold ones, as there: some machines move zeros faster. They are
 * in huge pages where the system gives them. Before anything is timed, every operation must give
 * the right result. */
#define _GNU_SOURCE
#include "peer.h"
#include <mpi.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

enum { PASSES = 20, ROUNDS = 5, BATCHES = PASSES * ROUNDS, FILL = 1 };

struct rank my;

/* The number that rank `r` has at place `i` when results are checked. Whole numbers, so that sums
 * are exact in any order. */
static float given(int r, int i) { return (float)(i % 4093 + 5000 * r); }

static float sum(int i) {
    float total = 0;
    for (int r = 0; r < my.ranks; r++) total += given(r, i);
    return total;
}

/* The number that must be at place `i` of the result. */

static float of_all_reduce(int i) { return sum(i); }
static float of_reduce_scatter(int i) { return sum(my.rank * my.block + i); }
static float of_all_gather(int i) { return given(i / my.block, i % my.block); }
static float of_all_to_all(int i) { return given(i / my.block, my.rank * my.block + i % my.block); }
static float of_broadcast(int i) { return given(0, i); }
static float of_exchange(int i) { return given((my.rank + my.ranks - 1) % my.ranks, i); }

int next_root(void) {
    static int root;
    int now = root;
    root = (root + 1) % my.ranks;
    return now;
}

void share(void *bytes, int count) { MPI_Bcast(bytes, count, MPI_BYTE, 0, MPI_COMM_WORLD); }

void meet(void) { MPI_Barrier(MPI_COMM_WORLD); }

static const struct {
    const char *name; /* As the bench has it. */
    float (*expected)(int i);
    enum { WHOLE, ONE_BLOCK, BLOCKS } result; /* The part of `in` that the result fills. */
} operations[OPERATIONS] = {
    [ALL_REDUCE] = {"AllReduce", of_all_reduce, WHOLE},
    [REDUCE_SCATTER] = {"ReduceScatter", of_reduce_scatter, ONE_BLOCK},
    [ALL_GATHER] = {"AllGather", of_all_gather, BLOCKS},
    [ALL_TO_ALL] = {"AlltoAll", of_all_to_all, BLOCKS},
    [BROADCAST] = {"Broadcast", of_broadcast, WHOLE},
    [BROADCAST_FROM_EACH] = {"BroadcastFromEach", of_broadcast, WHOLE},
    [EXCHANGE] = {"Exchange", of_exchange, WHOLE},
};

static void check(int op, int room) {
    /* An operation in place replaces its input, all others replace a number that is none. */
    int in_place =
        op == BROADCAST || op == BROADCAST_FROM_EACH || (op == ALL_REDUCE && library.in_place);
    for (int i = 0; i < room; i++) {
        my.out[i] = given(my.rank, i);
        my.in[i] = in_place ? given(my.rank, i) : -1;
    }
    library.run[op]();
    int results[] = {[WHOLE] = my.all, [ONE_BLOCK] = my.block, [BLOCKS] = my.block * my.ranks};
    for (int i = 0; i < results[operations[op].result]; i++) {
        float expected = operations[op].expected(i);
        if (my.in[i] == expected) continue;
        fprintf(stderr, "%s of %d elements: rank %d has %g at %d, expected %g\n",
                operations[op].name, my.all, my.rank, my.in[i], i, expected);
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
}

static float *map(size_t bytes) {
    size_t huge = 2 << 20, length = (bytes + huge - 1) / huge * huge;
    void *memory = mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) {
        perror("mmap");
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    madvise(memory, length, MADV_HUGEPAGE);
    return memory;
}

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec * 1e6 + (double)time.tv_nsec / 1e3;
}

static int order(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &my.rank);
    MPI_Comm_size(MPI_COMM_WORLD, &my.ranks);
    long bytes = argc == 2 ? atol(argv[1]) : 0;
    if (bytes < (long)sizeof(float) || bytes > 1L << 30) {
        fprintf(stderr, "usage: mpirun -np RANKS peer BYTES\n");
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    if (library.pinned) {
        cpu_set_t core;
        CPU_ZERO(&core);
        CPU_SET(my.rank % 2, &core);
        sched_setaffinity(0, sizeof core, &core);
    }

    /* A block is one element at least, as in the bench. */
    my.all = (int)(bytes / (long)sizeof(float));
    my.block = my.all / my.ranks > 0 ? my.all / my.ranks : 1;
    int room = my.block * my.ranks > my.all ? my.block * my.ranks : my.all;
    my.out = map(sizeof(float) * (size_t)room);
    my.in = map(sizeof(float) * (size_t)room);
    if (library.begin) library.begin();
    for (int op = 0; op < OPERATIONS; op++)
        if (library.run[op]) check(op, room);
    memset(my.out, FILL, sizeof(float) * (size_t)room);
    memset(my.in, FILL, sizeof(float) * (size_t)room);

    long each = bytes * my.ranks / 2 > 2048 ? bytes * my.ranks / 2 : 2048;
    long calls = (1 << 20) / each > 1 ? (1 << 20) / each : 1;
    if (library.calls && calls > library.calls) calls = library.calls;
    static double times[OPERATIONS][BATCHES], slowest[OPERATIONS][BATCHES];
    for (int pass = 0; pass < PASSES; pass++)
        for (int op = 0; op < OPERATIONS; op++)
            for (int round = 0; library.run[op] && round < ROUNDS; round++) {
                meet();
                double began = now();
                for (long call = 0; call < calls; call++) library.run[op]();
                times[op][pass * ROUNDS + round] = (now() - began) / (double)calls;
            }
    MPI_Reduce(times, slowest, OPERATIONS * BATCHES, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
    for (int op = 0; my.rank == 0 && op < OPERATIONS; op++) {
        if (!library.run[op]) continue;
        qsort(slowest[op], BATCHES, sizeof(double), order);
        printf("%s %ld %.3f %.3f\n", operations[op].name, bytes, slowest[op][0],
               slowest[op][BATCHES / 2]);
    }
    MPI_Finalize();
}
