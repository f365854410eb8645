//~ E0061: rank
use hccl::prelude::*;

pub fn build(device: &Device, root: &RootInfo) -> hccl::Result<Communicator> {
    let builder = Communicator::builder().device(device).world_size(2).root_info(root);
    builder.build() // misuse
    // correct: builder.rank(0).build()
}
