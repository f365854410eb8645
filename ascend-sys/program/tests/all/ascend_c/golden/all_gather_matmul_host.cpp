// AllGatherMatmul on the host: what fills the tiling struct, the prototype, and the registration.
#include "register/op_def_registry.h"
#include "tiling/platform/platform_ascendc.h"
#include "tiling/tiling_api.h"

#include "../op_kernel/all_gather_matmul_tiling.h"

namespace optiling {
static ge::graphStatus Tiling(gert::TilingContext* context)
{
    const auto platform = platform_ascendc::PlatformAscendC(context->GetPlatformInfo());
    auto* tiling = context->GetTilingData<AllGatherMatmulTilingData>();
    if (tiling == nullptr) {
        return ge::GRAPH_FAILED;
    }

    // What the kernel and the communication server know of each other.
    const char* group = context->GetAttrs()->GetAttrPointer<char>(0);
    if (group == nullptr) {
        return ge::GRAPH_FAILED;
    }
    // Operation 6 is AllGather.
    AscendC::Mc2CcTilingConfig config(group, 6, "AllGather=level0:doublering");
    if (config.GetTiling(tiling->mc2InitTiling) != 0) {
        return ge::GRAPH_FAILED;
    }
    if (config.GetTiling(tiling->allGatherCcTiling) != 0) {
        return ge::GRAPH_FAILED;
    }

    matmul_tiling::MultiCoreMatmulTiling tile(platform);
    tile.SetDim(20);
    tile.SetAType(matmul_tiling::TPosition::GM, matmul_tiling::CubeFormat::ND, matmul_tiling::DataType::DT_FLOAT16,
        false);
    tile.SetBType(matmul_tiling::TPosition::GM, matmul_tiling::CubeFormat::ND, matmul_tiling::DataType::DT_FLOAT16,
        false);
    tile.SetCType(matmul_tiling::TPosition::GM, matmul_tiling::CubeFormat::ND, matmul_tiling::DataType::DT_FLOAT16);
    tile.SetShape(448, 640, 5120);
    tile.SetOrgShape(448, 640, 5120);
    tile.EnableBias(false);
    tile.SetFixSplit(128, 256, -1);
    tile.SetMatmulConfigParams(1);
    tile.SetBufferSpace(-1, -1, -1);
    if (tile.GetTiling(tiling->tile) == -1) {
        return ge::GRAPH_FAILED;
    }
    tiling->m = 512;
    tiling->n = 640;
    tiling->k = 5120;
    tiling->tileRows = 448;
    tiling->tileCount = 1;
    tiling->tailRows = 64;
    tiling->tailCount = 1;

    matmul_tiling::MultiCoreMatmulTiling local(platform);
    local.SetDim(20);
    local.SetAType(matmul_tiling::TPosition::GM, matmul_tiling::CubeFormat::ND, matmul_tiling::DataType::DT_FLOAT16,
        false);
    local.SetBType(matmul_tiling::TPosition::GM, matmul_tiling::CubeFormat::ND, matmul_tiling::DataType::DT_FLOAT16,
        false);
    local.SetCType(matmul_tiling::TPosition::GM, matmul_tiling::CubeFormat::ND, matmul_tiling::DataType::DT_FLOAT16);
    local.SetShape(448, 640, 5120);
    local.SetOrgShape(448, 640, 5120);
    local.EnableBias(false);
    local.SetFixSplit(128, 256, -1);
    local.SetMatmulConfigParams(1);
    local.SetBufferSpace(-1, -1, -1);
    if (local.GetTiling(tiling->local) == -1) {
        return ge::GRAPH_FAILED;
    }

    context->SetBlockDim(20);
    // Its cores wait for each other, so they have to start together.
    context->SetScheduleMode(1);
    context->GetWorkspaceSizes(1)[0] = 16 + platform.GetLibApiWorkSpaceSize();
    return ge::GRAPH_SUCCESS;
}
} // namespace optiling

namespace ops {
class AllGatherMatmul : public OpDef {
public:
    explicit AllGatherMatmul(const char* name) : OpDef(name)
    {
        this->Input("a")
            .ParamType(REQUIRED)
            .DataType({ge::DT_FLOAT16})
            .Format({ge::FORMAT_ND})
            .AutoContiguous();
        this->Input("b")
            .ParamType(REQUIRED)
            .DataType({ge::DT_FLOAT16})
            .Format({ge::FORMAT_ND})
            .AutoContiguous();
        this->Output("y")
            .ParamType(REQUIRED)
            .DataType({ge::DT_FLOAT16})
            .Format({ge::FORMAT_ND});
        this->Output("gather_out")
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

OP_ADD(AllGatherMatmul);
} // namespace ops
