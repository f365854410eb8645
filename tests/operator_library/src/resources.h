// The language between the host part and the AI CPU part: what a rank has, as bytes in an engine
// context, and the arguments of a call.
#ifndef OWN_COLLECTIVES_RESOURCES_H
#define OWN_COLLECTIVES_RESOURCES_H

#include <cstdint>
#include <cstring>
#include <vector>

namespace own {

// Notifies of a channel, at each end.
constexpr uint32_t ACK = 0;  // my data is there, or: my room is free
constexpr uint32_t DATA = 1; // the result is there
constexpr uint32_t FIN = 2;  // I have read what is yours
constexpr uint32_t CHANNEL_NOTIFIES = 3;

// The longest wait of a kernel, in seconds.
constexpr uint32_t LONGEST = 1836;

// The resources of a rank for operators of a communicator.
struct Resources {
    uint32_t rank = 0;
    uint32_t ranks = 0;
    // Whether the AI CPU has to acquire the communicator (A2 and A3).
    uint32_t acquires = 0;
    // Which notify of the main thread says that the host has come so far: that behind those of the
    // other threads.
    uint32_t start = 0;
    void *buffer = nullptr;
    uint64_t bufferBytes = 0;
    // The main thread, then one for each other rank.
    std::vector<uint64_t> threads;
    // By rank; for the rank itself 0 and NULL.
    std::vector<uint64_t> channels;
    std::vector<void *> peerBuffers;

    std::vector<uint8_t> Serialise() const
    {
        std::vector<uint8_t> bytes;
        Put(bytes, rank);
        Put(bytes, ranks);
        Put(bytes, acquires);
        Put(bytes, start);
        Put(bytes, buffer);
        Put(bytes, bufferBytes);
        PutAll(bytes, threads);
        PutAll(bytes, channels);
        PutAll(bytes, peerBuffers);
        return bytes;
    }

    // False where the bytes are not what `Serialise` gives.
    bool Deserialise(const uint8_t *bytes, uint64_t size)
    {
        const uint8_t *end = bytes + size;
        return Take(bytes, end, rank) && Take(bytes, end, ranks) && Take(bytes, end, acquires) &&
            Take(bytes, end, start) && Take(bytes, end, buffer) && Take(bytes, end, bufferBytes) &&
            TakeAll(bytes, end, threads) && TakeAll(bytes, end, channels) &&
            TakeAll(bytes, end, peerBuffers) && threads.size() == ranks &&
            channels.size() == ranks && peerBuffers.size() == ranks && rank < ranks;
    }

private:
    template <typename T>
    static void Put(std::vector<uint8_t> &bytes, const T &value)
    {
        const uint8_t *first = reinterpret_cast<const uint8_t *>(&value);
        bytes.insert(bytes.end(), first, first + sizeof value);
    }

    template <typename T>
    static void PutAll(std::vector<uint8_t> &bytes, const std::vector<T> &values)
    {
        Put(bytes, static_cast<uint64_t>(values.size()));
        for (const T &value : values) {
            Put(bytes, value);
        }
    }

    template <typename T>
    static bool Take(const uint8_t *&bytes, const uint8_t *end, T &value)
    {
        if (static_cast<uint64_t>(end - bytes) < sizeof value) {
            return false;
        }
        std::memcpy(&value, bytes, sizeof value);
        bytes += sizeof value;
        return true;
    }

    template <typename T>
    static bool TakeAll(const uint8_t *&bytes, const uint8_t *end, std::vector<T> &values)
    {
        uint64_t count = 0;
        if (!Take(bytes, end, count) || count > static_cast<uint64_t>(end - bytes) / sizeof(T)) {
            return false;
        }
        values.resize(count);
        for (T &value : values) {
            Take(bytes, end, value);
        }
        return true;
    }
};

enum Operation : uint32_t { ALL_REDUCE = 0, SCATTER = 1 };

// The arguments of the kernel.
struct Call {
    char comm[128];
    char tag[64];
    // The engine context, in memory of the device.
    const uint8_t *resources;
    uint64_t resourcesBytes;
    uint64_t hostThread;
    const uint8_t *send;
    uint8_t *recv;
    uint64_t count;
    uint32_t operation;
    uint32_t dataType;
    uint32_t elementBytes;
    uint32_t reduceOp;
    uint32_t root;
};

} // namespace own

#endif // OWN_COLLECTIVES_RESOURCES_H
