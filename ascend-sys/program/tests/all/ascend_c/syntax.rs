//! Printed kernels are compiled, and our headers make a compiler reject mistakes.

use ascend_program_testing::compiler::{Directory, compiler, complaints, full, options, sources};

#[test]
fn printed_kernels_compile_for_both_kinds_of_cores() {
    let some = ["all_to_all_v", "matmul_all_reduce"];
    for (name, program) in super::all() {
        if !full() && !some.contains(&name) {
            continue;
        }
        let directory = Directory::new(&format!("syntax-{name}"));
        let source = sources(&program, &directory);
        let Some(said) = complaints(&[], &source) else { return };
        assert!(said.is_empty(), "{name}: {said}");
    }
}

#[test]
fn the_headers_refuse_what_cann_s_compiler_would() {
    let good = "\
        LocalTensor<half> a; LocalTensor<float> b; LocalTensor<bfloat16_t> c; GlobalTensor<half> g;\n\
        TQue<TPosition::VECIN, 1> queue; DataCopyExtParams copy(1, 32, 0, 0, 0); TCubeTiling cube{};\n\
        MatmulImpl<Half, Half, Half> product; Hccl hccl;\n\
        Add(a, a, a, 16); Adds(a, a, half(1.0f), 16); queue.FreeTensor(a); CrossCoreSetFlag<0, PIPE_FIX>(8);\n\
        DataCopyPad(g, a, copy); if ASCEND_IS_AIC { product.Init(&cube); }\n\
        Cast(b, a, RoundMode::CAST_NONE, 16); PipeBarrier<PIPE_V>();\n\
        hccl.AllGather(nullptr, nullptr, 1, HcclDataType::HCCL_DATA_TYPE_FP16, 0);\n";
    let bad = [
        "Add(a, a, b, 16);",
        "Adds(a, a, 1.0f, 16);",
        "Add(c, c, c, 16);",
        "Exp(LocalTensor<int32_t>(), LocalTensor<int32_t>(), 16);",
        "CrossCoreSetFlag<0, PIPE_S>(8);",
        "CrossCoreSetFlag<3, PIPE_FIX>(8);",
        "DataCopyExtParams four(1, 32, 0, 0);",
        "if (ASCEND_IS_AIC) {}",
        "Cast(b, a, CAST_NONE, 16);",
        "Cast(a, c, RoundMode::CAST_NONE, 16);",
        "DataCopyPad(g, b, copy);",
        "queue.FreeTensor(LocalTensor<half>());",
        "PipeBarrier<PIPE_S>();",
        "SetAtomicAdd<int64_t>();",
        "SetFlag<HardEvent::FIX_V>(0);",
        "hccl.AllGather(nullptr, nullptr, 1, HcclDataType::HCCL_DATA_TYPE_FP16);",
        "MatmulImpl<Half, Float, Half> mixed; (void)mixed;",
        "TQue<TPosition::VECCALC, 1> nowhere; (void)nowhere;",
        "KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_AIV);",
        "const half of = static_cast<half>(GetBlockIdx()); (void)of;",
        "const bfloat16_t of = static_cast<bfloat16_t>(true); (void)of;",
        "const auto to = static_cast<uint64_t>(half(1.0f)); (void)to;",
        "const auto to = static_cast<bool>(bfloat16_t(1.0f)); (void)to;",
    ];
    let directory = Directory::new("refused");
    let write = |body: &str| {
        let source = format!(
            "#include \"kernel_operator.h\"\n#include \"lib/hccl/hccl.h\"\n#include \"lib/matmul_intf.h\"\n\
             using namespace AscendC;\n\
             using Half = MatmulType<TPosition::GM, CubeFormat::ND, half>;\n\
             using Float = MatmulType<TPosition::GM, CubeFormat::ND, float>;\n\
             extern \"C\" __global__ __aicore__ void kernel()\n{{\n{good}{body}\n}}\n"
        );
        directory.write("kernel.cpp", source)
    };
    let Some(said) = complaints(&[], &write("")) else { return };
    assert!(said.is_empty(), "{said}");
    // Each mistake has its own line in one source, because a compiler continues after a mistake.
    let source = write(&bad.join("\n"));
    let first = std::fs::read_to_string(&source).unwrap().lines().position(|line| line == bad[0]);
    let mut command = compiler().unwrap();
    options(&mut command, 2, &directory.0);
    let output = command.arg("-fsyntax-only").arg(&source).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    for (line, text) in (first.unwrap() + 1..).zip(bad) {
        assert!(said.contains(&format!("kernel.cpp:{line}:")), "{text} was taken:\n{said}");
    }
}
