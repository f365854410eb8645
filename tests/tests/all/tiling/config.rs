//! The settings of communication: the places where they are written, and the refused ones.

use std::fmt::Write as _;

use hccl::dtype::{DType, ReduceKind};
use hccl::kernel::tiling::{CmdType, DataType, Mc2CcTilingConfig, Mc2InitTilingConfig};
use hccl::kernel::{Mc2CcTiling, Mc2InitTiling, Tiling};
use hccl::{Product, Result};

use crate::tiling::structs::{AllToAll, Everything, Fused, Older, Sample};
use crate::tiling::texts::compare;

const PRODUCTS: [Product; 3] = [Product::A2, Product::A3, Product::Ascend950];

fn member(op_type: CmdType) -> Mc2CcTilingConfig {
    Mc2CcTilingConfig::builder().group_name("world").op_type(op_type).build()
}

fn on(product: Product) -> Mc2InitTilingConfig {
    Mc2InitTilingConfig::builder().product(product).build()
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_ne_bytes(bytes[at..at + 4].try_into().unwrap())
}

#[test]
fn every_setting_reaches_its_bytes() {
    let mut tiling = Fused::zeroed();
    tiling.fill();
    let mut tiling = Fused { shape: tiling.shape, ..Fused::zeroed() };
    let steps = Mc2CcTilingConfig::builder()
        .group_name("experts")
        .op_type(CmdType::AllToAllV)
        .engine(4)
        .step_size(2)
        .build();
    let write = Mc2CcTilingConfig::builder()
        .group_name("w".repeat(127))
        .op_type(CmdType::BatchWrite)
        .algorithm("BatchWrite=level0:ring")
        .source_type(DType::BF16)
        .build();
    let config = Mc2InitTilingConfig::builder()
        .product(Product::A3)
        .debug_mode(250)
        .queue_num(4)
        .comm_block_num(10)
        .build();
    config.fill(&mut tiling, &[steps, write]).unwrap();

    let bytes = tiling.as_bytes();
    assert_eq!((u32_at(bytes, 0), u32_at(bytes, 4)), (100, 2));
    assert_eq!((u32_at(bytes, 8), u32_at(bytes, 12), u32_at(bytes, 16)), (64, 576, 0));
    assert_eq!((bytes[40], bytes[41], bytes[46]), (250, 0, 255));
    assert_eq!(
        (bytes[42..44].to_vec(), bytes[44..46].to_vec()),
        (4u16.to_ne_bytes().to_vec(), 10u16.to_ne_bytes().to_vec())
    );
    assert!(bytes[47..64].iter().all(|&byte| byte == 0));

    let cc = &bytes[64..576];
    assert_eq!(cc[..16], [0, 0, 2, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 4, 0, 0]);
    assert_eq!(&cc[16..24], b"experts\0");
    assert_eq!(&cc[144..183], b"AlltoAll=level0:fullmesh;level1:pairwis");
    assert_eq!((u32_at(cc, 272), u32_at(cc, 276)), (8, 0));
    assert!(cc[280..].iter().all(|&byte| byte == 0));
    let cc = &bytes[576..1088];
    assert_eq!((cc[14], cc[15], cc[16 + 126], cc[16 + 127]), (11, 11, b'w', 0));
    assert_eq!(&cc[144..167], b"BatchWrite=level0:ring\0");
    assert_eq!(u32_at(cc, 272), 18);
    // The third place belongs to no member. Members that are not for communication stay as they
    // are.
    assert!(bytes[1088..1600].iter().all(|&byte| byte == 0));
    assert_eq!(tiling.shape.rank_dim, 8);

    let (init, first) = (tiling.init, tiling.all_gather);
    assert_eq!((init.version(), init.count()), (Mc2InitTiling::VERSION, 2));
    assert_eq!(init.offsets().collect::<Vec<_>>(), [64, 576]);
    assert_eq!((init.debug_mode(), init.queue_num(), init.comm_block_num()), (250, 4, 10));
    assert_eq!(init.device_family(), 255);
    assert_eq!((first.version(), first.step_size(), first.engine()), (1, 2, 4));
    assert_eq!(first.group_name(), "experts");
    assert_eq!(first.op_type(), Some(CmdType::AllToAllV));
    let second = tiling.more[0];
    assert_eq!(second.algorithm(), "BatchWrite=level0:ring");
    assert_eq!(second.source_type(), Some(DataType::BF16));
    assert_eq!(second.destination_type(), Some(DataType::BF16));
}

#[test]
fn what_only_one_product_has_is_written_for_it() {
    let mut tiling = AllToAll::zeroed();
    let config = Mc2CcTilingConfig::builder()
        .group_name("g")
        .op_type(CmdType::AllToAll)
        .skip_local_rank_copy(true)
        .skip_buffer_window_copy(true)
        .build();
    on(Product::A2).fill(&mut tiling, &[config]).unwrap();
    assert_eq!(tiling.init.device_family(), 1);
    assert_eq!(tiling.as_bytes()[64..67], [1, 2, 0]);
    assert!(
        tiling.all_to_all.skip_local_rank_copy() && tiling.all_to_all.skip_buffer_window_copy()
    );

    // The 950 adds up 8-bit floats in 16 bits.
    let config = Mc2CcTilingConfig::builder()
        .group_name("g")
        .op_type(CmdType::ReduceScatter)
        .reduce_op(ReduceKind::Max)
        .source_type(DataType::F8E4M3)
        .destination_type(DType::F16)
        .build();
    on(Product::Ascend950).fill(&mut tiling, &[config]).unwrap();
    assert_eq!(
        (tiling.init.device_family(), tiling.all_to_all.reduce_op()),
        (255, Some(ReduceKind::Max))
    );
    assert_eq!(tiling.as_bytes()[64 + 13..64 + 16], [0, 15, 3]);
    // Nothing of the earlier settings remains.
    assert_eq!(tiling.as_bytes()[64..67], [0, 0, 0]);
}

#[test]
fn an_older_struct_is_filled_where_it_is() {
    let mut tiling = Older { turns: 9, ..Older::zeroed() };
    on(Product::A3).fill(&mut tiling, &[member(CmdType::AllReduce)]).unwrap();
    assert_eq!((tiling.turns, tiling.init.offsets().next()), (9, Some(64)));
    assert_eq!(tiling.all_reduce.group_name(), "world");
    assert_eq!(u32_at(tiling.as_bytes(), 64 + 272), 2);
}

#[test]
fn the_numbers_are_cann_s() {
    let codes: Vec<_> = CmdType::ALL.iter().map(|op| (op.name(), op.code())).collect();
    let expected = [
        ("AllReduce", 2),
        ("AllGather", 6),
        ("ReduceScatter", 7),
        ("AlltoAllV", 8),
        ("AlltoAll", 10),
        ("BatchWrite", 18),
        ("AlltoAllvWrite", 20),
    ];
    assert_eq!(codes, expected);
    let codes: Vec<_> = DataType::ALL.iter().map(|ty| ty.code()).collect();
    assert_eq!(codes, [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 14, 15, 16, 17]);
    for dtype in DType::ALL {
        assert_eq!(u32::from(DataType::from(*dtype).code()), dtype.code());
    }
}

/// Checks that each product has the operations and types that the documents list, section by
/// section.
#[test]
fn each_product_takes_its_operations_and_types() {
    use DataType as T;
    let no = |product, op| {
        matches!(
            (product, op),
            (Product::A2, CmdType::AllToAllV)
                | (Product::A2 | Product::A3, CmdType::AllToAllVWrite)
                | (Product::Ascend950, CmdType::BatchWrite)
        )
    };
    for product in PRODUCTS {
        for &op in CmdType::ALL {
            for &ty in DataType::ALL {
                let config = Mc2CcTilingConfig::builder()
                    .group_name("g")
                    .op_type(op)
                    .source_type(ty)
                    .build();
                let expected = !no(product, op)
                    && match (product, op.reduces()) {
                        (Product::Ascend950, true) => {
                            matches!(ty, T::I16 | T::F16 | T::BF16 | T::I32 | T::F32)
                        }
                        (Product::Ascend950, false) => !matches!(ty, T::U64 | T::F8E8M0),
                        (_, true) => {
                            matches!(ty, T::F32 | T::F16 | T::I8 | T::I16 | T::I32 | T::BF16)
                        }
                        (_, false) => true,
                    };
                let taken = on(product).fill(&mut AllToAll::zeroed(), &[config]).is_ok();
                assert_eq!(taken, expected, "{op} of {ty} on {product}");
            }
        }
    }
}

/// Covers every refusal, as it is printed. A refused call changes nothing.
#[test]
fn what_cann_or_the_product_would_misread_is_refused() {
    use Product::{A2, A3, Ascend950};
    let mut texts = String::new();
    let mut told = |result: Result<()>| {
        let error = result.expect_err("it is refused");
        writeln!(texts, "{error}").unwrap();
    };
    let mut refused = |product, config: Mc2CcTilingConfig| {
        let mut tiling = AllToAll { tile_len: 3, ..AllToAll::zeroed() };
        told(on(product).fill(&mut tiling, &[config]));
        assert!(tiling.as_bytes()[..576].iter().all(|&byte| byte == 0));
    };
    let of = |op| Mc2CcTilingConfig::builder().group_name("g").op_type(op);
    let (reduce, gather, all_to_all) = (CmdType::AllReduce, CmdType::AllGather, CmdType::AllToAll);
    let named = |name: &str| Mc2CcTilingConfig::builder().group_name(name).op_type(gather).build();
    refused(A3, named(""));
    refused(A3, named("a\0b"));
    refused(A3, named(&"n".repeat(128)));
    refused(A2, of(CmdType::AllToAllV).build());
    refused(A3, of(CmdType::AllToAllVWrite).build());
    refused(Ascend950, of(CmdType::BatchWrite).build());
    refused(A3, of(gather).reduce_op(ReduceKind::Sum).build());
    refused(A3, of(reduce).reduce_op(ReduceKind::Prod).build());
    refused(A3, of(reduce).source_type(DataType::I64).build());
    refused(A3, of(reduce).destination_type(DataType::F32).build());
    refused(A3, of(reduce).source_type(DataType::F16).destination_type(DataType::F32).build());
    refused(Ascend950, of(gather).build());
    refused(Ascend950, of(CmdType::ReduceScatter).source_type(DataType::HiF8).build());
    refused(A3, of(gather).algorithm("AllReduce=level0:ring").build());
    refused(A2, of(gather).algorithm("a".repeat(128)).build());
    refused(A3, of(all_to_all).step_size(1).build());
    let pairwise = of(CmdType::AllToAllV).algorithm("AlltoAll=level0:pairwise");
    refused(A3, pairwise.step_size(1).build());
    refused(A3, of(gather).engine(6).build());
    refused(A3, of(gather).skip_local_rank_copy(true).build());
    refused(A2, of(reduce).skip_local_rank_copy(true).build());
    refused(A2, of(gather).skip_buffer_window_copy(true).build());

    let builder = Mc2InitTilingConfig::builder;
    let (moved, written) = (member(gather), member(CmdType::BatchWrite));
    let mut told = |config: Mc2InitTilingConfig, member: &Mc2CcTilingConfig| {
        let mut tiling = AllToAll::zeroed();
        told(config.fill(&mut tiling, std::slice::from_ref(member)));
        assert_eq!(tiling.as_bytes(), AllToAll::zeroed().as_bytes());
    };
    told(builder().product(A3).debug_mode(0).build(), &moved);
    told(builder().product(A3).debug_mode(249).build(), &moved);
    told(builder().product(A2).queue_num(1).build(), &written);
    told(builder().product(A3).queue_num(1).build(), &moved);
    told(builder().product(A3).comm_block_num(0).build(), &written);
    told(builder().product(A3).queue_num(41).build(), &written);
    told(builder().product(A3).queue_num(8).comm_block_num(6).build(), &written);

    compare("settings.txt", &texts);
}

#[test]
fn settings_at_the_edge_are_taken() {
    let written = [member(CmdType::BatchWrite)];
    for mode in [1, 4, 250, 255] {
        let config = Mc2InitTilingConfig::builder().product(Product::A3).debug_mode(mode).build();
        config.fill(&mut AllToAll::zeroed(), &written).unwrap();
    }
    let config =
        Mc2InitTilingConfig::builder().product(Product::A3).queue_num(40).comm_block_num(1);
    config.build().fill(&mut AllToAll::zeroed(), &written).unwrap();
}

#[test]
fn a_struct_that_does_not_fit_is_told() {
    let mut texts = String::new();
    let mut told = |result: Result<()>| {
        writeln!(texts, "{}\n", result.expect_err("it is refused")).unwrap();
    };
    let (config, member) = (on(Product::A3), member(CmdType::AllReduce));
    told(config.fill(&mut Everything::zeroed(), std::slice::from_ref(&member)));
    told(config.fill(&mut AllToAll::zeroed(), &[member.clone(), member.clone()]));
    told(config.fill(&mut Mc2InitTiling::default(), &[]));
    told(config.fill(&mut Mc2CcTiling::<512>::default(), std::slice::from_ref(&member)));

    let filled = || {
        let mut tiling = AllToAll::zeroed();
        tiling.fill();
        tiling.as_bytes().to_vec()
    };
    let mut from = |change: &dyn Fn(&mut [u8])| {
        let mut bytes = filled();
        change(&mut bytes);
        told(AllToAll::from_bytes(&bytes).map(drop));
    };
    from(&|bytes| bytes.fill(0));
    from(&|bytes| bytes[0] = 99);
    from(&|bytes| bytes[4] = 2);
    from(&|bytes| bytes[8] = 65);
    from(&|bytes| bytes[64 + 3] = 0);
    told(AllToAll::from_bytes(&filled()[1..]).map(drop));
    let mut bytes = Everything::zeroed().as_bytes().to_vec();
    bytes[37] = 2;
    told(Everything::from_bytes(&bytes).map(drop));
    compare("misfits.txt", &texts);
}
