//! What a rank asks for in a collective, how it is compared with what others ask for, and how it is said in words.

use super::meeting::Claim;
use super::validate::name_of;
use crate::reduce::{DataType, ReduceOp};

/// The operation with what is particular to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Operation {
    AllReduce(ReduceOp),
    /// With the root.
    Broadcast(u32),
    Barrier,
}

impl Operation {
    /// Numbers for the operation and for what is particular to it.
    #[inline]
    pub(crate) fn detail(self) -> (u32, u32) {
        match self {
            Operation::AllReduce(op) => (1, op as u32),
            Operation::Broadcast(root) => (2, root),
            Operation::Barrier => (3, 0),
        }
    }
}

/// A collective as one rank calls it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Request {
    pub(crate) operation: Operation,
    pub(crate) dtype: DataType,
    /// Elements.
    pub(crate) count: u64,
}

impl Request {
    pub(crate) const BARRIER: Self =
        Self { operation: Operation::Barrier, dtype: DataType::Int8, count: 0 };

    pub(crate) fn bytes(&self) -> usize {
        // No overflow: a count has 35 bits, an element at most 16 bytes.
        self.count as usize * self.dtype.size()
    }

    /// Nothing to do here, but the others may think otherwise.
    pub(crate) fn is_void(&self) -> bool {
        self.count == 0 && self.operation != Operation::Barrier
    }

    /// Equal for two ranks exactly if their calls go together.
    #[inline]
    pub(crate) fn claim(&self) -> Claim {
        let (operation, detail) = self.operation.detail();
        let kind = u64::from(operation) | (self.dtype as u64) << 8 | u64::from(detail) << 32;
        Claim { kind, count: self.count }
    }

    /// The request behind a claim; `None` if it is not from [`Request::claim`].
    pub(crate) fn of(claim: Claim) -> Option<Self> {
        let detail = (claim.kind >> 32) as u32;
        let operation = match claim.kind & 0xff {
            1 => Operation::AllReduce(ReduceOp::from_hccl(detail)?),
            2 => Operation::Broadcast(detail),
            3 => Operation::Barrier,
            _ => return None,
        };
        let dtype = DataType::from_hccl((claim.kind >> 8) as u8 as u32)?;
        Some(Self { operation, dtype, count: claim.count })
    }

    /// In words: the function, and each of its arguments that must agree.
    #[cold]
    pub(crate) fn columns(&self) -> Vec<String> {
        let detail = match self.operation {
            Operation::AllReduce(ReduceOp::Sum) => "SUM".into(),
            Operation::AllReduce(ReduceOp::Prod) => "PROD".into(),
            Operation::AllReduce(ReduceOp::Max) => "MAX".into(),
            Operation::AllReduce(ReduceOp::Min) => "MIN".into(),
            Operation::Broadcast(root) => format!("root {root}"),
            Operation::Barrier => return vec![self.function().into()],
        };
        let count = format!("count {}", self.count);
        vec![self.function().into(), count, name_of(self.dtype).into(), detail]
    }

    /// The name of the C function.
    pub(crate) fn function(&self) -> &'static str {
        match self.operation {
            Operation::AllReduce(_) => "HcclAllReduce",
            Operation::Broadcast(_) => "HcclBroadcast",
            Operation::Barrier => "HcclBarrier",
        }
    }
}

impl std::fmt::Display for Request {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let columns = self.columns();
        f.write_str(&columns[0])?;
        if columns.len() > 1 { write!(f, "({})", columns[1..].join(", ")) } else { Ok(()) }
    }
}

/// A claim in words.
pub(crate) fn say(claim: Claim) -> String {
    Request::of(claim).map_or_else(|| "an unknown operation".into(), |request| request.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_claim_keeps_everything_that_must_agree() {
        for dtype in DataType::ALL {
            for operation in [
                Operation::AllReduce(ReduceOp::Prod),
                Operation::Broadcast(u32::MAX),
                Operation::Broadcast(0),
                Operation::Barrier,
            ] {
                let request = Request { operation, dtype, count: 0x7_ffff_ffff };
                assert_eq!(Request::of(request.claim()), Some(request));
            }
        }
        let all_reduce = Request {
            operation: Operation::AllReduce(ReduceOp::Max),
            dtype: DataType::Bfp16,
            count: 12,
        };
        assert_eq!(say(all_reduce.claim()), "HcclAllReduce(count 12, BFP16, MAX)");
    }
}
