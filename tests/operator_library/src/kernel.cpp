// The AI CPU part: it writes the tasks of a call into the queues of the rank's threads, and waits
// for none of them. On a server it is compiled for the device, here for the host.
#include <algorithm>
#include <cstdint>

#include "hcomm/hcomm_primitives.h"
#include "resources.h"

namespace {

// Ends the kernel if a primitive fails.
#define RETURN_IF_FAILED(call)                                                                     \
    do {                                                                                           \
        const int32_t code = (call);                                                               \
        if (code != 0) {                                                                           \
            return code;                                                                           \
        }                                                                                          \
    } while (0)

class Orchestrator {
public:
    Orchestrator(const own::Call &call, const own::Resources &it) : call_(call), it_(it) {}

    int32_t AllReduce();
    int32_t Scatter();

private:
    // The thread with number `at` serves the peer that is `at + 1` places after this rank.
    uint32_t Others() const { return it_.ranks - 1; }
    uint32_t Peer(uint32_t at) const { return (it_.rank + at + 1) % it_.ranks; }
    ThreadHandle Main() const { return it_.threads[0]; }
    ThreadHandle Other(uint32_t at) const { return it_.threads[at + 1]; }

    // Starts the other threads after the tasks that the main thread has so far.
    int32_t StartOthers()
    {
        for (uint32_t at = 0; at < Others(); ++at) {
            RETURN_IF_FAILED(HcommThreadNotifyRecordOnThread(Main(), Other(at), 0));
            RETURN_IF_FAILED(HcommThreadNotifyWaitOnThread(Other(at), 0, own::LONGEST));
        }
        return 0;
    }

    // Makes the main thread wait for the tasks of the other threads.
    int32_t AwaitOthers()
    {
        for (uint32_t at = 0; at < Others(); ++at) {
            RETURN_IF_FAILED(HcommThreadNotifyRecordOnThread(Other(at), Main(), at));
            RETURN_IF_FAILED(HcommThreadNotifyWaitOnThread(Main(), at, own::LONGEST));
        }
        return 0;
    }

    // Signals a peer, and waits for the same signal of the peer.
    int32_t Meet(ThreadHandle thread, uint32_t peer, uint32_t notify)
    {
        const ChannelHandle channel = it_.channels[peer];
        RETURN_IF_FAILED(HcommChannelNotifyRecordOnThread(thread, channel, notify));
        return HcommChannelNotifyWaitOnThread(thread, channel, notify, own::LONGEST);
    }

    uint8_t *Own(uint64_t offset) const { return static_cast<uint8_t *>(it_.buffer) + offset; }
    uint8_t *Theirs(uint32_t peer, uint64_t offset) const
    {
        return static_cast<uint8_t *>(it_.peerBuffers[peer]) + offset;
    }

    int32_t ReduceSlice(uint64_t first, uint64_t count, uint64_t results);

    const own::Call &call_;
    const own::Resources &it_;
};

// Works in slices of half of the communication buffer. The inputs are in the first half, the
// results in the second half.
int32_t Orchestrator::AllReduce()
{
    const uint64_t results = it_.bufferBytes / 2 / 64 * 64;
    const uint64_t most = results / call_.elementBytes;
    for (uint64_t first = 0; first < call_.count; first += most) {
        RETURN_IF_FAILED(ReduceSlice(first, std::min(most, call_.count - first), results));
    }
    return 0;
}

// Each rank reduces its own part of the slice, and takes the other parts from the ranks that have
// reduced them.
int32_t Orchestrator::ReduceSlice(uint64_t first, uint64_t count, uint64_t results)
{
    const uint64_t size = call_.elementBytes;
    const auto begin = [&](uint32_t rank) { return count * rank / it_.ranks; };
    const auto length = [&](uint32_t rank) { return begin(rank + 1) - begin(rank); };
    uint8_t *recv = call_.recv + first * size;

    RETURN_IF_FAILED(
        HcommLocalCopyOnThread(Main(), Own(0), call_.send + first * size, count * size));
    RETURN_IF_FAILED(StartOthers());
    for (uint32_t at = 0; at < Others(); ++at) {
        RETURN_IF_FAILED(Meet(Other(at), Peer(at), own::ACK));
    }
    RETURN_IF_FAILED(AwaitOthers());

    const uint64_t from = begin(it_.rank) * size;
    uint8_t *part = Own(results + from);
    RETURN_IF_FAILED(HcommLocalCopyOnThread(Main(), part, Own(from), length(it_.rank) * size));
    for (uint32_t peer = 0; peer < it_.ranks; ++peer) {
        if (peer != it_.rank && length(it_.rank) > 0) {
            RETURN_IF_FAILED(HcommReadReduceOnThread(
                Main(), it_.channels[peer], part, Theirs(peer, from), length(it_.rank),
                static_cast<HcommDataType>(call_.dataType),
                static_cast<HcommReduceOp>(call_.reduceOp)));
        }
    }
    RETURN_IF_FAILED(StartOthers());
    for (uint32_t at = 0; at < Others(); ++at) {
        const uint32_t peer = Peer(at);
        const uint64_t theirs = begin(peer) * size;
        RETURN_IF_FAILED(Meet(Other(at), peer, own::DATA));
        RETURN_IF_FAILED(HcommReadOnThread(
            Other(at), it_.channels[peer], recv + theirs, Theirs(peer, results + theirs),
            length(peer) * size));
        // No rank may overwrite its buffer before all ranks have read it.
        RETURN_IF_FAILED(Meet(Other(at), peer, own::FIN));
    }
    RETURN_IF_FAILED(HcommLocalCopyOnThread(Main(), recv + from, part, length(it_.rank) * size));
    return AwaitOthers();
}

// The root puts the block of each rank into a part of its communication buffer, from which that
// rank reads it.
int32_t Orchestrator::Scatter()
{
    const uint64_t slot = it_.bufferBytes / it_.ranks / 64 * 64;
    const uint64_t bytes = call_.count * call_.elementBytes;
    const bool isRoot = it_.rank == call_.root;
    if (isRoot && call_.send + it_.rank * bytes != call_.recv) {
        RETURN_IF_FAILED(
            HcommLocalCopyOnThread(Main(), call_.recv, call_.send + it_.rank * bytes, bytes));
    }
    for (uint64_t first = 0; first < bytes; first += slot) {
        const uint64_t length = std::min(slot, bytes - first);
        if (!isRoot) {
            const ChannelHandle channel = it_.channels[call_.root];
            RETURN_IF_FAILED(
                HcommChannelNotifyWaitOnThread(Main(), channel, own::DATA, own::LONGEST));
            RETURN_IF_FAILED(HcommReadOnThread(
                Main(), channel, call_.recv + first, Theirs(call_.root, it_.rank * slot), length));
            RETURN_IF_FAILED(HcommChannelNotifyRecordOnThread(Main(), channel, own::FIN));
            continue;
        }
        RETURN_IF_FAILED(StartOthers());
        for (uint32_t at = 0; at < Others(); ++at) {
            const uint32_t peer = Peer(at);
            const ChannelHandle channel = it_.channels[peer];
            RETURN_IF_FAILED(HcommLocalCopyOnThread(
                Other(at), Own(peer * slot), call_.send + peer * bytes + first, length));
            RETURN_IF_FAILED(HcommChannelNotifyRecordOnThread(Other(at), channel, own::DATA));
            RETURN_IF_FAILED(
                HcommChannelNotifyWaitOnThread(Other(at), channel, own::FIN, own::LONGEST));
        }
        RETURN_IF_FAILED(AwaitOthers());
    }
    return 0;
}

int32_t Orchestrate(const own::Call &call, const own::Resources &it)
{
    const ThreadHandle mainThread = it.threads[0];
    RETURN_IF_FAILED(HcommThreadNotifyWaitOnThread(mainThread, it.start, own::LONGEST));
    Orchestrator orchestrator(call, it);
    RETURN_IF_FAILED(
        call.operation == own::ALL_REDUCE ? orchestrator.AllReduce() : orchestrator.Scatter());
    return HcommThreadNotifyRecordOnThread(mainThread, call.hostThread, 0);
}

} // namespace

// Returns 0 if all tasks are in the queues, else 1.
extern "C" uint32_t OwnCollectivesKernel(void *arguments)
{
    const own::Call &call = *static_cast<const own::Call *>(arguments);
    own::Resources it;
    if (!it.Deserialise(call.resources, call.resourcesBytes)) {
        return 1;
    }
    if (it.acquires != 0 && HcommAcquireComm(call.comm) != 0) {
        return 1;
    }
    int32_t code = HcommBatchModeStart(call.tag);
    if (code == 0) {
        code = Orchestrate(call, it);
        const int32_t submitted = HcommBatchModeEnd(call.tag);
        code = code != 0 ? code : submitted;
    }
    if (it.acquires != 0 && HcommReleaseComm(call.comm) != 0) {
        return 1;
    }
    return code == 0 ? 0 : 1;
}
