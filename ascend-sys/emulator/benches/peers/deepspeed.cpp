// DeepSpeed's all-reduce through shared memory, which works in place and is all that it has. Its
// source is compiled with the few names of PyTorch that it uses. MPI only starts the ranks.
#include "peer.h"
#include <atomic>
#include <cassert>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <unistd.h>

namespace c10 {
enum class ScalarType { BFloat16, Half, Float };
}

namespace at {
// The source mentions these types, but only for tensors of 16-bit elements.
struct Unused {
    Unused &operator=(float) { abort(); }
    operator float() const { abort(); }
};
using BFloat16 = Unused;
using Half = Unused;
} // namespace at

namespace torch {
struct Tensor {
    void *data;
    void *data_ptr() const { return data; }
    c10::ScalarType scalar_type() const { return c10::ScalarType::Float; }
};
} // namespace torch

#include "csrc/cpu/comm/shm.cpp"

// DeepSpeed leaves its shared memory behind. The names have the number of rank 0's process, and
// every rank removes its own as soon as all have mapped it.
static void begin() {
    int job = static_cast<int>(getpid());
    share(&job, sizeof job);
    std::string host = "compare", port = std::to_string(job);
    shm_initialize(my.ranks, my.rank, host.data(), port.data());
    meet();
    std::string name = SHM_BUFFER_NAME "_" + std::to_string(getuid()) + "_" + host + "_" + port +
                       "_" + std::to_string(my.rank);
    if (shm_unlink(name.c_str()) != 0) perror(name.c_str());
}

// Call after call, the sums in place grow to infinity, which takes no longer to add than a number.
static void all_reduce() {
    torch::Tensor tensor{my.in};
    all_reduce_outer_loop(tensor, my.all, static_cast<int>(sizeof(float)) * my.all);
}

extern "C" const struct library library = {begin, {all_reduce}, 1, 1, 0};
