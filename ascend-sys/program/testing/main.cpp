// Runs one printed kernel on the host: every core of every rank is a thread.
//
//   run DIRECTORY
//
// DIRECTORY/launch says how, a line each: `ranks N`, `blocks N`, `aic N` and `aiv N` (cores of a block), `groups N`,
// `window BYTES`, `workspace BYTES`, and for every parameter of the kernel in order `input NAME` or `output NAME BYTES`. The file
// `tiling.R` holds the tiling of rank R, `NAME.R` the input NAME of rank R, and the outputs are written to such files, where an
// output that is there already is what the kernel finds. What the client of each rank was asked for goes to the standard output.
//
// Compiled with -DKERNEL_AIC=name and -DKERNEL_AIV=name for the two forms of the kernel, and -DPARAMETERS=n.
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <iterator>
#include <thread>
#include <utility>

#define STUB_CORE 2
#include "host/server.h"

template <size_t>
using Address = uint8_t*;

template <typename>
struct Call;

template <size_t... Index>
struct Call<std::index_sequence<Index...>> {
    using Function = void(Address<Index>...);
    static void Do(Function* kernel, const std::vector<uint8_t*>& arguments) { kernel(arguments[Index]...); }
};

using Kernel = Call<std::make_index_sequence<PARAMETERS + 2>>;
extern "C" Kernel::Function KERNEL_AIC;
extern "C" Kernel::Function KERNEL_AIV;

static std::vector<unsigned char> Read(const std::string& path)
{
    std::ifstream file(path, std::ios::binary);
    return std::vector<unsigned char>(std::istreambuf_iterator<char>(file), {});
}

struct Parameter {
    std::string name;
    bool output;
    size_t bytes;
};

int main(int count, char** arguments)
{
    if (count != 2) {
        std::cerr << "run DIRECTORY\n";
        return 2;
    }
    const std::string directory = std::string(arguments[1]) + "/";
    std::ifstream launch(directory + "launch");
    int64_t ranks = 1, blocks = 1, aic = 0, aiv = 1, groups = 1, window = 0, workspace = 0;
    std::vector<Parameter> parameters;
    std::string word;
    while (launch >> word) {
        if (word == "input" || word == "output") {
            Parameter parameter{"", word == "output", 0};
            launch >> parameter.name;
            if (parameter.output) {
                launch >> parameter.bytes;
            }
            parameters.push_back(parameter);
            continue;
        }
        int64_t* known = word == "ranks" ? &ranks
            : word == "blocks"           ? &blocks
            : word == "aic"              ? &aic
            : word == "aiv"              ? &aiv
            : word == "groups"           ? &groups
            : word == "window"           ? &window
            : word == "workspace"        ? &workspace
                                         : nullptr;
        if (known == nullptr || !(launch >> *known)) {
            std::cerr << "launch: " << word << "\n";
            return 2;
        }
    }
    if (parameters.size() != PARAMETERS) {
        std::cerr << "another number of parameters\n";
        return 2;
    }
    host::Machine& machine = host::TheMachine();
    machine.ranks = static_cast<int>(ranks);
    machine.aic = blocks * aic;
    machine.aiv = blocks * aiv;
    host::Server::Get().Create(static_cast<int>(groups), machine.ranks, static_cast<size_t>(window));
    std::vector<std::unique_ptr<host::Memory>> memories;
    std::vector<std::vector<uint8_t*>> all(ranks);
    for (int rank = 0; rank < ranks; ++rank) {
        auto add = [&](const std::string& name, std::vector<unsigned char> bytes) {
            memories.push_back(std::make_unique<host::Memory>(host::Memory{name, rank, std::move(bytes)}));
            machine.memories.push_back(memories.back().get());
            all[rank].push_back(memories.back()->bytes.data());
        };
        const std::string end = "." + std::to_string(rank);
        for (const Parameter& parameter : parameters) {
            std::vector<unsigned char> bytes = Read(directory + parameter.name + end);
            if (parameter.output) {
                bytes.resize(parameter.bytes);
            }
            add(parameter.name, std::move(bytes));
        }
        add("workspace", std::vector<unsigned char>(256 + workspace));
        add("tiling", Read(directory + "tiling" + end));
    }
    std::vector<std::thread> cores;
    auto start = [&](int rank, int kind, int64_t index, int64_t ratio) {
        cores.emplace_back([=, &all] {
            auto core = std::make_unique<host::Core>();
            core->rank = rank;
            core->kind = kind;
            core->index = index;
            core->blocks = blocks;
            core->ratio = ratio;
            host::Me() = core.get();
            Kernel::Do(kind == host::AIC ? KERNEL_AIC : KERNEL_AIV, all[rank]);
        });
    };
    for (int rank = 0; rank < ranks; ++rank) {
        for (int64_t index = 0; index < machine.aic; ++index) {
            start(rank, host::AIC, index, aic);
        }
        for (int64_t index = 0; index < machine.aiv; ++index) {
            start(rank, host::AIV, index, aiv);
        }
    }
    for (std::thread& core : cores) {
        core.join();
    }
    for (const auto& [rank, lines] : machine.log) {
        for (const std::string& line : lines) {
            std::cout << rank << ' ' << line << '\n';
        }
    }
    for (const auto& memory : memories) {
        for (const Parameter& parameter : parameters) {
            if (parameter.output && memory->name == parameter.name) {
                std::ofstream file(directory + memory->name + "." + std::to_string(memory->rank), std::ios::binary);
                file.write(reinterpret_cast<const char*>(memory->bytes.data()), static_cast<std::streamsize>(memory->bytes.size()));
            }
        }
    }
    return 0;
}
