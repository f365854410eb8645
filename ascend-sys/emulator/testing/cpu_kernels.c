/* CPU kernels of the tests. Each gets the address of its arguments and returns 0 if nothing was wrong. */
#include <stdint.h>
#include <unistd.h>

/* Adds a number to each word of device memory. */
typedef struct {
    uint64_t *words;
    uint64_t count;
    uint64_t more;
} AddArguments;

uint32_t Add(const AddArguments *it)
{
    for (uint64_t at = 0; at < it->count; ++at) {
        it->words[at] += it->more;
    }
    return 0;
}

uint32_t Return(const uint32_t *code)
{
    return *code;
}

/* Says that it runs, and waits until it may return. */
typedef struct {
    int *runs;
    int *may_return;
    uint32_t code;
} WaitArguments;

uint32_t Wait(const WaitArguments *it)
{
    __atomic_store_n(it->runs, 1, __ATOMIC_RELEASE);
    while (!__atomic_load_n(it->may_return, __ATOMIC_ACQUIRE)) {
        usleep(100);
    }
    return it->code;
}

/* Writes an argument of three bytes, and what a placeholder leads to, into words of the device. */
typedef struct {
    uint64_t *to;
    uint8_t bytes[3];
    const uint32_t *behind;
} CollectArguments;

uint32_t Collect(CollectArguments *it)
{
    it->to[0] = it->bytes[0] + it->bytes[1] + it->bytes[2];
    it->to[1] = it->behind[0] + it->behind[1];
    /* The arguments are the kernel's own. */
    it->bytes[0] = 100;
    return 0;
}

/* Copies device memory on a thread for operators, and records a notify behind the copy. */
typedef struct {
    int32_t (*start)(const char *);
    int32_t (*copy)(uint64_t, void *, const void *, uint64_t);
    int32_t (*record)(uint64_t, uint64_t);
    int32_t (*end)(const char *);
    uint64_t thread;
    void *to;
    const void *from;
    uint64_t bytes;
    uint64_t notify;
} CopyArguments;

uint32_t Copy(const CopyArguments *it)
{
    int32_t code = it->start(0);
    code = code ? code : it->copy(it->thread, it->to, it->from, it->bytes);
    code = code ? code : it->record(it->thread, it->notify);
    return (uint32_t)(code ? code : it->end(0));
}

/* Leaves a batch mode open. */
uint32_t Leave(const CopyArguments *it)
{
    return (uint32_t)it->start(0);
}

/* Asks for the device of its thread, and calls what a kernel must not call. */
typedef struct {
    int32_t (*device)(int32_t *);
    int32_t (*synchronise)(void *);
    void *stream;
    int32_t *answers;
} AskArguments;

uint32_t Ask(const AskArguments *it)
{
    it->answers[0] = -1;
    it->device(&it->answers[0]);
    it->answers[1] = it->synchronise(it->stream);
    return 0;
}

/* Waits until a thread for operators has done what it was given. */
typedef struct {
    int32_t (*drain)(uint64_t, uint64_t);
    uint64_t thread;
    uint64_t channel;
    int32_t *answer;
} DrainArguments;

uint32_t Drain(const DrainArguments *it)
{
    *it->answer = it->drain(it->thread, it->channel);
    return 0;
}
