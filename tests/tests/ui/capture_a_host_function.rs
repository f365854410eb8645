//~ E0599: no method named `host_fn` found for reference
use hccl::prelude::*;

pub fn call(stream: &Stream<Capturing>) -> hccl::Result<()> { // misuse
// correct: pub fn call(stream: &Stream) -> hccl::Result<()> {
    stream.host_fn(|| ()).map(drop)
}
