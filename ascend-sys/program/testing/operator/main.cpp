// Runs the tiling function of a printed operator with the groups in the arguments: says what it asked for, then the bytes of the
// struct. Compiled with -DOPERATOR="op_host/....cpp".
#include OPERATOR

#include <cstdio>

int main(int count, char** groups)
{
    ops::OpDef& definition = *ops::Registered();
    for (const std::string& parameter : definition.parameters) {
        std::printf("%s\n", parameter.c_str());
    }
    for (const std::string& attribute : definition.attributes) {
        std::printf("attribute %s\n", attribute.c_str());
    }
    for (const std::string& group : definition.mc2.groups) {
        std::printf("group %s\n", group.c_str());
    }
    for (const std::string& product : definition.core.products) {
        std::printf("product %s\n", product.c_str());
    }
    gert::TilingContext context;
    context.attrs.texts.assign(groups + 1, groups + count);
    if (definition.core.tiling(&context) != ge::GRAPH_SUCCESS) {
        std::printf("failed\n");
        return 1;
    }
    std::printf("blocks %u\nmode %u\nworkspace %zu\ntiling ", context.blocks, context.mode, context.workspace);
    for (unsigned char byte : context.bytes) {
        std::printf("%02x", byte);
    }
    std::printf("\n");
    return 0;
}
