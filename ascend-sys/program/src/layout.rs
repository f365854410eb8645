//! The layout of a tiling struct in memory, field by field.
//!
//! The host fills a tiling struct, a kernel reads it, and the C++ of the kernel declares it again.
//! All three use its [`Layout`]. The derive macro `Tiling` makes a layout at compile time, so the
//! functions that the macro needs are `const`.

mod communication;
mod dump;
mod hash;
mod header;
mod parts;
mod rules;
mod table;

pub use communication::{Communication, MAX_CC_TILINGS};
pub use dump::Dump;
pub use header::HeaderError;
pub use parts::{Field, Item, Layout, Number, Role};
pub use rules::{MAX_SIZE, Message, field_problem, promise_problem, size_problem, tail_problem};
