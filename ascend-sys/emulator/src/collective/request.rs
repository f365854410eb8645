//! The request of a rank for a collective, its comparison with the requests of other ranks, and its
//! text.

use serde::{Deserialize, Serialize};

use super::claim::Claim;
use super::validate::name_of;
use ascend_reduce::{DataType, ReduceOp};

/// The operation, with the arguments that only some operations have: the reduction and the root.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Operation {
    Broadcast(u32),
    AllReduce(ReduceOp),
    Reduce(ReduceOp, u32),
    AllGather,
    ReduceScatter(ReduceOp),
    AlltoAllV,
    AlltoAllVC,
    AlltoAll,
    Scatter(u32),
    AllGatherV,
    ReduceScatterV(ReduceOp),
    Barrier,
}

impl Operation {
    /// Returns CANN's number of the operation, which has 8 bits.
    #[inline]
    fn number(self) -> u8 {
        match self {
            Operation::Broadcast(_) => 1,
            Operation::AllReduce(_) => 2,
            Operation::Reduce(..) => 3,
            Operation::AllGather => 6,
            Operation::ReduceScatter(_) => 7,
            Operation::AlltoAllV => 8,
            Operation::AlltoAllVC => 9,
            Operation::AlltoAll => 10,
            Operation::Scatter(_) => 12,
            Operation::AllGatherV => 16,
            Operation::ReduceScatterV(_) => 17,
            Operation::Barrier => 103,
        }
    }

    fn from_number(number: u8, op: ReduceOp, root: u32) -> Option<Self> {
        Some(match number {
            1 => Operation::Broadcast(root),
            2 => Operation::AllReduce(op),
            3 => Operation::Reduce(op, root),
            6 => Operation::AllGather,
            7 => Operation::ReduceScatter(op),
            8 => Operation::AlltoAllV,
            9 => Operation::AlltoAllVC,
            10 => Operation::AlltoAll,
            12 => Operation::Scatter(root),
            16 => Operation::AllGatherV,
            17 => Operation::ReduceScatterV(op),
            103 => Operation::Barrier,
            _ => return None,
        })
    }

    #[inline]
    pub(crate) fn reduction(self) -> Option<ReduceOp> {
        match self {
            Operation::AllReduce(op)
            | Operation::Reduce(op, _)
            | Operation::ReduceScatter(op)
            | Operation::ReduceScatterV(op) => Some(op),
            Operation::Broadcast(_)
            | Operation::AllGather
            | Operation::AlltoAllV
            | Operation::AlltoAllVC
            | Operation::AlltoAll
            | Operation::Scatter(_)
            | Operation::AllGatherV
            | Operation::Barrier => None,
        }
    }

    #[inline]
    pub(crate) fn root(self) -> Option<u32> {
        match self {
            Operation::Broadcast(root) | Operation::Reduce(_, root) | Operation::Scatter(root) => {
                Some(root)
            }
            Operation::AllReduce(_)
            | Operation::AllGather
            | Operation::ReduceScatter(_)
            | Operation::AlltoAllV
            | Operation::AlltoAllVC
            | Operation::AlltoAll
            | Operation::AllGatherV
            | Operation::ReduceScatterV(_)
            | Operation::Barrier => None,
        }
    }

    /// Returns whether each rank brings a table of counts and displacements.
    #[inline]
    pub(crate) fn has_table(self) -> bool {
        use Operation::*;
        match self {
            AllGatherV | ReduceScatterV(_) | AlltoAllV | AlltoAllVC => true,
            Broadcast(_) | AllReduce(_) | Reduce(..) | AllGather | ReduceScatter(_) | AlltoAll
            | Scatter(_) | Barrier => false,
        }
    }

    /// Returns the name of the C function.
    pub(crate) fn function(self) -> &'static str {
        match self {
            Operation::Broadcast(_) => "HcclBroadcast",
            Operation::AllReduce(_) => "HcclAllReduce",
            Operation::Reduce(..) => "HcclReduce",
            Operation::AllGather => "HcclAllGather",
            Operation::ReduceScatter(_) => "HcclReduceScatter",
            Operation::AlltoAllV => "HcclAlltoAllV",
            Operation::AlltoAllVC => "HcclAlltoAllVC",
            Operation::AlltoAll => "HcclAlltoAll",
            Operation::Scatter(_) => "HcclScatter",
            Operation::AllGatherV => "HcclAllGatherV",
            Operation::ReduceScatterV(_) => "HcclReduceScatterV",
            Operation::Barrier => "HcclBarrier",
        }
    }
}

/// A call of a collective by one rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "[u64; 2]", try_from = "[u64; 2]")]
pub(crate) struct CollectiveRequest {
    pub(crate) operation: Operation,
    pub(crate) dtype: DataType,
    /// The number of elements, as in the C function. For an operation with a table, a fingerprint
    /// of all parts of the table that must agree; 0 if no rank gives data.
    pub(crate) count: u64,
}

impl CollectiveRequest {
    pub(crate) const BARRIER: Self =
        Self { operation: Operation::Barrier, dtype: DataType::Int8, count: 0 };

    /// Returns the size of a block of `count` elements in bytes; 0 for an operation with a table.
    #[inline]
    pub(crate) fn bytes(&self) -> usize {
        if self.operation.has_table() {
            return 0;
        }
        // No overflow: a count has 35 bits, an element at most 16 bytes.
        self.count as usize * self.dtype.size()
    }

    /// Returns the numbers of bytes that `rank` sends and receives; (0, 0) for an operation with a
    /// table.
    #[inline]
    pub(crate) fn sizes(&self, rank: usize, ranks: usize) -> (usize, usize) {
        let block = self.bytes();
        let at = |root: u32, bytes| if root as usize == rank { bytes } else { 0 };
        match self.operation {
            Operation::AllReduce(_) => (block, block),
            Operation::Broadcast(root) => (at(root, block), block - at(root, block)),
            Operation::Reduce(_, root) => (block, at(root, block)),
            Operation::AllGather => (block, block * ranks),
            Operation::ReduceScatter(_) => (block * ranks, block),
            Operation::Scatter(root) => (at(root, block * ranks), block),
            Operation::AlltoAll => (block * ranks, block * ranks),
            Operation::AlltoAllV
            | Operation::AlltoAllVC
            | Operation::AllGatherV
            | Operation::ReduceScatterV(_)
            | Operation::Barrier => (0, 0),
        }
    }

    /// Returns the largest number of bytes that a rank gives to other ranks. Returns `None` if the
    /// request alone does not determine this number.
    #[inline]
    pub(crate) fn gives(&self, ranks: usize) -> Option<usize> {
        if self.count == 0 {
            return Some(0);
        }
        match self.operation {
            Operation::AlltoAllV
            | Operation::AlltoAllVC
            | Operation::AllGatherV
            | Operation::ReduceScatterV(_) => None,
            Operation::ReduceScatter(_) | Operation::Scatter(_) | Operation::AlltoAll => {
                self.bytes().checked_mul(ranks)
            }
            Operation::Broadcast(_)
            | Operation::AllReduce(_)
            | Operation::Reduce(..)
            | Operation::AllGather
            | Operation::Barrier => Some(self.bytes()),
        }
    }

    /// Returns whether the operation is not a barrier, and its arguments show that no rank gives
    /// data.
    #[inline]
    pub(crate) fn is_void(&self) -> bool {
        self.count == 0 && self.operation != Operation::Barrier
    }

    /// Returns whether the operation has arguments; only a barrier has none.
    pub(crate) fn has_arguments(&self) -> bool {
        self.operation != Operation::Barrier
    }

    /// Returns the claim of the request. The claims of two ranks are equal exactly if their calls
    /// match.
    #[inline]
    pub(crate) fn claim(&self) -> Claim {
        let Self { operation, dtype, count } = *self;
        let op = operation.reduction().map_or(0, |op| op as u64);
        let root = u64::from(operation.root().unwrap_or(0));
        let kind = u64::from(operation.number()) | (dtype as u64) << 8 | op << 16 | root << 32;
        Claim { kind, count }
    }

    /// Returns the request from which [`CollectiveRequest::claim`] has made a claim. Returns `None`
    /// if the claim has another origin.
    pub(crate) fn of(claim: Claim) -> Option<Self> {
        let byte = |n: u32| (claim.kind >> (8 * n)) as u8;
        let op = ReduceOp::from_hccl(byte(2).into())?;
        let operation = Operation::from_number(byte(0), op, (claim.kind >> 32) as u32)?;
        let dtype = DataType::from_hccl(byte(1).into())?;
        Some(Self { operation, dtype, count: claim.count })
    }

    /// Returns whether two ranks can make their link with these two requests. Their tables are
    /// compared later, when both exist.
    pub(crate) fn links_with(&self, other: &Self) -> bool {
        let counts = self.count == other.count
            || (self.operation.has_table() && !self.is_void() && !other.is_void());
        counts && self.operation == other.operation && self.dtype == other.dtype
    }

    /// Returns a description of the request in columns: the function, then each of its arguments
    /// that must agree.
    #[cold]
    pub(crate) fn columns(&self) -> Vec<String> {
        let mut columns = vec![self.operation.function().into()];
        if self.operation == Operation::Barrier {
            return columns;
        }
        if !self.operation.has_table() {
            columns.push(format!("count {}", self.count));
        } else if self.is_void() {
            columns.push("all counts 0".into());
        }
        columns.push(name_of(self.dtype).into());
        columns.extend(self.operation.reduction().map(|op| match op {
            ReduceOp::Sum => "SUM".into(),
            ReduceOp::Prod => "PROD".into(),
            ReduceOp::Max => "MAX".into(),
            ReduceOp::Min => "MIN".into(),
        }));
        columns.extend(self.operation.root().map(|root| format!("root {root}")));
        columns
    }

    /// Returns the name of the C function.
    pub(crate) fn function(&self) -> &'static str {
        self.operation.function()
    }
}

/// Between processes a request is sent as its claim.
impl From<CollectiveRequest> for [u64; 2] {
    fn from(request: CollectiveRequest) -> Self {
        let Claim { kind, count } = request.claim();
        [kind, count]
    }
}

impl TryFrom<[u64; 2]> for CollectiveRequest {
    type Error = &'static str;

    fn try_from([kind, count]: [u64; 2]) -> Result<Self, Self::Error> {
        Self::of(Claim { kind, count }).ok_or("the words are not the claim of a collective")
    }
}

impl std::fmt::Display for CollectiveRequest {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let columns = self.columns();
        f.write_str(&columns[0])?;
        if columns.len() > 1 { write!(f, "({})", columns[1..].join(", ")) } else { Ok(()) }
    }
}

/// Returns a description of a claim.
pub(crate) fn say(claim: Claim) -> String {
    CollectiveRequest::of(claim)
        .map_or_else(|| "an unknown operation".into(), |request| request.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns every operation with every reduction, and with several roots.
    fn operations() -> Vec<Operation> {
        use Operation::*;
        let mut all = vec![AllGather, AlltoAllV, AlltoAllVC, AlltoAll, AllGatherV, Barrier];
        for op in [ReduceOp::Sum, ReduceOp::Prod, ReduceOp::Max, ReduceOp::Min] {
            all.extend([AllReduce(op), ReduceScatter(op), ReduceScatterV(op)]);
            all.extend([Reduce(op, 0), Reduce(op, u32::MAX)]);
        }
        for root in [0, 1, u32::MAX] {
            all.extend([Broadcast(root), Scatter(root)]);
        }
        all
    }

    #[test]
    fn a_claim_keeps_everything_that_must_agree() {
        for dtype in DataType::ALL {
            for operation in operations() {
                let request = CollectiveRequest { operation, dtype, count: 0x7_ffff_ffff };
                assert_eq!(CollectiveRequest::of(request.claim()), Some(request));
            }
        }
        let claims: std::collections::HashSet<u64> = operations()
            .into_iter()
            .map(|operation| {
                CollectiveRequest { operation, ..CollectiveRequest::BARRIER }.claim().kind
            })
            .collect();
        assert_eq!(claims.len(), operations().len());
    }

    #[test]
    fn requests_in_words() {
        let say = |operation, count| {
            CollectiveRequest { operation, dtype: DataType::Bfp16, count }.to_string()
        };
        let (max, sum) = (ReduceOp::Max, ReduceOp::Sum);
        assert_eq!(say(Operation::AllReduce(max), 12), "HcclAllReduce(count 12, BFP16, MAX)");
        assert_eq!(say(Operation::Reduce(sum, 3), 12), "HcclReduce(count 12, BFP16, SUM, root 3)");
        assert_eq!(say(Operation::AlltoAllV, 1), "HcclAlltoAllV(BFP16)");
        assert_eq!(say(Operation::AllGatherV, 0), "HcclAllGatherV(all counts 0, BFP16)");
        assert_eq!(CollectiveRequest::BARRIER.to_string(), "HcclBarrier");
    }
}
