//! The reason why a communicator has failed, and the texts and codes that report it to the
//! different callers.

use serde::{Deserialize, Serialize};

use super::account::Account;
use super::request::CollectiveRequest;

/// The reason why a communicator cannot be used any more. Only the first failure is kept.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct CommError {
    /// The operation or call that failed.
    pub(crate) origin: Origin,
    /// The kind of failure.
    pub(crate) cause: Cause,
    /// The description of the failure, the same for all ranks: a headline, then lines with the
    /// details.
    pub(crate) text: String,
    /// The state of each rank at the failure.
    pub(crate) ranks: Box<[RankState]>,
    /// The ranks that had not issued their sides of the messages.
    pub(crate) absent: Vec<usize>,
    /// The ranks that disagree, each with a description of its own call.
    pub(crate) said: Vec<(usize, String)>,
    /// The rank that has aborted the communicator.
    pub(crate) by: Option<usize>,
}

/// The operation or call in which a communicator failed, or to which the failure is reported.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Origin {
    /// A call, before it put a task into a stream.
    Call,
    /// A collective, by its number.
    Collective(u64),
    /// A batch.
    Batch,
    /// A primitive of a custom operator of the program.
    Operator,
}

/// The classes of failure that callers see as different codes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Cause {
    /// The ranks called different operations, or passed different arguments.
    Mismatch,
    /// The two sides of a message differ.
    Message,
    /// A rank did not arrive within the time limit.
    Timeout,
    /// All ranks wait for one another.
    Deadlock,
    /// A rank left or destroyed its communicator.
    Gone,
    /// A rank has aborted the communicator.
    Aborted,
    /// A notify was not recorded within the time limit, or all ranks wait for one another.
    Unrecorded,
}

impl CommError {
    /// Makes an error without the states of the ranks, which are filled in later.
    pub(crate) fn new(origin: Origin, cause: Cause, account: impl Into<Account>) -> Self {
        let Account { text, said } = account.into();
        Self { origin, cause, text, ranks: Box::default(), absent: Vec::new(), said, by: None }
    }

    /// Returns the state of a rank that has issued its side of the operation, or that takes no part
    /// in the operation.
    pub(crate) fn side_of(&self, rank: usize) -> RankState {
        let said = self.said.iter().find(|(other, _)| *other == rank);
        let (presence, text) = match said {
            Some((_, said)) => (Presence::Arrived, said.clone()),
            None => (Presence::Apart, String::new()),
        };
        RankState { presence, number: 0, request: None, text }
    }

    /// Returns the same error of a message, with `absent` as the ranks that have not issued their
    /// sides.
    pub(crate) fn without(self, absent: Vec<usize>) -> Self {
        Self { absent, ..self }
    }

    /// Returns the text that reports the error to the operation or call `asks`: CANN's error number
    /// (`report`), the cause, the details and the remedy.
    #[cold]
    pub(crate) fn told(&self, report: &str, asks: Origin) -> String {
        self.worded(report, asks, "This communicator has failed")
    }

    /// Returns the text that reports the error to a kernel. Unlike the text of
    /// [`told`](Self::told), it says only that kernels cannot communicate any more. Kernels meet
    /// apart from the collectives of the communicator, so collectives still work.
    #[cold]
    pub(crate) fn told_to_kernel(&self, report: &str, asks: Origin) -> String {
        self.worded(report, asks, "Kernels cannot communicate over this communicator any more")
    }

    fn worded(&self, report: &str, asks: Origin, end: &str) -> String {
        let before = match (self.origin, asks) {
            (Origin::Collective(failed), asks) if asks != self.origin => {
                format!("the communicator has failed before, in collective #{failed}: ")
            }
            (Origin::Batch, asks) if asks != self.origin => {
                "the communicator has failed before, in a message: ".into()
            }
            (Origin::Operator, asks) if asks != self.origin => {
                "the communicator has failed before, in an operator of the program's own: ".into()
            }
            _ => String::new(),
        };
        let (advice, ranks) = (self.cause.advice(), self.cause.ranks_that_go_on());
        format!("{report}: {before}{}\n{advice}{end}: make a new one on {ranks}.", self.text)
    }
}

impl Cause {
    /// Returns the code with which a stream reports a failure of this cause.
    pub(crate) fn acl_error(self) -> ascend_sys::aclError {
        match self {
            Self::Mismatch | Self::Message => ascend_sys::ACL_ERROR_RT_AICPU_EXCEPTION,
            Self::Timeout | Self::Deadlock | Self::Unrecorded => {
                ascend_sys::ACL_ERROR_RT_TASK_TIMEOUT
            }
            Self::Gone | Self::Aborted => ascend_sys::ACL_ERROR_RT_SUSPECT_REMOTE_ERROR,
        }
    }

    /// Returns the code with which a later call on the communicator reports a failure of this
    /// cause.
    pub(crate) fn hccl_result(self) -> ascend_sys::HcclResult {
        match self {
            Self::Mismatch | Self::Message => ascend_sys::HcclResult::HCCL_E_PARA,
            Self::Timeout | Self::Deadlock | Self::Unrecorded => {
                ascend_sys::HcclResult::HCCL_E_TIMEOUT
            }
            Self::Gone | Self::Aborted => ascend_sys::HcclResult::HCCL_E_REMOTE,
        }
    }

    /// Returns the error number under which CANN documents a failure of this cause.
    pub(crate) fn report_code(self) -> &'static str {
        match self {
            Self::Mismatch | Self::Message => "EI0005",
            Self::Timeout | Self::Deadlock | Self::Unrecorded => "EI0002",
            Self::Gone | Self::Aborted => "EI0012",
        }
    }

    /// Returns the advice to the user, without the sentence about a new communicator.
    fn advice(self) -> &'static str {
        match self {
            Self::Mismatch => {
                "All ranks must issue the same operations with the same arguments in the same \
                 order. "
            }
            Self::Message => {
                "A send and its receive must have the same count and data type; the messages from \
                 one rank to another pair in the order in which they are issued. "
            }
            Self::Timeout | Self::Deadlock => {
                "Find out why the awaited ranks do not come: an operation needs all of its ranks, \
                 and a message needs both of its sides. "
            }
            Self::Gone | Self::Aborted => "",
            Self::Unrecorded => {
                "Each wait needs one record of the same notify; a second record before the wait is \
                 lost. Check that the recording side has issued its record for this index, and \
                 that it does not wait for something else first. "
            }
        }
    }

    /// Returns the ranks that can make a new communicator, in words.
    fn ranks_that_go_on(self) -> &'static str {
        match self {
            Self::Gone | Self::Aborted => "the ranks that remain",
            _ => "all ranks",
        }
    }
}

/// The position of a rank relative to a collective.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Presence {
    /// The rank has arrived at the collective, or has already completed it.
    Arrived,
    /// The rank has not arrived, but may still arrive.
    Missing,
    /// The rank will never arrive.
    Gone,
    /// The rank takes no part in the collective.
    Apart,
}

/// The state of one rank.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct RankState {
    pub(crate) presence: Presence,
    /// The number of the latest collective at which the rank was seen; 0 if there is none.
    pub(crate) number: u64,
    /// The request of the rank at that collective.
    pub(crate) request: Option<CollectiveRequest>,
    /// The reason why the rank is gone, or the different call that it has made.
    pub(crate) text: String,
}
