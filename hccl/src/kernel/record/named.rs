//! The kinds of items of a program that have names.

/// A kind of item that has a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(in crate::kernel) enum NamedKind {
    Variable,
    Queue,
    Scratch,
    Local,
    Client,
    Task,
    Matmul,
}
