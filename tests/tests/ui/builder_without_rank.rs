//~ E0061: Missing_required_field_rank
use hccl::prelude::*;

pub fn build(device: &Device, root: &RootInfo) -> Pending<Communicator> {
    let builder = Communicator::builder().device(device).world_size(2).root_info(root);
    builder.build() // misuse
    // correct: builder.rank(0).build()
}
