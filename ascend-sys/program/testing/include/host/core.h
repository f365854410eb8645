// What a core is to a kernel: keywords of the language, kernel types, tiling macros, block numbers, and how cores wait for each other.
#pragma once
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "machine.h"
#include "numbers.h"

#define __aicore__
#define __global__
#define __gm__
#define __ubuf__
#define GM_ADDR uint8_t*

enum pipe_t { PIPE_S, PIPE_V, PIPE_M, PIPE_MTE1, PIPE_MTE2, PIPE_MTE3, PIPE_ALL, PIPE_FIX };
enum event_t { EVENT_ID0, EVENT_ID1, EVENT_ID2, EVENT_ID3, EVENT_ID4, EVENT_ID5, EVENT_ID6, EVENT_ID7 };

// A source is compiled once for each kind of core: 1 is AIC, 2 is AIV.
#ifndef STUB_CORE
#error "say for which kind of core: -DSTUB_CORE=1 or -DSTUB_CORE=2"
#endif
namespace AscendC {
constexpr int32_t MIX = 0;
constexpr int32_t AIC = 1;
constexpr int32_t AIV = 2;
} // namespace AscendC
constexpr int32_t g_coreType = STUB_CORE;
// The parentheses belong to the macro, so that `if (ASCEND_IS_AIC)` is no C++.
#define ASCEND_IS_AIC constexpr(g_coreType == AscendC::AIC)
#define ASCEND_IS_AIV constexpr(g_coreType == AscendC::AIV)

enum KernelMetaType : uint8_t {
    KERNEL_TYPE_AIV_ONLY,
    KERNEL_TYPE_AIC_ONLY,
    KERNEL_TYPE_MIX_AIV_1_0,
    KERNEL_TYPE_MIX_AIC_1_0,
    KERNEL_TYPE_MIX_AIC_1_1,
    KERNEL_TYPE_MIX_AIC_1_2
};
#define KERNEL_TASK_TYPE_DEFAULT(type) static_assert((type) <= KERNEL_TYPE_MIX_AIC_1_2, "no kernel type")

// In some builds the struct is a constant, so it is one here.
#define REGISTER_TILING_DEFAULT(T) \
    static_assert(std::is_trivially_copyable<T>::value && std::is_standard_layout<T>::value, "a tiling struct is plain data")
#define GET_TILING_DATA_WITH_STRUCT(T, name, address) \
    const T name = *reinterpret_cast<const T*>(address)

namespace AscendC {
inline int64_t GetBlockIdx() { return host::Me()->index; }
inline int64_t GetBlockNum() { return host::Me()->blocks; }
inline int64_t GetSubBlockIdx() { return host::Me()->kind == host::AIC ? 0 : host::Me()->index % host::Me()->ratio; }
inline int64_t GetTaskRatio() { return host::Me()->ratio; }
// The first bytes are the system's.
inline GM_ADDR GetUserWorkspace(GM_ADDR workspace) { return workspace + 256; }

template <bool aivOnly = true>
void SyncAll()
{
    host::Machine& machine = host::TheMachine();
    const host::Core& me = *host::Me();
    if (me.kind == host::AIV && me.index == 0) {
        machine.Log(me.rank, aivOnly ? "SyncAll<true>" : "SyncAll<false>");
    }
    host::Require(!aivOnly || me.kind == host::AIV, "SyncAll<true> is for vector cores");
    machine.Meet(aivOnly ? 0 : 1, me.rank, machine.aiv + (aivOnly ? 0 : machine.aic));
}

template <uint8_t mode, pipe_t pipe>
void CrossCoreSetFlag(uint16_t flag)
{
    static_assert(mode <= 2, "mode 0, 1 or 2");
    static_assert(pipe != PIPE_S && pipe != PIPE_ALL, "no flag of this pipe");
    host::Require(flag <= 15, "flags are 0 to 15");
    host::Machine& machine = host::TheMachine();
    const host::Core& me = *host::Me();
    std::lock_guard<std::mutex> held(machine.lock);
    const int64_t block = me.index / me.ratio;
    const int64_t pair = machine.aic == 0 ? 1 : machine.aiv / machine.aic;
    // Who has to raise it, and who may go on then.
    int64_t from = 0, until = me.kind == host::AIC ? machine.aic : machine.aiv;
    int released = me.kind;
    if (mode != 0) {
        from = block * me.ratio;
        until = from + me.ratio;
    }
    int64_t first = from, end = until;
    if (mode == 2) {
        released = me.kind == host::AIC ? host::AIV : host::AIC;
        first = me.kind == host::AIC ? block * pair : block;
        end = first + (me.kind == host::AIC ? pair : 1);
    }
    const int64_t group = mode == 0 ? 0 : block;
    auto count = [&](int64_t core) -> int& { return machine.raised[{mode, me.rank, me.kind, group, flag, core}]; };
    ++count(me.index);
    for (int64_t core = from; core < until; ++core) {
        if (count(core) == 0) {
            return;
        }
    }
    for (int64_t core = from; core < until; ++core) {
        --count(core);
    }
    for (int64_t core = first; core < end; ++core) {
        int& waiting = machine.flags[{me.rank, released, core, flag}];
        host::Require(++waiting <= 15, "a flag was raised more than 15 times before anybody waited for it");
    }
    machine.changed.notify_all();
}

template <uint8_t mode = 0, pipe_t pipe = PIPE_S>
void CrossCoreWaitFlag(uint16_t flag)
{
    host::Require(flag <= 15, "flags are 0 to 15");
    host::Machine& machine = host::TheMachine();
    const host::Core& me = *host::Me();
    std::unique_lock<std::mutex> held(machine.lock);
    int& waiting = machine.flags[{me.rank, me.kind, me.index, flag}];
    machine.Await(held, "a flag", [&] { return waiting > 0; });
    --waiting;
}

// Units of a core take turns here, so they never overtake each other. What is left is whether the calls pair.
enum class HardEvent : uint8_t {
    MTE2_V, V_MTE2, MTE3_V, V_MTE3, V_V, MTE3_MTE2, MTE2_MTE3, S_V, V_S, S_MTE2, MTE2_S, S_MTE3, MTE3_S,
    MTE2_FIX, FIX_MTE2, FIX_S, FIX_MTE3, FIX_M, M_FIX, MAX
};
using TEventID = int8_t;

namespace detail {
inline bool& EventIsSet(HardEvent event, int32_t id)
{
    static thread_local bool set[static_cast<int>(HardEvent::MAX)][8];
    host::Require(id >= 0 && id < 8, "events are 0 to 7");
    return set[static_cast<int>(event)][id];
}
} // namespace detail

template <HardEvent event>
void SetFlag(int32_t id)
{
    bool& set = detail::EventIsSet(event, id);
    host::Require(!set, "an event is set twice");
    set = true;
}

template <HardEvent event>
void WaitFlag(int32_t id)
{
    bool& set = detail::EventIsSet(event, id);
    host::Require(set, "waits for an event that nothing sets");
    set = false;
}

template <pipe_t pipe>
void PipeBarrier()
{
    static_assert(pipe != PIPE_S, "the scalar unit has no barrier");
}
} // namespace AscendC
