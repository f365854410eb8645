// Made from the tiling struct in Rust, which is the one to change. Layout hash 0xc94ff1f0ce144474.
#ifndef TESTS_EVERY_EVERYTHING_H
#define TESTS_EVERY_EVERYTHING_H

#include <cstddef>
#include <cstdint>

namespace tests {
namespace every {
// A part in the same namespace.
struct Part {
    uint32_t rows;   // at 0, 4 bytes
    bool done;       // at 4, 1 byte
    uint8_t _pad[3]; // at 5, 3 bytes
};
static_assert(sizeof(Part) == 8, "Part: size");
static_assert(offsetof(Part, rows) == 0, "Part: offset of rows");
static_assert(offsetof(Part, done) == 4, "Part: offset of done");
static_assert(offsetof(Part, _pad) == 5, "Part: offset of _pad");
} // namespace every
} // namespace tests

namespace tests {
// A part in another namespace.
struct Twin {
    uint16_t halves[4]; // at 0, 8 bytes, the bits of half
};
static_assert(sizeof(Twin) == 8, "Twin: size");
static_assert(offsetof(Twin, halves) == 0, "Twin: offset of halves");
} // namespace tests

namespace tests {
namespace every {
// One field of every type, arrays, arrays of arrays, and structs in structs.
struct Everything {
    int8_t i8;          // at 0, 1 byte
    uint8_t u8;         // at 1, 1 byte
    int16_t i16;        // at 2, 2 bytes
    int32_t i32;        // at 4, 4 bytes
    int64_t i64;        // at 8, 8 bytes
    uint64_t u64;       // at 16, 8 bytes
    uint32_t u32;       // at 24, 4 bytes
    uint16_t u16;       // at 28, 2 bytes
    uint16_t halfFloat; // at 30, 2 bytes, the bits of half
    uint16_t brain;     // at 32, 2 bytes, the bits of bfloat16_t
    bool flag;          // at 34, 1 byte
    bool flags[3];      // at 35, 3 bytes
    uint8_t _gap[2];    // at 38, 2 bytes
    float single;       // at 40, 4 bytes
    float matrix[2][3]; // at 44, 24 bytes
    uint32_t more;      // at 68, 4 bytes
    double twice;       // at 72, 8 bytes
    Part part;          // at 80, 8 bytes
    Part all[2][2];     // at 88, 32 bytes
    ::tests::Twin twin; // at 120, 8 bytes
    uint8_t _pad[8];    // at 128, 8 bytes
};
static_assert(sizeof(Everything) == 136, "Everything: size");
static_assert(offsetof(Everything, i8) == 0, "Everything: offset of i8");
static_assert(offsetof(Everything, u8) == 1, "Everything: offset of u8");
static_assert(offsetof(Everything, i16) == 2, "Everything: offset of i16");
static_assert(offsetof(Everything, i32) == 4, "Everything: offset of i32");
static_assert(offsetof(Everything, i64) == 8, "Everything: offset of i64");
static_assert(offsetof(Everything, u64) == 16, "Everything: offset of u64");
static_assert(offsetof(Everything, u32) == 24, "Everything: offset of u32");
static_assert(offsetof(Everything, u16) == 28, "Everything: offset of u16");
static_assert(offsetof(Everything, halfFloat) == 30, "Everything: offset of halfFloat");
static_assert(offsetof(Everything, brain) == 32, "Everything: offset of brain");
static_assert(offsetof(Everything, flag) == 34, "Everything: offset of flag");
static_assert(offsetof(Everything, flags) == 35, "Everything: offset of flags");
static_assert(offsetof(Everything, _gap) == 38, "Everything: offset of _gap");
static_assert(offsetof(Everything, single) == 40, "Everything: offset of single");
static_assert(offsetof(Everything, matrix) == 44, "Everything: offset of matrix");
static_assert(offsetof(Everything, more) == 68, "Everything: offset of more");
static_assert(offsetof(Everything, twice) == 72, "Everything: offset of twice");
static_assert(offsetof(Everything, part) == 80, "Everything: offset of part");
static_assert(offsetof(Everything, all) == 88, "Everything: offset of all");
static_assert(offsetof(Everything, twin) == 120, "Everything: offset of twin");
static_assert(offsetof(Everything, _pad) == 128, "Everything: offset of _pad");
} // namespace every
} // namespace tests

#endif // TESTS_EVERY_EVERYTHING_H
