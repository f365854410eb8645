//! Texts for readers: tables, dumps and headers, compared with files.

use hccl::kernel::Tiling;
use hccl_tests::repository;

use crate::tiling::structs::{AllToAll, Everything, Fused, Sample, Shape};

/// Compares a text with a file, or writes it.
pub fn compare(file: &str, found: &str) {
    let file = repository().join("tests/tests/all/tiling").join(file);
    if std::env::var_os("HCCL_TEST_BLESS").is_some() {
        std::fs::write(&file, found).expect("the file can be written");
        return;
    }
    let expected = std::fs::read_to_string(&file).expect("the file is in the repository");
    assert!(found == expected, "{} is not what was found:\n{found}", file.display());
}

#[test]
fn a_layout_reads_as_a_table() {
    let text = format!("{}\n\n{}\n", AllToAll::LAYOUT, Everything::LAYOUT);
    compare("tables.txt", &text);
}

#[test]
fn a_struct_reads_as_names_and_values() {
    let mut tiling = AllToAll { tail_num: 1, tile_len: 128, ..AllToAll::zeroed() };
    tiling.tile_num = 2;
    let empty = tiling.dump().to_string();
    tiling.fill();
    let mut every = Everything::zeroed();
    let mut n = 0;
    every.set(|| {
        n += 1;
        n
    });
    every.half_float = hccl::f16::from_f32(0.5);
    every.brain = hccl::bf16::from_f32(-2.0);
    (every.float, every.double) = (1.5, 0.1);
    every.matrix = [[1.0, 2.0, 3.0], [4.0, 5.0, 6.5]];
    let text = format!("{empty}\n\n{}\n\n{}\n", tiling.dump(), every.dump());
    compare("dumps.txt", &text);
    let fused = Fused::zeroed();
    let last = fused.dump().to_string();
    let last = last.lines().last().unwrap();
    assert!(last.ends_with("[0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, and 240 more]"));
    // If there are too few bytes, the dump shows the fields that it has.
    let short = Shape::LAYOUT.dump(&[1, 0, 0, 0, 0]).to_string();
    assert!(short.contains("rankDim  1\n") && short.contains("scale    ?\n"), "{short}");
}

#[test]
fn headers_read_like_those_that_people_write() {
    compare("all_to_all.h", &AllToAll::LAYOUT.header());
    compare("everything.h", &Everything::LAYOUT.header());
    compare("all_to_all_macros.h", &AllToAll::LAYOUT.macro_header("AllToAllCustom").unwrap());
}

#[test]
fn what_the_macros_do_not_have_is_told() {
    #[derive(Tiling)]
    #[repr(C)]
    #[allow(dead_code, reason = "the layout is what is tested")]
    struct Double {
        x: f64,
    }
    #[derive(Tiling)]
    #[repr(C)]
    #[allow(dead_code, reason = "the layout is what is tested")]
    struct Late {
        x: u32,
        shape: Words,
        y: u32,
    }
    #[derive(Tiling, Clone, Copy)]
    #[repr(C)]
    #[allow(dead_code, reason = "the layout is what is tested")]
    struct Words {
        words: [u32; 2],
    }
    #[derive(Tiling)]
    #[repr(C)]
    #[allow(dead_code, reason = "the layout is what is tested")]
    struct Several {
        shapes: [Words; 2],
    }
    mod other {
        #[derive(hccl::kernel::Tiling)]
        #[repr(C)]
        #[allow(dead_code, reason = "the layout is what is tested")]
        pub struct Words {
            pub x: u64,
        }
    }
    #[derive(Tiling)]
    #[repr(C)]
    #[allow(dead_code, reason = "the layout is what is tested")]
    struct Twice {
        a: Words,
        b: other::Words,
    }
    let told = |layout: &hccl::kernel::tiling::Layout, op_type| {
        layout.macro_header(op_type).expect_err("the macros do not have that").to_string() + "\n"
    };
    let text = told(Everything::LAYOUT, "Test")
        + &told(Double::LAYOUT, "Test")
        + &told(Late::LAYOUT, "Test")
        + &told(Several::LAYOUT, "Test")
        + &told(Twice::LAYOUT, "Test")
        + &told(AllToAll::LAYOUT, "All to all");
    compare("macro_errors.txt", &text);
}
