//! The events and spans that `hccl` gives to [`tracing`]. Use them to see which operations the host
//! issues, and when. [Timelines](crate::kernel::timeline) show what devices do, and
//! [records](crate::record) what data they moved.
//!
//! Each operation is issued inside a span of level `DEBUG` with the target `hccl`, called
//! `hccl.all_reduce`, `hccl.broadcast` and so on, with these fields:
//!
//! | field | |
//! |---|---|
//! | `operation` | the same name without `hccl.`; of `hccl.run`, what the operator is called |
//! | `communicator` | its name |
//! | `rank` | this rank |
//! | `sequence` | the number of the operation in the communicator, the same on all ranks; batches are counted by themselves, messages by sender and receiver; of a group, that of its first operation |
//! | `count` | elements that this rank gives, or gets from a reduction or a scatter; messages of a batch, operations of a group |
//! | `bytes` | bytes of this rank |
//!
//! Copies have no span. The span covers the issuing, not the execution on the device. Waits that
//! last longer than ten seconds are events of level `WARN`. Without a subscriber a span costs one
//! load and one comparison.

/// The span of an operation, entered.
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
