// ReduceScatterCustom on the host: what fills the tiling struct, the prototype, and the registration.
#include "register/op_def_registry.h"
#include "tiling/platform/platform_ascendc.h"
#include "tiling/tiling_api.h"

#include "../op_kernel/reduce_scatter_custom_tiling.h"

namespace optiling {
static ge::graphStatus Tiling(gert::TilingContext* context)
{
    const auto platform = platform_ascendc::PlatformAscendC(context->GetPlatformInfo());
    auto* tiling = context->GetTilingData<ReduceScatterCustomTilingData>();
    if (tiling == nullptr) {
        return ge::GRAPH_FAILED;
    }

    // What the kernel and the communication server know of each other.
    const char* group = context->GetAttrs()->GetAttrPointer<char>(0);
    if (group == nullptr) {
        return ge::GRAPH_FAILED;
    }
    // Operation 7 is ReduceScatter.
    AscendC::Mc2CcTilingConfig config(group, 7, "ReduceScatter=level0:doublering");
    if (config.GetTiling(tiling->mc2InitTiling) != 0) {
        return ge::GRAPH_FAILED;
    }
    if (config.GetTiling(tiling->reduceScatterCcTiling) != 0) {
        return ge::GRAPH_FAILED;
    }

    context->SetBlockDim(8);
    // Its cores wait for each other, so they have to start together.
    context->SetScheduleMode(1);
    context->GetWorkspaceSizes(1)[0] = 16 + platform.GetLibApiWorkSpaceSize();
    return ge::GRAPH_SUCCESS;
}
} // namespace optiling

namespace ops {
class ReduceScatterCustom : public OpDef {
public:
    explicit ReduceScatterCustom(const char* name) : OpDef(name)
    {
        this->Input("x")
            .ParamType(REQUIRED)
            .DataType({ge::DT_FLOAT16})
            .Format({ge::FORMAT_ND})
            .AutoContiguous();
        this->Output("y")
            .ParamType(REQUIRED)
            .DataType({ge::DT_FLOAT16})
            .Format({ge::FORMAT_ND});
        this->Attr("group").AttrType(REQUIRED).String();

        this->AICore().SetTiling(optiling::Tiling);
        this->AICore().AddConfig("ascend910b");
        this->AICore().AddConfig("ascend910_93");
        this->MC2().HcclGroup("group");
    }
};

OP_ADD(ReduceScatterCustom);
} // namespace ops
