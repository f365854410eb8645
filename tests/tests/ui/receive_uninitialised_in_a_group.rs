//~ E0277: cannot be lent to a batch or a group
use hccl::prelude::*;

pub fn receive(comm: &mut Communicator, device: &Device, stream: &Stream) -> hccl::Result<()> {
    let fresh = device.alloc::<f32>(4)?; // misuse
    // correct: let fresh = &mut device.zeros::<f32>(4, stream)?;
    hccl::group(|group| {
        group.on(comm, stream).recv(fresh, 1);
        Ok(())
    })?
    .wait()
}
