/* The part of a peer that depends on its library. `peer.c` measures it. */
#ifdef __cplusplus
extern "C" {
#endif

enum {
    ALL_REDUCE,
    REDUCE_SCATTER,
    ALL_GATHER,
    ALL_TO_ALL,
    BROADCAST,
    BROADCAST_FROM_EACH,
    EXCHANGE,
    OPERATIONS
};

/* This rank: its buffers, with `all` elements each (at least a `block` for every rank). */
struct rank {
    int rank, ranks;
    int all, block;
    float *out, *in;
};
extern struct rank my;

/* Each source file beside `peer.c` defines one. */
struct library {
    /* Called once, after MPI is initialised and before any operation. May be null. */
    void (*begin)(void);
    /* Null where the library lacks the operation. A broadcast has rank 0 as its root, or that of
     * `next_root()`, and works on `in`; all others read `out` and write `in`. */
    void (*run[OPERATIONS])(void);
    /* Rank r runs on core r % 2. */
    int pinned;
    /* The all-reduce reads `in` instead of `out`. */
    int in_place;
    /* The calls that a batch has at most. 0: as many as the bench makes. */
    int calls;
};
extern const struct library library;

/* The root of this broadcast from each: rank 0 at first, then the next one at every call. */
int next_root(void);

/* For `begin`, which all ranks call. */

/* Copies the bytes of rank 0 to all ranks. */
void share(void *bytes, int count);
/* Returns when all ranks have called it. */
void meet(void);

#ifdef __cplusplus
}
#endif
