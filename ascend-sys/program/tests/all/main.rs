//! The tests of kernels as data.

mod ascend_c;
mod check;
mod cube;
mod encoding;
mod flow;
mod show;
mod validate;
mod waits;
