//! The events and spans that `hccl` gives to [`tracing`]. Use them to see which operations the host
//! issues, and when. [Timelines](crate::kernel::timeline) show what devices do, and
//! [records](crate::record) what data they moved.
//!
//! Each operation is issued inside a span of level `DEBUG` with the target `hccl`, called
//! `hccl.all_reduce`, `hccl.broadcast` and so on, with these fields:
//!
//! | field | value |
//! |---|---|
//! | `operation` | the same name without `hccl.`; for `hccl.run`, the name of the operator |
//! | `communicator` | the [title](crate::Communicator::title) of the communicator |
//! | `rank` | this rank |
//! | `sequence` | the number of the operation in the communicator, the same on all ranks; batches have numbers of their own, and so have the messages of each sender and receiver; a group has the number of its first operation |
//! | `count` | the number of elements that this rank sends, or that it receives from a reduction or a scatter; for a batch the number of messages, for a group the number of operations |
//! | `bytes` | the number of bytes of this rank's data |
//!
//! Copies have no span. The span covers the issuing, not the execution on the device. Waits that
//! last longer than ten seconds are events of level `WARN`. Without a subscriber a span costs one
//! load and one comparison.

/// Makes the span of an operation and enters it.
macro_rules! span {
    ($name:expr, $operation:expr, $member:expr, $sequence:expr, $count:expr, $bytes:expr) => {
        tracing::debug_span!(
            target: "hccl",
            $name,
            operation = $operation,
            communicator = &*$member.label.communicator,
            rank = $member.label.rank,
            sequence = $sequence,
            count = $count,
            bytes = $bytes,
        )
        .entered()
    };
}
pub(crate) use span;
