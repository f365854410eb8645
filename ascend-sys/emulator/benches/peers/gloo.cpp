// The operations of Gloo over TCP on the loopback interface. MPI only starts the ranks.
#include "peer.h"
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <gloo/allgather.h>
#include <gloo/allreduce.h>
#include <gloo/alltoall.h>
#include <gloo/broadcast.h>
#include <gloo/math.h>
#include <gloo/reduce_scatter.h>
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/file_store.h>
#include <gloo/transport/tcp/device.h>

// An operation with its buffers. Gloo lets a program make it once and run it many times.
struct Operations {
    gloo::AllreduceOptions all_reduce;
    gloo::ReduceScatterHalvingDoubling<float> reduce_scatter;
    gloo::AllgatherOptions all_gather;
    gloo::AlltoallOptions all_to_all;
    gloo::BroadcastOptions broadcast;
    std::unique_ptr<gloo::transport::UnboundBuffer> sent, received;

    // Gloo's reduce-scatter works in place.
    explicit Operations(const std::shared_ptr<gloo::Context> &context)
        : all_reduce(context),
          reduce_scatter(context, {my.in}, my.block * my.ranks,
                         std::vector<int>(my.ranks, my.block)),
          all_gather(context), all_to_all(context), broadcast(context),
          sent(context->createUnboundBuffer(my.out, sizeof(float) * my.all)),
          received(context->createUnboundBuffer(my.in, sizeof(float) * my.all)) {
        all_reduce.setInput(my.out, my.all);
        all_reduce.setOutput(my.in, my.all);
        all_reduce.setReduceFunction(
            static_cast<void (*)(void *, const void *, const void *, size_t)>(gloo::sum<float>));
        all_gather.setInput(my.out, my.block);
        all_gather.setOutput(my.in, my.block * my.ranks);
        all_to_all.setInput(my.out, my.block * my.ranks);
        all_to_all.setOutput(my.in, my.block * my.ranks);
        broadcast.setOutput(my.in, my.all);
    }
};

// Never destroyed: the connections stay until the process ends.
static Operations *operations;

// The ranks find each other through files in a directory that rank 0 makes and removes.
static void begin() {
    char place[] = "/tmp/gloo-XXXXXX";
    if (my.rank == 0 && !mkdtemp(place)) {
        perror(place);
        exit(1);
    }
    share(place, sizeof place);
    auto context = std::make_shared<gloo::rendezvous::Context>(my.rank, my.ranks);
    auto device = gloo::transport::tcp::CreateDevice("127.0.0.1");
    gloo::rendezvous::FileStore store(place);
    context->connectFullMesh(store, device);
    operations = new Operations(context);
    meet();
    if (my.rank == 0) std::filesystem::remove_all(place);
}

static void all_reduce() { gloo::allreduce(operations->all_reduce); }

static void reduce_scatter() {
    memcpy(my.in, my.out, sizeof(float) * my.block * my.ranks);
    operations->reduce_scatter.run();
}

static void all_gather() { gloo::allgather(operations->all_gather); }

static void all_to_all() { gloo::alltoall(operations->all_to_all); }

static void broadcast_from(int root) {
    operations->broadcast.setRoot(root);
    gloo::broadcast(operations->broadcast);
}

static void broadcast() { broadcast_from(0); }

static void broadcast_from_each() { broadcast_from(next_root()); }

static void exchange() {
    // Any number that no other operation in flight has.
    const uint64_t slot = 1;
    operations->received->recv((my.rank + my.ranks - 1) % my.ranks, slot);
    operations->sent->send((my.rank + 1) % my.ranks, slot);
    operations->received->waitRecv();
    operations->sent->waitSend();
}

// Not pinned: Gloo moves the bytes in a thread of its own beside each rank. A call takes tens of
// microseconds, so that a batch of 16 is as long as the other libraries' are.
extern "C" const struct library library = {
    begin,
    {all_reduce, reduce_scatter, all_gather, all_to_all, broadcast, broadcast_from_each, exchange},
    0, 0, 16};
