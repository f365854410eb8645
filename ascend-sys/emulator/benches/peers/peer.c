/* The operations of the bench `collectives`, measured in the same way with an MPI library. `compare` builds and runs it.
 *
 *     mpirun -np RANKS peer BYTES
 *
 * For each operation a line `operation bytes best median` in microseconds a call: of batches of back-to-back calls, of which the
 * slowest rank counts. f32, out of place (a broadcast has one buffer), bytes of the larger buffer of a rank, rank r on core r % 2.
 * As in the bench, too: how many calls make a batch and how many batches there are, and that all buffers hold ones,
 * not zeros, which some machines move faster. They are in huge pages where the system gives them.
 * Before anything is timed, every operation must give the right result. */
#define _GNU_SOURCE
#include <mpi.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

enum { PASSES = 20, ROUNDS = 5, BATCHES = PASSES * ROUNDS, FILL = 1 };

static int rank, ranks;
static float *out, *in;

/* Each takes the elements of its larger buffer, and those of the block of one rank. */

static void all_reduce(int all, int block) {
    (void)block;
    MPI_Allreduce(out, in, all, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
}

static void reduce_scatter(int all, int block) {
    (void)all;
    MPI_Reduce_scatter_block(out, in, block, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
}

static void all_gather(int all, int block) {
    (void)all;
    MPI_Allgather(out, block, MPI_FLOAT, in, block, MPI_FLOAT, MPI_COMM_WORLD);
}

static void all_to_all(int all, int block) {
    (void)all;
    MPI_Alltoall(out, block, MPI_FLOAT, in, block, MPI_FLOAT, MPI_COMM_WORLD);
}

static void broadcast(int all, int block) {
    (void)block;
    MPI_Bcast(in, all, MPI_FLOAT, 0, MPI_COMM_WORLD);
}

static void exchange(int all, int block) {
    (void)block;
    MPI_Sendrecv(out, all, MPI_FLOAT, (rank + 1) % ranks, 0, in, all, MPI_FLOAT, (rank + ranks - 1) % ranks, 0, MPI_COMM_WORLD,
                 MPI_STATUS_IGNORE);
}

/* What rank `r` has at place `i` when results are checked: whole numbers, so that sums are exact in any order. */
static float given(int r, int i) { return (float)(i % 4093 + 5000 * r); }

static float sum(int i) {
    float all = 0;
    for (int r = 0; r < ranks; r++) all += given(r, i);
    return all;
}

/* What must be at place `i` of the result. */

static float of_all_reduce(int i, int block) { return (void)block, sum(i); }
static float of_reduce_scatter(int i, int block) { return sum(rank * block + i); }
static float of_all_gather(int i, int block) { return given(i / block, i % block); }
static float of_all_to_all(int i, int block) { return given(i / block, rank * block + i % block); }
static float of_broadcast(int i, int block) { return (void)block, given(0, i); }
static float of_exchange(int i, int block) { return (void)block, given((rank + ranks - 1) % ranks, i); }

static const struct {
    const char *name; /* As the bench has it. */
    void (*run)(int all, int block);
    float (*expected)(int i, int block);
    int one_block; /* The result is one block, not all. */
} operations[] = {
    {"AllReduce", all_reduce, of_all_reduce, 0},    {"ReduceScatter", reduce_scatter, of_reduce_scatter, 1},
    {"AllGather", all_gather, of_all_gather, 0},    {"AlltoAll", all_to_all, of_all_to_all, 0},
    {"Broadcast", broadcast, of_broadcast, 0},      {"Exchange", exchange, of_exchange, 0},
};
enum { OPERATIONS = sizeof operations / sizeof *operations };

static void check(int op, int all, int block) {
    for (int i = 0; i < all; i++) {
        out[i] = given(rank, i);
        /* A broadcast has one buffer: what the others have before is to be replaced too. */
        in[i] = operations[op].run == broadcast ? given(rank, i) : -1;
    }
    operations[op].run(all, block);
    for (int i = 0; i < (operations[op].one_block ? block : all); i++) {
        float expected = operations[op].expected(i, block);
        if (in[i] == expected) continue;
        fprintf(stderr, "%s of %d elements: rank %d has %g at %d, expected %g\n", operations[op].name, all, rank, in[i], i, expected);
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
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    long bytes = argc == 2 ? atol(argv[1]) : 0;
    if (bytes < (long)sizeof(float) || bytes > 1L << 30) {
        fprintf(stderr, "usage: mpirun -np RANKS peer BYTES\n");
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    cpu_set_t core;
    CPU_ZERO(&core);
    CPU_SET(rank % 2, &core);
    sched_setaffinity(0, sizeof core, &core);

    /* A block is one element at least, as in the bench. */
    int all = (int)(bytes / (long)sizeof(float)), block = all / ranks > 0 ? all / ranks : 1;
    int room = block * ranks > all ? block * ranks : all;
    out = map(sizeof(float) * (size_t)room);
    in = map(sizeof(float) * (size_t)room);
    for (int op = 0; op < OPERATIONS; op++) check(op, all, block);
    memset(out, FILL, sizeof(float) * (size_t)room);
    memset(in, FILL, sizeof(float) * (size_t)room);

    long each = bytes * ranks / 2 > 2048 ? bytes * ranks / 2 : 2048, calls = (1 << 20) / each > 1 ? (1 << 20) / each : 1;
    static double times[OPERATIONS][BATCHES], slowest[OPERATIONS][BATCHES];
    for (int pass = 0; pass < PASSES; pass++)
        for (int op = 0; op < OPERATIONS; op++)
            for (int round = 0; round < ROUNDS; round++) {
                MPI_Barrier(MPI_COMM_WORLD);
                double began = now();
                for (long call = 0; call < calls; call++) operations[op].run(all, block);
                times[op][pass * ROUNDS + round] = (now() - began) / (double)calls;
            }
    MPI_Reduce(times, slowest, OPERATIONS * BATCHES, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
    for (int op = 0; rank == 0 && op < OPERATIONS; op++) {
        qsort(slowest[op], BATCHES, sizeof(double), order);
        printf("%s %ld %.3f %.3f\n", operations[op].name, bytes, slowest[op][0], slowest[op][BATCHES / 2]);
    }
    MPI_Finalize();
}
