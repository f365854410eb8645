//! Kernels for Ascend NPUs as data.

pub mod layout;
