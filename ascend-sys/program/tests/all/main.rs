//! The tests of kernels as data.

mod ascend_c;
mod check;
mod encoding;
mod flow;
mod show;
mod validate;
