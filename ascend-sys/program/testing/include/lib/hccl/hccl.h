// The HCCL client. Its calls are logged on the core that does them for the rank.
#pragma once
#include <sstream>

#include "host/server.h"
#include "kernel_operator.h"
#include "kernel_tiling/kernel_tiling.h"

namespace AscendC {
enum class HcclServerType { HCCL_SERVER_TYPE_AICPU = 0, HCCL_SERVER_TYPE_CCU = 5, HCCL_SERVER_TYPE_END };
enum class CoreType : uint8_t { DEFAULT, ON_AIV, ON_AIC };
struct HcclServerConfig {
    CoreType type;
    int64_t blockId;
};
inline constexpr HcclServerConfig DEFAULT_CFG = {CoreType::DEFAULT, 0};
enum class ScopeType { ALL, QUEUE, BLOCK, INVALID_TYPE };
using HcclHandle = int8_t;
constexpr HcclHandle INVALID_HANDLE_ID = -1;
constexpr int32_t HCCL_SUCCESS = 0;
constexpr int32_t HCCL_FAILED = -1;
enum HcclReduceOp : uint32_t { HCCL_REDUCE_SUM, HCCL_REDUCE_PROD, HCCL_REDUCE_MAX, HCCL_REDUCE_MIN, HCCL_REDUCE_RESERVED };
enum HcclDataType : uint32_t {
    HCCL_DATA_TYPE_INT8 = 0,
    HCCL_DATA_TYPE_INT16 = 1,
    HCCL_DATA_TYPE_INT32 = 2,
    HCCL_DATA_TYPE_FP16 = 3,
    HCCL_DATA_TYPE_FP32 = 4,
    HCCL_DATA_TYPE_INT64 = 5,
    HCCL_DATA_TYPE_UINT64 = 6,
    HCCL_DATA_TYPE_UINT8 = 7,
    HCCL_DATA_TYPE_UINT16 = 8,
    HCCL_DATA_TYPE_UINT32 = 9,
    HCCL_DATA_TYPE_FP64 = 10,
    HCCL_DATA_TYPE_BFP16 = 11,
    HCCL_DATA_TYPE_INT128 = 12,
    HCCL_DATA_TYPE_HIF8 = 14,
    HCCL_DATA_TYPE_FP8E4M3 = 15,
    HCCL_DATA_TYPE_FP8E5M2 = 16,
    HCCL_DATA_TYPE_FP8E8M0 = 17,
    HCCL_DATA_TYPE_RESERVED = 255
};

// Where the context of a group would lie; here only its number counts.
template <uint32_t group>
GM_ADDR GetHcclContext()
{
    static_assert(group < 2, "a kernel has at most two contexts");
    static uint8_t context = group;
    return &context;
}

template <HcclServerType server = HcclServerType::HCCL_SERVER_TYPE_AICPU, const auto& config = DEFAULT_CFG>
class Hccl {
public:
    void InitV2(GM_ADDR context, const void* tiling)
    {
        host::Require(group_ < 0, "InitV2 for a second time");
        const auto* words = static_cast<const uint32_t*>(tiling);
        host::Require(words[0] == 100, "InitV2 without the Mc2InitTiling of the struct");
        group_ = *context;
        tiling_ = static_cast<const unsigned char*>(tiling);
        Log("InitV2 group=" + std::to_string(group_));
    }
    // The older form: where the struct lies in global memory.
    void Init(GM_ADDR context, __gm__ void* tiling = nullptr)
    {
        host::Require(group_ < 0, "Init for a second time");
        host::Require(tiling != nullptr && *static_cast<const uint32_t*>(tiling) == 100, "Init without the Mc2InitTiling");
        group_ = *context;
        tiling_ = static_cast<const unsigned char*>(tiling);
        Log("Init group=" + std::to_string(group_));
    }
    int32_t SetCcTiling(__gm__ void* tiling)
    {
        Initialised();
        uint32_t operation;
        std::memcpy(&operation, static_cast<const unsigned char*>(tiling) + 272, sizeof(operation));
        configured_.push_back(operation);
        Log("SetCcTiling offset=" + std::to_string(static_cast<const unsigned char*>(tiling) - tiling_));
        return HCCL_SUCCESS;
    }
    int32_t SetCcTilingV2(uint64_t offset)
    {
        Initialised();
        const auto* offsets = reinterpret_cast<const uint32_t*>(tiling_ + 8);
        uint32_t count;
        std::memcpy(&count, tiling_ + 4, sizeof(count));
        const bool known = std::find(offsets, offsets + std::min(count, 8u), offset) != offsets + std::min(count, 8u);
        host::Require(known, "SetCcTilingV2 with an offset that the Mc2InitTiling does not have");
        uint32_t operation;
        std::memcpy(&operation, tiling_ + offset + 272, sizeof(operation));
        configured_.push_back(operation);
        Log("SetCcTilingV2 offset=" + std::to_string(offset));
        return HCCL_SUCCESS;
    }
    template <bool commit = false>
    HcclHandle AllReduce(GM_ADDR send, GM_ADDR recv, uint64_t count, HcclDataType dtype, HcclReduceOp op, uint8_t repeat = 1)
    {
        return Prepare("AllReduce", 2, commit, host::Kind::AllReduce, send, recv, count, dtype, op, 0, repeat);
    }
    template <bool commit = false>
    HcclHandle AllGather(GM_ADDR send, GM_ADDR recv, uint64_t count, HcclDataType dtype, uint64_t stride, uint8_t repeat = 1)
    {
        return Prepare("AllGather", 6, commit, host::Kind::AllGather, send, recv, count, dtype, 0, stride, repeat);
    }
    template <bool commit = false>
    HcclHandle ReduceScatter(GM_ADDR send, GM_ADDR recv, uint64_t count, HcclDataType dtype, HcclReduceOp op, uint64_t stride,
        uint8_t repeat = 1)
    {
        return Prepare("ReduceScatter", 7, commit, host::Kind::ReduceScatter, send, recv, count, dtype, op, stride, repeat);
    }
    template <bool commit = false>
    HcclHandle AlltoAll(GM_ADDR send, GM_ADDR recv, uint64_t count, HcclDataType dtype, uint64_t stride = 0, uint8_t repeat = 1)
    {
        return Prepare("AlltoAll", 10, commit, host::Kind::AlltoAll, send, recv, count, dtype, 0, stride, repeat);
    }
    template <bool commit = false>
    HcclHandle AlltoAllV(GM_ADDR send, void* sendCounts, void* sendDispls, HcclDataType sendType, GM_ADDR recv,
        void* recvCounts, void* recvDispls, HcclDataType recvType, uint8_t repeat = 1)
    {
        host::Require(sendType == recvType, "AlltoAllV sends one type and receives another");
        auto list = [](void* numbers) {
            const auto* first = static_cast<const uint64_t*>(numbers);
            return std::vector<uint64_t>(first, first + host::TheMachine().ranks);
        };
        auto task = std::make_shared<host::Task>();
        task->sendCounts = list(sendCounts);
        task->sendDispls = list(sendDispls);
        task->recvCounts = list(recvCounts);
        task->recvDispls = list(recvDispls);
        std::ostringstream more;
        Numbers(more, "sendCounts", task->sendCounts);
        Numbers(more, "sdispls", task->sendDispls);
        Numbers(more, "recvCounts", task->recvCounts);
        Numbers(more, "rdispls", task->recvDispls);
        return Prepare("AlltoAllV", 8, commit, host::Kind::AlltoAllV, send, recv, 0, sendType, 0, 0, repeat, task, more.str());
    }
    template <bool commit = false>
    HcclHandle BatchWrite(GM_ADDR items, uint32_t count, uint16_t queue = 0)
    {
        (void)queue;
        return Prepare("BatchWrite", 18, true, host::Kind::BatchWrite, items, items, count, HCCL_DATA_TYPE_INT8, 0, 0, 1);
    }
    template <bool commit = false>
    HcclHandle AlltoAllvWrite(GM_ADDR send, GM_ADDR offsets, GM_ADDR sizes, uint64_t windowOffset, uint64_t localBytes)
    {
        static_assert(server == HcclServerType::HCCL_SERVER_TYPE_CCU, "only the engine of the 950 has AlltoAllvWrite");
        auto task = std::make_shared<host::Task>();
        task->sizes = sizes;
        task->windowOffset = windowOffset;
        std::ostringstream more;
        more << " windowOffset=" << windowOffset << " sizes=" << host::TheMachine().Name(sizes);
        return Prepare("AlltoAllvWrite", 20, commit, host::Kind::AlltoAllvWrite, send, offsets, localBytes,
            HCCL_DATA_TYPE_UINT8, 0, 0, 1, task, more.str());
    }
    void Commit(HcclHandle handle)
    {
        Initialised();
        if (!Known(handle) || mine_[handle].committed == mine_[handle].repeat) {
            return;
        }
        ++mine_[handle].committed;
        Log("Commit handle=" + std::to_string(handle));
        if (Works()) {
            std::lock_guard<std::mutex> held(host::TheMachine().lock);
            ++Task(handle).committed;
            host::Server::Get().Run();
        }
    }
    int32_t Wait(HcclHandle handle)
    {
        Initialised();
        if (!Known(handle) || mine_[handle].waits >= mine_[handle].committed) {
            return HCCL_FAILED;
        }
        const uint64_t wanted = ++mine_[handle].waits;
        Log("Wait handle=" + std::to_string(handle));
        std::unique_lock<std::mutex> held(host::TheMachine().lock);
        host::TheMachine().Await(held, "a turn", [&] { return Finished(handle) >= wanted; });
        return HCCL_SUCCESS;
    }
    int32_t Query(HcclHandle handle)
    {
        Initialised();
        host::Require(Known(handle), "Query of no task");
        std::lock_guard<std::mutex> held(host::TheMachine().lock);
        return static_cast<int32_t>(Finished(handle));
    }
    template <bool sync = true>
    int32_t Iterate(HcclHandle handle, uint16_t* slices, uint16_t length)
    {
        host::Require(Known(handle) && slices != nullptr && length != 0, "Iterate of no task");
        Mine& task = mine_[handle];
        const uint64_t ranks = GetRankDim();
        if (task.steps >= ranks * task.repeat) {
            return 0;
        }
        for (uint16_t at = 0; at < length; ++at, ++task.steps) {
            const uint64_t step = task.steps % ranks;
            slices[at] = static_cast<uint16_t>((GetRankId() + (sync ? ranks - step : step)) % ranks);
        }
        // This server does turns, not steps.
        if (sync && task.waits < (task.steps + ranks - 1) / ranks) {
            Wait(handle);
        }
        return length;
    }
    void InterHcclGroupSync(int8_t group, HcclHandle handle)
    {
        Initialised();
        host::Require(group != group_, "a group does not wait for itself");
        Log("InterHcclGroupSync group=" + std::to_string(group) + " handle=" + std::to_string(handle));
        if (Works()) {
            auto task = std::make_shared<host::Task>();
            task->kind = host::Kind::After;
            task->group = group;
            task->handle = handle;
            std::lock_guard<std::mutex> held(host::TheMachine().lock);
            host::Server::Get().Add(group_, host::Me()->rank, task);
        }
    }
    template <ScopeType type = ScopeType::ALL>
    void QueueBarrier(uint16_t)
    {
        static_assert(type == ScopeType::ALL, "all cores");
    }
    template <bool sync = true>
    void Finalize()
    {
        Initialised();
        Log("Finalize");
        if (Works() && sync) {
            std::unique_lock<std::mutex> held(host::TheMachine().lock);
            host::Group& group = host::Server::Get().Of(group_);
            const int rank = host::Me()->rank;
            host::TheMachine().Await(held, "the last turn", [&] { return group.next[rank] == group.tasks[rank].size(); });
        }
        finalized_ = true;
    }
    uint32_t GetRankId() { return static_cast<uint32_t>(host::Me()->rank); }
    uint32_t GetRankDim() { return static_cast<uint32_t>(host::TheMachine().ranks); }
    uint16_t GetQueueNum() { return 0; }
    GM_ADDR GetWindowsInAddr(uint32_t rank) { return host::Server::Get().Of(group_).windowsIn.at(rank).bytes.data(); }
    GM_ADDR GetWindowsOutAddr(uint32_t rank) { return host::Server::Get().Of(group_).windowsOut.at(rank).bytes.data(); }

private:
    // What this core knows of a task.
    struct Mine {
        uint64_t repeat = 1, committed = 0, waits = 0, steps = 0;
    };

    void Initialised()
    {
        host::Require(group_ >= 0, "a client before InitV2");
        host::Require(!finalized_, "a client behind Finalize");
    }
    bool Known(HcclHandle handle) const { return handle >= 0 && static_cast<size_t>(handle) < mine_.size(); }
    static bool Works()
    {
        const host::Core& me = *host::Me();
        const bool kind = config.type == CoreType::DEFAULT || (config.type == CoreType::ON_AIC) == (me.kind == host::AIC);
        return kind && me.index == config.blockId;
    }
    // The lock of the machine is held.
    host::Task& Task(HcclHandle handle) { return *host::Server::Get().Of(group_).handles[host::Me()->rank].at(handle); }
    uint64_t Finished(HcclHandle handle)
    {
        const auto& tasks = host::Server::Get().Of(group_).handles[host::Me()->rank];
        return static_cast<size_t>(handle) < tasks.size() ? tasks[handle]->finished : 0;
    }
    static void Log(const std::string& line)
    {
        if (Works()) {
            host::TheMachine().Log(host::Me()->rank, line);
        }
    }
    static void Numbers(std::ostringstream& to, const char* name, const std::vector<uint64_t>& numbers)
    {
        to << ' ' << name << '=';
        for (size_t at = 0; at < numbers.size(); ++at) {
            to << (at == 0 ? "" : ",") << numbers[at];
        }
    }
    HcclHandle Prepare(const char* name, uint32_t command, bool commit, host::Kind kind, GM_ADDR send, GM_ADDR recv,
        uint64_t count, HcclDataType dtype, uint32_t reduction, uint64_t stride, uint8_t repeat,
        std::shared_ptr<host::Task> task = nullptr, const std::string& more = "")
    {
        Initialised();
        host::Require(send != nullptr && recv != nullptr, "no buffer");
        host::Require(std::find(configured_.begin(), configured_.end(), command) != configured_.end(),
            "an operation that SetCcTilingV2 did not prepare");
        if (repeat == 0) {
            return INVALID_HANDLE_ID;
        }
        host::Require(mine_.size() < 63, "more than 63 tasks");
        mine_.push_back({repeat, commit ? repeat : uint64_t(0), 0, 0});
        const auto handle = static_cast<HcclHandle>(mine_.size() - 1);
        if (Works()) {
            task = task == nullptr ? std::make_shared<host::Task>() : task;
            task->kind = kind;
            task->send = send;
            task->recv = recv;
            task->count = count;
            task->dtype = static_cast<int>(dtype);
            task->reduction = static_cast<int>(reduction);
            task->stride = stride;
            task->repeat = repeat;
            task->committed = commit ? repeat : 0;
            host::Machine& machine = host::TheMachine();
            std::ostringstream line;
            line << name << " commit=" << commit << " send=" << machine.Name(send) << " recv=" << machine.Name(recv)
                 << " count=" << count << " dtype=" << dtype << " op=" << reduction << " stride=" << stride
                 << " repeat=" << int(repeat) << more << " handle=" << int(handle);
            machine.Log(host::Me()->rank, line.str());
            std::lock_guard<std::mutex> held(machine.lock);
            host::Server::Get().Add(group_, host::Me()->rank, task);
        }
        return handle;
    }

    int group_ = -1;
    bool finalized_ = false;
    const unsigned char* tiling_ = nullptr;
    std::vector<uint32_t> configured_;
    std::vector<Mine> mine_;
};
} // namespace AscendC
