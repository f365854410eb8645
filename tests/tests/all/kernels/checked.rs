//! The kernels of the examples pass the checker with the sizes of the API pages.

use ascend_program::check::{Product, Setting, check};
use ascend_program::flow::Launch;
use hccl::f16;
use hccl::kernel::tiling::{CmdType, DataType, Mc2CcTilingConfig, Mc2InitTilingConfig};
use hccl::kernel::*;
use hccl_examples::kernels::*;

const RANKS: u32 = 4;

/// Fills the communication structs of a tiling struct for a product.
fn filled<T: Tiling>(mut tiling: T, operation: CmdType, product: hccl::Product) -> Vec<u8> {
    let config = Mc2CcTilingConfig::builder()
        .group_name("world")
        .op_type(operation)
        .source_type(DataType::F16);
    let member = match operation {
        CmdType::AllReduce | CmdType::ReduceScatter => {
            config.reduce_op(hccl::dtype::ReduceKind::Sum).build()
        }
        _ => config.build(),
    };
    Mc2InitTilingConfig::builder().product(product).build().fill(&mut tiling, &[member]).unwrap();
    tiling.as_bytes().to_vec()
}

/// Asserts that the checker finds nothing, for any rank, on each of these products.
fn passes<T: Tiling + Copy>(
    recorded: &Recorded<T>,
    tiling: T,
    operation: CmdType,
    blocks: u32,
    elements: &[u64],
    products: &[(Product, hccl::Product)],
) {
    for &(product, of) in products {
        for rank in 0..RANKS {
            let tiling = filled(tiling, operation, of);
            let launch = Launch { blocks, tiling, groups: vec![(rank, RANKS)] };
            let parameters = elements.iter().map(|elements| Some(2 * elements)).collect();
            let setting = Setting { parameters, ..Setting::strict(product) };
            let found = check(recorded.program(), &launch, &setting);
            let texts = |findings: &[_]| -> String {
                findings
                    .iter()
                    .map(|finding: &ascend_program::check::Finding| format!("{finding}\n"))
                    .collect()
            };
            match found {
                Ok(notes) if notes.is_empty() => {}
                Ok(findings) | Err(findings) => {
                    panic!("{product:?}, rank {rank}:\n{}", texts(&findings));
                }
            }
        }
    }
}

const ALL: &[(Product, hccl::Product)] = &[
    (Product::A2, hccl::Product::A2),
    (Product::A3, hccl::Product::A3),
    (Product::Ascend950, hccl::Product::Ascend950),
];

#[test]
fn all_to_all_passes_with_the_figures_of_its_page() {
    let recorded = all_to_all::all_to_all_custom::record().unwrap();
    let tiling = all_to_all::AllToAllTiling { data_count: 128, ..Tiling::zeroed() };
    passes(&recorded, tiling, CmdType::AllToAll, 8, &[512, 512], ALL);

    let recorded = all_to_all::all_to_all_rounds::record().unwrap();
    let tiling = all_to_all::AllToAllRoundsTiling {
        tile_num: 2,
        tile_len: 128,
        tail_num: 1,
        tail_len: 100,
        ..Tiling::zeroed()
    };
    passes(&recorded, tiling, CmdType::AllToAll, 8, &[4 * 356, 4 * 356], ALL);
}

#[test]
fn reduce_scatter_passes_with_the_figures_of_its_page() {
    let recorded = reduce_scatter::reduce_scatter_custom::record().unwrap();
    let tiling = reduce_scatter::ReduceScatterTiling { recv_count: 300, ..Tiling::zeroed() };
    passes(&recorded, tiling, CmdType::ReduceScatter, 8, &[1200, 300], ALL);

    let recorded = reduce_scatter::reduce_scatter_rounds::record().unwrap();
    let tiling = reduce_scatter::ReduceScatterRoundsTiling {
        tile_num: 2,
        tile_len: 128,
        tail_num: 1,
        tail_len: 44,
        ..Tiling::zeroed()
    };
    passes(&recorded, tiling, CmdType::ReduceScatter, 8, &[1200, 300], ALL);
}

/// Returns the tiling of a matrix product in up to six pieces, which fit the memory of every
/// product.
pub(crate) fn cube(m: usize, n: usize, k: usize) -> TCubeTiling {
    TCubeTiling::for_shape::<f16, f16, f16>(hccl::Product::A3, m, n, k).cores(6).build().unwrap()
}

#[test]
fn matmul_all_reduce_passes() {
    let recorded = matmul_all_reduce::matmul_all_reduce::record().unwrap();
    let (depth, width) = (48, 80);
    let tiling = matmul_all_reduce::MatmulAllReduceTiling {
        tile: cube(64, width, depth),
        tail: cube(40, width, depth),
        tile_num: 2,
        ..Tiling::zeroed()
    };
    let elements = [168 * 48, 48 * 80, 168 * 80];
    passes(&recorded, tiling, CmdType::AllReduce, 3, &elements, ALL);
}

#[test]
fn all_gather_matmul_passes() {
    let recorded = all_gather_matmul::all_gather_matmul::record().unwrap();
    let (depth, width) = (48, 80);
    let tiling = all_gather_matmul::AllGatherMatmulTiling {
        local: cube(168, width, depth),
        tile: cube(64, width, depth),
        tail: cube(40, width, depth),
        tile_num: 2,
        ..Tiling::zeroed()
    };
    let elements = [168 * 48, 48 * 80, 4 * 168 * 80, 4 * 168 * 48];
    passes(&recorded, tiling, CmdType::AllGather, 3, &elements, ALL);
}

/// Checks the uneven blocks of four ranks in the documents. The A2 has no AlltoAllV.
#[test]
fn all_to_all_v_passes() {
    const SEND: [[u64; 4]; 4] = [[3, 3, 3, 3], [2, 2, 3, 2], [1, 4, 4, 4], [3, 3, 3, 3]];
    let recorded = all_to_all_v::all_to_all_v_custom::record().unwrap();
    for (rank, send) in SEND.iter().enumerate() {
        let mut tiling = all_to_all_v::AllToAllVTiling::zeroed();
        let (mut sent, mut received) = (0, 0);
        for (peer, peer_send) in SEND.iter().enumerate() {
            tiling.send_counts[peer] = send[peer];
            tiling.send_displs[peer] = sent;
            sent += send[peer];
            tiling.recv_counts[peer] = peer_send[rank];
            tiling.recv_displs[peer] = received;
            received += peer_send[rank];
        }
        passes(&recorded, tiling, CmdType::AllToAllV, 8, &[sent, received], &ALL[1..]);
    }
}
