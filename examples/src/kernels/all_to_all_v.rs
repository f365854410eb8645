//! Blocks of any length between all ranks, as a mixture of experts needs them. Not on the A2.

use hccl::f16;
use hccl::kernel::*;

/// The number of ranks that [`AllToAllVTiling`] has room for.
pub const MOST_RANKS: usize = 8;

/// Sizes of [`all_to_all_v_custom()`].
#[derive(Tiling, Clone, Copy)]
#[repr(C)]
#[tiling(name = "AllToAllVCustomTilingData")]
pub struct AllToAllVTiling {
    /// The offset of the next field, for the server.
    pub init: Mc2InitTiling,
    /// The group and the algorithm of the collective.
    pub all_to_all_v: Mc2CcTiling,
    /// The number of elements for each rank.
    pub send_counts: [u64; MOST_RANKS],
    /// The position in `x` of the elements for each rank.
    pub send_displs: [u64; MOST_RANKS],
    /// The number of elements from each rank.
    pub recv_counts: [u64; MOST_RANKS],
    /// The position in `y` of the elements from each rank.
    pub recv_displs: [u64; MOST_RANKS],
}

/// `send_counts[j]` elements go to rank `j`.
#[kernel(mix = "aiv_1_0")]
pub fn all_to_all_v_custom(k: Kernel<AllToAllVTiling>, x: Input<f16>, y: Output<f16>) {
    let t = k.tiling();
    k.on_aiv(|| {
        let hccl = k.hccl(0).init().configure(&t.all_to_all_v);
        let task = hccl
            .all_to_all_v(x, (&t.send_counts, &t.send_displs), y, (&t.recv_counts, &t.recv_displs))
            .commit_all();
        hccl.wait(&task);
        k.sync_all_aiv();
        hccl.finalise();
    });
}
