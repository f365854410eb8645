// A rank of an all-reduce whose ranks are processes. A launcher (hcclrun, torchrun, mpirun) gives
// the rank and the number of ranks. Rank 0 passes the root info to the others through the file that
// the argument names, which must not exist at the start.
#include <acl/acl.h>
#include <hccl/hccl.h>

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <initializer_list>
#include <string>
#include <thread>
#include <vector>

#define CHECK(call)                                                                                \
    do {                                                                                           \
        int code = static_cast<int>(call);                                                         \
        if (code != 0) {                                                                           \
            const char *text = aclGetRecentErrMsg();                                               \
            std::fprintf(stderr, "%s returned %d: %s\n", #call, code, text ? text : "");           \
            std::exit(1);                                                                          \
        }                                                                                          \
    } while (0)

namespace {

// Returns the first of these variables that is set, as a number.
uint32_t variable(std::initializer_list<const char *> names)
{
    for (const char *name : names) {
        if (const char *text = std::getenv(name)) {
            return static_cast<uint32_t>(std::strtoul(text, nullptr, 10));
        }
    }
    std::fprintf(stderr, "%s is not set: start this program with hcclrun, torchrun or mpirun\n",
        *names.begin());
    std::exit(1);
}

// Writes the whole file before it gets its name, so that no rank reads half of it.
void give(const std::string &path, const HcclRootInfo &root)
{
    std::ofstream(path + ".part", std::ios::binary).write(root.internal, sizeof root.internal);
    if (std::rename((path + ".part").c_str(), path.c_str()) != 0) {
        std::perror(path.c_str());
        std::exit(1);
    }
}

void take(const std::string &path, HcclRootInfo &root)
{
    for (int tries = 0; tries < 3000; ++tries) {
        if (std::ifstream(path, std::ios::binary).read(root.internal, sizeof root.internal)) {
            return;
        }
        std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    std::fprintf(stderr, "rank 0 has not written %s for 30 seconds\n", path.c_str());
    std::exit(1);
}

} // namespace

int main(int argc, char **argv)
{
    if (argc != 2) {
        std::fprintf(stderr, "usage: %s FILE\n", argv[0]);
        return 1;
    }
    const uint32_t rank = variable({"RANK", "OMPI_COMM_WORLD_RANK", "PMI_RANK"});
    const uint32_t ranks = variable({"WORLD_SIZE", "OMPI_COMM_WORLD_SIZE", "PMI_SIZE"});
    CHECK(aclInit(nullptr));
    CHECK(aclrtSetDevice(static_cast<int32_t>(rank)));
    HcclRootInfo root;
    if (rank == 0) {
        CHECK(HcclGetRootInfo(&root));
        give(argv[1], root);
    } else {
        take(argv[1], root);
    }
    HcclComm comm;
    CHECK(HcclCommInitRootInfo(ranks, &root, rank, &comm));
    aclrtStream stream;
    CHECK(aclrtCreateStream(&stream));

    std::vector<int32_t> values(1000, static_cast<int32_t>(rank + 1));
    const size_t bytes = values.size() * sizeof values[0];
    void *data;
    CHECK(aclrtMalloc(&data, bytes, ACL_MEM_MALLOC_HUGE_FIRST));
    CHECK(aclrtMemcpy(data, bytes, values.data(), bytes, ACL_MEMCPY_HOST_TO_DEVICE));
    CHECK(HcclAllReduce(
        data, data, values.size(), HCCL_DATA_TYPE_INT32, HCCL_REDUCE_SUM, comm, stream));
    CHECK(aclrtSynchronizeStream(stream));
    CHECK(aclrtMemcpy(values.data(), bytes, data, bytes, ACL_MEMCPY_DEVICE_TO_HOST));
    const int32_t sum = static_cast<int32_t>(ranks * (ranks + 1) / 2);
    for (int32_t value : values) {
        if (value != sum) {
            std::fprintf(stderr, "rank %u: %d instead of %d\n", rank, value, sum);
            return 1;
        }
    }
    std::printf("rank %u of %u: the sum is %d\n", rank, ranks, sum);
    CHECK(aclrtFree(data));
    CHECK(aclrtDestroyStream(stream));
    CHECK(HcclCommDestroy(comm));
    CHECK(aclrtResetDevice(static_cast<int32_t>(rank)));
    CHECK(aclFinalize());
    return 0;
}
