//! The `{:?}` form of errors: their text, with the name of the variant or the type in front.

use std::fmt;

use super::Error;
use super::batch::BatchError;
use super::config::ConfigError;
use super::counts::CountsError;
use super::debug_text::debug_as_text;
use super::rank::RankError;
use super::tiling::TilingError;

debug_as_text! { BatchError ConfigError CountsError RankError TilingError }

/// Implements `Debug` as the name of the variant followed by the text. `{:#?}` shows the structure.
macro_rules! debug {
    ($($variant:ident { $($field:ident),* })* ; $($wrapper:ident)*) => {
        impl fmt::Debug for Error {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                let structure = f.alternate();
                match self {
                    $(Error::$variant { $($field),* } if structure => f
                        .debug_struct(stringify!($variant))
                        $(.field(stringify!($field), $field))*
                        .finish(),
                    Error::$variant { .. } => write!(f, concat!(stringify!($variant), ": {}"), self),)*
                    $(Error::$wrapper(error) if structure => {
                        f.debug_tuple(stringify!($wrapper)).field(error).finish()
                    }
                    Error::$wrapper(_) => write!(f, concat!(stringify!($wrapper), ": {}"), self),)*
                }
            }
        }
    };
}

debug! {
    NoBackend { reason }
    MissingSymbol { function, tried, context }
    Call { function, code, message, context }
    Failed { context, code, message }
    Forgotten { last }
    HostFunctionPanicked { context, message }
    Timeout { what, after, message, context }
    WrongDevice { operation, what, expected, found }
    WrongRuntime { operation, what }
    WrongLength { operation, what, expected, found }
    WrongType { operation, what, expected, found }
    OutOfRange { range, length }
    Empty { operation, what }
    TooLarge { elements, element }
    Overlap { operation, bytes }
    OutOfMemory { requested, place, free, total }
    NoSuchDevice { index, count }
    TooFewDevices { ranks, devices }
    Refused { context, cause }
    NoSuchRank { what, rank, world_size }
    TooManyElements { count }
    NotSupported { dtype, kind, product, who, instead }
    NotReduced { dtype, kind }
    RootOnly { what, root, rank }
    OwnMessage { rank }
    Uneven { what, length, world_size }
    Aborted { context }
    OperatorFailed { operator, sequence, cause }
    RankGone { rank, reason }
    Found { findings }
    Invalid { operation, problem };
    Config Counts Batch Tiling Record Operator Rank Job
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_error_type_is_debugged_as_its_text() {
        let direction = super::super::batch::Direction::Send;
        let error = BatchError::UnpairedSelf { item: 1, direction, rank: 2 };
        assert_eq!(format!("{error:?}"), format!("BatchError: {error}"));
    }
}
