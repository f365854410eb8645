// The macros of the older form of tiling structs, with the layout that CANN's documents describe: a
// field at the next multiple of its size, a struct at the next multiple of 8, and the whole a
// multiple of 8. The offsets can be read, and only these are tested.
#ifndef TILINGDATA_BASE_H
#define TILINGDATA_BASE_H

#include <cstddef>
#include <cstdint>

class TilingDef {
public:
    size_t GetDataSize() const { return (end + 7) / 8 * 8; }

protected:
    size_t place(size_t alignment, size_t bytes)
    {
        const size_t at = (end + alignment - 1) / alignment * alignment;
        end = at + bytes;
        return at;
    }

private:
    size_t end = 0;
};

#define BEGIN_TILING_DATA_DEF(name) class name : public TilingDef { public:
#define TILING_DATA_FIELD_DEF(type, name) \
    type name = 0; \
    size_t offset_##name = place(sizeof(type), sizeof(type))
#define TILING_DATA_FIELD_DEF_ARR(type, count, name) \
    type name[count] = {}; \
    size_t offset_##name = place(sizeof(type), sizeof(type) * (count))
#define TILING_DATA_FIELD_DEF_STRUCT(type, name) \
    type name; \
    size_t offset_##name = place(8, name.GetDataSize())
#define END_TILING_DATA_DEF }
// One struct for each operator, as there: a second one does not compile.
#define REGISTER_TILING_DATA_CLASS(op, name) struct Registered##op { name data; };

#endif // TILINGDATA_BASE_H
