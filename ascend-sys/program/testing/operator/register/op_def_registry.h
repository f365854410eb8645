// What an operator project needs of CANN's registry on the host: declared as there, and with bodies that keep what they are told.
#pragma once
#include <cstdint>
#include <initializer_list>
#include <map>
#include <string>
#include <vector>

namespace ge {
using graphStatus = uint32_t;
constexpr graphStatus GRAPH_SUCCESS = 0;
constexpr graphStatus GRAPH_FAILED = 0xFFFFFFFF;
enum DataType {
    DT_FLOAT, DT_FLOAT16, DT_INT8, DT_INT32 = 3, DT_UINT8, DT_INT16 = 6, DT_UINT16, DT_UINT32, DT_INT64, DT_UINT64, DT_DOUBLE,
    DT_BOOL, DT_BF16 = 27
};
enum Format { FORMAT_ND = 2 };
} // namespace ge

namespace fe {
class PlatFormInfos;
} // namespace fe

namespace gert {
class RuntimeAttrs {
public:
    std::vector<std::string> texts;
    template <typename T>
    const T* GetAttrPointer(size_t at) const;
};
template <>
inline const char* RuntimeAttrs::GetAttrPointer<char>(size_t at) const
{
    return at < texts.size() ? texts[at].c_str() : nullptr;
}

class TilingContext {
public:
    RuntimeAttrs attrs;
    std::vector<unsigned char> bytes;
    uint32_t blocks = 0;
    uint32_t mode = 0;
    size_t workspace = 0;
    const RuntimeAttrs* GetAttrs() const { return &attrs; }
    fe::PlatFormInfos* GetPlatformInfo() const { return nullptr; }
    template <typename T>
    T* GetTilingData()
    {
        // Nothing is zero by itself.
        bytes.assign(sizeof(T), 0xA5);
        return reinterpret_cast<T*>(bytes.data());
    }
    ge::graphStatus SetBlockDim(uint32_t count)
    {
        blocks = count;
        return ge::GRAPH_SUCCESS;
    }
    ge::graphStatus SetScheduleMode(uint32_t how)
    {
        mode = how;
        return ge::GRAPH_SUCCESS;
    }
    size_t* GetWorkspaceSizes(size_t) { return &workspace; }
};
} // namespace gert

namespace ops {
enum Option { REQUIRED, OPTIONAL, DYNAMIC };
using TilingFunction = ge::graphStatus (*)(gert::TilingContext*);

class OpParamDef {
public:
    OpParamDef& ParamType(Option) { return *this; }
    OpParamDef& DataType(std::vector<ge::DataType> types)
    {
        type = types.at(0);
        return *this;
    }
    OpParamDef& Format(std::vector<ge::Format>) { return *this; }
    OpParamDef& AutoContiguous() { return *this; }
    ge::DataType type = ge::DT_FLOAT;
};

class OpAttrDef {
public:
    OpAttrDef& AttrType(Option) { return *this; }
    OpAttrDef& String() { return *this; }
};

class OpAICoreDef {
public:
    OpAICoreDef& SetTiling(TilingFunction function)
    {
        tiling = function;
        return *this;
    }
    OpAICoreDef& AddConfig(const char* product)
    {
        products.push_back(product);
        return *this;
    }
    TilingFunction tiling = nullptr;
    std::vector<std::string> products;
};

class OpMC2Def {
public:
    OpMC2Def& HcclGroup(const char* name)
    {
        groups = {name};
        return *this;
    }
    OpMC2Def& HcclGroup(std::vector<const char*> names)
    {
        groups.assign(names.begin(), names.end());
        return *this;
    }
    std::vector<std::string> groups;
};

class OpDef {
public:
    explicit OpDef(const char* name) : name_(name) {}
    OpParamDef& Input(const char* name) { return Parameter("input", name); }
    OpParamDef& Output(const char* name) { return Parameter("output", name); }
    OpAttrDef& Attr(const char* name)
    {
        attributes.push_back(name);
        return attribute_;
    }
    OpAICoreDef& AICore() { return core; }
    OpMC2Def& MC2() { return mc2; }

    std::vector<std::string> parameters, attributes;
    OpAICoreDef core;
    OpMC2Def mc2;

private:
    OpParamDef& Parameter(const char* kind, const char* name)
    {
        parameters.push_back(std::string(kind) + " " + name);
        return types_[parameters.back()];
    }
    std::string name_;
    std::map<std::string, OpParamDef> types_;
    OpAttrDef attribute_;
};

inline OpDef*& Registered()
{
    static OpDef* one = nullptr;
    return one;
}
} // namespace ops

#define OP_ADD(Type)                                      \
    static ops::OpDef& Register()                         \
    {                                                     \
        static Type one(#Type);                           \
        return one;                                       \
    }                                                     \
    static const bool registered = (ops::Registered() = &Register(), true)
using ops::OpDef;
using ops::REQUIRED;
