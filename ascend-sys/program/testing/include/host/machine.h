// Ranks with their cores, as threads: who is who, who waits for whom, and whose memory lies where.
#pragma once
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <mutex>
#include <string>
#include <tuple>
#include <vector>

namespace host {
constexpr int AIC = 1;
constexpr int AIV = 2;

// One core of one rank. Each runs in a thread of its own.
struct Core {
    int rank = 0;
    int kind = AIV;
    int64_t index = 0;
    int64_t blocks = 1;
    int64_t ratio = 1;
    // The local memory and how much of it has been given out.
    alignas(512) unsigned char local[256 * 1024];
    size_t used = 0;
};

inline Core*& Me()
{
    static thread_local Core* core = nullptr;
    return core;
}

// The program is wrong: says so and ends.
[[noreturn]] inline void Fail(const std::string& what)
{
    const Core* me = Me();
    if (me == nullptr) {
        std::fprintf(stderr, "%s\n", what.c_str());
    } else {
        std::fprintf(stderr, "rank %d, %s %lld: %s\n", me->rank, me->kind == AIC ? "AIC" : "AIV",
            static_cast<long long>(me->index), what.c_str());
    }
    std::fflush(stderr);
    std::_Exit(3);
}

inline void Require(bool good, const char* what)
{
    if (!good) {
        Fail(what);
    }
}

struct Memory {
    std::string name;
    int rank;
    std::vector<unsigned char> bytes;
};

// What all ranks share. One lock, one place to wait: it is a model, not a fast one.
struct Machine {
    std::mutex lock;
    std::condition_variable changed;
    int ranks = 1;
    int64_t aic = 0; // cores of a rank
    int64_t aiv = 1;
    std::vector<Memory*> memories;
    // Who has come to a meeting of a rank (which, rank), and how many such meetings are over.
    std::map<std::pair<int, int>, std::pair<int64_t, uint64_t>> meetings;
    // Flags raised and not yet passed on: mode, rank, kind, block, flag, core.
    std::map<std::tuple<int, int, int, int64_t, int, int64_t>, int> raised;
    // Flags that a core can wait for: rank, kind, core, flag.
    std::map<std::tuple<int, int, int64_t, int>, int> flags;
    // What each rank has asked for, in words.
    std::map<int, std::vector<std::string>> log;

    template <typename Condition>
    void Await(std::unique_lock<std::mutex>& held, const char* what, Condition condition)
    {
        if (!changed.wait_for(held, std::chrono::seconds(30), condition)) {
            Fail(std::string("waits in vain for ") + what);
        }
    }

    // Returns when so many have come.
    void Meet(int which, int rank, int64_t count)
    {
        std::unique_lock<std::mutex> held(lock);
        auto& [present, over] = meetings[{which, rank}];
        const uint64_t mine = over;
        if (++present == count) {
            present = 0;
            ++over;
            changed.notify_all();
            return;
        }
        Await(held, "other cores", [&] { return meetings[{which, rank}].second != mine; });
    }

    // The memory around an address: all of it has to be there.
    Memory* Around(const void* address, size_t bytes)
    {
        const auto* at = static_cast<const unsigned char*>(address);
        for (Memory* memory : memories) {
            const unsigned char* start = memory->bytes.data();
            if (at >= start && at + bytes <= start + memory->bytes.size()) {
                return memory;
            }
        }
        return nullptr;
    }

    std::string Name(const void* address)
    {
        Memory* memory = Around(address, 0);
        if (memory == nullptr) {
            return "nowhere";
        }
        const auto offset = static_cast<const unsigned char*>(address) - memory->bytes.data();
        return memory->name + "+" + std::to_string(offset);
    }

    void Log(int rank, const std::string& line)
    {
        std::lock_guard<std::mutex> held(lock);
        log[rank].push_back(line);
    }
};

inline Machine& TheMachine()
{
    static Machine machine;
    return machine;
}

inline void CheckGlobal(const void* address, size_t bytes)
{
    if (bytes != 0 && TheMachine().Around(address, bytes) == nullptr) {
        Fail("touches global memory that nobody gave it");
    }
}
} // namespace host
