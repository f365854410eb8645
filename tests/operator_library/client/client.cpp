// Calls the collectives of the library, and prints how many numbers are wrong.
//   client RANKS    the ranks are threads of this process
//   client FILE     a launcher has started this process as a rank; the root info goes through FILE
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "own_collectives.h"

namespace {

void Check(uint32_t rank, const char *call, int code, int expected = 0)
{
    if (code != expected) {
        const char *text = aclGetRecentErrMsg();
        std::fprintf(stderr, "rank %u: %s returned %d: %s\n", rank, call, code,
            text != nullptr ? text : "");
        std::exit(1);
    }
}

#define CHECK(call) Check(rank, #call, static_cast<int>(call))
#define REFUSED(expected, call) Check(rank, #call, static_cast<int>(call), static_cast<int>(expected))

class Rank {
public:
    Rank(uint32_t number, uint32_t ranks, const HcclRootInfo &root) : rank(number), ranks_(ranks)
    {
        CHECK(HcclCommInitRootInfo(ranks, &root, rank, &comm_));
        for (aclrtStream &stream : streams_) {
            CHECK(aclrtCreateStream(&stream));
        }
    }

    ~Rank()
    {
        for (aclrtStream stream : streams_) {
            CHECK(aclrtDestroyStream(stream));
        }
        CHECK(HcclCommDestroy(comm_));
    }

    uint64_t Run()
    {
        // The largest count does not fit the communication buffer at once, if that is small.
        for (uint64_t count : {1UL, 3UL, 1000UL, 300001UL}) {
            AllReduce<int32_t>(count, HCCL_DATA_TYPE_INT32, HCCL_REDUCE_SUM, false);
            AllReduce<float>(count, HCCL_DATA_TYPE_FP32, HCCL_REDUCE_SUM, true);
            AllReduce<int32_t>(count, HCCL_DATA_TYPE_INT32, HCCL_REDUCE_MAX, false);
            AllReduce<int8_t>(count, HCCL_DATA_TYPE_INT8, HCCL_REDUCE_MIN, true);
            for (uint32_t root = 0; root < ranks_; ++root) {
                Scatter(count, root);
            }
        }
        Overlapping();
        Mistakes();
        return wrong_;
    }

private:
    // Returns the value of a rank at an index: small enough that every sum is exact.
    template <typename T>
    static T Value(uint32_t rank, uint64_t index)
    {
        return static_cast<T>((index * 7 + rank * 3) % 23) - static_cast<T>(rank);
    }

    template <typename T>
    T Expected(uint64_t index, HcclReduceOp op) const
    {
        T all = Value<T>(0, index);
        for (uint32_t other = 1; other < ranks_; ++other) {
            const T one = Value<T>(other, index);
            all = op == HCCL_REDUCE_SUM ? static_cast<T>(all + one)
                : (op == HCCL_REDUCE_MAX) == (one > all) ? one : all;
        }
        return all;
    }

    template <typename T>
    void *Upload(const std::vector<T> &values)
    {
        void *memory = nullptr;
        const size_t bytes = values.size() * sizeof(T);
        CHECK(aclrtMalloc(&memory, bytes, ACL_MEM_MALLOC_HUGE_FIRST));
        CHECK(aclrtMemcpy(memory, bytes, values.data(), bytes, ACL_MEMCPY_HOST_TO_DEVICE));
        return memory;
    }

    template <typename T>
    void Compare(const void *memory, uint64_t count, HcclReduceOp op)
    {
        std::vector<T> found(count);
        const size_t bytes = count * sizeof(T);
        CHECK(aclrtMemcpy(found.data(), bytes, memory, bytes, ACL_MEMCPY_DEVICE_TO_HOST));
        for (uint64_t index = 0; index < count; ++index) {
            wrong_ += found[index] == Expected<T>(index, op) ? 0 : 1;
        }
    }

    template <typename T>
    std::vector<T> Values(uint64_t count)
    {
        std::vector<T> values(count);
        for (uint64_t index = 0; index < count; ++index) {
            values[index] = Value<T>(rank, index);
        }
        return values;
    }

    template <typename T>
    void AllReduce(uint64_t count, HcclDataType type, HcclReduceOp op, bool inPlace)
    {
        void *send = Upload(Values<T>(count));
        void *recv = inPlace ? send : Upload(std::vector<T>(count));
        // Each call uses another stream than the call before.
        aclrtStream stream = streams_[calls_++ % 2];
        CHECK(OwnAllReduce(send, recv, count, type, op, comm_, stream));
        CHECK(aclrtSynchronizeStream(stream));
        Compare<T>(recv, count, op);
        CHECK(aclrtFree(send));
        if (!inPlace) {
            CHECK(aclrtFree(recv));
        }
    }

    void Scatter(uint64_t count, uint32_t root)
    {
        std::vector<int32_t> values(rank == root ? count * ranks_ : 1);
        for (uint64_t index = 0; index < values.size(); ++index) {
            values[index] = static_cast<int32_t>(index + root * 1000);
        }
        void *send = Upload(values);
        void *recv = Upload(std::vector<int32_t>(count));
        aclrtStream stream = streams_[calls_++ % 2];
        void *given = rank == root ? send : nullptr;
        CHECK(OwnScatter(given, recv, count, HCCL_DATA_TYPE_INT32, root, comm_, stream));
        CHECK(aclrtSynchronizeStream(stream));
        std::vector<int32_t> found(count);
        const size_t bytes = count * sizeof(int32_t);
        CHECK(aclrtMemcpy(found.data(), bytes, recv, bytes, ACL_MEMCPY_DEVICE_TO_HOST));
        for (uint64_t index = 0; index < count; ++index) {
            wrong_ += found[index] == static_cast<int32_t>(rank * count + index + root * 1000) ? 0 : 1;
        }
        CHECK(aclrtFree(send));
        CHECK(aclrtFree(recv));
    }

    // Makes several calls in a stream, with work of the runtime between them, before it waits.
    void Overlapping()
    {
        const uint64_t count = 5000;
        const size_t bytes = count * sizeof(int32_t);
        void *first = Upload(Values<int32_t>(count));
        void *second = Upload(std::vector<int32_t>(count));
        for (int turn = 0; turn < 5; ++turn) {
            CHECK(OwnAllReduce(first, second, count, HCCL_DATA_TYPE_INT32, HCCL_REDUCE_MAX, comm_,
                streams_[0]));
            CHECK(aclrtMemcpyAsync(
                first, bytes, second, bytes, ACL_MEMCPY_DEVICE_TO_DEVICE, streams_[0]));
        }
        CHECK(aclrtSynchronizeStream(streams_[0]));
        Compare<int32_t>(first, count, HCCL_REDUCE_MAX);
        CHECK(aclrtFree(first));
        CHECK(aclrtFree(second));
    }

    void Mistakes()
    {
        int32_t nowhere[1] = {0};
        const HcclDataType type = HCCL_DATA_TYPE_INT32;
        REFUSED(HCCL_E_PTR,
            OwnAllReduce(nullptr, nowhere, 1, type, HCCL_REDUCE_SUM, comm_, streams_[0]));
        REFUSED(HCCL_E_NOT_SUPPORT,
            OwnAllReduce(nowhere, nowhere, 1, type, HCCL_REDUCE_PROD, comm_, streams_[0]));
        REFUSED(HCCL_E_PARA, OwnScatter(nowhere, nowhere, 1, type, ranks_, comm_, streams_[0]));
    }

    uint32_t rank;
    uint32_t ranks_;
    HcclComm comm_ = nullptr;
    aclrtStream streams_[2] = {};
    uint32_t calls_ = 0;
    uint64_t wrong_ = 0;
};

uint64_t RunRank(uint32_t rank, uint32_t ranks, const HcclRootInfo &root)
{
    const uint64_t wrong = Rank(rank, ranks, root).Run();
    std::printf("rank %u: %lu numbers are wrong\n", rank, static_cast<unsigned long>(wrong));
    CHECK(aclrtResetDevice(static_cast<int32_t>(rank)));
    return wrong;
}

int RunThreads(uint32_t ranks)
{
    const uint32_t rank = 0;
    CHECK(aclrtSetDevice(0));
    HcclRootInfo root;
    CHECK(HcclGetRootInfo(&root));
    std::vector<uint64_t> wrong(ranks);
    std::vector<std::thread> threads;
    for (uint32_t number = 0; number < ranks; ++number) {
        threads.emplace_back([number, ranks, &root, &wrong] {
            const uint32_t rank = number;
            CHECK(aclrtSetDevice(static_cast<int32_t>(number)));
            wrong[number] = RunRank(number, ranks, root);
        });
    }
    int code = 0;
    for (uint32_t number = 0; number < ranks; ++number) {
        threads[number].join();
        code |= wrong[number] == 0 ? 0 : 1;
    }
    CHECK(aclrtResetDevice(0));
    return code;
}

int RunProcess(const std::string &path)
{
    const char *texts[] = {std::getenv("RANK"), std::getenv("WORLD_SIZE")};
    if (texts[0] == nullptr || texts[1] == nullptr) {
        std::fprintf(stderr, "RANK and WORLD_SIZE are not set: start this program with hcclrun\n");
        return 1;
    }
    const uint32_t rank = static_cast<uint32_t>(std::strtoul(texts[0], nullptr, 10));
    const uint32_t ranks = static_cast<uint32_t>(std::strtoul(texts[1], nullptr, 10));
    CHECK(aclrtSetDevice(static_cast<int32_t>(rank)));
    HcclRootInfo root;
    if (rank == 0) {
        CHECK(HcclGetRootInfo(&root));
        // The file gets its name when it is complete.
        std::ofstream(path + ".part", std::ios::binary).write(root.internal, sizeof root.internal);
        if (std::rename((path + ".part").c_str(), path.c_str()) != 0) {
            std::perror(path.c_str());
            return 1;
        }
    } else {
        int tries = 0;
        while (!std::ifstream(path, std::ios::binary).read(root.internal, sizeof root.internal)) {
            if (++tries == 3000) {
                std::fprintf(stderr, "rank 0 has not written %s for 30 seconds\n", path.c_str());
                return 1;
            }
            std::this_thread::sleep_for(std::chrono::milliseconds(10));
        }
    }
    return RunRank(rank, ranks, root) == 0 ? 0 : 1;
}

} // namespace

int main(int argc, char **argv)
{
    const uint32_t rank = 0;
    if (argc != 2) {
        std::fprintf(stderr, "usage: %s RANKS | FILE\n", argv[0]);
        return 1;
    }
    CHECK(aclInit(nullptr));
    const unsigned long ranks = std::strtoul(argv[1], nullptr, 10);
    const int code = ranks > 0 ? RunThreads(static_cast<uint32_t>(ranks)) : RunProcess(argv[1]);
    CHECK(aclFinalize());
    return code;
}
