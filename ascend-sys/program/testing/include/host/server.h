// The communication server of every rank, in its simplest form: whoever prepares or commits a turn looks which turns can run now, and
// runs them.
#pragma once
#include <algorithm>
#include <memory>

#include "core.h"

namespace host {
enum class Kind { AllReduce, AllGather, ReduceScatter, AlltoAll, AlltoAllV, AlltoAllvWrite, BatchWrite, After };

struct Task {
    Kind kind = Kind::AllReduce;
    unsigned char* send = nullptr;
    unsigned char* recv = nullptr;
    uint64_t count = 0;
    int dtype = 0;
    int reduction = 0;
    uint64_t stride = 0;
    uint64_t repeat = 1;
    std::vector<uint64_t> sendCounts, sendDispls, recvCounts, recvDispls;
    // Of AlltoAllvWrite: where the numbers of bytes are, and where in the windows the blocks go.
    const unsigned char* sizes = nullptr;
    uint64_t windowOffset = 0;
    // Of After: the other group and its handle.
    int group = 0;
    int handle = 0;
    uint64_t committed = 0;
    uint64_t finished = 0;
};

inline uint64_t SizeOf(int dtype)
{
    switch (dtype) {
        case 0:
        case 7:
        case 14:
        case 15:
        case 16:
        case 17:
            return 1;
        case 1:
        case 3:
        case 8:
        case 11:
            return 2;
        case 2:
        case 4:
        case 9:
            return 4;
        case 5:
        case 6:
        case 10:
            return 8;
        default:
            Fail("a data type that cannot be sent");
    }
}

template <typename T>
void Reduce(unsigned char* to, const std::vector<const unsigned char*>& from, uint64_t count, int reduction)
{
    for (uint64_t at = 0; at < count; ++at) {
        auto value = [&](size_t rank) { return reinterpret_cast<const T*>(from[rank])[at]; };
        T result = value(0);
        for (size_t rank = 1; rank < from.size(); ++rank) {
            const T next = value(rank);
            switch (reduction) {
                case 0:
                    result = static_cast<T>(result + next);
                    break;
                case 1:
                    result = static_cast<T>(result * next);
                    break;
                case 2:
                    result = result < next ? next : result;
                    break;
                default:
                    result = next < result ? next : result;
            }
        }
        reinterpret_cast<T*>(to)[at] = result;
    }
}

inline void ReduceAs(int dtype, unsigned char* to, const std::vector<const unsigned char*>& from, uint64_t count, int reduction)
{
    switch (dtype) {
        case 0:
            return Reduce<int8_t>(to, from, count, reduction);
        case 1:
            return Reduce<int16_t>(to, from, count, reduction);
        case 2:
            return Reduce<int32_t>(to, from, count, reduction);
        case 3:
            return Reduce<half>(to, from, count, reduction);
        case 4:
            return Reduce<float>(to, from, count, reduction);
        case 11:
            return Reduce<bfloat16_t>(to, from, count, reduction);
        default:
            Fail("a data type that cannot be reduced");
    }
}

// All ranks of one group.
struct Group {
    std::vector<std::vector<std::shared_ptr<Task>>> tasks; // of each rank, in order
    std::vector<size_t> next;                              // of each rank: the first that is not finished
    std::vector<std::vector<std::shared_ptr<Task>>> handles;
    std::vector<Memory> windowsIn, windowsOut;
};

class Server {
public:
    static Server& Get()
    {
        static Server server;
        return server;
    }

    void Create(int groups, int ranks, size_t window)
    {
        for (int group = 0; group < groups; ++group) {
            Group& of = groups_.emplace_back();
            of.tasks.resize(ranks);
            of.next.resize(ranks);
            of.handles.resize(ranks);
            for (int rank = 0; rank < ranks; ++rank) {
                of.windowsIn.push_back({"windowIn", rank, std::vector<unsigned char>(window)});
                of.windowsOut.push_back({"windowOut", rank, std::vector<unsigned char>(window)});
            }
            for (int rank = 0; rank < ranks; ++rank) {
                TheMachine().memories.push_back(&of.windowsIn[rank]);
                TheMachine().memories.push_back(&of.windowsOut[rank]);
            }
        }
    }

    Group& Of(int group) { return groups_.at(group); }

    // The lock of the machine is held for all of these.
    void Add(int group, int rank, const std::shared_ptr<Task>& task)
    {
        Of(group).tasks[rank].push_back(task);
        if (task->kind != Kind::After) {
            Of(group).handles[rank].push_back(task);
        }
        Run();
    }

    void Run()
    {
        bool moved = true;
        while (moved) {
            moved = false;
            for (Group& group : groups_) {
                moved = Step(group) || moved;
            }
        }
        TheMachine().changed.notify_all();
    }

private:
    bool Step(Group& group)
    {
        bool moved = false;
        std::vector<Task*> heads;
        for (size_t rank = 0; rank < group.tasks.size(); ++rank) {
            size_t& next = group.next[rank];
            if (next == group.tasks[rank].size()) {
                continue;
            }
            Task& task = *group.tasks[rank][next];
            if (task.kind == Kind::After) {
                const auto& handles = Of(task.group).handles[rank];
                const auto handle = static_cast<size_t>(task.handle);
                if (handle < handles.size() && handles[handle]->finished == handles[handle]->repeat) {
                    ++next;
                    moved = true;
                }
            } else if (task.kind == Kind::BatchWrite) {
                Write(task);
                task.finished = 1;
                ++next;
                moved = true;
            } else if (task.committed > task.finished) {
                heads.push_back(&task);
            }
        }
        if (heads.size() == group.tasks.size()) {
            Turn(group, heads);
            for (size_t rank = 0; rank < heads.size(); ++rank) {
                if (++heads[rank]->finished == heads[rank]->repeat) {
                    ++group.next[rank];
                }
            }
            moved = true;
        }
        return moved;
    }

    static void Move(unsigned char* to, const unsigned char* from, uint64_t bytes)
    {
        CheckGlobal(to, bytes);
        CheckGlobal(from, bytes);
        std::memmove(to, from, bytes);
    }

    // One turn of a task on all ranks.
    static void Turn(Group& group, const std::vector<Task*>& tasks)
    {
        const Task& first = *tasks[0];
        if (first.kind == Kind::AlltoAllvWrite) {
            return Write(group, tasks);
        }
        for (const Task* task : tasks) {
            Require(task->kind == first.kind && task->dtype == first.dtype && task->count == first.count &&
                    task->stride == first.stride && task->reduction == first.reduction && task->repeat == first.repeat,
                "the ranks do not ask for the same");
        }
        const uint64_t size = SizeOf(first.dtype), count = first.count, turn = first.finished;
        const uint64_t stride = first.stride == 0 ? count : first.stride;
        const size_t ranks = tasks.size();
        auto send = [&](size_t rank, uint64_t element) { return tasks[rank]->send + element * size; };
        auto recv = [&](size_t rank, uint64_t element) { return tasks[rank]->recv + element * size; };
        // Inputs as they are before anybody writes: a rank may receive where it sends.
        std::vector<std::tuple<unsigned char*, std::vector<unsigned char>>> results;
        auto deliver = [&](unsigned char* to, const unsigned char* from, uint64_t elements) {
            CheckGlobal(from, elements * size);
            results.emplace_back(to, std::vector<unsigned char>(from, from + elements * size));
        };
        auto reduce = [&](unsigned char* to, uint64_t element) {
            std::vector<const unsigned char*> from;
            for (size_t rank = 0; rank < ranks; ++rank) {
                from.push_back(send(rank, element));
                CheckGlobal(from.back(), count * size);
            }
            std::vector<unsigned char> result(count * size);
            ReduceAs(first.dtype, result.data(), from, count, first.reduction);
            results.emplace_back(to, result);
        };
        for (size_t to = 0; to < ranks; ++to) {
            switch (first.kind) {
                case Kind::AllReduce:
                    reduce(recv(to, turn * count), turn * count);
                    break;
                case Kind::ReduceScatter:
                    reduce(recv(to, turn * count), turn * count + to * stride);
                    break;
                case Kind::AllGather:
                    for (size_t from = 0; from < ranks; ++from) {
                        deliver(recv(to, turn * count + from * stride), send(from, turn * count), count);
                    }
                    break;
                case Kind::AlltoAll:
                    for (size_t from = 0; from < ranks; ++from) {
                        deliver(recv(to, turn * count + from * stride), send(from, turn * count + to * stride), count);
                    }
                    break;
                default:
                    for (size_t from = 0; from < ranks; ++from) {
                        const Task &sender = *tasks[from], &receiver = *tasks[to];
                        const uint64_t sent = sender.sendCounts[to];
                        Require(sent == receiver.recvCounts[from], "a rank sends more or less than the other one receives");
                        deliver(recv(to, receiver.recvDispls[from] + turn * sent),
                            send(from, sender.sendDispls[to] + turn * sent), sent);
                    }
            }
        }
        for (const auto& [to, bytes] : results) {
            CheckGlobal(to, bytes.size());
            std::memcpy(to, bytes.data(), bytes.size());
        }
    }

    // A block of each rank to each other one, where the sender says.
    static void Write(Group& group, const std::vector<Task*>& tasks)
    {
        for (size_t from = 0; from < tasks.size(); ++from) {
            const Task& task = *tasks[from];
            Require(task.kind == Kind::AlltoAllvWrite, "the ranks do not ask for the same");
            CheckGlobal(task.recv, 8 * tasks.size());
            CheckGlobal(task.sizes, 8 * tasks.size());
            for (size_t to = 0; to < tasks.size(); ++to) {
                uint64_t offset, size;
                std::memcpy(&offset, task.recv + 8 * to, 8);
                std::memcpy(&size, task.sizes + 8 * to, 8);
                unsigned char* window = group.windowsIn[to].bytes.data();
                Move(window + task.windowOffset, task.send + offset, from == to ? task.count : size);
            }
        }
    }

    // The items of A3: 64 bytes each, with the length and both addresses.
    static void Write(const Task& task)
    {
        for (uint64_t item = 0; item < task.count; ++item) {
            uint32_t words[16];
            CheckGlobal(task.send + 64 * item, sizeof(words));
            std::memcpy(words, task.send + 64 * item, sizeof(words));
            const uint64_t from = words[8] | static_cast<uint64_t>(words[9]) << 32;
            const uint64_t to = words[10] | static_cast<uint64_t>(words[11]) << 32;
            Move(reinterpret_cast<unsigned char*>(to), reinterpret_cast<unsigned char*>(from), words[7]);
        }
    }

    std::vector<Group> groups_;
};
} // namespace host
