// The 16-bit floating point numbers of a core: kept in 16 bits, computed as float.
#pragma once
#include <cmath>
#include <cstdint>
#include <cstring>

namespace host {
inline uint32_t BitsOf(float value)
{
    uint32_t bits;
    std::memcpy(&bits, &value, sizeof(bits));
    return bits;
}

inline float FloatOf(uint32_t bits)
{
    float value;
    std::memcpy(&value, &bits, sizeof(value));
    return value;
}

// To the nearest, ties to even.
inline uint16_t ToHalf(float value)
{
    const uint32_t sign = BitsOf(value) >> 16 & 0x8000;
    const double size = std::fabs(static_cast<double>(value));
    if (std::isnan(value)) {
        return static_cast<uint16_t>(sign | 0x7e00);
    }
    if (size >= 65520.0) {
        return static_cast<uint16_t>(sign | 0x7c00);
    }
    if (size == 0.0) {
        return static_cast<uint16_t>(sign);
    }
    int exponent = 0;
    std::frexp(size, &exponent);
    // The last bit is worth 2 to this power; below the smallest normal number it stays the same.
    const int last = exponent - 11 < -24 ? -24 : exponent - 11;
    const auto steps = static_cast<uint32_t>(std::nearbyint(std::ldexp(size, -last)));
    return static_cast<uint16_t>(sign | ((static_cast<uint32_t>(last + 24) << 10) + steps));
}

inline float FromHalf(uint16_t bits)
{
    const int exponent = bits >> 10 & 31;
    const int fraction = bits & 0x3ff;
    float size;
    if (exponent == 31) {
        size = fraction == 0 ? INFINITY : NAN;
    } else if (exponent == 0) {
        size = std::ldexp(static_cast<float>(fraction), -24);
    } else {
        size = std::ldexp(static_cast<float>(fraction + 1024), exponent - 25);
    }
    return bits & 0x8000 ? -size : size;
}

inline uint16_t ToBfloat(float value)
{
    const uint32_t bits = BitsOf(value);
    if (std::isnan(value)) {
        return static_cast<uint16_t>(bits >> 16 | 0x40);
    }
    return static_cast<uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}
} // namespace host

// There is a way from float and one to it, and no other: not all compilers have the ones for 64 bits and for bool.
struct half {
    half() = default;
    half(float value) : bits(host::ToHalf(value)) {}
    template <typename T> half(T value) = delete;
    operator float() const { return host::FromHalf(bits); }
    template <typename T> explicit operator T() const = delete;
    uint16_t bits;
};

struct bfloat16_t {
    bfloat16_t() = default;
    bfloat16_t(float value) : bits(host::ToBfloat(value)) {}
    template <typename T> bfloat16_t(T value) = delete;
    operator float() const { return host::FloatOf(static_cast<uint32_t>(bits) << 16); }
    template <typename T> explicit operator T() const = delete;
    uint16_t bits;
};
