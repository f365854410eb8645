// The operations of oneCCL on the CPU, through its C++ interface.
#include "peer.h"
#include <oneapi/ccl.hpp>

// Never destroyed: oneCCL uses MPI until the process ends.
static ccl::communicator *comm;

static const auto F32 = ccl::datatype::float32;

static void begin() {
    ccl::init();
    ccl::kvs::address_type address;
    ccl::shared_ptr_class<ccl::kvs> store;
    if (my.rank == 0) {
        store = ccl::create_main_kvs();
        address = store->get_address();
    }
    share(address.data(), static_cast<int>(address.size()));
    if (my.rank != 0) store = ccl::create_kvs(address);
    comm = new ccl::communicator(ccl::create_communicator(my.ranks, my.rank, store));
}

static void all_reduce() {
    ccl::allreduce(my.out, my.in, my.all, F32, ccl::reduction::sum, *comm).wait();
}

static void reduce_scatter() {
    ccl::reduce_scatter(my.out, my.in, my.block, F32, ccl::reduction::sum, *comm).wait();
}

static void all_gather() { ccl::allgather(my.out, my.in, my.block, F32, *comm).wait(); }

static void all_to_all() { ccl::alltoall(my.out, my.in, my.block, F32, *comm).wait(); }

static void broadcast() { ccl::broadcast(my.in, my.all, F32, 0, *comm).wait(); }

static void broadcast_from_each() {
    ccl::broadcast(my.in, my.all, F32, next_root(), *comm).wait();
}

static void exchange() {
    auto received = ccl::recv(my.in, my.all, F32, (my.rank + my.ranks - 1) % my.ranks, *comm);
    auto sent = ccl::send(my.out, my.all, F32, (my.rank + 1) % my.ranks, *comm);
    received.wait();
    sent.wait();
}

extern "C" const struct library library = {
    begin,
    {all_reduce, reduce_scatter, all_gather, all_to_all, broadcast, broadcast_from_each, exchange},
    1, 0, 0};
