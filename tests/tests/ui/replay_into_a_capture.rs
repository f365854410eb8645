//~ E0308: expected `&Stream`, found `&Stream<Capturing>`
use hccl::prelude::*;

pub fn nest(graph: &mut Graph, stream: &Stream<Capturing>) -> hccl::Result<()> { // misuse
// correct: pub fn nest(graph: &mut Graph, stream: &Stream) -> hccl::Result<()> {
    graph.replay(stream)?;
    Ok(())
}
